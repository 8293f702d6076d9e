package journaltest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

const (
	// long is a lease that does not lapse in a test, short one that does at once.
	long  = time.Minute
	short = time.Millisecond
	// near is how far the store's clock may be from ours.
	near = 20 * time.Second
)

// subject is the store under test. Its methods are the calls of a store that must succeed.
type subject struct {
	t     *testing.T
	h     Harness
	store journal.Store
}

// patience is how long to wait for what has to come.
func (s *subject) patience() time.Duration {
	if s.h.Patience > 0 {
		return s.h.Patience
	}
	return 20 * time.Second
}

// with is the same test on another handle.
func (s *subject) with(store journal.Store) *subject { return &subject{t: s.t, h: s.h, store: store} }

// second returns another handle on the same data; the same one if there can be no other.
func (s *subject) second() *subject {
	if s.h.Second == nil {
		return s
	}
	return s.with(s.h.Second(s.t, s.store))
}

// reopen goes on as the next process.
func (s *subject) reopen() *subject { return s.with(s.h.Reopen(s.t, s.store)) }

// able is the store with an ability that it is known to have.
func able[T any](s *subject) T {
	s.t.Helper()
	ability, ok := s.store.(T)
	require.True(s.t, ok)
	return ability
}

// claim is what owners want unless a test is about something else.
func claim(owner string) journal.Claim { return journal.Claim{Owner: owner, TTL: long} }

// begun is a new run that nobody holds.
func begun(run string, events ...journal.Event) journal.NewRun {
	return journal.NewRun{Run: journal.Run{ID: run, Kind: journal.WorkflowRun, Name: "w"}, Events: started(events...)}
}

// create makes a run that nobody holds.
func (s *subject) create(run string, events ...journal.Event) {
	s.t.Helper()
	lease, err := s.store.Create(s.t.Context(), begun(run, events...))
	require.NoError(s.t, err)
	require.Zero(s.t, lease)
}

// hold makes a run and holds it.
func (s *subject) hold(run string, events ...journal.Event) journal.Lease {
	s.t.Helper()
	return s.holdFor(run, long, events...)
}

func (s *subject) holdFor(run string, ttl time.Duration, events ...journal.Event) journal.Lease {
	s.t.Helper()
	n := begun(run, events...)
	n.Claim = journal.Claim{Owner: "first", TTL: ttl}
	lease, err := s.store.Create(s.t.Context(), n)
	require.NoError(s.t, err)
	return lease
}

func (s *subject) acquire(run, owner string) journal.Lease {
	s.t.Helper()
	lease, err := s.store.Acquire(s.t.Context(), run, claim(owner))
	require.NoError(s.t, err)
	return lease
}

// takeOver acquires a run as soon as its lease has lapsed.
func (s *subject) takeOver(run, owner string) journal.Lease {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), s.patience())
	defer cancel()
	for {
		lease, err := s.store.Acquire(ctx, run, claim(owner))
		if !errors.Is(err, journal.ErrLocked) {
			require.NoError(s.t, err)
			return lease
		}
		wait(ctx, short)
	}
}

// lapse waits until the time of a lease is over. The store's clock may not be ours.
func (s *subject) lapse(l journal.Lease) {
	s.t.Helper()
	wait(s.t.Context(), time.Until(l.Until)+10*time.Millisecond)
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (s *subject) release(l journal.Lease) {
	s.t.Helper()
	_, err := s.store.Renew(s.t.Context(), l, 0)
	require.NoError(s.t, err)
}

func (s *subject) append(l journal.Lease, after int64, events ...journal.Event) {
	s.t.Helper()
	require.NoError(s.t, s.try(l, after, events...))
}

// try appends and returns what the store says.
func (s *subject) try(l journal.Lease, after int64, events ...journal.Event) error {
	return s.store.Append(s.t.Context(), l, journal.Append{After: after, Events: events})
}

func (s *subject) load(run string) journal.Run {
	s.t.Helper()
	r, err := s.store.Load(s.t.Context(), run)
	require.NoError(s.t, err)
	return r
}

func (s *subject) events(run string, after int64) []journal.Event {
	s.t.Helper()
	events, err := s.read(run, after)
	require.NoError(s.t, err)
	return events
}

// read returns the events of a run up to the first error.
func (s *subject) read(run string, after int64) ([]journal.Event, error) {
	s.t.Helper()
	var events []journal.Event
	var last error
	for e, err := range s.store.Events(s.t.Context(), run, after) {
		require.NoError(s.t, last, "something comes behind the error")
		if last = err; err == nil {
			events = append(events, e)
		}
	}
	return events, last
}

func (s *subject) send(run string, m journal.Message) journal.Message {
	s.t.Helper()
	m, err := s.store.Send(s.t.Context(), run, m)
	require.NoError(s.t, err)
	return m
}

func (s *subject) inbox(run string, after int64) []journal.Message {
	s.t.Helper()
	messages, err := s.store.Inbox(s.t.Context(), run, after)
	require.NoError(s.t, err)
	return messages
}

// absent holds that there is no such run.
func (s *subject) absent(run string) {
	s.t.Helper()
	_, err := s.store.Load(s.t.Context(), run)
	s.notFound(run, err)
}

func (s *subject) notFound(run string, err error) {
	s.t.Helper()
	var missing *journal.NotFoundError
	require.ErrorAs(s.t, err, &missing)
	require.ErrorIs(s.t, err, journal.ErrNotFound)
	assert.Equal(s.t, run, missing.Run)
}

func (s *subject) refused(run string, reason, err error) {
	s.t.Helper()
	var refused *journal.RefusedError
	require.ErrorAs(s.t, err, &refused)
	require.ErrorIs(s.t, err, reason)
	assert.Equal(s.t, run, refused.Run)
	assert.Equal(s.t, reason, refused.Reason)
}

func (s *subject) locked(l journal.Lease, err error) {
	s.t.Helper()
	var locked *journal.LockedError
	require.ErrorAs(s.t, err, &locked)
	require.ErrorIs(s.t, err, journal.ErrLocked)
	assert.Equal(s.t, journal.LockedError{Run: l.Run, Owner: l.Owner, Until: l.Until}, *locked)
}

// picture is all that a store says of a run.
type picture struct {
	run    journal.Run
	events []journal.Event
	inbox  []journal.Message
	there  bool
}

func (s *subject) picture(run string) picture {
	s.t.Helper()
	r, err := s.store.Load(s.t.Context(), run)
	if errors.Is(err, journal.ErrNotFound) {
		return picture{}
	}
	require.NoError(s.t, err)
	return picture{run: r, events: s.events(run, 0), inbox: s.inbox(run, 0), there: true}
}

// unchanged holds that a store says of a run what it has said before.
func (s *subject) unchanged(run string, before picture) {
	s.t.Helper()
	assert.Equal(s.t, before, s.picture(run))
}

// noon is when all events of the suite happen: in no round zone and to the nanosecond, as callers give them.
func noon() time.Time {
	return time.Date(2026, 6, 1, 12, 0, 0, 123456789, time.FixedZone("", 5400))
}

// started are the first events of a run.
func started(events ...journal.Event) []journal.Event {
	return append([]journal.Event{{Kind: journal.RunStart, Time: noon()}}, events...)
}

// step is an event that tells steps apart.
func step(n int) journal.Event {
	return journal.Event{Kind: journal.StepDone, Name: "step", N: n, Time: noon(), Payload: fmt.Appendf(nil, "result %d", n)}
}

func steps(first, n int) []journal.Event {
	events := make([]journal.Event, 0, n)
	for i := range n {
		events = append(events, step(first+i))
	}
	return events
}

// end is an event of a kind.
func end(kind journal.Kind) journal.Event {
	return journal.Event{Kind: kind, Time: noon(), Payload: []byte(`"over"`)}
}

// terminals are the kinds that end a run, and what it is then.
func terminals() map[journal.Kind]journal.Status {
	return map[journal.Kind]journal.Status{
		journal.RunComplete:  journal.Completed,
		journal.RunError:     journal.Failed,
		journal.RunCancelled: journal.Cancelled,
		journal.RunContinued: journal.Continued,
	}
}

// stored is how events come back that were written behind number after.
func stored(after int64, events ...journal.Event) []journal.Event {
	list := make([]journal.Event, 0, len(events))
	for i, e := range events {
		e.Seq, e.Time = after+int64(i)+1, kept(e.Time)
		list = append(list, e)
	}
	return list
}

// kept is a time as it comes back: to the microsecond, in UTC.
func kept(t time.Time) time.Time { return t.Truncate(time.Microsecond).UTC() }

// seqs are the numbers of events.
func seqs(events []journal.Event) []int64 {
	list := make([]int64, 0, len(events))
	for _, e := range events {
		list = append(list, e.Seq)
	}
	return list
}

func signal(name, key, payload string) journal.Message {
	return journal.Message{Kind: journal.SignalMessage, Name: name, Key: key, Time: noon(), Payload: []byte(payload)}
}
