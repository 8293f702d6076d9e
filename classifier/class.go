// Package classifier says what kind of failure an error is, so that a retry policy knows whether another attempt can
// help.
//
//	c := classifier.Chain(mine, classifier.Default())
//	switch c.Classify(err).Class {
//	case classifier.RateLimited: ...
//	case classifier.Unknown:     ... // no rule matched; nothing is guessed
//	}
//
// It reads errors only: it never calls, waits, logs a message's text or changes an error.
package classifier

import "time"

// RunErrorClass is the kind of a failure. The strings are stable: they are stored in journals.
type RunErrorClass string

// The classes. Only the first four are transient.
const (
	ProviderError       RunErrorClass = "provider_error"       // the provider failed, or the way to it did
	ProviderUnavailable RunErrorClass = "provider_unavailable" // an open circuit breaker
	RateLimited         RunErrorClass = "rate_limited"         // too many requests, by the server's or our own limiter
	Timeout             RunErrorClass = "timeout"              // an attempt ran out of time
	QuotaExceeded       RunErrorClass = "quota_exceeded"       // the account's money or quota is used up
	InvalidRequest      RunErrorClass = "invalid_request"      // the same request would be refused again
	Unauthorized        RunErrorClass = "unauthorized"         // bad or missing credentials
	ContentFiltered     RunErrorClass = "content_filtered"     // refused for its content
	InvalidResponse     RunErrorClass = "invalid_response"     // an answer that does not parse or validate, or was cut
	ToolError           RunErrorClass = "tool_error"           // a tool failed
	ToolTimeout         RunErrorClass = "tool_timeout"         // a tool ran out of time
	ToolBlocked         RunErrorClass = "tool_blocked"         // a tool was refused by policy or by a person
	BudgetExceeded      RunErrorClass = "budget_exceeded"      // the run's own token, cost or call budget
	CompilationFailed   RunErrorClass = "compilation_failed"   // a graph, agent or node that cannot be built
	Panic               RunErrorClass = "panic"                // a recovered panic
	Canceled            RunErrorClass = "canceled"             // the run's or caller's context ended
	Unknown             RunErrorClass = "unknown"              // no rule matched
)

// Transient reports whether another attempt can help.
func (c RunErrorClass) Transient() bool {
	switch c {
	case ProviderError, ProviderUnavailable, RateLimited, Timeout:
		return true
	}
	return false
}

// The interfaces by which an error of any package can speak for itself. They are looked for in the whole tree of an
// error.
type (
	// Classed is an error that knows its class.
	Classed interface{ RunErrorClass() RunErrorClass }
	// HTTPStatusCoder is an error that carries the status of an HTTP response; 0 means it has none.
	HTTPStatusCoder interface{ HTTPStatusCode() int }
	// RetryHinter is an error that knows how long to wait before another attempt.
	RetryHinter interface {
		RetryHint() (wait time.Duration, ok bool)
	}
	// RetryRefuser is an error whose server said that the request must not be sent again (x-should-retry: false).
	RetryRefuser interface{ RetryRefused() bool }
)
