package client

import (
	"context"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

// Pause has a run rest until Resume: a workflow from its next durable call on, a graph from its next super-step on. No timer
// wakes it, updates and queries wait, and no worker holds it. Of several calls to Pause and Resume the last one counts. The
// reason is for people, and may be empty. Of a run that was continued as new, the last one of the chain is paused.
//
// Errors: a *RunNotFoundError, a *RunFinishedError, a *durable.ContinuationChainError, and those of the store.
func (c *Client) Pause(ctx context.Context, id, reason string) error {
	return c.explained(ctx, id, durable.Pause(ctx, c.store, id, reason, c.using()))
}

// Resume lets a run go on that Pause has stopped; one that is not paused stays as it is. A worker takes it at once. Its errors
// are those of Pause.
func (c *Client) Resume(ctx context.Context, id string) error {
	return c.explained(ctx, id, durable.Unpause(ctx, c.store, id, c.using()))
}

// Cancel ends a run for good, and the runs that it has started, unless they were detached. The reason is for people, and may
// be empty. A run that nobody holds is cancelled when Cancel returns; the owner of any other is told. Of a run that was
// continued as new, the last one of the chain is cancelled. Cancelling a cancelled run is a success.
//
// Errors: a *RunNotFoundError, a *RunFinishedError if the run has ended in another way, a *durable.ContinuationChainError, and
// those of the store.
func (c *Client) Cancel(ctx context.Context, id, reason string) error {
	return c.explained(ctx, id, durable.Cancel(ctx, c.store, id, reason, c.using()))
}

// Retry makes a new run that goes on where a failed one failed, in the same queue, and returns its record: what is recorded is
// served, what has failed is called again. Of a run that was continued as new, the last one of the chain is retried. With
// the same ids again it returns what is there. An empty newID is what durable.RetryID says.
//
// Errors: a *durable.RetryError for a run that has not failed, with the code retry_cancelled for a cancelled one; a
// *RunNotFoundError, a *durable.RunConflictError if a run of the new id is there and is no retry of this one, a
// *durable.ContinuationChainError, a *durable.ReplayError if an event cannot be read, and those of the store.
func (c *Client) Retry(ctx context.Context, id, newID string) (journal.Run, error) {
	if newID == "" {
		newID = durable.RetryID(id)
	}
	run, err := durable.PrepareRetry(ctx, c.store, id, newID)
	return run, c.explained(ctx, id, err)
}
