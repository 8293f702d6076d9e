package durable

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// settle leaves a run in good order whose code has returned.
func (a *Assignment) settle(ctx context.Context, err error) error {
	for _, x := range a.executions() {
		if a.own(x.id) { // who has opened it has forgotten to close it
			x.Close(ctx)
		} else { // code that was left behind has it
			x.abandon(ctx, false)
		}
	}
	x := a.unfinished()
	if a.opened() && x == nil {
		return err
	}
	if err == nil {
		err = errNotRun
	}
	if !leaves(err) && ctx.Err() == nil {
		done, counted := a.miscarried(ctx, x, err)
		if done {
			a.release(ctx)
			return counted
		}
	}
	select {
	case <-time.After(min(breather, a.Settings.withDefaults().LeaseTTL/renewals)):
	case <-ctx.Done():
	case <-a.Drained():
	}
	a.release(ctx)
	return err
}

// breather is how long a run is kept that was left as it was.
const breather = time.Second

// errNotRun is the fault of an executable that says it has run what it has not.
var errNotRun = errors.New("pawl: the executable has left the run as it was, and has not said why")

// leaves reports whether an error says that the run was only left, and somebody else may go on with it.
func leaves(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, journal.ErrUnavailable) ||
		errors.Is(err, journal.ErrNotFound)
}

// miscarried records that an attempt has come to nothing; x is its execution, which was closed, or nil if there was none. Done
// is false if that could not be written.
func (a *Assignment) miscarried(ctx context.Context, x *Execution, err error) (done bool, counted error) {
	if x == nil {
		x = a.execution(ctx, a.Settings)
		x.unwatch()
		defer x.close(ctx, true)
	}
	if x.Broken() != nil {
		return false, nil
	}
	if x.record == nil {
		x.record = &record{run: a.Taken.Run, requeues: x.readableRequeues(ctx)}
		x.parent, _ = parentOf(ctx, x.settings.Store, x.id) // who cannot be told will look
	}
	counted = x.brokenAttempt(ctx, err, CodeInternal)
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.finished, counted
}
