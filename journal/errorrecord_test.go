package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/journal"
	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
)

// hostile panics in every method.
type hostile struct{ N int }

func (*hostile) Error() string                           { panic("Error") }
func (*hostile) Unwrap() error                           { panic("Unwrap") }
func (*hostile) Is(error) bool                           { panic("Is") }
func (*hostile) As(any) bool                             { panic("As") }
func (*hostile) Timeout() bool                           { panic("Timeout") }
func (*hostile) Temporary() bool                         { panic("Temporary") }
func (*hostile) HTTPStatusCode() int                     { panic("HTTPStatusCode") }
func (*hostile) RetryHint() (time.Duration, bool)        { panic("RetryHint") }
func (*hostile) RetryRefused() bool                      { panic("RetryRefused") }
func (*hostile) Unretryable() bool                       { panic("Unretryable") }
func (*hostile) RetryMark() (classifier.Mark, string)    { panic("RetryMark") }
func (*hostile) RunErrorClass() classifier.RunErrorClass { panic("RunErrorClass") }

// nilPanic panics with itself.
type nilPanic struct{}

func (nilPanic) Error() string { panic(nilPanic{}) }

// endless makes a new error each time it is unwrapped.
type endless struct{ n int }

func (e endless) Error() string { return "endless" }
func (e endless) Unwrap() error { return endless{e.n + 1} }

// loop is a cycle, through Unwrap and through fields.
type loop struct {
	Next  error
	Self  *loop
	Any   any
	Slice []any
	Map   map[string]any
}

func (l *loop) Error() string { return "loop" }
func (l *loop) Unwrap() error { return l.Next }

func cyclic() error {
	l := &loop{Map: map[string]any{}}
	l.Next, l.Self, l.Any, l.Slice = fmt.Errorf("x: %w", l), l, l, []any{nil, l}
	l.Slice[0], l.Map["m"] = l.Slice, l.Map
	return l
}

func deep(n int, leaf error) error {
	for range n {
		leaf = &loop{Next: leaf}
	}
	return leaf
}

// pair has a short text, unlike what errors.Join makes.
type pair [2]error

func (*pair) Error() string     { return "pair" }
func (p *pair) Unwrap() []error { return p[:] }

// shared has 2^n paths to one error.
func shared(n int) error {
	err := errMine
	for range n {
		err = &pair{err, err}
	}
	return &pair{err, A(404)}
}

func wide(n int) error {
	errs := make([]error, n, n+1)
	for i := range errs {
		errs[i] = codeError{i}
	}
	return errors.Join(append(errs, io.EOF)...)
}

// quoting has its cause in many fields.
type quoting struct {
	A, B, C error
	List    []error
	Value   textError
	Un      []string // not comparable as a value
}

func (q quoting) Error() string { return "quoting" }
func (q quoting) Unwrap() error { return q.A }

func quotingChain(n int) error {
	var err error = textError("leaf")
	for range n {
		err = quoting{A: err, B: err, C: err, List: []error{err, err}}
	}
	return err
}

func hostileErrors() map[string]error {
	return map[string]error{
		"panics":          &hostile{N: 1},
		"panics, wrapped": fmt.Errorf("x: %w", errors.Join(io.EOF, errors.Join(io.ErrNoProgress))),
		"nil panic":       nilPanic{},
		"nil hostile":     (*hostile)(nil),
		"endless":         endless{},
		"cycle":           cyclic(),
		"deep":            deep(100_000, fs.ErrExist),
		"shared":          shared(40),
		"wide":            wide(100_000),
		"quoting":         quotingChain(60),
		"huge text":       errors.New(strings.Repeat("x", 20<<20)),
		"huge fields":     &kinds{A: strings.Repeat("x", 20<<20), B: make([]byte, 20<<20), C: make([]any, 1_000_000)},
		"huge body":       R(502, nil, strings.Repeat("y", 20<<20)),
		"joined panics":   errors.Join(&hostile{}, A(404)),
		"nil in a join":   nils{},
	}
}

type nils struct{}

func (nils) Error() string   { return "nils" }
func (nils) Unwrap() []error { return []error{nil, (*hostile)(nil), (*openai.APIError)(nil), io.EOF} }

func TestHostileErrorsAreRecorded(t *testing.T) {
	for name, err := range hostileErrors() {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			rec := journal.RecordError(err, journal.ErrorFacts{Class: "unknown"})
			raw, jerr := json.Marshal(rec)
			require.NoError(t, jerr)
			require.Less(t, len(raw), 6<<20)
			require.Less(t, time.Since(began), 20*time.Second)
			var back journal.ErrorRecord
			require.NoError(t, json.Unmarshal(raw, &back))
			askEverything(back.Err())
			require.NotEmpty(t, back.Type)
		})
	}
}

func TestARecordSaysWhereItWasCut(t *testing.T) {
	cuts := func(err error) string { return asJSON(t, allCuts(record2(err))) }
	require.Contains(t, cuts(cyclic()), "a cycle")
	require.Contains(t, cuts(deep(5000, io.EOF)), "causes: too many")
	require.Contains(t, cuts(wide(5000)), "causes: too many")
	require.Contains(t, cuts(errors.New(strings.Repeat("x", 20<<20))), "text")
	require.Contains(t, cuts(&kinds{A: strings.Repeat("x", 20<<20)}), "field A")
	require.Equal(t, "null", cuts(realErrors()["node"]))
}

func record2(err error) *journal.ErrorRecord { return journal.RecordError(err, journal.ErrorFacts{}) }

func allCuts(rec *journal.ErrorRecord) []string {
	all := rec.Cut
	for _, c := range rec.Causes {
		all = append(all, allCuts(c)...)
	}
	return all
}

// A well-known value behind the bounds still counts.
func TestWellKnownValuesBehindTheBoundsAreFound(t *testing.T) {
	for name, err := range map[string]error{"deep": deep(10_000, io.EOF), "wide": wide(10_000), "shared": &pair{shared(30), io.EOF}} {
		require.ErrorIs(t, replayed2(t, err), io.EOF, name)
		require.NotErrorIs(t, replayed2(t, err), fs.ErrExist, name)
	}
}

func replayed2(t *testing.T, err error) error {
	t.Helper()
	var back journal.ErrorRecord
	require.NoError(t, json.Unmarshal([]byte(asJSON(t, record2(err))), &back))
	return back.Err()
}

// Recording what was recorded, and wrapped, again and again must not end in a record that cannot be read.
func TestRecordsOfRecordsStayBounded(t *testing.T) {
	err := io.EOF
	for i := range 250 {
		err = replayed2(t, &loop{Next: err, Any: err})
		if i%100 == 0 {
			askEverything(err)
		}
	}
	require.Less(t, len(asJSON(t, record2(err))), 6<<20)
	require.ErrorIs(t, err, io.EOF)
}

// askEverything asks an error all that it can be asked.
func askEverything(err error) {
	if err == nil {
		return
	}
	_ = err.Error()
	for _, target := range []error{
		io.EOF, context.Canceled, errMine, codeError{5}, textError("x"), numberError(1), &matching{}, &codeError{}, A(1), &loop{}, endless{},
		listError{"a"}, quoting{}, &hostile{}, (*hostile)(nil), nils{}, &journal.RecordedError{},
	} {
		_ = errors.Is(err, target)
	}
	for _, q := range questions() {
		q.ask(err)
	}
	for _, q := range []question{as[*loop](), as[endless](), as[quoting](), as[nils](), as[*hostile](), as[*typed](), as[*withBroken](), as[*errorTree]()} {
		q.ask(err)
	}
	_ = classifier.Default().Classify(err)
	_, _ = classifier.HTTPStatus(err)
	_ = classifier.MarkOf(err)
	_ = classifier.UserCode(err)
	_ = classifier.Message(err)
	_, _ = classifier.RetryHint(err)
	_ = classifier.RetryRefused(err)
	_ = journal.RecordError(err, journal.ErrorFacts{})
	_ = journal.CaptureShapes.Error(journal.RecordError(err, journal.ErrorFacts{}))
	if timeout, is := errors.AsType[net.Error](err); is {
		_, _ = timeout.Timeout(), timeout.Error()
	}
}

// errorTree holds many kinds of fields.
type errorTree struct {
	Tree  *errorTree
	Trees []errorTree
	Map   map[string]*errorTree
	Err   error
	Any   any
	N     int8
	U     uint16
	F     float32
	T     time.Time
	E     [2]error
}

func (*errorTree) Error() string { return "tree" }

func FuzzErrorRecord(f *testing.F) {
	for _, err := range realErrors() {
		if raw, jerr := json.Marshal(record(err)); jerr == nil && len(raw) < 4000 {
			f.Add(raw)
		}
	}
	for _, typ := range []string{
		"*github.com/pawl-go/pawl/journal_test.errorTree", "*github.com/pawl-go/pawl/journal_test.typed", "*github.com/pawl-go/pawl/journal_test.kinds",
		"github.com/pawl-go/pawl/journal_test.listError", "*github.com/pawl-go/pawl/journal_test.withBroken",
	} {
		for _, value := range []string{
			`{"Tree":{"N":1000,"U":-1,"F":"x","T":5,"E":[1]},"Any":{"type":"int","value":"x"},"Err":{"cause":7}}`, `{"Err":{"error":{"type":"*x","causes":[null]}}}`,
			`[1,2,3]`, `"x"`, `{"A":{"type":"[]any","value":{"a":1}},"B":{"bytes":"!"}}`, `{"Map":{"a":null},"Trees":[[],{}],"M":{"x":true},"PU":{"User":"%zz"}}`,
		} {
			f.Add([]byte(fmt.Sprintf(`{"type":%q,"text":"x","value":%s,"causes":[{"type":"a","same":"io.EOF"},null],"is":["io.EOF"],"asked":99}`, typ, value)))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var rec journal.ErrorRecord
		if json.Unmarshal(raw, &rec) != nil {
			return
		}
		askEverything(rec.Err())
		again, err := json.Marshal(journal.RecordError(rec.Err(), journal.ErrorFacts{}))
		require.NoError(t, err)
		require.True(t, json.Valid(again))
	})
}

func TestRecordedErrorMadeByHand(t *testing.T) {
	e := &journal.RecordedError{TypePath: "*net/url.Error", Message: "x", Class: "timeout", Status: 404}
	askEverything(e)
	askEverything(&journal.RecordedError{})
	require.Equal(t, classifier.Timeout, classifier.Default().Classify(e).Class)
	require.Equal(t, "timeout", journal.RecordError(e, journal.ErrorFacts{}).Class)
	status, permanent := classifier.PermanentHTTPStatus(e)
	require.True(t, permanent)
	require.Equal(t, 404, status)
}

func BenchmarkRecordError(b *testing.B) {
	err := realErrors()["node"]
	b.ReportAllocs()
	for b.Loop() {
		journal.RecordError(err, journal.ErrorFacts{Class: "provider_error"})
	}
}
