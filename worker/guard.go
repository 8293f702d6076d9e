package worker

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/task"
)

// guarded is a queue whose panics are outages, as they are in package durable.
type guarded struct{ journal.Queue }

func tried(op string, fn func() error) error {
	err := func() (err error) {
		defer task.Recover("store", &err)
		return fn()
	}()
	if p, is := err.(*task.PanicError); is { //nolint:errorlint // what Recover has made
		return &journal.UnavailableError{Op: op, Unknown: true, Err: p}
	}
	return err
}

func (g guarded) Take(ctx context.Context, t journal.Take) (taken []journal.Taken, err error) {
	err = tried("take", func() (err error) { taken, err = g.Queue.Take(ctx, t); return err })
	return taken, err
}

func (g guarded) TakeStranded(ctx context.Context, t journal.Take, waited time.Duration) (taken []journal.Taken, err error) {
	err = tried("take stranded runs", func() (err error) { taken, err = g.Queue.TakeStranded(ctx, t, waited); return err })
	return taken, err
}

func (g guarded) Announce(ctx context.Context, queue string, programs []journal.Program) error {
	return tried("announce", func() error { return g.Queue.Announce(ctx, queue, programs) })
}

// WatchQueue of a queue that panics tells nothing: it is looked at from time to time anyway.
func (g guarded) WatchQueue(queue string) (changed <-chan struct{}, stop func()) {
	if tried("watch", func() error { changed, stop = g.Queue.WatchQueue(queue); return nil }) != nil {
		return nil, func() {}
	}
	return changed, stop
}
