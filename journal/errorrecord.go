package journal

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"
)

// ErrorFacts is what package classifier says of an error. Whoever records the error asks it, since this package knows no
// other.
type ErrorFacts struct {
	// Class is the error's class, such as "rate_limited". It counts from then on: a recorded error is not classified again.
	Class string `json:"class,omitempty"`
	// UserCode is the code given along with the mark, such as "card.declined".
	UserCode string `json:"user_code,omitempty"`
	// Mark is "transient", "poison", "fatal", or empty.
	Mark string `json:"mark,omitempty"`
	// Status is the HTTP status that counts for the error; 0 if there is none.
	Status int `json:"status,omitempty"`
}

// ErrorRecord is an error as a journal keeps it: a tree of plain data that survives JSON. RecordError makes one, and Err
// makes an error of it that answers as the first one did. It must not be changed, and is safe for concurrent use.
type ErrorRecord struct {
	// Type is the path of the error's type, "*net/url.Error".
	Type string `json:"type"`
	// Text is what its Error method returned. If that is no UTF-8, TextBytes has it and Text an approximation.
	Text      string `json:"text"`
	TextBytes []byte `json:"text_bytes,omitempty"`
	// Nil is true of a nil pointer.
	Nil bool `json:"nil,omitempty"`

	// ErrorFacts are those of the error and all it wraps; an error inside another has only what it says itself.
	ErrorFacts

	// HTTPStatus, Timeout, Temporary, RetryHint, RetryRefused and Unretryable are what the methods of these names
	// (HTTPStatusCode for the first) returned; nil where the type has no such method.
	HTTPStatus   *int           `json:"http_status,omitempty"`
	Timeout      *bool          `json:"timeout,omitempty"`
	Temporary    *bool          `json:"temporary,omitempty"`
	RetryHint    *time.Duration `json:"retry_hint_ns,omitempty"`
	RetryRefused *bool          `json:"retry_refused,omitempty"`
	Unretryable  *bool          `json:"unretryable,omitempty"`

	// Is names the well-known error values for which errors.Is is true of this error, not of what it wraps, and Same the
	// one that it is itself. Asked, of the outermost error, is how many values were asked for.
	Is    []string `json:"is,omitempty"`
	Same  string   `json:"same,omitempty"`
	Asked int      `json:"asked,omitempty"`

	// Value is what the error holds: of a struct an object with its exported fields by their Go names, whose zero values
	// are left out.
	Value json.RawMessage `json:"value,omitempty"`
	// Causes are what it wraps, and Many is true if its Unwrap method returns a slice.
	Causes []*ErrorRecord `json:"causes,omitempty"`
	Many   bool           `json:"many,omitempty"`
	// Cut says what was left out because there was too much of it.
	Cut []string `json:"cut,omitempty"`
}

// The bounds of one record. What lies behind them is left out, and Cut says so.
const (
	maxErrors     = 1024    // errors of a tree
	maxDepth      = 200     // of errors inside one another
	maxShared     = 256     // errors from which on one that has been met before is not walked again
	maxValues     = 1 << 14 // values in fields
	maxValueDepth = 32      // of values inside one another
	maxBytes      = 2 << 20 // of texts, strings and bytes
	maxLookedAt   = 1 << 16 // errors behind the bounds that are still asked for well-known values
	maxNames      = 16      // entries of Cut
)

// RecordError records err; nil gives nil. The facts are those of the whole error.
//
// It never panics, whatever err's methods do, and takes time linear in what it records: trees with cycles, very deep and
// very wide ones are cut at some thousand errors and 2 MiB, and the record says where. What cannot be written down (a
// channel, a function, an *http.Response, a connection) is left out. Of an error that was recorded before, or wraps one,
// the first record is kept: its class, mark and status count, not new ones.
func RecordError(err error, facts ErrorFacts) *ErrorRecord {
	if err == nil {
		return nil
	}
	r := recorder{errors: maxErrors, values: maxValues, bytes: maxBytes, lookedAt: maxLookedAt}
	rec := r.record(err, 0)
	if old := recordOf(err); old == nil || old.ErrorFacts == (ErrorFacts{}) {
		rec.ErrorFacts = facts.or(rec.ErrorFacts)
	}
	if rec.Asked == 0 {
		rec.Asked = len(sentinels)
	}
	return rec
}

// or returns the facts, with those that are missing taken from what the error says itself.
func (f ErrorFacts) or(own ErrorFacts) ErrorFacts {
	f.Class = cmp.Or(f.Class, own.Class)
	if f.Mark == "" {
		f.Mark, f.UserCode = own.Mark, own.UserCode
	}
	f.Status = cmp.Or(f.Status, own.Status)
	return f
}

// String names the type, and tells the text.
func (r *ErrorRecord) String() string {
	if r == nil {
		return "<nil>"
	}
	return fmt.Sprintf("%s: %s", r.Type, r.Text)
}

// text is the exact text.
func (r *ErrorRecord) text() string {
	if r.TextBytes != nil {
		return string(r.TextBytes)
	}
	return r.Text
}

func (r *ErrorRecord) cut(what string) {
	if len(r.Cut) < maxNames {
		r.Cut = append(r.Cut, what)
	}
}
