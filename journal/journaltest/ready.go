package journaltest

import (
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

func readyRules() []rule {
	return []rule{
		{"a message makes a suspended run due at once", readyMessage},
		{"a message with a key that is there does not", readyAgain},
		{"a message to a run that is due already leaves its place to it", readyDue},
		{"a message to a run of no queue leaves its Due", readyNoQueue},
		{"a message to a pending run leaves its Due", readyPending},
		{"a letter makes a suspended run due at once", readyLetter},
		{"a run that is suspended with messages that were not seen is due at once", readySeen},
		{"a run that is made suspended and with messages is due at once", readyMade},
		{"no message that comes while a run is being suspended is slept over", readyRace},
		{"a requeued run is ready at the Due of its append, or at once", readyRequeued},
		{"a run that is given up is ready at once", readyReleased},
		{"a run that was suspended and is given up is ready at its Due", readyGivenUp},
		{"a message to a held run counts once it is suspended", readyHeld},
	}
}

// due holds that a suspended run is due since a time.
func (s *subject) due(run string, since time.Time) {
	s.t.Helper()
	r := s.load(run)
	assert.Equal(s.t, journal.Suspended, r.Status)
	require.NotZero(s.t, r.Due)
	assert.WithinRange(s.t, r.Due, since.Add(-near), time.Now().Add(near))
	assert.Equal(s.t, kept(r.Due), r.Due)
}

func readyMessage(s *subject) {
	for run, due := range map[string]time.Time{"waits": {}, "sleeps": ahead()} {
		s.restQueued(run, due)
		s.takes()
		before := time.Now()
		updated := s.load(run).Updated
		s.second().send(run, signal("a", "", "1"))
		s.due(run, before)
		assert.Equal(s.t, updated, s.load(run).Updated, "its status is the same")
		got := s.takes(run)[0]
		assert.Equal(s.t, journal.Suspended, got.Was)
		assert.Zero(s.t, got.Run.Due)
		s.suspend(got.Lease, 2, ahead())
		s.send(run, signal("a", "", "2"))
		s.takes(run)
	}
}

func readyAgain(s *subject) {
	lease := s.holdQueued("r", long)
	s.send("r", signal("a", "k", "1"))
	a := journal.Append{After: 1, Events: []journal.Event{end(journal.RunSuspended)}, Seen: 1}
	require.NoError(s.t, s.store.Append(s.t.Context(), lease, a))
	s.release(lease)
	s.send("r", signal("a", "k", "1"))
	s.takes()
	assert.Zero(s.t, s.load("r").Due)
}

func readyDue(s *subject) {
	due := ago(2)
	s.restQueued("first", due)
	s.restQueued("second", ago(1))
	s.send("first", signal("a", "", "1"))
	assert.Equal(s.t, kept(due), s.load("first").Due)
	s.takes("first", "second")
}

func readyNoQueue(s *subject) {
	due := ahead()
	s.suspend(s.hold("sleeps"), 1, due)
	s.suspend(s.hold("waits"), 1, time.Time{})
	lease := s.hold("held")
	s.send("held", signal("a", "", "1"))
	s.suspend(lease, 1, due)
	for _, run := range []string{"sleeps", "waits"} {
		s.send(run, signal("a", "", "1"))
	}
	assert.Equal(s.t, kept(due), s.load("sleeps").Due)
	assert.Equal(s.t, kept(due), s.load("held").Due)
	assert.Zero(s.t, s.load("waits").Due)
}

func readyPending(s *subject) {
	due := ahead()
	s.enqueueDue("r", due)
	s.send("r", signal("a", "", "1"))
	s.takes()
	assert.Equal(s.t, kept(due), s.load("r").Due)
}

func readyLetter(s *subject) {
	from := s.hold("from")
	s.restQueued("waits", time.Time{})
	s.restQueued("sleeps", ahead())
	before := time.Now()
	s.post(from, 1, letter("waits", "", "1"), letter("sleeps", "", "2"))
	s.due("waits", before)
	s.due("sleeps", before)
	assert.ElementsMatch(s.t, []string{"waits", "sleeps"}, takenIDs(s.take(upTo(5))))
}

// suspendSeen suspends a run whose owner knows some of its messages, and gives it up.
func (s *subject) suspendSeen(l journal.Lease, after, seen int64, due time.Time) {
	s.t.Helper()
	a := journal.Append{After: after, Events: []journal.Event{step(1), end(journal.RunSuspended)}, Due: due, Seen: seen}
	require.NoError(s.t, s.store.Append(s.t.Context(), l, a))
	s.release(l)
}

func readySeen(s *subject) {
	before := time.Now()
	for _, due := range []time.Time{{}, ahead()} {
		lease := s.holdQueued("r"+due.String(), long)
		s.send(lease.Run, signal("a", "", "1"))
		s.send(lease.Run, signal("a", "", "2"))
		s.suspendSeen(lease, 1, 1, due)
		s.due(lease.Run, before)
		lease = s.takes(lease.Run)[0].Lease
		s.suspendSeen(lease, 3, 2, due)
		assert.Equal(s.t, kept(due), s.load(lease.Run).Due, "it knows them all")
		s.takes()
	}
	past := ago(1)
	lease := s.holdQueued("past", long)
	s.send("past", signal("a", "", "1"))
	s.suspendSeen(lease, 1, 0, past)
	assert.Equal(s.t, kept(past), s.load("past").Due, "it was due already")
}

func readyMade(s *subject) {
	n := queued("r", end(journal.RunSuspended))
	n.Due = ahead()
	s.make(n)
	s.takes()
	assert.Equal(s.t, kept(n.Due), s.load("r").Due)
	n.Run.ID = "with a message"
	n.Messages = []journal.Message{signal("a", "", "1")}
	s.make(n)
	s.takes("with a message")
}

// readyRace sends a message while its run is being suspended by an owner that has looked into the inbox. Either the owner has
// seen it, or the run is ready afterwards.
func readyRace(s *subject) {
	both := s.handles()
	for round := range size(100, 20) {
		run := name(round)
		lease := s.holdQueued(run, long)
		var seen int64
		var all sync.WaitGroup
		start := make(chan struct{})
		all.Go(func() {
			<-start
			_, err := both[1].store.Send(s.t.Context(), run, signal("a", "", "1"))
			assert.NoError(s.t, err)
		})
		all.Go(func() {
			<-start
			inbox, err := s.store.Inbox(s.t.Context(), run, 0)
			assert.NoError(s.t, err)
			seen = int64(len(inbox))
			a := journal.Append{After: 1, Events: []journal.Event{end(journal.RunSuspended)}, Seen: seen}
			assert.NoError(s.t, s.store.Append(s.t.Context(), lease, a))
			_, err = s.store.Renew(s.t.Context(), lease, 0)
			assert.NoError(s.t, err)
		})
		close(start)
		all.Wait()
		if seen > 0 {
			s.takes()
			continue
		}
		s.takes(run)
	}
}

func readyRequeued(s *subject) {
	past, future := ago(1), ahead()
	for _, c := range []struct {
		run string
		due time.Time
	}{{"now", time.Time{}}, {"past", past}, {"future", future}} {
		lease := s.holdQueued(c.run, long)
		s.appendDue(lease, 1, c.due, journal.StepDone, journal.RunRequeued)
		s.release(lease)
		r := s.load(c.run)
		assert.Equal(s.t, journal.Pending, r.Status)
		assert.Equal(s.t, kept(c.due), r.Due)
	}
	s.takes("past", "now")
}

func readyReleased(s *subject) {
	s.release(s.holdQueued("r", long))
	assert.Zero(s.t, s.load("r").Due)
	got := s.takes("r")[0]
	assert.Equal(s.t, journal.Pending, got.Was)
	s.enqueue("made between")
	wait(s.t.Context(), short)
	s.release(got.Lease)
	s.takes("made between", "r")
}

func readyGivenUp(s *subject) {
	lease := s.holdQueued("first", long)
	s.restQueued("second", ago(1))
	s.suspend(lease, 1, ago(2))
	s.restQueued("future", ahead())
	s.takes("first", "second")
}

func readyHeld(s *subject) {
	lease := s.holdQueued("r", long)
	s.appendDue(lease, 1, ahead(), journal.RunSuspended)
	before := time.Now()
	s.send("r", signal("a", "", "1"))
	s.due("r", before)
	s.takes()
	s.release(lease)
	s.takes("r")
}
