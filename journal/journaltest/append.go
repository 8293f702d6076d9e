package journaltest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

func appendRules() []rule {
	return []rule{
		{"events stand behind the last one, in order and numbered without a gap", appendOrder},
		{"what is not behind the last event is refused with ErrConflict", appendConflict},
		{"the same again is a success and writes nothing", appendAgain},
		{"the same again is a success however it was cut into batches", appendAgainInOtherBatches},
		{"the same again is a success after the end too", appendAgainAfterEnd},
		{"other content at the same place is refused with ErrConflict", appendOther},
		{"more than stands there is refused with ErrConflict, whole", appendMore},
		{"a terminal event closes the run and ends the lease", appendTerminal},
		{"an event behind a terminal one of its batch is refused with ErrEnded, whole", appendBehindEnd},
		{"a token that is not the latest is refused with ErrFenced before its time is over", appendFenced},
		{"a token that was never given is refused with ErrFenced", appendForged},
		{"a lapsed lease that nobody has taken is valid", appendLapsed},
		{"a refused batch writes nothing of itself", appendAllOrNothing},
		{ruleUnknown, func(s *subject) {
			s.notFound("nobody", s.try(journal.Lease{Run: "nobody", Token: 1}, 0, step(1)))
		}},
		{"what the caller changes later is not changed in the store", appendCopies},
	}
}

func appendOrder(s *subject) {
	lease := s.hold("r")
	want := stored(0, started()...)
	for n := range 20 {
		batch := append(steps(n*10, n%5+1), everything())
		after := int64(len(want))
		s.append(lease, after, batch...)
		want = append(want, stored(after, batch...)...)
	}
	assert.Equal(s.t, want, s.events("r", 0))
	assert.EqualValues(s.t, len(want), s.load("r").Head)
}

func appendConflict(s *subject) {
	lease := s.hold("r", steps(1, 3)...)
	before := s.picture("r")
	for _, after := range []int64{-1, 0, 1, 3, 5, 1 << 40} {
		s.refused("r", journal.ErrConflict, s.try(lease, after, step(100)))
	}
	s.unchanged("r", before)
	s.append(lease, 4, step(4))
}

func appendAgain(s *subject) {
	lease := s.hold("r")
	batch := append(steps(1, 2), everything())
	s.append(lease, 1, batch...)
	s.append(lease, 4, step(3))
	before := s.picture("r")
	s.append(lease, 1, batch...)
	s.append(lease, 4, step(3))
	s.unchanged("r", before)
	s.append(lease, 5, step(4))
}

func appendAgainInOtherBatches(s *subject) {
	lease := s.hold("r")
	s.append(lease, 1, steps(1, 2)...)
	s.append(lease, 3, steps(3, 2)...)
	before := s.picture("r")
	s.append(lease, 1, steps(1, 4)...)
	s.append(lease, 2, steps(2, 2)...)
	s.append(lease, 3, step(3))
	s.append(lease, 0, started(step(1))...)
	s.unchanged("r", before)
}

func appendAgainAfterEnd(s *subject) {
	lease := s.hold("r")
	s.append(lease, 1, step(1), end(journal.RunComplete))
	before := s.picture("r")
	s.append(lease, 1, step(1), end(journal.RunComplete))
	s.append(lease, 2, end(journal.RunComplete))
	s.unchanged("r", before)
}

func appendOther(s *subject) {
	lease := s.hold("r")
	s.append(lease, 1, everything(), step(1))
	before := s.picture("r")
	for _, change := range []func(e *journal.Event){
		func(e *journal.Event) { e.Kind = journal.StepError },
		func(e *journal.Event) { e.Scope += "x" },
		func(e *journal.Event) { e.Name += "x" },
		func(e *journal.Event) { e.N++ },
		func(e *journal.Event) { e.Time = e.Time.Add(time.Microsecond) },
		func(e *journal.Event) { e.Took++ },
		func(e *journal.Event) { e.Attempts++ },
		func(e *journal.Event) { e.Meta = []byte(`{"a": [1, 2]}`) },
		func(e *journal.Event) { e.Payload = []byte("other") },
		func(e *journal.Event) { e.Meta, e.Payload = e.Payload, e.Meta },
	} {
		other := everything()
		change(&other)
		s.refused("r", journal.ErrConflict, s.try(lease, 1, other))
		s.refused("r", journal.ErrConflict, s.try(lease, 1, other, step(1)))
	}
	s.refused("r", journal.ErrConflict, s.try(lease, 1, step(1), everything()))
	s.unchanged("r", before)
}

func appendMore(s *subject) {
	lease := s.hold("r")
	s.append(lease, 1, steps(1, 2)...)
	before := s.picture("r")
	s.refused("r", journal.ErrConflict, s.try(lease, 1, steps(1, 3)...))
	s.refused("r", journal.ErrConflict, s.try(lease, 2, steps(2, 2)...))
	s.unchanged("r", before)
}

func appendTerminal(s *subject) {
	for kind, status := range terminals() {
		run := string(kind)
		lease := s.hold(run)
		s.append(lease, 1, step(1), end(kind))
		r := s.load(run)
		assert.Equal(s.t, status, r.Status)
		assert.Empty(s.t, r.Owner)
		assert.Zero(s.t, r.Until)
		assert.EqualValues(s.t, 3, r.Head)
		before := s.picture(run)
		s.refused(run, journal.ErrEnded, s.try(lease, 3, step(2)))
		s.refused(run, journal.ErrEnded, s.try(lease, 3, end(kind)))
		s.refused(run, journal.ErrEnded, s.try(lease, 3, started()...))
		s.unchanged(run, before)
	}
}

func appendBehindEnd(s *subject) {
	lease := s.hold("r")
	before := s.picture("r")
	for kind := range terminals() {
		s.refused("r", journal.ErrEnded, s.try(lease, 1, step(1), end(kind), step(2)))
		s.refused("r", journal.ErrEnded, s.try(lease, 1, end(kind), end(kind)))
	}
	s.unchanged("r", before)
	s.append(lease, 1, step(1))
}

func appendFenced(s *subject) {
	old := s.hold("r")
	s.release(old)
	lease := s.acquire("r", "second")
	s.append(lease, 1, step(1))
	before := s.picture("r")
	s.refused("r", journal.ErrFenced, s.try(old, 2, step(2)))
	s.refused("r", journal.ErrFenced, s.try(old, 1, step(1)))
	s.refused("r", journal.ErrFenced, s.try(old, 7, step(1)))
	s.refused("r", journal.ErrFenced, s.try(old, 2, end(journal.RunComplete)))
	s.unchanged("r", before)
}

func appendForged(s *subject) {
	lease := s.hold("r")
	s.create("free")
	for _, token := range []int64{0, -1, lease.Token + 1000, 1 << 62} {
		for _, run := range []string{"r", "free"} {
			s.refused(run, journal.ErrFenced, s.try(journal.Lease{Run: run, Token: token}, 1, step(1)))
		}
	}
}

func appendLapsed(s *subject) {
	lease := s.holdFor("r", short)
	s.lapse(lease)
	s.append(lease, 1, step(1))
	assert.Equal(s.t, journal.Running, s.load("r").Status)
	next := s.takeOver("r", "second")
	assert.EqualValues(s.t, 2, next.Head)
}

func appendAllOrNothing(s *subject) {
	lease := s.hold("r")
	before := s.picture("r")
	s.refused("r", journal.ErrConflict, s.try(lease, 5, append(steps(1, 100), end(journal.RunComplete))...))
	s.refused("r", journal.ErrEnded, s.try(lease, 1, append(steps(1, 100), end(journal.RunComplete), step(1))...))
	s.unchanged("r", before)
}

func appendCopies(s *subject) {
	lease := s.hold("r")
	batch := []journal.Event{everything()}
	s.append(lease, 1, batch...)
	before := s.picture("r")
	clear(batch[0].Payload)
	clear(batch[0].Meta)
	s.unchanged("r", before)
	assert.EqualValues(s.t, 77, batch[0].Seq, "the caller's events are left alone")
}

func recordRules() []rule {
	return []rule{
		{"Head is the last event", func(s *subject) {
			lease := s.hold("r")
			s.append(lease, 1, steps(1, 5)...)
			assert.EqualValues(s.t, 6, s.load("r").Head)
		}},
		{"Checkpoint is the last checkpoint, wherever it stands in its batch", recordCheckpoint},
		{"a suspended run has its Due, one that runs or has ended has none", recordDue},
		{"an append without a run's event leaves status and Updated", recordSteps},
		{"a requeued run is pending, and still held", recordRequeued},
		{"of several events of a run the last one counts", recordLast},
	}
}

func recordCheckpoint(s *subject) {
	lease := s.hold("r")
	assert.Zero(s.t, s.load("r").Checkpoint)
	s.append(lease, 1, step(1), end(journal.Checkpoint), step(2), end(journal.Checkpoint), step(3))
	assert.EqualValues(s.t, 5, s.load("r").Checkpoint)
	s.append(lease, 6, step(4))
	assert.EqualValues(s.t, 5, s.load("r").Checkpoint)
	s.append(lease, 7, end(journal.Checkpoint))
	assert.EqualValues(s.t, 8, s.load("r").Checkpoint)
	assert.Len(s.t, s.events("r", 4), 4)
}

// appendDue appends events of these kinds with a due time.
func (s *subject) appendDue(l journal.Lease, after int64, due time.Time, kinds ...journal.Kind) {
	s.t.Helper()
	a := journal.Append{After: after, Due: due}
	for _, kind := range kinds {
		a.Events = append(a.Events, end(kind))
	}
	require.NoError(s.t, s.store.Append(s.t.Context(), l, a))
}

func recordDue(s *subject) {
	lease := s.hold("r")
	s.appendDue(lease, 1, noon(), journal.StepDone)
	assert.Zero(s.t, s.load("r").Due, "nothing was suspended")
	s.appendDue(lease, 2, noon(), journal.TimerSet, journal.RunSuspended)
	r := s.load("r")
	assert.Equal(s.t, journal.Suspended, r.Status)
	assert.Equal(s.t, kept(noon()), r.Due)
	s.appendDue(lease, 4, time.Time{}, journal.StepDone)
	assert.Equal(s.t, kept(noon()), s.load("r").Due, "it is suspended still")
	s.appendDue(lease, 5, time.Time{}, journal.RunSuspended)
	assert.Zero(s.t, s.load("r").Due, "it waits for a message only")
	s.appendDue(lease, 6, noon(), journal.RunSuspended)
	s.appendDue(lease, 7, time.Time{}, journal.RunRequeued)
	assert.Zero(s.t, s.load("r").Due)
	s.appendDue(lease, 8, noon(), journal.RunSuspended)
	s.appendDue(lease, 9, noon(), journal.RunComplete)
	assert.Zero(s.t, s.load("r").Due)
}

func recordSteps(s *subject) {
	lease := s.hold("r")
	before := s.load("r")
	wait(s.t.Context(), short)
	s.append(lease, 1, steps(1, 3)...)
	want := before
	want.Head = 4
	assert.Equal(s.t, want, s.load("r"))

	wait(s.t.Context(), short)
	s.append(lease, 4, end(journal.RunComplete))
	after := s.load("r")
	assert.True(s.t, after.Updated.After(before.Updated))
	assert.Equal(s.t, before.Created, after.Created)
}

func recordRequeued(s *subject) {
	lease := s.hold("r")
	s.append(lease, 1, end(journal.RunRequeued))
	assert.Equal(s.t, journal.Pending, s.load("r").Status)
	_, err := s.store.Acquire(s.t.Context(), "r", claim("second"))
	s.locked(lease, err)
	s.release(lease)
	assert.Equal(s.t, journal.Pending, s.load("r").Status)
	s.acquire("r", "second")
}

func recordLast(s *subject) {
	lease := s.hold("r")
	s.appendDue(lease, 1, noon(), journal.RunRequeued, journal.RunSuspended, journal.StepDone)
	r := s.load("r")
	assert.Equal(s.t, journal.Suspended, r.Status)
	assert.Equal(s.t, kept(noon()), r.Due)
	s.appendDue(lease, 4, noon(), journal.RunSuspended, journal.RunComplete)
	assert.Equal(s.t, journal.Completed, s.load("r").Status)
}
