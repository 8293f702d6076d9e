package journaltest

import (
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

func heldRules() []rule {
	return []rule{
		{"not more than Held runs of the queue are held at once, by all owners together", heldMost},
		{"runs of other queues, and those that wait, do not count", heldOthers},
		{"runs whose leases have lapsed do not count", heldLapsed},
		{"many takers together hold no more than that", heldMany},
	}
}

// upToHeld is what workers want of a queue with a limit.
func upToHeld(held int) journal.Take {
	t := upTo(100)
	t.Held = held
	return t
}

func heldMost(s *subject) {
	s.enqueue("a", "b", "c", "d", "e", "f")
	taken := s.take(upToHeld(3))
	require.Equal(s.t, []string{"a", "b", "c"}, takenIDs(taken))
	for held := 1; held <= 3; held++ {
		assert.Empty(s.t, s.second().take(upToHeld(held)))
	}
	second := upToHeld(4)
	second.Claim.Owner = "second"
	assert.Equal(s.t, []string{"d"}, takenIDs(s.second().take(second)), "each taker gives a number of its own")
	s.append(taken[0].Lease, 1, end(journal.RunComplete))
	s.release(taken[1].Lease)
	s.suspend(taken[2].Lease, 1, time.Time{})
	assert.Equal(s.t, []string{"e", "f"}, takenIDs(s.take(upToHeld(3))))
	assert.Empty(s.t, s.take(upToHeld(3)))
	assert.Equal(s.t, []string{"b"}, takenIDs(s.take(upToHeld(0))))
}

func heldOthers(s *subject) {
	s.hold("of no queue")
	n := begunBy("of another queue", "first")
	n.Run.Queue = "q2"
	s.make(n)
	s.restQueued("rests", ahead())
	s.enqueueDue("later", ahead())
	another := queued("of another program")
	another.Run.Name, another.Claim = "x", claim("first")
	s.enqueue("a", "b")
	assert.Equal(s.t, []string{"a"}, takenIDs(s.take(upToHeld(1))))
	s.make(another)
	assert.Empty(s.t, s.take(upToHeld(2)), "the programs of a queue have its limit in common")
	assert.Equal(s.t, []string{"b"}, takenIDs(s.take(upToHeld(3))))
}

func heldLapsed(s *subject) {
	s.enqueue("a", "b", "c")
	t := upToHeld(1)
	t.Claim.TTL = 5 * short
	require.Len(s.t, s.take(t), 1)
	s.lapsed("a")
	got := s.take(upToHeld(1))
	assert.Equal(s.t, []string{"b"}, takenIDs(got), "it has been ready for longer")
	s.release(got[0].Lease)
	assert.Equal(s.t, []string{"c"}, takenIDs(s.take(upToHeld(1))))
}

func heldMany(s *subject) {
	const takers, most = 8, 3
	both := s.handles()
	for n := range 2 * takers {
		s.enqueue(name(n))
	}
	for round := range size(10, 4) {
		var mu sync.Mutex
		var all sync.WaitGroup
		var held [2][]journal.Taken
		start := make(chan struct{})
		for n := range takers {
			all.Go(func() {
				<-start
				t := upToHeld(most)
				t.Limit = n%3 + 1
				taken, err := both[n%2].queue().Take(s.t.Context(), t)
				assert.NoError(s.t, err)
				mu.Lock()
				defer mu.Unlock()
				held[n%2] = append(held[n%2], taken...)
			})
		}
		close(start)
		all.Wait()
		require.LessOrEqual(s.t, len(held[0])+len(held[1]), most, "round %d", round)
		held[0] = append(held[0], s.take(upToHeld(most))...)
		require.Equal(s.t, most, len(held[0])+len(held[1]), "as many as may be")
		for i, list := range held {
			for _, got := range list {
				both[i].release(got.Lease)
			}
		}
	}
}
