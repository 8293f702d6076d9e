package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

// RunNotFoundError says that the store has no run of this id.
type RunNotFoundError struct {
	RunID string
	Err   error // a *journal.NotFoundError
}

// Error names the run.
func (e *RunNotFoundError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *RunNotFoundError) Unwrap() error { return e.Err }

// Unretryable is true.
func (e *RunNotFoundError) Unretryable() bool { return true }

// RunFinishedError says that a run has ended, so that nothing can be asked of it or done to it any more.
type RunFinishedError struct {
	RunID string
	// Status is how it has ended; empty if that could not be read.
	Status journal.Status
	Err    error // it matches journal.ErrEnded
}

// Error names the run, how it has ended, and what can still be done.
func (e *RunFinishedError) Error() string {
	switch e.Status {
	case journal.Completed:
		return fmt.Sprintf("pawl: run %q has ended: it is completed: its Result can be read", e.RunID)
	case journal.Failed:
		return fmt.Sprintf("pawl: run %q has ended: it is failed: Retry makes a new run that goes on where it failed", e.RunID)
	case journal.Cancelled:
		return fmt.Sprintf("pawl: run %q has ended: it is cancelled, for good: start another run", e.RunID)
	case journal.Continued:
		return fmt.Sprintf("pawl: run %q has ended: it is continued as a new run: ask that one", e.RunID)
	}
	return fmt.Sprintf("pawl: run %q has ended", e.RunID)
}

// Unwrap returns Err.
func (e *RunFinishedError) Unwrap() error { return e.Err }

// Unretryable is true.
func (e *RunFinishedError) Unretryable() bool { return true }

// RunNotWaitingError says that a run does not wait for the answer that it was given. Nothing was sent.
type RunNotWaitingError struct {
	RunID, Question string
	// Err is a *durable.AnswerError, whose Reason is durable.NotAsked or durable.AlreadyAnswered.
	Err error
}

// Error names the run and the question.
func (e *RunNotWaitingError) Error() string {
	reason := durable.NotAsked
	if answer, ok := errors.AsType[*durable.AnswerError](e.Err); ok {
		reason = answer.Reason
	}
	return fmt.Sprintf("pawl: run %q does not wait for an answer to question %q: %s: Questions lists what it asks",
		e.RunID, e.Question, reason)
}

// Unwrap returns Err.
func (e *RunNotWaitingError) Unwrap() error { return e.Err }

// Unretryable is true.
func (e *RunNotWaitingError) Unretryable() bool { return true }

// InvocationError says that the run that was waited for has failed, for good.
type InvocationError struct {
	// RunID is the run that has failed: the last one of its chain, if it was continued as new.
	RunID string
	Err   error // a *durable.RunFailedError
}

// Error names the run and what it has failed with.
func (e *InvocationError) Error() string {
	return fmt.Sprintf("%v: Retry makes a new run that goes on where it failed", e.Err)
}

// Unwrap returns Err.
func (e *InvocationError) Unwrap() error { return e.Err }

// InvocationCancelledError says that somebody has cancelled the run that was waited for, for good.
type InvocationCancelledError struct {
	// RunID is the run that was cancelled: the last one of its chain, if it was continued as new.
	RunID string
	Err   error // a *durable.RunCancelledError
}

// Error names the run and the reason.
func (e *InvocationCancelledError) Error() string {
	return fmt.Sprintf("%v: it is over for good: start another run", e.Err)
}

// Unwrap returns Err.
func (e *InvocationCancelledError) Unwrap() error { return e.Err }

// InvocationTimeoutError says that the context of Result or Run has ended before the run has: its deadline has passed, or the
// caller has stopped waiting. The run has not ended, and nothing has happened to it.
type InvocationTimeoutError struct {
	RunID string
	// Err is the context's error, Cause what context.Cause said of it. The cause is not unwrapped: it may be another call's
	// failure.
	Err, Cause error
	// Store is the last error of the store, if it was out of reach at the end; else nil.
	Store error
}

// Error names the run and the cause.
func (e *InvocationTimeoutError) Error() string {
	text := fmt.Sprintf("pawl: run %q has not ended in time: %v", e.RunID, e.Cause)
	if !e.Timeout() {
		text = fmt.Sprintf("pawl: run %q has not ended, and is not waited for any longer: %v", e.RunID, e.Cause)
	}
	if e.Store != nil {
		text += fmt.Sprintf(" (the store could not be read: %v)", e.Store)
	}
	return text + ": it goes on: wait for its Result again, or Cancel it"
}

// Unwrap returns Err.
func (e *InvocationTimeoutError) Unwrap() error { return e.Err }

// Timeout reports whether a deadline has passed, as for a net.Error.
func (e *InvocationTimeoutError) Timeout() bool { return errors.Is(e.Err, context.DeadlineExceeded) }

// RunErrorClass returns the class timeout, or canceled if the caller has stopped waiting.
func (e *InvocationTimeoutError) RunErrorClass() classifier.RunErrorClass {
	if e.Timeout() {
		return classifier.Timeout
	}
	return classifier.Canceled
}

// UnsupportedError says that the store lacks an ability that a call needs.
type UnsupportedError struct {
	// Call is what was called ("Start"), Needs the interface that the store does not have ("journal.Queue"), and Store the
	// store's type.
	Call, Needs, Store string
}

// Error names the store's type and what it lacks.
func (e *UnsupportedError) Error() string {
	text := fmt.Sprintf("pawl: client: %s needs a store that is a %s, and %s is none", e.Call, e.Needs, e.Store)
	if e.Needs == queueAbility {
		return text + `: use one that workers can take runs from, or say client.Queue("") and run the run yourself`
	}
	return text
}

// Unwrap returns errors.ErrUnsupported.
func (e *UnsupportedError) Unwrap() error { return errors.ErrUnsupported }

// Unretryable is true.
func (e *UnsupportedError) Unretryable() bool { return true }

// StartUnknownError says that a run may have been started, or may not: the store has lost the acknowledgement. Starting it
// again with this id makes it if it is not there, and else attaches to it.
type StartUnknownError struct {
	RunID string
	Err   error // a *journal.UnavailableError
}

// Error names the run and the store's error.
func (e *StartUnknownError) Error() string {
	return fmt.Sprintf("pawl: run %q may have been started, or not: %v: start it again with this id", e.RunID, e.Err)
}

// Unwrap returns Err.
func (e *StartUnknownError) Unwrap() error { return e.Err }

// OptionError says that an option of a call cannot work. Nothing was done.
type OptionError struct {
	// Option is the option's name ("Delay").
	Option string
	Err    error
}

// Error names the option and what is wrong with it.
func (e *OptionError) Error() string { return fmt.Sprintf("pawl: client.%s: %v", e.Option, e.Err) }

// Unwrap returns Err.
func (e *OptionError) Unwrap() error { return e.Err }

// Unretryable is true.
func (e *OptionError) Unretryable() bool { return true }
