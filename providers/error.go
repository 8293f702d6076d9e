package providers

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl/classifier"
)

// CallError is a call that failed, or whose answer is no success.
//
// Its text is made of its fields alone, and they hold only what is safe to show: no key, header, prompt or body. What
// the server wrote stands in Message, and only if the provider was configured to keep it.
type CallError struct {
	// Provider is the name of the provider that was called.
	Provider string
	// Model is the model that was asked for.
	Model string `json:",omitempty"`
	// Class says what kind of failure it is.
	Class classifier.RunErrorClass
	// Detail says in Pawl's own words what happened.
	Detail string `json:",omitempty"`
	// Status is the HTTP status; 0 if there was none. An error inside a 200 or a stream has the status that its code
	// names, if it names one.
	Status int `json:",omitempty"`
	// Code, Type and Param are the fields of the server's error object, if they look like identifiers.
	Code  string `json:",omitempty"`
	Type  string `json:",omitempty"`
	Param string `json:",omitempty"`
	// RequestID is the server's name for the request.
	RequestID string `json:",omitempty"`
	// Hint is the least wait the server asks for before another attempt; 0 if it asks for none.
	Hint time.Duration `json:",omitempty"`
	// NoRetry is true if the server said that the request must not be sent again (x-should-retry: false).
	NoRetry bool `json:",omitempty"`
	// NotSent is true if it is certain that no request reached the provider.
	NotSent bool `json:",omitempty"`
	// Message is what the server wrote. It may quote the prompt or the key, so it is empty unless asked for.
	Message string `json:",omitempty"`
	// Partial is what had arrived of an answer that is no success; nil if nothing had.
	Partial *Response `json:",omitempty"`
	// Err is the error below: one of go-openai's, of package net, of package context. It may be nil.
	Err error `json:"-"`
}

// Error says who failed and how.
func (e *CallError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pawl: provider %q: %s", e.Provider, e.Class)
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	e.writeFacts(&b)
	if e.Message != "" {
		fmt.Fprintf(&b, ": %s", e.Message)
	}
	return b.String()
}

func (e *CallError) writeFacts(b *strings.Builder) {
	var facts []string
	if e.Status != 0 {
		facts = append(facts, fmt.Sprintf("HTTP %d", e.Status))
	}
	for _, f := range [...]struct{ name, value string }{
		{"code", e.Code}, {"type", e.Type}, {"param", e.Param}, {"model", e.Model}, {"request", e.RequestID},
	} {
		if f.value != "" {
			facts = append(facts, f.name+" "+f.value)
		}
	}
	if e.Hint > 0 {
		facts = append(facts, "wait "+e.Hint.String())
	}
	if e.NoRetry {
		facts = append(facts, "not to be sent again")
	}
	if len(facts) > 0 {
		fmt.Fprintf(b, " (%s)", strings.Join(facts, ", "))
	}
}

// Unwrap returns the error below.
func (e *CallError) Unwrap() error { return e.Err }

// RunErrorClass makes it a classifier.Classed.
func (e *CallError) RunErrorClass() classifier.RunErrorClass { return e.Class }

// HTTPStatusCode makes it a classifier.HTTPStatusCoder.
func (e *CallError) HTTPStatusCode() int { return e.Status }

// RetryHint makes it a classifier.RetryHinter.
func (e *CallError) RetryHint() (wait time.Duration, ok bool) { return e.Hint, e.Hint > 0 }

// RetryRefused makes it a classifier.RetryRefuser.
func (e *CallError) RetryRefused() bool { return e.NoRetry }

// partialOf returns what had arrived of an answer that failed.
func partialOf(err error) *Response {
	if e := callErrorIn(err); e != nil {
		return e.Partial
	}
	return nil
}

// callErrorIn finds the first CallError in the tree of an error that may be anybody's: cyclic, or with methods that panic.
func callErrorIn(err error) *CallError {
	for e := range classifier.Tree(err) {
		if call, is := e.(*CallError); is && call != nil { //nolint:errorlint // it walks the tree itself
			return call
		}
	}
	return nil
}

// neverSent reports whether it is certain that no request reached the provider.
func neverSent(err error) bool {
	e := callErrorIn(err)
	return e != nil && e.NotSent
}
