package durable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// awaitName is what all Awaits of a body are called.
const awaitName = "await"

// AwaitTimeoutError says that a condition has not come true in time. It is an outcome.
type AwaitTimeoutError struct {
	RunID string
	// After is the time that WaitTimeout gave.
	After time.Duration

	call FailedCall
}

// Error names the run and the time.
func (e *AwaitTimeoutError) Error() string {
	return fmt.Sprintf("pawl: run %q: what durable.Await waits for has not come true within %v", e.RunID, e.After)
}

// Unretryable is true: the wait is over.
func (e *AwaitTimeoutError) Unretryable() bool { return true }

// Timeout is true, as for a net.Error.
func (e *AwaitTimeoutError) Timeout() bool { return true }

// Await waits until a condition on the variables of the workflow's body is true, which the handlers of its updates change:
//
//	err := durable.Await(ctx, func() bool { return approved || len(items) > 3 })
//
// The condition is asked at first, and again whenever updates were handled. While it is false the run is suspended: the error
// is a *SuspendedError, and the code has to return. WaitTimeout bounds the wait from when it began; behind that the error is an
// *AwaitTimeoutError. Only where a run fails with it, a retry of the run waits anew. The condition must change nothing, and
// depend on nothing but what the body and its handlers do. That it came true is recorded with what the run records next.
//
// It belongs into a workflow's body: in a step, a branch, an update's handler or a node of a graph it is a *PlacementError,
// and in a context that belongs to no run a *NoJournalError. All other errors are those of Step.
func Await(ctx context.Context, condition func() bool, opts ...SignalOption) error {
	var o signalOptions
	for _, opt := range opts {
		if opt != nil {
			opt.applySignal(&o)
		}
	}
	s, inside := scopeOf(ctx)
	switch {
	case condition == nil:
		return &OptionError{Call: string(awaitCall), Name: awaitName, Err: errNoCondition}
	case o.timed && o.timeout <= 0:
		return &OptionError{Call: string(awaitCall), Name: awaitName, Err: fmt.Errorf("timeout %v: %w", o.timeout, errTimeout)}
	case inside != nil:
		return insideStep(awaitCall, inside)
	case s == nil:
		return &NoJournalError{Call: string(awaitCall)}
	case s.guests == nil:
		return &PlacementError{Call: string(awaitCall), Why: fmt.Sprintf(
			"scope %q is not the body of a workflow: return to the body and call it there", s.path)}
	}
	if err := ctx.Err(); err != nil && s.endedAlone(ctx) {
		return err
	}
	c, err := s.enter(ctx, awaitCall, awaitName)
	if err != nil {
		return err
	}
	defer c.exit()
	return c.await(ctx, condition, o)
}

var errNoCondition = errors.New("the condition is nil")

// awaitMeta is part of the Meta of an Await's events.
type awaitMeta struct {
	Await bool `json:"await"`
	timerMeta
}

// isAwait reports whether an event is one of an Await.
func isAwait(e journal.Event) bool {
	if e.Name != awaitName {
		return false
	}
	var m awaitMeta
	return readMeta(e, &m) == nil && m.Await
}

func (c *call) await(ctx context.Context, condition func() bool, o signalOptions) error {
	var wait *journal.Event
	for i, e := range c.recorded {
		switch e.Kind {
		case journal.StepDone:
			return nil
		case journal.SignalTimeout:
			return c.awaitTimedOut(o)
		case journal.SignalWait:
			wait = &c.recorded[i]
		}
	}
	if ok, err := c.holds(ctx, condition); err != nil {
		return err
	} else if ok {
		c.passed(journal.StepDone)
		return nil
	}
	var due time.Time
	var err error
	switch {
	case wait != nil:
		due, err = c.due(*wait)
	case o.timed:
		due = Now().Add(o.timeout)
		err = c.write(ctx, journal.Event{Kind: journal.SignalWait, Meta: meta(awaitMeta{Await: true, timerMeta: timerMeta{Due: due}})})
	}
	switch {
	case err != nil:
		return err
	case !due.IsZero() && !time.Now().Before(due):
		c.passed(journal.SignalTimeout)
		return c.awaitTimedOut(o)
	}
	c.s.settle(handledMeta{}) // it leaves no other trace that the code has gone on
	// An update that has come since the condition was asked makes the run due.
	return c.s.halt(Wait{Scope: c.s.path, Await: true, Due: due})
}

// holds asks the condition, and again as long as updates come.
func (c *call) holds(ctx context.Context, condition func() bool) (bool, error) {
	for fresh := false; ; fresh = true {
		if condition() {
			return true, nil
		}
		if !fresh {
			if err := c.s.x.refreshInbox(ctx); err != nil {
				return false, c.s.x.unread(ctx, err)
			}
		}
		changed, err := c.s.receive(c, true)
		if err != nil || changed == 0 {
			return false, err
		}
	}
}

// passed records how the wait has ended, along with what is recorded next: if nothing is, it has not ended.
func (c *call) passed(kind journal.Kind) {
	e := journal.Event{Kind: kind, Scope: c.s.path, Name: c.name, N: c.n, Time: Now(), Meta: meta(awaitMeta{Await: true})}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.failed = false
	c.s.x.Hold(e)
}

func (c *call) awaitTimedOut(o signalOptions) error {
	return &AwaitTimeoutError{RunID: c.s.x.id, After: o.timeout, call: c.failed()}
}
