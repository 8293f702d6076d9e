package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

// announceEvery is how often workers say that they are there, at least: who looks for stranded runs relies on it.
const announceEvery = 10 * time.Second

// announce says that the worker is there, and ends stranded runs, until ctx ends.
func (t *taker) announce(ctx context.Context) {
	beat := time.NewTicker(min(t.cfg.Heartbeat, announceEvery))
	defer beat.Stop()
	var outage backoff
	since := time.Now() // the store has been there
	for {
		err := t.store.Announce(ctx, t.queue.Name, t.programs)
		if err != nil {
			since = time.Now()
		}
		// Others that were started along with this worker, or away along with the store, are to have their chance.
		if err == nil && t.cfg.Stranded == Fail && time.Since(since) >= t.cfg.StrandedTimeout {
			err = t.failStranded(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			outage.wait(ctx, t.log, err)
			continue
		}
		outage.over(t.log)
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
	}
}

// failStranded ends the runs that no worker has served for too long.
func (t *taker) failStranded(ctx context.Context) error {
	ctx, done := outlive(ctx)
	defer done()
	for {
		taken, err := t.store.TakeStranded(ctx, journal.Take{Claim: t.claim(), Queue: t.queue.Name, Limit: maxTaken}, t.cfg.StrandedTimeout)
		if err != nil {
			return err
		}
		var errs []error
		for _, run := range taken {
			a := &durable.Assignment{Taken: run, Settings: t.settings}
			if err := a.Strand(ctx, t.cfg.StrandedTimeout); err != nil {
				errs = append(errs, fmt.Errorf("run %q: %w", run.Run.ID, err))
				continue
			}
			t.log.Warn("pawl: a run was failed that no worker serves", "run", run.Run.ID, "name", run.Run.Name,
				"version", run.Run.Version, "fingerprint", run.Run.Fingerprint)
		}
		if len(errs) > 0 || len(taken) < maxTaken {
			return errors.Join(errs...)
		}
	}
}
