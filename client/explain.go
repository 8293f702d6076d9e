package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

// explained gives an error of a store or of package durable the type that this package's callers look for.
func (c *Client) explained(ctx context.Context, id string, err error) error {
	answer, isAnswer := errors.AsType[*durable.AnswerError](err)
	switch {
	case err == nil:
		return nil
	case isAnswer && (answer.Reason == durable.NotAsked || answer.Reason == durable.AlreadyAnswered):
		return &RunNotWaitingError{RunID: answer.RunID, Question: answer.Question, Err: err}
	case isOwn[*durable.UpdateRejectedError](err), isOwn[*durable.UpdateFailedError](err), isOwn[*durable.UpdateTimeoutError](err),
		isOwn[*durable.QueryError](err): // whatever they wrap
		return err
	case errors.Is(err, journal.ErrNotFound):
		if missing, ok := errors.AsType[*journal.NotFoundError](err); ok {
			id = missing.Run
		}
		return &RunNotFoundError{RunID: id, Err: err}
	case errors.Is(err, journal.ErrEnded):
		return c.finished(ctx, id, err)
	}
	return err
}

// isOwn reports whether an error is just of a type.
func isOwn[E error](err error) bool {
	_, ok := err.(E) //nolint:errorlint // not what it wraps, which may be the run's own doing
	return ok
}

// finished is the error of a call to a run that has ended.
func (c *Client) finished(ctx context.Context, id string, err error) error {
	if refused, ok := errors.AsType[*journal.RefusedError](err); ok {
		id = refused.Run // the last one of a chain
	}
	finished := &RunFinishedError{RunID: id, Err: err}
	if run, err := c.store.Load(ctx, id); err == nil {
		finished.Status = run.Status
	}
	return finished
}

// queueAbility is the interface of stores that workers take runs from.
const queueAbility = "journal.Queue"

func (c *Client) unsupported(call, needs string) error {
	return &UnsupportedError{Call: call, Needs: needs, Store: fmt.Sprintf("%T", c.store)}
}
