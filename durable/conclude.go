package durable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// conclude records how an execution ends: what the workflow's function has returned counts unless something has stopped
// it, whatever it has made of that.
func (r *inline) conclude(ctx context.Context, x *Execution, body *Scope, result any, err error, into any) (more bool, _ error) {
	stop := body.Outcome(nil)
	if err == nil && stop == nil {
		stop = body.left()
	}
	cancelled, isCancelled := x.end().(*RunCancelledError) //nolint:errorlint // just what heedCancel has set
	drained, isDrained := stop.(*RunStoppedError)          //nolint:errorlint // just what mayBegin has set
	next, isContinued := stop.(*continuing)                //nolint:errorlint // just what ContinueAsNew has set
	done := err == nil && stop == nil
	switch {
	case x.Broken() != nil:
		return false, r.finish(ctx, x, journal.Event{Kind: journal.RunRequeued})
	case !done && isCancelled:
		return false, r.cancelled(ctx, x, cancelled)
	case body.suspension() != nil && (ctx.Err() == nil || !x.asked()): // else who has asked is to be heard first
		return false, r.suspended(ctx, x)
	case !done && ctx.Err() != nil:
		return false, stopped(ctx, x.id)
	case isDrained:
		return false, drained
	case isContinued:
		return r.continued(ctx, x, next)
	case brokenReplay(stop):
		return false, x.BrokenAttempt(ctx, stop)
	case stop != nil:
		return false, r.failed(ctx, x, stop)
	case err != nil && x.Doubtful("", err):
		return false, r.again(ctx, x, err)
	case err != nil:
		return false, r.failed(ctx, x, err)
	}
	payload, err := x.roundTrip("Result", result, into)
	if err != nil {
		return false, r.failed(ctx, x, err)
	}
	return false, r.finish(ctx, x, journal.Event{Kind: journal.RunComplete, Payload: payload})
}

// errAgain says that the run is to be gone on with at once.
var errAgain = errors.New("pawl: internal: once more")

// again gives up an attempt that has failed only with what it has met again: the next one calls that.
func (r *inline) again(ctx context.Context, x *Execution, err error) error {
	for _, c := range x.doubted("", err) {
		x.Hold(reopened(c))
	}
	return cmp.Or(x.Finish(ctx, requeue(RequeuedAgain), time.Time{}), errAgain)
}

// finish writes the last event.
func (r *inline) finish(ctx context.Context, x *Execution, last journal.Event) error {
	err := x.Finish(ctx, last, time.Time{})
	if refused, is := find[*StoreError](err); is { // that is how the run has ended, if the store has taken so much
		return x.FailureError(x.settings.failure(refused, refused.code()))
	}
	return err
}

func (r *inline) failed(ctx context.Context, x *Execution, err error) error {
	e := x.Failure(err, CodeInternal)
	if ferr := r.finish(ctx, x, e); ferr != nil {
		return ferr
	}
	failed := x.FailureError(e)
	if len(e.Payload) == 0 { // the codec has failed
		failed.Err = err
	}
	return failed
}

func (r *inline) suspended(ctx context.Context, x *Execution) error {
	waits := x.Waits()
	e, due := waits.Suspension()
	if err := x.Finish(ctx, e, due); err != nil {
		return err
	}
	return waits
}

func (r *inline) cancelled(ctx context.Context, x *Execution, cancelled *RunCancelledError) error {
	payload, err := x.Encode("reason", cancelled.Reason)
	if err != nil {
		payload = nil // a reason without a key to read it
	}
	if err := r.finish(ctx, x, journal.Event{Kind: journal.RunCancelled, Payload: payload}); err != nil {
		return err
	}
	return x.CancelChildren(ctx, cancelled)
}

// CancelChildren is for executors: it cancels the runs that a cancelled one has started, and returns the error of that,
// which says if they could not all be reached. It does not end with ctx.
func (x *Execution) CancelChildren(ctx context.Context, cancelled *RunCancelledError) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storePatience)
	defer cancel()
	c := canceller{settings: x.settings, reason: cancelled.Reason, seen: map[string]bool{}}
	if err := c.children(ctx, x.id); err != nil {
		return fmt.Errorf("%w (its children could not all be cancelled: %w)", cancelled, err)
	}
	return cancelled
}
