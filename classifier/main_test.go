package classifier_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/sashabaranov/go-openai"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A is an APIError with a status.
func A(status int) *openai.APIError { return &openai.APIError{HTTPStatusCode: status, Message: "x"} }

// api is an APIError with a status, a code and a message.
func api(status int, code any, message string) *openai.APIError {
	return &openai.APIError{HTTPStatusCode: status, Code: code, Message: message}
}

// R is a RequestError with a status.
func R(status int, err error, body string) *openai.RequestError {
	return &openai.RequestError{HTTPStatusCode: status, Err: err, Body: []byte(body)}
}

// coded is an error of another package with a status.
type coded struct {
	status int
	err    error
}

func (c *coded) Error() string       { return "coded" }
func (c *coded) HTTPStatusCode() int { return c.status }
func (c *coded) Unwrap() error       { return c.err }

// hiding is a wrapper whose text says nothing of what it wraps.
type hiding struct {
	text string
	err  error
}

func (h *hiding) Error() string { return h.text }
func (h *hiding) Unwrap() error { return h.err }

// hostile is an error all of whose methods panic.
type hostile struct{}

func (hostile) Error() string                { panic("Error") }
func (hostile) Unwrap() error                { panic("Unwrap") }
func (hostile) Is(error) bool                { panic("Is") }
func (hostile) Timeout() bool                { panic("Timeout") }
func (hostile) HTTPStatusCode() int          { panic("HTTPStatusCode") }
func (hostile) RetryRefused() bool           { panic("RetryRefused") }
func (hostile) RetryMark() (m1, m2 struct{}) { panic("RetryMark") }

// cyclic is an error that wraps itself.
type cyclic struct {
	text string
	errs []error
}

func (c *cyclic) Error() string   { return c.text }
func (c *cyclic) Unwrap() []error { return c.errs }

func newCycle(text string, more ...error) *cyclic {
	c := &cyclic{text: text}
	c.errs = append([]error{fmt.Errorf("inside"), c}, more...)
	return c
}

// endless is an error that wraps a new one each time, without a pointer to recognise it by.
type endless struct{ n int }

func (e endless) Error() string { return "endless" }
func (e endless) Unwrap() error { return endless{n: e.n + 1} }

// wide is a tree of 2^60 paths.
func wide(leaf error) error {
	for range 60 {
		leaf = &cyclic{text: "wide", errs: []error{leaf, leaf}}
	}
	return leaf
}

func deep(leaf error, levels int) error {
	for range levels {
		leaf = &hiding{text: "deep", err: leaf}
	}
	return leaf
}

// discard is a logger for examples.
var discard = slog.New(slog.DiscardHandler)

// busy is an error that asks for a wait.
type busy struct{}

func (busy) Error() string                    { return "busy" }
func (busy) RetryHint() (time.Duration, bool) { return 5 * time.Second, true }
