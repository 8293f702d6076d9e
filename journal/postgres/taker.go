package postgres

import (
	"slices"
	"sync"
	"time"
)

// taker is the committer that takes runs for workers. It has a connection of its own, so that no append waits for it, and is
// made when it is first needed.
type taker struct {
	mu sync.Mutex
	c  *committer
	// busy is held while runs are taken, until their committers have been told.
	busy sync.Mutex
	// lost is when a holder was first seen without its session; for the committer only.
	lost map[int64]time.Time
}

// reunion is how long a store that has lost its session has to make another one and rename its leases, before its runs are
// taken for those of a process that has died. After a restart of the server all stores have lost theirs.
const reunion = 2 * time.Second

// witness remembers holders without a session. None gets it back.
func (t *taker) witness(holders []int64) {
	const most = 4096
	if len(t.lost) > most || t.lost == nil {
		t.lost = map[int64]time.Time{}
	}
	for _, holder := range holders {
		if t.lost[holder].IsZero() {
			t.lost[holder] = time.Now()
		}
	}
}

// gone returns the holders that are given up on.
func (t *taker) gone() []int64 {
	list := make([]int64, 0, len(t.lost))
	for holder, since := range t.lost {
		if time.Since(since) > reunion {
			list = append(list, holder)
		}
	}
	return list
}

func (t *taker) start(s *Store) *committer {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.c == nil {
		t.c = startCommitter(s, nil)
	}
	return t.c
}

func (t *taker) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.c != nil {
		t.c.close()
		t.c = nil
	}
}

// arrival is a lease that was taken, and that the committer of its run does not know of yet.
type arrival struct {
	run    string
	holder int64 // the session's lock that it names
	lease  lease
}

// expect tells a committer of a lease. It learns it before any call of whoever gets the lease.
func (c *committer) expect(a arrival) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrivals = append(c.arrivals, a)
}

// welcome makes leases that were taken known.
func (c *committer) welcome(arrivals []arrival) {
	for i := range arrivals {
		a := &arrivals[i]
		if l := c.tx.leases[a.run]; l == nil || l.token < a.lease.token {
			c.tx.leases[a.run] = &a.lease
		}
		if a.holder != c.holder && !slices.Contains(c.former, a.holder) {
			c.former = append(c.former, a.holder)
		}
	}
}

// arriving reports whether this store has taken a run, and its committer has not been told.
func (s *Store) arriving(st *runState) bool {
	s.taker.busy.Lock() // what is being taken now has been handed over then
	c := s.committer(st.id)
	c.mu.Lock()
	is := slices.ContainsFunc(c.arrivals, func(a arrival) bool { return a.lease.token == st.token })
	c.mu.Unlock()
	s.taker.busy.Unlock()
	return is
}
