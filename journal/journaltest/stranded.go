package journaltest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

func strandedRules() []rule {
	return []rule{
		{"a run that has been ready for longer is stranded, whatever its program", strandedAny},
		{"a run that has not been ready for so long is not", strandedSoon},
		{"a run that is not ready is not", strandedWaits},
		{"a run whose program was announced in that time is not", strandedAnnounced},
		{"a run whose program was announced for another queue is", strandedElsewhere},
		{"a program that is announced again was announced then", strandedAgain},
		{"an announcement that is older is none", strandedLater},
		{"not more than Limit are taken, the oldest first", strandedLimit},
	}
}

// hour is how long runs have waited that are stranded.
const hour = time.Hour

func (s *subject) stranded(t journal.Take, waited time.Duration) []journal.Taken {
	s.t.Helper()
	taken, err := s.queue().TakeStranded(s.t.Context(), t, waited)
	require.NoError(s.t, err)
	return taken
}

// strands holds that these runs are stranded, in this order, and takes them. The programs it asks for mean nothing.
func (s *subject) strands(runs ...string) []journal.Taken {
	s.t.Helper()
	taken := s.stranded(upTo(100), hour)
	require.Equal(s.t, append([]string{}, runs...), takenIDs(taken))
	return taken
}

func (s *subject) announce(queue string, programs ...journal.Program) {
	s.t.Helper()
	require.NoError(s.t, s.queue().Announce(s.t.Context(), queue, programs))
}

// enqueueOf makes a run of a program that has been ready for some hours.
func (s *subject) enqueueOf(run string, p journal.Program, hours int) {
	s.t.Helper()
	n := queued(run)
	n.Run.Kind, n.Run.Name, n.Run.Version, n.Run.Fingerprint = p.Kind, p.Name, p.Version, p.Fingerprint
	n.Due = ago(hours)
	s.make(n)
}

// alike are programs each of which is the first one but for one field.
func alike() []journal.Program {
	return []journal.Program{
		{Kind: journal.GraphRun, Name: "n", Version: "v", Fingerprint: "f"},
		{Kind: journal.WorkflowRun, Name: "n", Version: "v", Fingerprint: "f"},
		{Kind: journal.GraphRun, Name: "m", Version: "v", Fingerprint: "f"},
		{Kind: journal.GraphRun, Name: "n", Version: "w", Fingerprint: "f"},
		{Kind: journal.GraphRun, Name: "n", Version: "v", Fingerprint: "g"},
	}
}

func strandedAny(s *subject) {
	for i, p := range alike() {
		s.enqueueOf(name(i), p, 10-i)
	}
	s.restQueued("rests", ago(3))
	other := queued("of another queue")
	other.Run.Queue, other.Due = "q2", ago(5)
	s.make(other)
	n := begun("of no queue")
	n.Due = ago(5)
	s.make(n)
	taken := s.strands(name(0), name(1), name(2), name(3), name(4), "rests")
	for _, got := range taken {
		assert.Equal(s.t, s.load(got.Run.ID), got.Run)
		assert.Equal(s.t, "taker", got.Lease.Owner)
		s.append(got.Lease, got.Lease.Head, end(journal.RunError))
	}
	s.strands()
}

func strandedSoon(s *subject) {
	s.enqueue("r")
	s.restQueued("rests", time.Now().Add(-hour/2))
	s.strands()
	assert.Equal(s.t, []string{"rests"}, takenIDs(s.stranded(upTo(5), hour/4)))
	got := s.soon(1, func() []journal.Taken { return s.stranded(upTo(5), 50*short) })[0]
	assert.Equal(s.t, "r", got.Run.ID)
	assert.Equal(s.t, journal.Pending, got.Was)
}

func strandedWaits(s *subject) {
	s.holdQueued("held", long)
	s.enqueueDue("later", ahead())
	s.restQueued("rests", time.Time{})
	s.restQueued("sleeps", ahead())
	s.make(queued("over", end(journal.RunComplete)))
	wait(s.t.Context(), 5*short)
	assert.Empty(s.t, s.stranded(upTo(5), 0))
	s.holdQueued("lapsed", short)
	got := s.soon(1, func() []journal.Taken { return s.stranded(upTo(5), short) })[0]
	assert.Equal(s.t, "lapsed", got.Run.ID)
	assert.Equal(s.t, journal.Running, got.Was)
}

func strandedAnnounced(s *subject) {
	programs := alike()
	for i, p := range programs {
		s.enqueueOf(name(i), p, 10-i)
	}
	s.second().announce(inQueue, programs[0], journal.Program{Name: "of nobody"})
	s.strands(name(1), name(2), name(3), name(4))
	s.enqueueOf("more", programs[1], 2)
	s.announce(inQueue, programs[1:]...)
	s.announce(inQueue)
	s.strands()
	t := upTo(5)
	t.Programs = programs
	assert.Equal(s.t, []string{name(0), "more"}, takenIDs(s.take(t)), "a worker takes them")
}

func strandedElsewhere(s *subject) {
	s.enqueueOf("r", alike()[0], 2)
	s.announce("q2", alike()...)
	s.announce("Q", alike()...)
	s.strands("r")
}

// strandedAgain announces twice and looks in the time between the two. A slow machine may not get to it in time.
func strandedAgain(s *subject) {
	const waited = 150 * time.Millisecond
	p := alike()[0]
	s.announce(inQueue, p)
	for round := range 10 {
		s.enqueueOf(name(round), p, 2)
		wait(s.t.Context(), waited)
		begin := time.Now()
		s.announce(inQueue, p)
		taken := s.stranded(upTo(5), waited)
		if time.Since(begin) < waited {
			assert.Empty(s.t, taken)
			return
		}
	}
}

func strandedLater(s *subject) {
	s.enqueueOf("r", alike()[0], 2)
	s.announce(inQueue, alike()[0])
	s.strands()
	s.soon(1, func() []journal.Taken { return s.stranded(upTo(5), 50*short) })
}

func strandedLimit(s *subject) {
	for i, p := range alike() {
		s.enqueueOf(name(i), p, i+2)
	}
	assert.Empty(s.t, s.stranded(upTo(0), hour))
	assert.Equal(s.t, []string{name(4), name(3)}, takenIDs(s.stranded(upTo(2), hour)))
	held := upTo(10)
	held.Held = 3
	assert.Equal(s.t, []string{name(2)}, takenIDs(s.stranded(held, hour)))
	s.strands(name(1), name(0))
}
