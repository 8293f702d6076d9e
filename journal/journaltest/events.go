package journaltest

import (
	"context"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

func eventsRules() []rule {
	return []rule{
		{"after any number, also inside of what was written together", eventsAfter},
		{"of a long journal come all, in order", eventsMany},
		{"can be left early, any number of times", eventsBreak},
		{"can be read twice from one iterator", eventsTwice},
		{"can be read while the store is called from the loop", eventsReentrant},
		{"of an unknown run are one NotFoundError and nothing else", eventsUnknown},
		{"end with the error of a context that ends between two", eventsCancelled},
		{"given to the caller are the caller's", eventsCopies},
	}
}

func eventsAfter(s *subject) {
	lease := s.hold("r", steps(1, 4)...)
	s.append(lease, 5, step(5))
	s.append(lease, 6, steps(6, 7)...)
	all := s.events("r", 0)
	require.Len(s.t, all, 13)
	for after := int64(1); after <= 13; after++ {
		assert.Equal(s.t, all[after:], append([]journal.Event{}, s.events("r", after)...), "after %d", after)
	}
	assert.Equal(s.t, all, s.events("r", -5))
	assert.Empty(s.t, s.events("r", 14))
	assert.Empty(s.t, s.events("r", 1<<62))
}

func eventsMany(s *subject) {
	const batches, batch = 60, 50
	lease := s.hold("r")
	other := s.hold("other")
	want := stored(0, started()...)
	for n := range batches {
		after := int64(len(want))
		events := steps(n*batch, batch-n%7)
		s.append(lease, after, events...)
		s.append(other, int64(n)+1, step(n))
		want = append(want, stored(after, events...)...)
	}
	assert.Equal(s.t, want, s.events("r", 0))
	assert.Equal(s.t, want[1234:], s.events("r", 1234))
	assert.Len(s.t, s.events("other", 0), batches+1)
}

func eventsBreak(s *subject) {
	lease := s.hold("r", steps(1, 20)...)
	for n := range 100 {
		seen := 0
		for e, err := range s.store.Events(s.t.Context(), "r", 0) {
			require.NoError(s.t, err)
			seen++
			if e.Seq == int64(n%5+1) {
				break
			}
		}
		require.Equal(s.t, n%5+1, seen)
	}
	s.append(lease, 21, step(21))
	assert.Len(s.t, s.events("r", 0), 22)
}

func eventsTwice(s *subject) {
	s.create("r", steps(1, 3)...)
	events := s.store.Events(s.t.Context(), "r", 1)
	for range 2 {
		var got []int64
		for e, err := range events {
			require.NoError(s.t, err)
			got = append(got, e.Seq)
		}
		assert.Equal(s.t, []int64{2, 3, 4}, got)
	}
}

func eventsReentrant(s *subject) {
	const before = 300
	lease := s.hold("r", steps(1, before-1)...)
	last := int64(0)
	for e, err := range s.store.Events(s.t.Context(), "r", 0) {
		require.NoError(s.t, err)
		require.Equal(s.t, last+1, e.Seq)
		last = e.Seq
		if last <= 10 {
			s.append(lease, before+last-1, step(int(last)))
			s.send("r", signal("a", "", "b"))
			require.Equal(s.t, before+last, s.load("r").Head)
			require.Len(s.t, s.events("r", before), int(last))
		}
	}
	assert.GreaterOrEqual(s.t, last, int64(before), "what comes in meanwhile may be read or not")
}

func eventsUnknown(s *subject) {
	calls := 0
	for e, err := range s.store.Events(s.t.Context(), "nobody", 0) {
		calls++
		assert.Zero(s.t, e)
		s.notFound("nobody", err)
	}
	assert.Equal(s.t, 1, calls)
	for _, err := range s.store.Events(s.t.Context(), "nobody", 0) {
		s.notFound("nobody", err)
		break
	}
}

func eventsCancelled(s *subject) {
	s.create("r", steps(1, 999)...)
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	var last error
	seen := int64(0)
	for e, err := range s.store.Events(ctx, "r", 0) {
		require.NoError(s.t, last, "something comes behind the error")
		if last = err; err == nil {
			seen++
			require.Equal(s.t, seen, e.Seq)
		}
		cancel()
	}
	if last != nil { // else all had been read before
		require.ErrorIs(s.t, last, context.Canceled)
		return
	}
	assert.EqualValues(s.t, 1000, seen, "events are missing and there is no error")
}

func eventsCopies(s *subject) {
	s.create("r", everything())
	before := s.picture("r")
	for e, err := range s.store.Events(s.t.Context(), "r", 0) {
		require.NoError(s.t, err)
		clear(e.Payload)
		clear(e.Meta)
		_ = append(e.Payload, "more"...)
	}
	s.unchanged("r", before)
}
