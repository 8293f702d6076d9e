package client

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

// Result waits until the run has ended, and returns its result. Of a run that was continued as new it is that of the last run
// of the chain. It waits as long as that takes: bound it with a deadline of ctx.
//
// Errors: an *InvocationError that wraps a *durable.RunFailedError if the run has failed, an *InvocationCancelledError that
// wraps a *durable.RunCancelledError if it was cancelled, an *InvocationTimeoutError that wraps the error of ctx if that has
// ended, a *RunNotFoundError, a *durable.ContinuationChainError if the chain cannot be followed, a *durable.ReplayError if
// the result cannot be read, and those of a store that stays out of reach for longer than Config.Patience.
func (h *Handle[O]) Result(ctx context.Context) (O, error) {
	var zero O
	end, err := h.client.await(ctx, h.id)
	if err != nil {
		return zero, err
	}
	return h.read(h.client.settings, end.Run.ID, end.Last)
}

// await waits for a run, and for what it is continued as. The error says how the last one has ended, if it has no result.
func (c *Client) await(ctx context.Context, id string) (*durable.EndedError, error) {
	w := c.newWait(ctx)
	for {
		run, err := w.last(id)
		if err == nil && run.Status.Terminal() {
			return c.outcome(w, run)
		}
		if err == nil {
			id = run.ID
			err = w.pause()
		}
		if err != nil {
			return nil, c.awaited(ctx, id, w, err)
		}
	}
}

// outcome is how a run has ended.
func (c *Client) outcome(w *wait, run journal.Run) (*durable.EndedError, error) {
	last, err := w.event(run.ID, run.Head)
	if err != nil {
		return nil, c.awaited(w.ctx, run.ID, w, err)
	}
	end := &durable.EndedError{Run: run, Last: last}
	if run.Status == journal.Completed {
		return end, nil
	}
	err = c.settings.EndError(end)
	if failed, ok := errors.AsType[*durable.RunFailedError](err); ok {
		return nil, &InvocationError{RunID: run.ID, Err: failed}
	}
	if cancelled, ok := errors.AsType[*durable.RunCancelledError](err); ok {
		return nil, &InvocationCancelledError{RunID: run.ID, Err: cancelled}
	}
	return nil, err
}

// awaited is the error of a wait that has come to no end of a run.
func (c *Client) awaited(ctx context.Context, id string, w *wait, err error) error {
	if ended := ctx.Err(); ended != nil && errors.Is(err, ended) {
		return &InvocationTimeoutError{RunID: id, Err: ended, Cause: context.Cause(ctx), Store: w.fault}
	}
	return c.explained(ctx, id, err)
}

// wait looks at runs again and again.
type wait struct {
	ctx    context.Context //nolint:containedctx // of the one call that waits
	client *Client
	delay  time.Duration // until the next look
	// fault is the last error of a store that is out of reach, and down since when it is.
	fault error
	down  time.Time
}

func (c *Client) newWait(ctx context.Context) *wait {
	w := &wait{ctx: ctx, client: c}
	w.soon()
	return w
}

// soon makes the next looks close together.
func (w *wait) soon() { w.delay = min(firstPoll, w.client.cfg.Poll) }

// pause waits until the next look. Its error is that of the context.
func (w *wait) pause() error {
	timer := time.NewTimer(w.delay)
	defer timer.Stop()
	w.delay = min(2*w.delay, w.client.cfg.Poll) //nolint:mnd // twice as long each time
	select {
	case <-w.ctx.Done():
		return w.ctx.Err()
	case <-timer.C:
		return nil
	}
}

// last reads the record of the run that a run goes on as in the end.
func (w *wait) last(id string) (run journal.Run, err error) {
	err = w.patiently(func() (err error) { run, err = durable.Last(w.ctx, w.client.store, id, w.client.using()); return err })
	return run, err
}

// run reads the record of a run.
func (w *wait) run(id string) (run journal.Run, err error) {
	err = w.patiently(func() (err error) { run, err = w.client.store.Load(w.ctx, id); return err })
	return run, err
}

// event reads an event of a run.
func (w *wait) event(id string, seq int64) (e journal.Event, err error) {
	err = w.patiently(func() (err error) { e, err = w.client.event(w.ctx, id, seq); return err })
	return e, err
}

// patiently tries again while the store is out of reach, as long as the client is patient.
func (w *wait) patiently(try func() error) error {
	for {
		err := try()
		if !errors.Is(err, journal.ErrUnavailable) {
			w.fault = nil
			return err
		}
		if ended := w.ctx.Err(); ended != nil { // which may be all that is wrong
			return ended
		}
		now := time.Now()
		if w.fault == nil {
			w.down = now
			w.client.cfg.Logger.Warn("pawl: the store of a run that is waited for is out of reach", "error", err)
		}
		w.fault = err
		if now.Sub(w.down) >= w.client.cfg.Patience {
			return err
		}
		if err := w.pause(); err != nil {
			return err
		}
	}
}
