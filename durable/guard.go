package durable

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/task"
)

// guarded is a store whose panics are outages: nobody knows what it had done by then.
type guarded struct {
	store journal.Store
	// busy counts the calls under way; nil if nobody asks.
	busy *atomic.Int32
}

// guard guards a store, once.
func guard(s journal.Store) journal.Store {
	if _, is := s.(guarded); is || s == nil {
		return s
	}
	return guarded{store: s}
}

// watch asks a store that can tell when messages have come; if it cannot, or panics, changed is nil.
func watch(s journal.Store, run string) (changed <-chan struct{}, stop func()) {
	stop = func() {}
	g, is := s.(guarded)
	if !is {
		return nil, stop
	}
	w, is := g.store.(journal.Watcher)
	if !is {
		return nil, stop
	}
	err := try(func() error {
		changed, stop = w.Watch(run)
		return nil
	})
	if err != nil {
		return nil, func() {}
	}
	return changed, stop
}

// try calls a store's method.
func try(fn func() error) (err error) {
	defer task.Recover("store", &err)
	return fn()
}

// counted is the same store, whose calls are counted.
func (g guarded) counted(busy *atomic.Int32) journal.Store {
	g.busy = busy
	return g
}

// tried makes an outage of a panic.
func (g guarded) tried(op string, fn func() error) error {
	if g.busy != nil {
		g.busy.Add(1)
		defer g.busy.Add(-1)
	}
	err := try(fn)
	if p, is := err.(*task.PanicError); is { //nolint:errorlint // what Recover has made
		return &journal.UnavailableError{Op: op, Unknown: true, Err: p}
	}
	return err
}

func (g guarded) Create(ctx context.Context, n journal.NewRun) (l journal.Lease, err error) {
	err = g.tried("create", func() (err error) { l, err = g.store.Create(ctx, n); return err })
	return l, err
}

func (g guarded) Load(ctx context.Context, run string) (r journal.Run, err error) {
	err = g.tried("load", func() (err error) { r, err = g.store.Load(ctx, run); return err })
	return r, err
}

func (g guarded) Acquire(ctx context.Context, run string, c journal.Claim) (l journal.Lease, err error) {
	err = g.tried("acquire", func() (err error) { l, err = g.store.Acquire(ctx, run, c); return err })
	return l, err
}

func (g guarded) Renew(ctx context.Context, l journal.Lease, ttl time.Duration) (renewed journal.Lease, err error) {
	err = g.tried("renew", func() (err error) { renewed, err = g.store.Renew(ctx, l, ttl); return err })
	return renewed, err
}

func (g guarded) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	return g.tried("append", func() error { return g.store.Append(ctx, l, a) })
}

func (g guarded) Send(ctx context.Context, run string, m journal.Message) (sent journal.Message, err error) {
	err = g.tried("send", func() (err error) { sent, err = g.store.Send(ctx, run, m); return err })
	return sent, err
}

func (g guarded) Inbox(ctx context.Context, run string, after int64) (messages []journal.Message, err error) {
	err = g.tried("inbox", func() (err error) { messages, err = g.store.Inbox(ctx, run, after); return err })
	return messages, err
}

// Events also guards against the panics of a store between two events. Those of yield are not the store's: it is our own.
func (g guarded) Events(ctx context.Context, run string, after int64) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		more := true
		err := g.tried("events", func() error {
			for e, err := range g.store.Events(ctx, run, after) {
				if more = yield(e, err); !more {
					break
				}
			}
			return nil
		})
		if err != nil && more {
			yield(journal.Event{}, err)
		}
	}
}
