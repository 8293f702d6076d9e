package worker

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/task"
)

// tell logs what has become of an attempt, without any value of the run: what its code has returned or panicked with is in
// its journal.
func (t *taker) tell(run journal.Taken, err error) {
	log := t.log.With("run", run.Run.ID, "name", run.Run.Name)
	var (
		failed  *durable.RunFailedError
		lost    *durable.RunLostError
		ended   *durable.EndedError
		blocked *durable.BlockedError
		store   *durable.StoreUnavailableError
		// Of a store, say.
		panicked *task.PanicError
	)
	switch {
	case err == nil:
		log.Debug("pawl: run has completed")
	case errors.As(err, new(*durable.SuspendedError)):
		log.Debug("pawl: run waits")
	case errors.As(err, &lost):
		log.Warn("pawl: run was taken by another owner, or has ended; this worker stands down", "error", lost)
	case errors.As(err, &ended):
		log.Warn("pawl: run has ended otherwise meanwhile; this worker stands down", "status", ended.Run.Status)
	case errors.As(err, &store):
		log.Warn("pawl: run was requeued: the store is out of reach", "error", store)
	case errors.As(err, &blocked):
		// Attend has said so.
	case errors.As(err, new(*durable.RunCancelledError)):
		log.Info("pawl: run was cancelled")
	case errors.As(err, &failed):
		log.Info("pawl: run has failed", "code", failed.Code, "class", failed.Class, "user_code", failed.UserCode)
	case errors.Is(err, context.Canceled):
		log.Info("pawl: run was left, and is free for others")
	case errors.As(err, new(*durable.NonDeterminismError)):
		log.Error("pawl: run cannot be replayed; it is requeued", "error", err)
	case errors.As(err, &panicked):
		log.Error("pawl: run could not be gone on with; it is requeued", "panic", panicked.Whose)
	default:
		log.Error("pawl: run could not be gone on with; it is requeued", "error", err)
	}
}
