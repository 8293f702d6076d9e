package journaltest

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

func concurrencyRules() []rule {
	return []rule{
		{"of 100 writers on 100 runs nothing is lost, and each run is in order", manyWriters},
		{"a refused append fails only its own run", manyRefusals},
		{"of many that create one run one wins", manyCreators},
		{"of two owners that race for a run one wins each time", manyOwners},
		{"an owner that has lost its lease never writes again", staleOwner},
		{"of two appends at the same place one wins", sameOwnerTwice},
		{"messages of many senders are numbered without a gap, and count once a key", manySenders},
		{"who reads while others write sees a beginning of the journal", manyReaders},
	}
}

// name is the id of the n-th run of a test.
func name(n int) string { return fmt.Sprintf("run-%d", n) }

// size is how much a test does: less of it in a short run.
func size(all, short int) int {
	if testing.Short() {
		return short
	}
	return all
}

// handles are this store and, if there can be one, another on the same data.
func (s *subject) handles() [2]*subject { return [2]*subject{s, s.second()} }

func manyWriters(s *subject) {
	const runs = 100
	each := size(20, 5)
	both := s.handles()
	var all sync.WaitGroup
	for n := range runs {
		mine := both[n%2]
		all.Go(func() {
			lease, err := mine.store.Create(s.t.Context(), begunBy(name(n), "w"))
			if !assert.NoError(s.t, err) {
				return
			}
			after := int64(1)
			for i := range each {
				batch := steps(i*10, i%3+1)
				if !assert.NoError(s.t, mine.try(lease, after, batch...)) {
					return
				}
				after += int64(len(batch))
			}
		})
	}
	all.Wait()
	want := stored(0, started()...)
	for i := range each {
		want = append(want, stored(int64(len(want)), steps(i*10, i%3+1)...)...)
	}
	for n := range runs {
		require.Equal(s.t, want, both[(n+1)%2].events(name(n), 0))
		require.EqualValues(s.t, len(want), s.load(name(n)).Head)
	}
}

func begunBy(run, owner string) journal.NewRun {
	n := begun(run)
	n.Claim = claim(owner)
	return n
}

// manyRefusals writes to many runs at once, of which every fourth is fenced, the next in conflict, the next at its end.
func manyRefusals(s *subject) {
	const runs = 100
	rounds := size(10, 3)
	leases := make([]journal.Lease, runs)
	for n := range runs {
		leases[n] = s.hold(name(n))
	}
	for n := 0; n < runs; n += 4 {
		s.release(leases[n])
		s.acquire(name(n), "second")
		s.append(leases[n+2], 1, end(journal.RunComplete))
	}
	for round := range rounds {
		var all sync.WaitGroup
		start := make(chan struct{})
		for n := range runs {
			all.Go(func() {
				<-start
				err := s.try(leases[n], []int64{1, 1000, 2, int64(round) + 1}[n%4], step(round))
				want := []error{journal.ErrFenced, journal.ErrConflict, journal.ErrEnded, nil}[n%4]
				assert.ErrorIs(s.t, err, want, name(n))
			})
		}
		close(start)
		all.Wait()
	}
	for n := range runs {
		want := []int{1, 1, 2, rounds + 1}[n%4]
		assert.Len(s.t, s.events(name(n), 0), want, name(n))
	}
}

func manyCreators(s *subject) {
	both := s.handles()
	for round := range size(20, 5) {
		var won atomic.Int64
		var all sync.WaitGroup
		start := make(chan struct{})
		for n := range 8 {
			all.Go(func() {
				<-start
				lease, err := both[n%2].store.Create(s.t.Context(), begunBy(name(round), strconv.Itoa(n)))
				if err == nil {
					won.Add(1)
					assert.NoError(s.t, both[n%2].try(lease, 1, step(n)))
					return
				}
				assert.ErrorIs(s.t, err, journal.ErrExists)
			})
		}
		close(start)
		all.Wait()
		require.EqualValues(s.t, 1, won.Load())
		require.Len(s.t, s.events(name(round), 0), 2)
	}
}

func manyOwners(s *subject) {
	both := s.handles()
	s.create("r")
	last := int64(0)
	for round := range size(50, 10) {
		var leases [2]journal.Lease
		var errs [2]error
		var all sync.WaitGroup
		start := make(chan struct{})
		for i := range both {
			all.Go(func() {
				<-start
				leases[i], errs[i] = both[i].store.Acquire(s.t.Context(), "r", claim(strconv.Itoa(i)))
			})
		}
		close(start)
		all.Wait()
		winner := 0
		if errs[0] != nil {
			winner = 1
		}
		require.NoError(s.t, errs[winner])
		both[1-winner].locked(leases[winner], errs[1-winner])
		require.Greater(s.t, leases[winner].Token, last)
		last = leases[winner].Token
		both[winner].append(leases[winner], int64(round)+1, step(round))
		both[winner].release(leases[winner])
	}
}

func staleOwner(s *subject) {
	both := s.handles()
	var first sync.WaitGroup
	defer first.Wait() // also when the second fails
	for round := range size(5, 2) {
		run := name(round)
		old := s.holdFor(run, 5*short)
		var written int64
		first.Go(func() { written = writeUntilRefused(s, old) })
		lease := both[1].takeOver(run, "second")
		both[1].append(lease, lease.Head, step(-1))
		first.Wait()
		assert.Equal(s.t, lease.Head, written, "all that the first owner was told is written was there when the second began")
		events := s.events(run, 0)
		assert.Len(s.t, events, int(lease.Head)+1)
		assert.Equal(s.t, -1, events[len(events)-1].N)
	}
}

// writeUntilRefused appends until the lease is lost, and returns the number of the last event that was acknowledged.
func writeUntilRefused(s *subject, l journal.Lease) int64 {
	ctx, cancel := context.WithTimeout(s.t.Context(), s.patience())
	defer cancel()
	for after := l.Head; ; after++ {
		err := s.store.Append(ctx, l, journal.Append{After: after, Events: []journal.Event{step(int(after))}})
		if err != nil {
			assert.ErrorIs(s.t, err, journal.ErrFenced)
			return after
		}
	}
}

func sameOwnerTwice(s *subject) {
	both := s.handles()
	lease := s.hold("r")
	for round := range size(50, 10) {
		after := int64(round) + 1
		var errs [4]error
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { errs[i] = both[0].try(lease, after, step(i)) })
		}
		all.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
				continue
			}
			require.ErrorIs(s.t, err, journal.ErrConflict)
		}
		require.Equal(s.t, 1, won)
		require.Equal(s.t, after+1, s.load("r").Head)
	}
}

func manySenders(s *subject) {
	const senders, keys = 20, 5
	each := size(10, 5)
	both := s.handles()
	s.create("r")
	var all sync.WaitGroup
	for n := range senders {
		mine := both[n%2]
		all.Go(func() {
			for i := range each {
				m, err := mine.store.Send(s.t.Context(), "r", signal("a", "", fmt.Sprintf("%d/%d", n, i)))
				assert.NoError(s.t, err)
				assert.Positive(s.t, m.Seq)
				_, err = mine.store.Send(s.t.Context(), "r", signal("a", fmt.Sprint("key", i%keys), "x"))
				assert.NoError(s.t, err)
			}
		})
	}
	all.Wait()
	messages := s.inbox("r", 0)
	require.Len(s.t, messages, senders*each+keys)
	seen := map[string]bool{}
	for i, m := range messages {
		require.EqualValues(s.t, i+1, m.Seq)
		id := m.Key + "|" + string(m.Payload)
		require.False(s.t, seen[id], id)
		seen[id] = true
	}
}

func manyReaders(s *subject) {
	both := s.handles()
	lease := s.hold("r")
	ctx, cancel := context.WithTimeout(s.t.Context(), s.patience())
	defer cancel()
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for last := int64(0); ctx.Err() == nil; wait(ctx, short) {
				last = readOnce(ctx, both[n%2], last)
			}
		})
	}
	after := int64(1)
	for i := range size(200, 30) {
		s.append(lease, after, steps(int(after), i%3+1)...)
		after += int64(i%3 + 1)
	}
	cancel()
	all.Wait()
}

// readOnce reads a journal whose events carry their numbers, and returns how long it was: not shorter than before.
func readOnce(ctx context.Context, s *subject, before int64) int64 {
	last := int64(0)
	for e, err := range s.store.Events(ctx, "r", 0) {
		if err != nil {
			assert.ErrorIs(s.t, err, ctx.Err())
			return before
		}
		assert.Equal(s.t, last+1, e.Seq)
		assert.True(s.t, e.Seq == 1 || int64(e.N) == e.Seq-1, "event %d is step %d", e.Seq, e.N)
		last = e.Seq
	}
	assert.GreaterOrEqual(s.t, last, before)
	return last
}
