package durable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/journal"
)

// SignalOption is an option of WaitForSignal and Await: WaitTimeout.
type SignalOption interface{ applySignal(o *signalOptions) }

type signalOptions struct {
	timeout time.Duration
	timed   bool
}

type signalOption func(o *signalOptions)

func (f signalOption) applySignal(o *signalOptions) { f(o) }

// WaitTimeout bounds the wait for a signal or a condition, from when it is first waited for. More than 0.
func WaitTimeout(d time.Duration) SignalOption {
	return signalOption(func(o *signalOptions) { o.timeout, o.timed = d, true })
}

// SignalTimeoutError says that no signal came in time. It is an outcome: one that comes later is kept for the next wait.
type SignalTimeoutError struct {
	RunID, Name string
	// After is the time that WaitTimeout gave.
	After time.Duration

	call FailedCall
}

// Error names the signal and the time.
func (e *SignalTimeoutError) Error() string {
	return fmt.Sprintf("pawl: run %q: no signal %q within %v", e.RunID, e.Name, e.After)
}

// Unretryable is true: the wait is over.
func (e *SignalTimeoutError) Unretryable() bool { return true }

// Timeout is true, as for a net.Error.
func (e *SignalTimeoutError) Timeout() bool { return true }

// SignalTypeError says that a signal's value is none of the type that is waited for. The signal is consumed.
type SignalTypeError struct {
	RunID, Name string
	// Err says what does not fit, a *journal.DecodeError for one.
	Err error

	call FailedCall
}

// Error names the signal and the fault.
func (e *SignalTypeError) Error() string {
	return fmt.Sprintf("pawl: run %q: signal %q is not what is waited for: %v", e.RunID, e.Name, e.Err)
}

// Unwrap returns Err.
func (e *SignalTypeError) Unwrap() error { return e.Err }

// RunErrorClass is invalid_request: the sender is at fault.
func (e *SignalTypeError) RunErrorClass() classifier.RunErrorClass { return classifier.InvalidRequest }

// Unretryable is true: the signal would not become another one.
func (e *SignalTypeError) Unretryable() bool { return true }

// NoJournalError says that a call needs a run that a store keeps.
type NoJournalError struct {
	Call string // "Interrupt", say
}

// Error says what to do.
func (e *NoJournalError) Error() string {
	return fmt.Sprintf("pawl: durable.%s needs a journal: call it in a durable.Workflow, or in a node of a graph whose runner has a Store",
		e.Call)
}

// Unretryable is true.
func (e *NoJournalError) Unretryable() bool { return true }

// WaitForSignal returns the oldest signal of a name that nobody has consumed yet. Signals are kept while nobody waits, each
// is delivered once, and in the order in which they were sent; see Signal.
//
// If there is none the run is suspended: the error is a *SuspendedError, the code has to return, and when it is run again it
// comes here again. If the time that WaitTimeout gives has passed by then, the error is a *SignalTimeoutError. A signal
// whose value is no T is consumed, and is a *SignalTypeError. Both are outcomes: a replay returns them again. Only where a
// run fails with one of them, a retry of the run waits anew.
//
// It cannot be inside a step: that is a *PlacementError. In a context that belongs to no run it is a *NoJournalError. All
// other errors are those of Step.
func WaitForSignal[T any](ctx context.Context, name string, opts ...SignalOption) (T, error) {
	var v, zero T
	var o signalOptions
	for _, opt := range opts {
		if opt != nil {
			opt.applySignal(&o)
		}
	}
	if err := waitForSignal(ctx, name, o, &v); err != nil {
		return zero, err
	}
	return v, nil
}

func waitForSignal(ctx context.Context, name string, o signalOptions, into any) error {
	s, inside := scopeOf(ctx)
	switch {
	case o.timed && o.timeout <= 0:
		return &OptionError{Call: string(signalCall), Name: name, Err: fmt.Errorf("timeout %v: %w", o.timeout, errTimeout)}
	case inside != nil:
		return insideStep(signalCall, inside)
	case s == nil:
		return &NoJournalError{Call: string(signalCall)}
	}
	if err := ctx.Err(); err != nil && s.endedAlone(ctx) {
		return err
	}
	c, err := s.enter(ctx, signalCall, name)
	if err != nil {
		return err
	}
	defer c.exit()
	return c.signal(ctx, o, into)
}

func (c *call) signal(ctx context.Context, o signalOptions, into any) error {
	wait, waited := journal.Event{}, false
	for _, e := range c.recorded {
		switch e.Kind {
		case journal.SignalReceived:
			return c.received(e, into)
		case journal.SignalTimeout:
			return c.timedOut(o)
		case journal.SignalWait:
			wait, waited = e, true
		}
	}
	m, ok, err := c.fromInbox(ctx, journal.SignalMessage, c.name, nil)
	if err != nil {
		return err
	}
	if ok {
		if err := c.needsKey(journal.Event{Kind: journal.SignalReceived, Payload: m.Payload}); err != nil {
			c.s.x.giveBack(m)
			return err
		}
		e := journal.Event{Kind: journal.SignalReceived, Meta: meta(consumed{Message: m.Seq}), Payload: m.Payload}
		if err := c.write(ctx, e); err != nil {
			c.s.x.giveBack(m)
			return err
		}
		return c.received(e, into)
	}
	if !waited {
		return c.beginWait(ctx, o)
	}
	due, err := c.due(wait)
	if err != nil {
		return err
	}
	if due.IsZero() || time.Now().Before(due) {
		return c.s.suspend(Wait{Scope: c.s.path, Signal: c.name, Due: due})
	}
	if err := c.write(ctx, journal.Event{Kind: journal.SignalTimeout}); err != nil {
		return err
	}
	return c.timedOut(o)
}

// fromInbox takes a message, after a look at what has come since the last one.
func (c *call) fromInbox(
	ctx context.Context, kind journal.MessageKind, name string, accept func(journal.Message) bool,
) (journal.Message, bool, error) {
	x := c.s.x
	if m, ok := x.take(kind, name, accept); ok {
		return m, true, nil
	}
	if err := x.refreshInbox(ctx); err != nil {
		return journal.Message{}, false, x.unread(ctx, err)
	}
	m, ok := x.take(kind, name, accept)
	return m, ok, nil
}

// beginWait records that a signal is waited for, and suspends the scope.
func (c *call) beginWait(ctx context.Context, o signalOptions) error {
	var m timerMeta
	e := journal.Event{Kind: journal.SignalWait}
	if o.timed {
		m.Due = Now().Add(o.timeout)
		e.Meta = meta(m)
	}
	if err := c.write(ctx, e); err != nil {
		return err
	}
	return c.s.suspend(Wait{Scope: c.s.path, Signal: c.name, Due: m.Due})
}

// needsKey stops the run if a message, or what is recorded of it, was encrypted with a key that this process has not: others
// may have it.
func (c *call) needsKey(e journal.Event) error {
	if c.s.x.settings.Codec == nil {
		return nil
	}
	if _, err := journal.Decode(c.s.x.settings.Codec, e.Payload); errors.Is(err, journal.ErrUnknownKey) {
		return c.s.broken(c.s.x.replayError(e, err))
	}
	return nil
}

func (c *call) received(e journal.Event, into any) error {
	if err := c.needsKey(e); err != nil {
		return err
	}
	if err := c.s.x.decode(e.Payload, into); err != nil {
		return &SignalTypeError{RunID: c.s.x.id, Name: c.name, Err: err, call: c.failed()}
	}
	return nil
}

func (c *call) timedOut(o signalOptions) error {
	return &SignalTimeoutError{RunID: c.s.x.id, Name: c.name, After: o.timeout, call: c.failed()}
}
