// Package retrypolicy repeats a call that has failed, if that can help.
//
//	loop := &retrypolicy.Loop{Policy: retrypolicy.Standard(), Timeout: 30 * time.Second}
//	answer, err := retrypolicy.Do(ctx, loop, func(ctx context.Context, attempt int) (string, error) {
//		return ask(ctx, question)
//	})
//	var gaveUp *retrypolicy.AttemptsError
//	if errors.As(err, &gaveUp) {
//		log.Print(gaveUp.Attempts, gaveUp.Class, gaveUp.Reason)
//	}
//
// It starts no goroutine, keeps no state between calls, and never repeats a call whose error cannot change: a permanent
// HTTP status, a panic, an error marked poison or fatal.
package retrypolicy

import (
	"context"
	"log/slog"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/task"
)

// Loop is how Do repeats a call. Its fields must not change while it is used; any number of Do calls may share it. The
// zero Loop calls once.
type Loop struct {
	// Policy is not validated here: whoever takes it from a user calls Validate. A MaxAttempts below 1 counts as 1.
	Policy WorkflowNodeRetryPolicy
	// Classifier finds the class of an error; nil: classifier.Default(). If it panics, that is logged and the default
	// answers.
	Classifier classifier.RunErrorClassifier
	// Timeout is the time each attempt has; 0 or less: no limit.
	Timeout time.Duration
	// Observe, if not nil, is called after every failed attempt, before the wait. The loop waits for it.
	Observe func(ctx context.Context, a Attempt)
	// Rand returns random numbers in [0, 1) for the jitter; nil: math/rand/v2. It must be safe for concurrent use.
	Rand func() float64
	// Logger is told of a classifier's panic; nil: slog.Default().
	Logger *slog.Logger
}

// Attempt is one failed attempt.
type Attempt struct {
	// Number counts from 1.
	Number int
	// Err is what the attempt returned.
	Err error
	// Class is its class; canceled or timeout if the run has ended.
	Class classifier.RunErrorClass
	// Delay is the wait that follows, or that was too long; 0 if there was none to compute.
	Delay time.Duration
	// Hint is the least wait the server asked for, 0 if it asked for none.
	Hint time.Duration
	// Final is true if no further attempt follows. A run that ends during the wait has a last attempt that is not final.
	Final bool
	// Reason says why it is final; empty if it is not.
	Reason Reason
	// Status is the permanent HTTP status where that is the reason, else 0.
	Status int
}

// Do calls fn until it succeeds or another attempt cannot help or is not allowed; then the error is an *AttemptsError. fn
// gets the attempt's number, from 1, and with a Timeout a context of its own. It runs on the caller's goroutine.
//
// Whether an error is retried is decided in this order:
//
//  1. ctx has ended: never.
//  2. An error in the tree is Unretryable (a panic, an inner loop that gave up): never.
//  3. A permanent HTTP status anywhere in the tree, any 4xx except 408 and 429: never.
//  4. classifier.Transient: yes. classifier.Poison and classifier.Fatal: never.
//  5. The server said not to retry (classifier.RetryRefused): never.
//  6. The policy's Retryable, if it has one, decides.
//  7. The class decides: see classifier.RunErrorClass.Transient.
//
// A server's hint is a floor for the wait. A wait is not slept if it is longer than MaxDelay (with a MaxDelay of 0: if a hint
// asks for more than 5 minutes) or does not fit ctx's deadline: then Do gives up at once. A wait ends when ctx does.
//
// If ctx has ended, fn is not called. A result that fn returns without an error is taken even if ctx has ended meanwhile,
// but not after the attempt's own deadline: that is a *TimeoutError, whatever fn returned. Where ctx ends no later than the attempt
// would, the attempt has no deadline of its own. A panic of fn, of Retryable or of Observe ends the loop with a
// *task.PanicError inside the *AttemptsError.
func Do[T any](ctx context.Context, l *Loop, fn func(ctx context.Context, attempt int) (T, error)) (T, error) {
	var zero T
	if ctx.Err() != nil {
		return zero, l.notStarted(ctx)
	}
	v, err := one(ctx, l, 1, fn)
	if err == nil {
		return v, nil
	}
	return After(ctx, l, err, fn)
}

// After is the rest of Do behind a first attempt that has failed with err: what follows it is decided, and fn is called for
// the second attempt and further ones. It is for callers who make first attempts themselves, because most of them succeed.
// A panic of a first attempt is theirs to recover, and so is its time limit.
func After[T any](ctx context.Context, l *Loop, err error, fn func(ctx context.Context, attempt int) (T, error)) (T, error) {
	var waited time.Duration
	for attempt := 1; ; {
		if err := l.next(ctx, attempt, err, &waited); err != nil {
			var zero T
			return zero, err
		}
		attempt++
		var v T
		if v, err = one(ctx, l, attempt, fn); err == nil {
			return v, nil
		}
	}
}

// one makes one attempt.
func one[T any](ctx context.Context, l *Loop, attempt int, fn func(ctx context.Context, attempt int) (T, error)) (T, error) {
	if l.Timeout > 0 {
		return timed(ctx, l, attempt, fn)
	}
	return call(ctx, attempt, fn)
}

// timed makes one attempt with a deadline of its own.
func timed[T any](ctx context.Context, l *Loop, attempt int, fn func(ctx context.Context, attempt int) (T, error)) (T, error) {
	deadline := time.Now().Add(l.Timeout)
	if end, ok := ctx.Deadline(); ok && !end.After(deadline) {
		return call(ctx, attempt, fn)
	}
	// The cause is what a client returns that asks for it: it must tell the attempt's deadline from the run's.
	own, cancel := context.WithDeadlineCause(ctx, deadline, &TimeoutError{After: l.Timeout})
	defer cancel()
	v, err := call(own, attempt, fn)
	// The clock decides and not own.Err(), which is set a little later by a timer.
	if time.Now().Before(deadline) || isPanic(err) {
		return v, err
	}
	return v, &TimeoutError{After: l.Timeout, Err: err}
}

// call runs the caller's code.
func call[T any](ctx context.Context, attempt int, fn func(ctx context.Context, attempt int) (T, error)) (v T, err error) {
	defer task.Recover("retried call", &err)
	return fn(ctx, attempt)
}
