package durable

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/task"
)

// Step calls fn, once and for all: its outcome is recorded under the name, and whenever the code around it runs again, Step
// returns that outcome and does not call fn. The result goes through JSON, also the first time, and so does the error: it
// is a *journal.RecordedError, which has the text of fn's error and answers errors.Is and errors.As as that did.
//
// An error that the code around the step handles is an outcome like any other. One that ends the run's attempt is not:
// with the next attempt fn is called again. How to tell: a failure counts once the code has gone on to another durable
// call behind it, or has completed; but what an attempt returns, or wraps in what it returns, it has not handled. A failure
// is not retried unless Retry says so; an error under a policy of several attempts is a *retrypolicy.AttemptsError. A
// panic of fn is a *task.PanicError and is not retried.
//
// If the run ends while fn is working, an error that it returns then is not recorded, but a result is. Fn runs on the
// caller's goroutine and is waited for, however long it ignores the end of its context.
//
// A result that JSON cannot hold is a *journal.NotSerializableError or *journal.PayloadTooLargeError; it ends the run with
// the code result_not_serializable, whatever the code makes of it. An *OptionError says that an argument is wrong. Other
// errors mean that the code has to return: a *StoreUnavailableError, *StoreError, *RunLostError, *RunCancelledError,
// *SuspendedError, *NonDeterminismError, *ReplayError, *OverlapError, *ScopeEndedError, *AbandonedError, or that of the
// context.
//
// Inside another step, and in a context that belongs to no run, Step just calls fn, with its options, and records nothing.
//
// The calls of one scope are made one after the other, which is how they are found again: a call that begins while another
// one is under way is an *OverlapError. Goroutines that make durable calls at the same time get a Branch each.
func Step[T any](ctx context.Context, name string, fn func(ctx context.Context) (T, error), opts ...StepOption) (T, error) {
	o, err := newStepOptions(stepCall, name, fn == nil, opts)
	if err != nil {
		var zero T
		return zero, err
	}
	return step(ctx, name, o, fn)
}

func step[T any](ctx context.Context, name string, o *stepOptions, fn func(ctx context.Context) (T, error)) (T, error) {
	var result, recorded, zero T
	w := work{
		name: name, options: o, into: &recorded,
		run: func(ctx context.Context) (err error) {
			result, err = fn(ctx)
			return err
		},
		result: func() any { return result },
	}
	s, inside := scopeOf(ctx)
	if s == nil {
		_, err := w.perform(ctx, plainSettings(), &inStep{outer: inside, name: name, n: inside.count(name)})
		if err != nil {
			return zero, err
		}
		return result, nil
	}
	if err := s.step(ctx, &w); err != nil {
		return zero, err
	}
	return recorded, nil
}

// work is what a step does, without its types.
type work struct {
	name    string
	options *stepOptions
	run     func(ctx context.Context) error
	result  func() any // of run
	into    any        // a pointer to what is to be returned
	// limit is the time an attempt may take where the options do not say so.
	limit time.Duration
}

// perform calls the function as its options say, and returns how many attempts it took.
func (w *work) perform(ctx context.Context, settings Settings, in *inStep) (attempts int, err error) {
	_, err = retrypolicy.Do(ctx, w.options.loop(settings), func(ctx context.Context, attempt int) (_ struct{}, err error) {
		attempts = attempt
		defer in.timed(max(w.options.timeout, w.limit))()
		defer task.Recover(fmt.Sprintf("step %q", w.name), &err)
		return struct{}{}, w.run(in.context(ctx))
	})
	return attempts, plainError(err)
}

// plainError is the function's own error, if it was called once and not to be repeated.
func plainError(err error) error {
	gaveUp, is := err.(*retrypolicy.AttemptsError) //nolint:errorlint // what Do itself has returned
	if is && gaveUp.MaxAttempts <= 1 && gaveUp.Reason != retrypolicy.ReasonRunEnded {
		return gaveUp.Err
	}
	return err
}

// cutShort reports whether the end of its context is why a function was not done.
func cutShort(err error) bool {
	gaveUp, is := err.(*retrypolicy.AttemptsError) //nolint:errorlint // what Do itself has returned
	return is && gaveUp.Reason == retrypolicy.ReasonRunEnded
}

func (s *Scope) step(ctx context.Context, w *work) error {
	c, err := s.enter(ctx, stepCall, w.name)
	if err != nil {
		return err
	}
	defer c.exit()
	if e, ok := c.outcome(); ok {
		return c.replay(ctx, e, w.into)
	}
	attempts, err := w.perform(ctx, s.x.settings, c.inside())
	switch {
	case err == nil:
		return c.succeed(ctx, w, attempts)
	case cutShort(err):
		return c.cut(ctx, err, cutMeta{})
	}
	return c.fail(ctx, err, attempts)
}

// outcome is what is recorded of a call that has ended.
func (c *call) outcome() (journal.Event, bool) {
	if len(c.recorded) == 0 {
		return journal.Event{}, false
	}
	e := c.recorded[len(c.recorded)-1]
	return e, e.Kind == journal.StepDone || e.Kind == journal.StepError
}

// replay returns a recorded outcome.
func (c *call) replay(ctx context.Context, e journal.Event, into any) error {
	if e.Kind == journal.StepError {
		c.awaitEnd(ctx, e)
		c.doubt()
		recorded, err := c.s.x.Recorded(e)
		if err != nil {
			return c.s.broken(c.s.x.replayError(e, err))
		}
		return c.failedWith(recorded)
	}
	if err := c.s.x.decode(e.Payload, into); err != nil {
		return c.s.broken(c.s.x.replayError(e, err))
	}
	return nil
}

// cutMeta is the part of a StepError's Meta that says that a context of the code's own has ended the call.
type cutMeta struct {
	Cut bool `json:"cut,omitempty"`
	// Once is true of a call to Once that had not begun.
	Once bool `json:"once,omitempty"`
}

// isCut reports whether an event says so.
func isCut(e journal.Event) bool {
	var m cutMeta
	return e.Kind == journal.StepError && readMeta(e, &m) == nil && m.Cut
}

// awaitEnd lets the context end first that has ended a call when it was live: a goroutine's cancellation must not be there
// before the failure of its sibling that was the reason. If nothing ends it this time, the code is told all the same.
func (c *call) awaitEnd(ctx context.Context, e journal.Event) {
	if isCut(e) {
		c.s.patience.await(ctx, c.s.x)
	}
}

// endPatience is how long the replayed calls of one attempt wait for what ended them, together.
const endPatience = time.Second

// patience is a time that calls have together.
type patience struct {
	mu   sync.Mutex
	left time.Duration
}

// await waits for the end of a context, or of the execution.
func (p *patience) await(ctx context.Context, x *Execution) {
	p.mu.Lock()
	begun, left := time.Now(), p.left
	p.mu.Unlock()
	_ = waitUntil(ctx, begun.Add(left), x)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = min(p.left, left-time.Since(begun)) // those that wait at the same time wait once
}

// broken stops the scope with a fault.
func (s *Scope) broken(err error) error {
	s.stop(err)
	return err
}

// succeed records a result, and returns what replay will return.
func (c *call) succeed(ctx context.Context, w *work, attempts int) error {
	payload, err := c.s.x.roundTrip("Result", w.result(), w.into)
	if err != nil {
		return c.s.broken(err)
	}
	return c.write(ctx, journal.Event{Kind: journal.StepDone, Payload: payload, Took: time.Since(c.begun), Attempts: attempts})
}

// roundTrip encodes a value and decodes it again, before anything is recorded that could not be read.
func (x *Execution) roundTrip(what string, v, into any) ([]byte, error) {
	payload, err := x.Encode(what, v)
	if err != nil {
		return nil, err
	}
	if err := x.decode(payload, into); err != nil {
		return nil, &journal.NotSerializableError{Type: fmt.Sprintf("%T", v), Path: what, Reason: "its JSON cannot be read back", Err: err}
	}
	return payload, nil
}

// fail records a failure, and returns it as replay will.
func (c *call) fail(ctx context.Context, err error, attempts int) error {
	e, recorded := c.s.x.stepError(err)
	e.Took, e.Attempts = time.Since(c.begun), attempts
	if err := c.write(ctx, e); err != nil {
		return err
	}
	return c.failedWith(recorded)
}

// cut is the end of a call whose context has ended. If that was one of the code's own it is a failure, which counts only if
// the code goes on; a cut behind it does not tell. Else the run itself ends, and nothing is recorded.
func (c *call) cut(ctx context.Context, err error, m cutMeta) error {
	if !c.s.endedAlone(ctx) {
		return err
	}
	e, recorded := c.s.x.stepError(err)
	m.Cut = true
	e.Meta, e.Took = withMeta(e.Meta, m), time.Since(c.begun)
	if err := c.write(ctx, e); err != nil {
		return err
	}
	return c.failedWith(recorded)
}

// Call is Step for a function that takes no context, and so cannot be told to stop. With a Timeout fn runs in a goroutine
// of its own, which is left behind when its time is over: the error is a *retrypolicy.TimeoutError, and what fn returns
// later is lost. For that reason a Timeout together with a Retry of several attempts is an *OptionError.
func Call[T any](ctx context.Context, name string, fn func() (T, error), opts ...StepOption) (T, error) {
	o, err := newStepOptions("Call", name, fn == nil, opts)
	if err == nil && o.timed && o.policy.MaxAttempts > 1 {
		err = &OptionError{Call: "Call", Name: name, Err: fmt.Errorf("timeout %v with a retry policy of %d attempts: %w",
			o.timeout, o.policy.MaxAttempts, errCallRetry)}
	}
	if err != nil {
		var zero T
		return zero, err
	}
	return step(ctx, name, o, func(context.Context) (T, error) {
		if !o.timed {
			return fn()
		}
		return within(o.timeout, name, fn)
	})
}

// within waits for a call, but no longer than d.
func within[T any](d time.Duration, name string, fn func() (T, error)) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	came := make(chan outcome, 1)
	go func() {
		out := outcome{err: &task.PanicError{Whose: fmt.Sprintf("step %q", name), Value: task.ErrGoexit}}
		defer func() { came <- out }()
		defer task.Recover(fmt.Sprintf("step %q", name), &out.err)
		out.v, out.err = fn()
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case out := <-came:
		return out.v, out.err
	case <-timer.C:
		var zero T
		return zero, errLeftBehind
	}
}

// errLeftBehind is what the retry loop turns into its *retrypolicy.TimeoutError.
var errLeftBehind = errors.New("pawl: the call was left behind")
