package client

import (
	"context"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

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
