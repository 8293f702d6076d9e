package classifier

import "fmt"

// Mark is what the code that returned an error says about it. It overrides a policy's Retryable and the class, but not a
// permanent HTTP status. The strings are stable: they are stored in journals.
type Mark string

// The marks. They are Pyrula's Transient, Poison and Fatal.
const (
	NoMark        Mark = ""
	MarkTransient Mark = "transient" // a passing condition: retried, up to the policy's MaxAttempts
	MarkPoison    Mark = "poison"    // bad input: never retried
	MarkFatal     Mark = "fatal"     // a broken invariant or missing configuration: never retried
)

// Marked is an error that carries a mark, and the user code given with it (empty for none). It is looked for in the whole
// tree of an error.
type Marked interface {
	RetryMark() (mark Mark, code string)
}

// MarkOption is something said along with a mark. Code makes one.
type MarkOption struct{ code string }

// Code gives a marked error a user code such as "card.declined", which is stored with a failed run at every capture level:
// use an identifier, never data. It is 1 to 64 of letters, digits and _ . : - (Pyrula's rule). With another code the mark
// stands without a code, and the marked error also wraps a *CodeError. Of several codes the last one counts.
func Code(code string) MarkOption { return MarkOption{code: code} }

// Transient marks err as a passing condition, which is retried up to the policy's MaxAttempts. Transient(nil) is nil. The
// result has err's text and unwraps to it.
func Transient(err error, opts ...MarkOption) error { return newMarked(err, MarkTransient, opts) }

// Poison marks err as bad input, which no retry can help. Poison(nil) is nil. The result has err's text and unwraps to it.
func Poison(err error, opts ...MarkOption) error { return newMarked(err, MarkPoison, opts) }

// Fatal marks err as a broken invariant or missing configuration, which no retry can help. Fatal(nil) is nil. The result
// has err's text and unwraps to it.
func Fatal(err error, opts ...MarkOption) error { return newMarked(err, MarkFatal, opts) }

// MarkOf returns the mark that counts for err, NoMark if there is none. Along a path of the tree the outermost mark
// counts; over the branches of a join fatal beats poison, and poison beats transient.
func MarkOf(err error) Mark {
	mark, _ := markOfTree(err)
	return mark
}

// UserCode returns the code given to the mark that counts for err, or to one inside it if that one has none; empty if
// there is none.
func UserCode(err error) string {
	_, code := markOfTree(err)
	return code
}

// CodeError says that a user code was not 1 to 64 of letters, digits and _ . : -.
type CodeError struct {
	// Code is the code as it was given.
	Code string
}

// Error says what a code must look like. It leaves the code to the field: it may be data, or read like a status.
func (e *CodeError) Error() string {
	return fmt.Sprintf("pawl: user code of %d bytes is no code: use 1 to 64 letters, digits and _ . : -", len(e.Code))
}

// marked is an error with a mark.
type marked struct {
	err  error
	mark Mark
	code string
}

func newMarked(err error, mark Mark, opts []MarkOption) error {
	if err == nil {
		return nil
	}
	m := &marked{err: err, mark: mark}
	if len(opts) == 0 {
		return m
	}
	code := opts[len(opts)-1].code
	if !validCode(code) {
		m.err = fmt.Errorf("%w (%w)", err, &CodeError{Code: code})
		return m
	}
	m.code = code
	return m
}

func (m *marked) Error() string             { return m.err.Error() }
func (m *marked) Unwrap() error             { return m.err }
func (m *marked) RetryMark() (Mark, string) { return m.mark, m.code }

func validCode(code string) bool {
	if len(code) == 0 || len(code) > 64 {
		return false
	}
	for _, c := range []byte(code) {
		if !isWord(c) && c != '.' && c != ':' && c != '-' {
			return false
		}
	}
	return true
}

// said is a mark with its code.
type said struct {
	mark Mark
	code string
}

// markOfTree goes from the leaves up, since what a node says hides what its branches say.
func markOfTree(err error) (Mark, string) {
	var buf [8]node
	nodes := flatten(err, buf[:0])
	if len(nodes) == 0 {
		return NoMark, ""
	}
	below := make([]said, len(nodes))
	for i := len(nodes) - 1; i >= 0; i-- {
		if own := markOfNode(nodes[i].err); own.mark != NoMark {
			if own.code == "" {
				own.code = below[i].code
			}
			below[i] = own
		}
		if p := nodes[i].parent; p >= 0 && severity(below[i].mark) >= severity(below[p].mark) && below[i].mark != NoMark {
			below[p] = below[i]
		}
	}
	return below[0].mark, below[0].code
}

func markOfNode(err error) said {
	s := saidBy(err)
	if severity(s.mark) == 0 {
		return said{}
	}
	if !validCode(s.code) {
		s.code = ""
	}
	return s
}

// saidBy asks an error for its mark.
func saidBy(err error) said {
	s, _ := ask(func() said {
		switch m := err.(type) {
		case Marked:
			mark, code := m.RetryMark()
			return said{mark: mark, code: code}
		case Recorded:
			mark, code := m.RecordedMark()
			return said{mark: Mark(mark), code: code}
		}
		return said{}
	})
	return s
}

func severity(m Mark) int {
	switch m {
	case MarkTransient:
		return 1
	case MarkPoison:
		return 2
	case MarkFatal:
		return 3
	}
	return 0
}
