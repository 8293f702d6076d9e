package journaltest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

func contextRules() []rule {
	return []rule{
		{"a call with an ended context writes nothing and returns the context's error", contextEnded},
		{"a context that ends at any time leaves a write whole or undone, and the error says what is known", contextRace},
		{"the end of one call's context harms no other call", contextOthers},
	}
}

// call is a call of a store, about the runs "r", "free" and "new".
type call struct {
	name string
	do   func(ctx context.Context) error
}

// calls are all that a store can be asked for, the run "r" being held and the run "free" pending, in the queue.
func calls(s journal.Store, held journal.Lease) []call {
	all := append(changes(s, held),
		call{"load", func(ctx context.Context) error { _, err := s.Load(ctx, "r"); return err }},
		call{"inbox", func(ctx context.Context) error { _, err := s.Inbox(ctx, "r", 0); return err }},
		call{"events", func(ctx context.Context) error {
			for _, err := range s.Events(ctx, "r", 0) {
				return err
			}
			return nil
		}},
	)
	l, ok := s.(journal.Lister)
	if !ok {
		return all
	}
	return append(all, call{"list", func(ctx context.Context) error {
		_, err := l.List(ctx, journal.Query{})
		return err
	}})
}

// changes are the calls that write.
func changes(s journal.Store, held journal.Lease) []call {
	over := []journal.Event{end(journal.RunComplete)}
	return append([]call{
		{"create", func(ctx context.Context) error { _, err := s.Create(ctx, begun("new", steps(1, 2)...)); return err }},
		{"acquire", func(ctx context.Context) error { _, err := s.Acquire(ctx, "free", claim("a")); return err }},
		{"renew", func(ctx context.Context) error { _, err := s.Renew(ctx, held, time.Hour); return err }},
		{"release", func(ctx context.Context) error { _, err := s.Renew(ctx, held, 0); return err }},
		{"append", func(ctx context.Context) error {
			return s.Append(ctx, held, journal.Append{After: 1, Events: append(steps(1, 3), end(journal.Checkpoint))})
		}},
		{"end", func(ctx context.Context) error { return s.Append(ctx, held, journal.Append{After: 1, Events: over}) }},
		{"post", func(ctx context.Context) error {
			return s.Append(ctx, held, posting(1, letter("free", "", "1"), letter("r", "", "2"), letter("free", "", "3")))
		}},
		{"suspend", func(ctx context.Context) error {
			a := posting(1, letter("free", "", "1"))
			a.Events = append(a.Events, end(journal.RunSuspended))
			return s.Append(ctx, held, a)
		}},
		{"send", func(ctx context.Context) error { _, err := s.Send(ctx, "r", signal("a", "", "1")); return err }},
	}, append(removals(s), takings(s)...)...)
}

// takings are the calls of a Queue, if it is one.
func takings(s journal.Store) []call {
	q, ok := s.(journal.Queue)
	if !ok {
		return nil
	}
	return []call{
		{"take", func(ctx context.Context) error { _, err := q.Take(ctx, upTo(1)); return err }},
		{"take stranded", func(ctx context.Context) error { _, err := q.TakeStranded(ctx, upTo(1), 0); return err }},
		{"announce", func(ctx context.Context) error { return q.Announce(ctx, inQueue, []journal.Program{program()}) }},
	}
}

// removals are the calls of a Deleter, if it is one.
func removals(s journal.Store) []call {
	d, ok := s.(journal.Deleter)
	if !ok {
		return nil
	}
	return []call{
		{"delete", func(ctx context.Context) error { return d.Delete(ctx, "free") }},
		{"prune", func(ctx context.Context) error {
			_, err := d.Prune(ctx, time.Now().Add(time.Hour), journal.Pending)
			return err
		}},
	}
}

// pictures are of all runs that calls speak of.
func (s *subject) pictures() []picture {
	s.t.Helper()
	return []picture{s.picture("r"), s.picture("free"), s.picture("new")}
}

func contextEnded(s *subject) {
	held := s.hold("r")
	s.enqueue("free")
	before := s.pictures()
	cancelled, cancel := context.WithCancel(s.t.Context())
	cancel()
	late, cancel := context.WithDeadline(s.t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for _, c := range calls(s.store, held) {
		assert.ErrorIs(s.t, c.do(cancelled), context.Canceled, c.name)
		assert.ErrorIs(s.t, c.do(late), context.DeadlineExceeded, c.name)
	}
	assert.Equal(s.t, before, s.pictures())
	s.append(held, 1, step(1))
}

func contextRace(s *subject) {
	lease := s.hold("r")
	head := int64(1)
	for n := range 300 {
		// The end of a caller's own time is told in the same way as a cancel.
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Duration(n%30)*20*time.Microsecond+time.Duration(n%2)*time.Hour)
		stop := time.AfterFunc(time.Duration(n%30)*20*time.Microsecond, func() {
			if n%2 == 1 {
				cancel()
			}
		})
		err := s.store.Append(ctx, lease, journal.Append{After: head, Events: steps(n*2, 2)})
		stop.Stop()
		ended := ctx.Err()
		cancel()
		var down *journal.UnavailableError
		switch {
		case err == nil:
			head += 2
		case errors.As(err, &down) && down.Unknown:
			// It may be on its way still. A new lease fences it off, and what is there then is final.
			lease = s.acquire("r", lease.Owner)
			require.Contains(s.t, []int64{head, head + 2}, lease.Head)
			head = lease.Head
		default:
			require.ErrorIs(s.t, err, ended)
		}
		require.Equal(s.t, head, s.load("r").Head, "the append returned: %v", err)
	}
	assert.Len(s.t, s.events("r", 0), int(head))
	s.append(lease, head, step(1))
}

func contextOthers(s *subject) {
	const runs, each = 20, 20
	var all sync.WaitGroup
	for n := range runs {
		run := name(n)
		lease := s.hold(run)
		all.Go(func() {
			for i := range each {
				ctx, cancel := context.WithCancel(s.t.Context())
				if n%2 == 0 {
					go cancel()
				}
				err := s.store.Append(ctx, lease, journal.Append{After: int64(i) + 1, Events: steps(i, 1)})
				cancel()
				if n%2 == 0 && err != nil {
					return
				}
				assert.NoError(s.t, err)
			}
		})
	}
	all.Wait()
	for n := 1; n < runs; n += 2 {
		assert.Len(s.t, s.events(name(n), 0), each+1)
	}
}
