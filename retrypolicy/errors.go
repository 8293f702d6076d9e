package retrypolicy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl/classifier"
)

// Reason says why no further attempt followed. The strings are stable.
type Reason string

// The reasons, in the order in which they are looked for.
const (
	ReasonRunEnded        Reason = "run ended"                       // the context given to Do has ended
	ReasonUnretryable     Reason = "cannot be retried"               // see Unretryable
	ReasonPermanentStatus Reason = "permanent status"                // a 4xx except 408 and 429
	ReasonPoison          Reason = "marked poison"                   // classifier.Poison
	ReasonFatal           Reason = "marked fatal"                    // classifier.Fatal
	ReasonRefused         Reason = "server refuses a retry"          // x-should-retry: false
	ReasonNotRetryable    Reason = "not retryable under the policy"  // the policy's Retryable said no
	ReasonNotTransient    Reason = "not transient"                   // the class said no
	ReasonAttemptsUsedUp  Reason = "attempts used up"                // MaxAttempts calls were made
	ReasonWaitTooLong     Reason = "wait longer than allowed"        // a hint above MaxDelay, or above 5 minutes
	ReasonPastDeadline    Reason = "wait longer than the run's time" // the wait does not fit the context's deadline
)

// Unretryable is an error that can say that no retry will help, whatever its class, mark or policy: a panic, an
// inner retry loop that gave up. It is looked for in the whole tree of an error.
type Unretryable interface {
	Unretryable() bool
}

// AttemptsError is what Do returns when it gives up.
//
// Unless its Reason is ReasonRunEnded it unwraps to Err, so errors.Is and errors.As reach the last attempt's error. If the
// run has ended, it unwraps to the context's error only: errors.Is answers for context.Canceled or
// context.DeadlineExceeded, whichever ctx.Err() returned, and for nothing else, since what an attempt returns once it is cancelled
// says nothing about the provider (it may be the cancel's cause, with another call's failure in it). Err still holds it.
type AttemptsError struct {
	// Attempts is the number of calls made, 0 if the run had ended before the first.
	Attempts int
	// MaxAttempts is what the policy allowed.
	MaxAttempts int
	// Class is the class of Err; canceled or timeout if the run ended.
	Class classifier.RunErrorClass
	// Hint is the least wait the server asked for after the last attempt, 0 if it asked for none.
	Hint time.Duration
	// Waited is the time spent waiting between attempts.
	Waited time.Duration
	// Reason says why no further attempt followed.
	Reason Reason
	// Status is the permanent HTTP status where that is the reason, else 0.
	Status int
	// Err is what the last attempt returned, or the context's error if there was none. If Retryable, Rand or Observe
	// panicked, it wraps the *task.PanicError first.
	Err error

	ended error // the context's error if the run ended
}

// Error says how many attempts were made, the class, why it stopped, and the error's text without response bodies. If
// the run has ended, that is the context's error: whoever looks for a status in texts must not find one.
func (e *AttemptsError) Error() string {
	var b strings.Builder
	plural := "s"
	if e.Attempts == 1 {
		plural = ""
	}
	fmt.Fprintf(&b, "pawl: failed after %d attempt%s: %s, %s", e.Attempts, plural, e.Class, e.Reason)
	if e.Status != 0 {
		fmt.Fprintf(&b, " %d", e.Status)
	}
	if e.Hint > 0 && e.Reason != ReasonRunEnded {
		fmt.Fprintf(&b, " (the server asks for %v)", e.Hint)
	}
	if cause := e.Unwrap(); cause != nil {
		b.WriteString(": ")
		b.WriteString(classifier.Message(cause))
	}
	return b.String()
}

// Unwrap returns Err, or the context's error if the run ended.
func (e *AttemptsError) Unwrap() error {
	if e.Reason == ReasonRunEnded {
		return e.ended
	}
	return e.Err
}

// Unretryable is true for a loop that could have retried and gave up, so that only one of several nested loops retries.
// A loop of one attempt, or one that was stopped by the end of its context, leaves the decision to the loop around it.
func (e *AttemptsError) Unretryable() bool {
	return e.MaxAttempts > 1 && e.Reason != ReasonRunEnded
}

// RunErrorClass returns the class.
func (e *AttemptsError) RunErrorClass() classifier.RunErrorClass { return e.Class }

// TimeoutError is an attempt that was not done by its own deadline. It answers errors.Is for context.DeadlineExceeded and
// does not unwrap to Err: an attempt that returns too late is a timeout, whatever it returns.
type TimeoutError struct {
	// After is the time the attempt had.
	After time.Duration
	// Err is what the attempt returned in the end; nil if it succeeded too late.
	Err error
}

// Error names the time. It leaves out Err, in whose text a status could be found.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("pawl: attempt timed out after %v", e.After)
}

// Unwrap returns context.DeadlineExceeded.
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// Timeout is true, as for a net.Error.
func (e *TimeoutError) Timeout() bool { return true }

// RunErrorClass returns the class timeout.
func (e *TimeoutError) RunErrorClass() classifier.RunErrorClass { return classifier.Timeout }
