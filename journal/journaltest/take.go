package journaltest

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

func takeRules() []rule {
	return []rule{
		{"a run is taken as Acquire takes it", takeAcquires},
		{"a run that is taken is not taken again", takeOnce},
		{"runs of another queue are left alone, and those of none always", takeQueue},
		{"a program is the same in every field, or it is another", takePrograms},
		{"not more than Limit are taken, and none below 1", takeLimit},
		{"those that have been ready longest come first, whatever their status", takeOrder},
		{"those that were ready at the same time come in the order of their creation", takeTies},
		{"a pending run is not taken before its Due, and keeps it until then", takeDue},
		{"a run whose Due comes is taken from then on", takeDelayed},
		{"a suspended run without a Due is not taken", takeSuspended},
		{"a run that somebody holds is not taken, whatever its status, not even by its owner", takeHeld},
		{"a run whose lease has lapsed is taken, and was running", takeLapsed},
		{"a run that has ended is not taken", takeEnded},
		{"a run that is deleted is not taken", takeDeleted},
		{"many takers get each run once, and all of them", takeMany},
		{"a run that one takes and another acquires is had by one", takeOrAcquire},
		{"a run whose owner is gone is taken with Orphans only", takeOrphans},
	}
}

func takeAcquires(s *subject) {
	n := queued("r", step(1))
	n.Run.Thread, n.Run.Link, n.Run.Dedup = "t", journal.Link{Kind: journal.ChildOf, Run: "p"}, "k"
	s.make(n)
	before := s.load("r")
	got := s.takes("r")[0]
	lease := got.Lease
	assert.Equal(s.t, journal.Lease{Run: "r", Token: lease.Token, Owner: "taker", Until: lease.Until, Head: 2}, lease)
	assert.Positive(s.t, lease.Token)
	assert.WithinDuration(s.t, time.Now().Add(long), lease.Until, near)
	assert.Equal(s.t, journal.Pending, got.Was)

	r := s.load("r")
	assert.Equal(s.t, r, got.Run)
	assert.False(s.t, r.Updated.Before(before.Updated))
	want := before
	want.Status, want.Owner, want.Until, want.Updated = journal.Running, lease.Owner, lease.Until, r.Updated
	assert.Equal(s.t, want, r)
	_, err := s.store.Acquire(s.t.Context(), "r", claim("second"))
	s.locked(lease, err)
	s.append(lease, 2, step(2))
	s.release(lease)

	again := s.takes("r")[0].Lease
	assert.Greater(s.t, again.Token, lease.Token)
	assert.EqualValues(s.t, 3, again.Head)
	s.refused("r", journal.ErrFenced, s.try(lease, 3, step(3)))
	s.append(again, 3, step(3))
}

func takeOnce(s *subject) {
	s.enqueue("a", "b")
	s.takes("a", "b")
	s.takes()
	t := upTo(5)
	t.Claim.Owner = "second"
	assert.Empty(s.t, s.take(t))
}

func takeQueue(s *subject) {
	for _, queue := range []string{"", "q2", "Q", "q ", inQueue} {
		n := queued("in " + queue)
		n.Run.Queue = queue
		s.make(n)
	}
	none := upTo(5)
	none.Queue = ""
	taken, _ := s.queue().Take(s.t.Context(), none) // a store may find fault with it
	assert.Empty(s.t, taken)
	s.takes("in q")
	other := upTo(5)
	other.Queue = "q2"
	assert.Equal(s.t, []string{"in q2"}, takenIDs(s.take(other)))
	assert.Equal(s.t, journal.Pending, s.load("in ").Status)
}

func takePrograms(s *subject) {
	programs := []journal.Program{
		{Kind: journal.GraphRun, Name: "n", Version: "v", Fingerprint: "f"},
		{Kind: journal.WorkflowRun, Name: "n", Version: "v", Fingerprint: "f"},
		{Kind: journal.GraphRun, Name: "N", Version: "v", Fingerprint: "f"},
		{Kind: journal.GraphRun, Name: "n", Version: "", Fingerprint: "f"},
		{Kind: journal.GraphRun, Name: "n", Version: "v", Fingerprint: ""},
		{Kind: journal.GraphRun, Name: "n", Version: "f", Fingerprint: "v"},
		{Kind: journal.GraphRun, Name: "nv", Version: "", Fingerprint: "f"},
		{Kind: journal.GraphRun, Name: "n\x00v", Version: "", Fingerprint: "f"},
		{},
	}
	for i, p := range programs {
		n := queued(name(i))
		n.Run.Kind, n.Run.Name, n.Run.Version, n.Run.Fingerprint = p.Kind, p.Name, p.Version, p.Fingerprint
		s.make(n)
	}
	t := upTo(100)
	t.Programs = nil
	assert.Empty(s.t, s.take(t))
	for i, p := range programs[:5] {
		t.Programs = []journal.Program{p, {Name: "of nobody"}, p}
		taken := s.take(t)
		require.Equal(s.t, []string{name(i)}, takenIDs(taken))
		assert.Equal(s.t, p, taken[0].Run.Program())
	}
	t.Programs = slices.Concat(programs[5:], programs[:2])
	assert.Equal(s.t, []string{name(5), name(6), name(7), name(8)}, takenIDs(s.take(t)))
}

func takeLimit(s *subject) {
	s.enqueue("a", "b", "c", "d", "e")
	assert.Empty(s.t, s.take(upTo(0)))
	assert.Empty(s.t, s.take(upTo(-1)))
	assert.Equal(s.t, []string{"a"}, takenIDs(s.take(upTo(1))))
	assert.Equal(s.t, []string{"b", "c", "d"}, takenIDs(s.take(upTo(3))))
	assert.Equal(s.t, []string{"e"}, takenIDs(s.take(upTo(3))))
}

func takeOrder(s *subject) {
	s.holdQueued("lapsed", short)
	s.lapsed("lapsed")
	s.enqueue("made later")
	s.restQueued("due before", ago(3))
	s.enqueueDue("ready before", ago(2))
	s.restQueued("due last", ago(1))
	n := begunBy("of another queue", "first")
	n.Run.Queue = "q2"
	s.make(n)
	assert.Equal(s.t, []string{"due before", "ready before"}, takenIDs(s.take(upTo(2))))
	taken := s.takes("due last", "lapsed", "made later")
	assert.Equal(s.t, []journal.Status{journal.Suspended, journal.Running, journal.Pending},
		[]journal.Status{taken[0].Was, taken[1].Was, taken[2].Was})
}

func takeTies(s *subject) {
	due := ago(1)
	for _, run := range []string{"d", "b", "c", "a"} {
		s.enqueueDue(run, due)
	}
	assert.Equal(s.t, []string{"d", "b"}, takenIDs(s.take(upTo(2))))
	s.takes("c", "a")
}

func takeDue(s *subject) {
	due := ahead()
	s.enqueueDue("r", due)
	s.restQueued("rests", due)
	requeued := s.holdQueued("requeued", long)
	s.appendDue(requeued, 1, due, journal.RunRequeued)
	s.release(requeued)
	s.takes()
	for _, run := range []string{"r", "rests", "requeued"} {
		assert.Equal(s.t, kept(due), s.load(run).Due, run)
	}
	assert.Equal(s.t, journal.Pending, s.load("r").Status)

	n := queued("held")
	n.Due, n.Claim = due, claim("first")
	s.make(n)
	assert.Zero(s.t, s.load("held").Due, "it has begun")
	s.acquire("r", "first")
	assert.Zero(s.t, s.load("r").Due, "and may begin at any time for who asks for it by name")
	s.enqueueDue("over", ago(1))
	assert.NotZero(s.t, s.load("over").Due)
	assert.Zero(s.t, s.takes("over")[0].Run.Due)
}

func takeDelayed(s *subject) {
	const delay = 100 * time.Millisecond
	s.enqueueDue("r", time.Now().Add(delay))
	s.restQueued("rests", time.Now().Add(delay))
	for _, got := range s.takesSoon(upTo(5), 2) {
		due := map[string]journal.Status{"r": journal.Pending, "rests": journal.Suspended}
		assert.Equal(s.t, due[got.Run.ID], got.Was)
	}
	n := queued("later")
	n.Due = time.Now().Add(delay)
	s.make(n)
	due := s.load("later").Due
	taken := s.takesSoon(upTo(5), 1)
	assert.False(s.t, taken[0].Run.Updated.Before(due), "by the store's clock")
}

func takeSuspended(s *subject) {
	s.restQueued("r", time.Time{})
	s.takes()
	assert.Equal(s.t, journal.Suspended, s.load("r").Status)
}

func takeHeld(s *subject) {
	for _, run := range []string{"running", "pending", "rests"} {
		s.holdQueued(run, long)
	}
	held := []journal.Lease{s.acquire("pending", "first"), s.acquire("rests", "first")}
	s.append(held[0], 1, end(journal.RunRequeued))
	s.appendDue(held[1], 1, ago(1), journal.RunSuspended)
	for _, owner := range []string{"second", "first"} {
		t := upTo(5)
		t.Claim.Owner, t.Orphans = owner, true
		assert.Empty(s.t, s.take(t), owner)
	}
	s.append(held[0], 2, step(1))
	s.release(held[0])
	s.release(held[1])
	taken := s.takes("rests", "pending")
	assert.Equal(s.t, []journal.Status{journal.Suspended, journal.Pending}, []journal.Status{taken[0].Was, taken[1].Was})
}

func takeLapsed(s *subject) {
	old := s.holdQueued("r", short)
	got := s.takesSoon(upTo(5), 1)[0]
	assert.Equal(s.t, journal.Running, got.Was)
	assert.Greater(s.t, got.Lease.Token, old.Token)
	assert.Equal(s.t, s.load("r"), got.Run)
	s.append(got.Lease, 1, step(1))
	s.refused("r", journal.ErrFenced, s.try(old, 2, step(2)))
	_, err := s.store.Renew(s.t.Context(), old, long)
	s.refused("r", journal.ErrFenced, err)
}

func takeEnded(s *subject) {
	for kind := range terminals() {
		s.make(queued("made "+string(kind), end(kind)))
		s.append(s.holdQueued(string(kind), short), 1, end(kind))
		s.lapsed(string(kind))
	}
	s.takes()
}

func takeDeleted(s *subject) {
	d, ok := s.store.(journal.Deleter)
	if !ok {
		return
	}
	s.enqueue("a", "b", "c")
	require.NoError(s.t, d.Delete(s.t.Context(), "b"))
	s.takes("a", "c")
}

func takeMany(s *subject) {
	const takers = 8
	runs := size(200, 60)
	both := s.handles()
	for n := range runs {
		s.enqueue(name(n))
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), s.patience())
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	owners := map[string]string{}
	for n := range takers {
		owner := strconv.Itoa(n)
		mine := both[n%2].queue()
		all.Go(func() {
			t := upTo(n%4 + 1)
			t.Claim.Owner = owner
			for misses := 0; misses < 3; { // it may be told of none while others take them
				taken, err := mine.Take(ctx, t)
				if !assert.NoError(s.t, err) {
					return
				}
				if len(taken) == 0 {
					misses++
				}
				mu.Lock()
				for _, got := range taken {
					if !assert.Empty(s.t, owners[got.Run.ID], "%s was taken twice", got.Run.ID) {
						misses = 3
					}
					owners[got.Run.ID] = owner
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for _, got := range s.take(upTo(runs)) {
		owners[got.Run.ID] = got.Lease.Owner
	}
	assert.Len(s.t, owners, runs)
	for run, owner := range owners {
		assert.Equal(s.t, owner, s.load(run).Owner)
	}
}

func takeOrAcquire(s *subject) {
	both := s.handles()
	for round := range size(50, 10) {
		run := name(round)
		s.enqueue(run)
		var taken []journal.Taken
		var lease journal.Lease
		var errs [2]error
		var all sync.WaitGroup
		start := make(chan struct{})
		all.Go(func() {
			<-start
			taken, errs[0] = both[0].queue().Take(s.t.Context(), upTo(1))
		})
		all.Go(func() {
			<-start
			lease, errs[1] = both[1].store.Acquire(s.t.Context(), run, claim("second"))
		})
		close(start)
		all.Wait()
		require.NoError(s.t, errs[0])
		if len(taken) == 0 {
			require.NoError(s.t, errs[1])
			both[1].append(lease, 1, step(1))
			continue
		}
		both[1].locked(taken[0].Lease, errs[1])
		both[0].append(taken[0].Lease, 1, step(1))
	}
}

func takeOrphans(s *subject) {
	s.holdQueued("alive", long)
	t := upTo(5)
	t.Orphans = true
	assert.Empty(s.t, s.take(t))
	if s.h.Kill == nil {
		return
	}
	other := s.second()
	s.enqueue("orphan")
	lease := other.takes("orphan")[0].Lease
	other.append(lease, 1, step(1))
	other.hold("of no queue")
	n := begunBy("of another program", "first")
	n.Run.Queue, n.Run.Name = inQueue, "x"
	other.make(n)
	n = begunBy("of another queue", "first")
	n.Run.Queue = "q2"
	other.make(n)
	assert.Empty(s.t, s.take(t), "its owner lives")

	s.h.Kill(s.t, other.store)
	s.lapsed("orphan")
	s.takes()
	got := s.takesSoon(t, 1)[0]
	assert.Equal(s.t, "orphan", got.Run.ID)
	assert.Equal(s.t, journal.Running, got.Was)
	assert.Greater(s.t, got.Lease.Token, lease.Token)
	s.append(got.Lease, 2, step(2))
	assert.Empty(s.t, s.take(t))
}
