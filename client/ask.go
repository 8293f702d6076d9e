package client

import (
	"context"

	"github.com/pawl-go/pawl/durable"
)

// Update asks a run to change, and returns what the handler of its workflow has returned:
//
//	size, err := client.Update[int](ctx, h, "add", "tea")
//
// It waits until the run has handled the update, for which a worker must take the run: bound it with a deadline of ctx. With
// durable.SendKey asking again is harmless. Of a run that was continued as new, the last one of the chain is asked.
//
// Errors: a *durable.UpdateRejectedError, whose Reason says why, if the run has not taken the update and is as it was; a
// *durable.UpdateFailedError if the handler has failed; a *durable.UpdateTimeoutError if ctx has ended before, and the update
// may still be handled; a *RunNotFoundError; a *RunFinishedError if the run had ended before; a *durable.OptionError if name
// or key is not usable or the client has not the run's Codec; a *journal.NotSerializableError or *journal.PayloadTooLargeError; a
// *durable.ReplayError if the result is no R; a *durable.ContinuationChainError; and those of the store.
func Update[R, A any](ctx context.Context, run Target, name string, arg A, opts ...durable.SendOption) (R, error) {
	c := run.of()
	out, err := durable.Update[R](ctx, c.store, run.ID(), name, arg, append([]durable.SendOption{c.using()}, opts...)...)
	return out, c.explained(ctx, run.ID(), err)
}

// Query asks a run something, and returns what the handler of its workflow says. It changes nothing:
//
//	size, err := client.Query[int](ctx, h, "size", struct{}{})
//
// A worker must take the run for that; one that waits is woken. Bound it with a deadline of ctx.
//
// Errors: a *durable.QueryError if there is no answer, whose Reason says why: the workflow has no handler of that name, or the
// argument is of the wrong type, or the handler has failed, or ctx has ended, say. All others are those of Update.
func Query[R, A any](ctx context.Context, run Target, name string, arg A, opts ...durable.SendOption) (R, error) {
	c := run.of()
	out, err := durable.Query[R](ctx, c.store, run.ID(), name, arg, append([]durable.SendOption{c.using()}, opts...)...)
	return out, c.explained(ctx, run.ID(), err)
}
