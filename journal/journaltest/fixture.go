package journaltest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

// WriteFixture fills an empty store with what the suite expects to find in a Fixture. Whoever changes how a store keeps its
// data calls it with the version before the change and keeps what it has written.
func WriteFixture(t *testing.T, store journal.Store) {
	t.Helper()
	s := &subject{t: t, store: store}
	s.writeQueue()
	ended := s.hold("ended", everything())
	s.append(ended, 2, step(1), end(journal.Checkpoint), step(2))
	s.append(ended, 5, end(journal.RunError))

	n := begun("suspended", step(1))
	n.Run.Thread, n.Run.Link = "thread", journal.Link{Kind: journal.RetryOf, Run: "ended", SuperStep: 2}
	n.Messages = []journal.Message{signal("a", "k", "first")}
	_, err := store.Create(t.Context(), n)
	require.NoError(t, err)
	s.suspend(s.acquire("suspended", "owner"), 2, noon())
	s.send("suspended", signal("b", "", "second"))

	for i, id := range ids() {
		s.create(id, step(i))
	}
	long := s.hold("long")
	for i := range 200 {
		s.append(long, int64(i*3)+1, steps(i*3+1, 3)...)
	}
	s.release(long)

	lapsed, err := store.Acquire(t.Context(), "a", journal.Claim{Owner: "gone", TTL: short})
	require.NoError(t, err)
	s.append(lapsed, 2, step(1000))
}

// writeQueue makes runs of a queue, and announces a program that is not theirs.
func (s *subject) writeQueue() {
	s.t.Helper()
	n := queued("in a queue")
	n.Run.Dedup, n.Due = "key", noon()
	s.make(n)
	s.restQueued("rests", noon().Add(-time.Hour))
	s.restQueued("waits", time.Time{})
	if q, ok := s.store.(journal.Queue); ok {
		require.NoError(s.t, q.Announce(s.t.Context(), inQueue, alike()))
	}
}

// fixtures reads the fixtures of a harness and goes on with what is in them. A store that is written by this version is
// one as well.
func fixtures(t *testing.T, h Harness) {
	t.Helper()
	all := append([]Fixture{{Name: "this version", Queues: true, Open: func(t *testing.T) journal.Store {
		t.Helper()
		store := h.Open(t)
		WriteFixture(t, store)
		return store
	}}}, h.Fixtures...)
	for _, f := range all {
		t.Run(f.Name, func(t *testing.T) {
			s := &subject{t: t, h: h, store: f.Open(t)}
			fixtureRecords(s)
			fixtureEvents(s)
			fixtureQueue(s, f.Queues)
			fixtureGoesOn(s)
		})
	}
}

func fixtureRecords(s *subject) {
	r := s.load("ended")
	assert.Equal(s.t, journal.Failed, r.Status)
	assert.Equal(s.t, []int64{6, 4}, []int64{r.Head, r.Checkpoint})
	assert.Empty(s.t, r.Owner)

	r = s.load("suspended")
	want := journal.Run{
		ID: "suspended", Kind: journal.WorkflowRun, Name: "w", Thread: "thread",
		Link:   journal.Link{Kind: journal.RetryOf, Run: "ended", SuperStep: 2},
		Status: journal.Suspended, Created: r.Created, Updated: r.Updated, Due: kept(noon()), Head: 3,
	}
	assert.Equal(s.t, want, r)
	assert.True(s.t, time.Now().After(r.Created) && r.Created.After(noon().AddDate(-10, 0, 0)), "created %v", r.Created)
	assert.Equal(s.t, journal.Running, s.load("a").Status)
}

func fixtureEvents(s *subject) {
	ended := started(everything(), step(1), end(journal.Checkpoint), step(2), end(journal.RunError))
	assert.Equal(s.t, stored(0, ended...), s.events("ended", 0))
	assert.Equal(s.t, stored(0, started(steps(1, 600)...)...), s.events("long", 0))
	for i, id := range ids()[1:] {
		assert.Equal(s.t, stored(1, step(i+1)), s.events(id, 1), "%.50q", id)
	}
	inbox := s.inbox("suspended", 0)
	require.Len(s.t, inbox, 2)
	assert.Equal(s.t, []byte("first"), inbox[0].Payload)
	assert.Equal(s.t, []byte("second"), inbox[1].Payload)
	if _, ok := s.store.(journal.Lister); ok {
		assert.Equal(s.t, []string{"long"}, s.found(journal.Query{Limit: 1}))
		assert.Equal(s.t, []string{"suspended"}, s.found(journal.Query{LinkedTo: "ended"}))
		assert.Len(s.t, s.found(journal.Query{Limit: 1000, Name: "w"}), len(ids())+3+len(s.found(journal.Query{Queue: inQueue})))
	}
}

// fixtureQueue holds that runs of queues are there if the version had any, and that there can be some in any case.
func fixtureQueue(s *subject, there bool) {
	if _, ok := s.store.(journal.Queue); !ok {
		return
	}
	if there {
		s.duplicate(keyed("another", "key"), "in a queue")
		s.send("waits", signal("a", "", "1"))
		taken := s.takes("rests", "in a queue", "waits")
		assert.Equal(s.t, "key", taken[1].Run.Dedup)
	}
	s.enqueueOf("new", alike()[0], 3)
	s.announce(inQueue, alike()[1])
	s.enqueueOf("newer", alike()[1], 3)
	if there {
		s.strands()
	} else {
		s.strands("new")
	}
	s.make(keyed("has a key", "new key"))
	s.duplicate(keyed("has none", "new key"), "has a key")
}

func fixtureGoesOn(s *subject) {
	lease := s.acquire("suspended", "next")
	s.append(lease, 3, step(2), end(journal.RunComplete))
	taken := s.takeOver("a", "next")
	assert.EqualValues(s.t, 3, taken.Head)
	s.append(taken, 3, step(1001))
	_, err := s.store.Create(s.t.Context(), begun("ended"))
	require.ErrorIs(s.t, err, journal.ErrExists)
	assert.EqualValues(s.t, 1, s.send("long", signal("a", "", "1")).Seq)
	s.append(s.hold("another"), 1, step(1))
}
