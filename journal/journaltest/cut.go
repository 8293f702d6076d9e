package journaltest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

func reopenRules() []rule {
	return []rule{
		{"all is there as it was", reopenAll},
		{"a run goes on under a new lease with a larger token", reopenGoesOn},
		{"a lease that was not given up stops others only for its time", reopenHeld},
		{"the order of a list stays", reopenList},
		{"a queue stays, and who was announced for it", reopenQueue},
	}
}

func reopenAll(s *subject) {
	lease := s.hold("r", steps(1, 3)...)
	for n := range 10 {
		s.append(lease, int64(4+n*2), step(n), everything())
	}
	s.send("r", signal("a", "k", "1"))
	s.suspend(lease, 24, noon())
	s.create("free")
	s.create("new", end(journal.RunError))
	before := s.pictures()
	for range 3 {
		s = s.reopen()
		assert.Equal(s.t, before, s.pictures())
	}
	assert.EqualValues(s.t, 1, s.send("r", signal("a", "k", "2")).Seq)
	assert.EqualValues(s.t, 2, s.send("r", signal("a", "", "2")).Seq)
}

func reopenGoesOn(s *subject) {
	old := s.hold("r")
	s.append(old, 1, step(1))
	s.release(old)
	s = s.reopen()
	lease := s.acquire("r", "second")
	assert.Greater(s.t, lease.Token, old.Token)
	assert.EqualValues(s.t, 2, lease.Head)
	s.refused("r", journal.ErrFenced, s.try(old, 2, step(2)))
	s.append(lease, 2, step(2))
}

func reopenHeld(s *subject) {
	old := s.holdFor("r", 50*short)
	s.append(old, 1, step(1))
	s = s.reopen()
	lease := s.takeOver("r", "second")
	assert.Greater(s.t, lease.Token, old.Token)
	s.refused("r", journal.ErrFenced, s.try(old, 2, step(2)))
	s.append(lease, 2, step(2))
}

func reopenList(s *subject) {
	if _, ok := s.store.(journal.Lister); !ok {
		return
	}
	s.createMany(0, 7)
	page := s.list(journal.Query{Limit: 3})
	s = s.reopen()
	s.createMany(7, 3)
	assert.Equal(s.t, names(0, 10), s.found(journal.Query{}))
	assert.Equal(s.t, names(0, 4), s.found(journal.Query{Cursor: page.Next}), "a cursor of the time before")
}

func reopenQueue(s *subject) {
	if _, ok := s.store.(journal.Queue); !ok {
		return
	}
	s.restQueued("due before", ago(3))
	s.enqueueOf("ready before", program(), 2)
	s.enqueueOf("of another program", alike()[0], 4)
	s.enqueueDue("later", ahead())
	s.restQueued("waits", time.Time{})
	n := queued("has a key")
	n.Run.Dedup = "k"
	s.make(n)
	s.announce(inQueue, program())
	s = s.reopen()
	s.strands("of another program")
	s.duplicate(keyed("another", "k"), "has a key")
	s.send("waits", signal("a", "", "1"))
	s.takes("due before", "ready before", "has a key", "waits")
}

func cutRules(cuts []Cut) []rule {
	rules := make([]rule, 0, 3*len(cuts))
	for _, cut := range cuts {
		rules = append(rules,
			rule{"each change " + cut.Name, func(s *subject) { cutEach(s, cut) }},
			rule{"many writers " + cut.Name, func(s *subject) { cutMany(s, cut) }},
			rule{"a take is lost to nobody " + cut.Name, func(s *subject) { cutTake(s, cut) }},
		)
	}
	return rules
}

// cutEach cuts off each change there is, on a store of its own. The store it is given shows what the changes are.
func cutEach(s *subject, cut Cut) {
	for i, c := range changes(s.store, journal.Lease{}) {
		s.t.Run(c.name, func(t *testing.T) {
			whole := &subject{t: t, h: s.h, store: s.h.Open(t)}
			do := whole.prepare(i)
			before := whole.outlines()
			require.NoError(t, do())
			cutOne(&subject{t: t, h: s.h, store: s.h.Open(t)}, cut, i, before, whole.outlines())
		})
	}
}

// cutOne cuts off a change. What is there afterwards is what was there before, or what an uncut store makes of it.
func cutOne(s *subject, cut Cut, change int, before, after [3]outline) {
	do := s.prepare(change)
	cut.Arm(s.t, s.store)
	down := s.unavailable(do())
	_, err := s.store.Load(s.t.Context(), "r")
	_ = s.unavailable(err)

	s = s.reopen()
	got := s.outlines()
	undone, before := unowned(got, before)
	done, after := unowned(got, after)
	switch cut.When {
	case Before:
		assert.Equal(s.t, before, undone)
	case After:
		assert.Equal(s.t, after, done)
	case Inside:
		assert.True(s.t, undone == before || done == after, "%v is neither %v nor %v", got, before, after)
	}
	assert.True(s.t, down.Unknown || done != after || undone == before, "it was done, but the error says that it was not")
	s.goOn(got[0])
}

// unowned leaves out who holds the runs of which one side says that nobody does: the lease may have lapsed meanwhile, and its
// holder may be known to be gone.
func unowned(a, b [3]outline) (_, _ [3]outline) {
	for i := range a {
		if a[i].owner == "" || b[i].owner == "" {
			for _, o := range []*outline{&a[i], &b[i]} {
				o.owner, o.renewed = "", false
			}
		}
	}
	return a, b
}

// prepare sets up the runs that changes speak of, and returns one of the changes.
func (s *subject) prepare(change int) func() error {
	s.t.Helper()
	c := changes(s.store, s.holdFor("r", 100*short))[change]
	s.enqueue("free")
	wait(s.t.Context(), short) // it is ready
	return func() error { return c.do(s.t.Context()) }
}

func (s *subject) unavailable(err error) *journal.UnavailableError {
	s.t.Helper()
	var down *journal.UnavailableError
	require.ErrorAs(s.t, err, &down)
	require.ErrorIs(s.t, err, journal.ErrUnavailable)
	return down
}

// outline is what two stores that have been told the same say of a run.
type outline struct {
	there      bool
	status     journal.Status
	owner      string
	renewed    bool
	head       int64
	checkpoint int64
	messages   int
}

// outlines are of all runs that changes speak of.
func (s *subject) outlines() [3]outline {
	s.t.Helper()
	var all [3]outline
	for i, p := range s.pictures() {
		all[i] = outline{
			there: p.there, status: p.run.Status, owner: p.run.Owner, renewed: time.Until(p.run.Until) > long,
			head: p.run.Head, checkpoint: p.run.Checkpoint, messages: len(p.inbox),
		}
		assert.Len(s.t, p.events, int(p.run.Head))
		for n, e := range p.events {
			assert.EqualValues(s.t, n+1, e.Seq)
		}
	}
	return all
}

// goOn does what the next process does with the run "r".
func (s *subject) goOn(r outline) {
	s.t.Helper()
	if !r.renewed && !r.status.Terminal() {
		lease := s.takeOver("r", "next")
		assert.Equal(s.t, r.head, lease.Head)
		s.append(lease, r.head, steps(100, 2)...)
		assert.Len(s.t, s.events("r", r.head), 2)
		assert.EqualValues(s.t, r.messages+1, s.send("r", signal("a", "", "2")).Seq)
	}
	s.append(s.hold("another"), 1, step(1))
}

// cutMany cuts off a write among those of many runs, which may share its transaction.
func cutMany(s *subject, cut Cut) {
	const writers, batch = 20, 3
	var acked [writers]int64
	var total atomic.Int64
	var all sync.WaitGroup
	for n := range writers {
		lease := s.hold(name(n))
		all.Go(func() {
			for acked[n] = 1; ; acked[n] += batch {
				if err := s.try(lease, acked[n], steps(int(acked[n]), batch)...); err != nil {
					assert.ErrorIs(s.t, err, journal.ErrUnavailable)
					return
				}
				total.Add(1)
			}
		})
	}
	for deadline := time.Now().Add(s.patience()); total.Load() < writers && time.Now().Before(deadline); {
		wait(s.t.Context(), short)
	}
	cut.Arm(s.t, s.store)
	all.Wait()

	s = s.reopen()
	for n := range writers {
		p := s.picture(name(n))
		assert.Contains(s.t, []int64{acked[n], acked[n] + batch}, p.run.Head,
			"what was acknowledged is there, and the last write whole or not")
		assert.Equal(s.t, stored(0, started(steps(1, int(p.run.Head)-1)...)...), p.events)
	}
}

// cutTake cuts off a take. What it has taken is ready again once its leases have run out, and nothing else was touched.
func cutTake(s *subject, cut Cut) {
	if _, ok := s.store.(journal.Queue); !ok {
		return
	}
	const runs, limit = 5, 3
	for n := range runs {
		s.enqueue(name(n))
	}
	cut.Arm(s.t, s.store)
	t := upTo(limit)
	t.Claim.TTL = 50 * short
	taken, err := s.queue().Take(s.t.Context(), t)
	down := s.unavailable(err)
	assert.Empty(s.t, taken)

	s = s.reopen()
	running := 0
	for n := range runs {
		if s.load(name(n)).Status == journal.Running {
			running++
		}
	}
	switch cut.When {
	case Before:
		assert.Zero(s.t, running)
	case After:
		assert.Equal(s.t, limit, running)
	case Inside:
		assert.Contains(s.t, []int{0, limit}, running)
	}
	assert.True(s.t, down.Unknown || running == 0, "it was done, but the error says that it was not")
	t = upTo(runs)
	t.Orphans = true
	again := 0
	for _, got := range s.takesSoon(t, runs) {
		if got.Was == journal.Running {
			again++
		}
		s.append(got.Lease, 1, step(1))
	}
	assert.Equal(s.t, running, again)
}
