package journaltest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

func dedupRules() []rule {
	return []rule{
		{"a key that a run has which has not ended is a DuplicateError, and nothing is made", dedupTaken},
		{"an empty key is none", dedupEmpty},
		{"keys of any bytes are data", dedupData},
		{"a run that has ended has its key no more", dedupEnded},
		{"a run that is made ended does not take its key", dedupMadeEnded},
		{"a run that waits has its key still", dedupWaits},
		{"a run that is deleted has its key no more", dedupDeleted},
		{"a run that exists is an ExistsError, whoever has its key", dedupExists},
		{"of many that create with one key one wins", dedupMany},
	}
}

func keyed(run, key string) journal.NewRun {
	n := begun(run)
	n.Run.Dedup = key
	return n
}

// duplicate holds that a run cannot be made since another has its key.
func (s *subject) duplicate(n journal.NewRun, other string) {
	s.t.Helper()
	lease, err := s.store.Create(s.t.Context(), n)
	var duplicate *journal.DuplicateError
	require.ErrorAs(s.t, err, &duplicate)
	require.ErrorIs(s.t, err, journal.ErrDuplicate)
	require.NotErrorIs(s.t, err, journal.ErrExists)
	assert.Equal(s.t, journal.DuplicateError{Run: n.Run.ID, Other: other, Key: n.Run.Dedup}, *duplicate)
	assert.Zero(s.t, lease)
	s.absent(n.Run.ID)
}

func dedupTaken(s *subject) {
	s.make(keyed("first", "k"))
	before := s.picture("first")
	assert.Equal(s.t, "k", before.run.Dedup)
	second := keyed("second", "k")
	second.Claim = claim("a")
	second.Messages = []journal.Message{signal("a", "", "1")}
	second.Run.Queue, second.Run.Name = "q2", "x"
	for range 2 {
		s.second().duplicate(second, "first")
	}
	s.unchanged("first", before)
	s.make(keyed("third", "k2"))
	second.Run.Dedup = "k3"
	s.append(s.make(second), 1, step(1))
	assert.Len(s.t, s.inbox("second", 0), 1)
}

func dedupEmpty(s *subject) {
	for n := range 3 {
		s.make(keyed(name(n), ""))
	}
	assert.Empty(s.t, s.load(name(2)).Dedup)
}

func dedupData(s *subject) {
	large := strings.Repeat("k", 3000)
	keys := []string{"k", "K", "k ", " k", "k\x00", "\x00", "\xff", "'; --", "%", large, large + "l"}
	for n, key := range keys {
		s.make(keyed(name(n), key))
	}
	for n, key := range keys {
		assert.Equal(s.t, key, s.load(name(n)).Dedup)
		s.duplicate(keyed("another", key), name(n))
	}
}

func dedupEnded(s *subject) {
	for kind := range terminals() {
		n := keyed("of "+string(kind), "k")
		n.Claim = claim("a")
		lease := s.make(n)
		s.duplicate(keyed("b", "k"), n.Run.ID)
		s.append(lease, 1, step(1), end(kind))
		assert.Equal(s.t, "k", s.load(n.Run.ID).Dedup, "the record says what it had")
	}
	s.make(keyed("b", "k"))
	s.duplicate(keyed("one more", "k"), "b")
}

func dedupMadeEnded(s *subject) {
	over := keyed("over", "k")
	over.Events = started(end(journal.RunComplete))
	s.make(over)
	s.make(keyed("first", "k"))
	over.Run.ID = "over again"
	s.duplicate(over, "first")
}

func dedupWaits(s *subject) {
	n := keyed("r", "k")
	n.Claim = journal.Claim{Owner: "a", TTL: short}
	lease := s.make(n)
	s.lapsed("r")
	s.duplicate(keyed("b", "k"), "r")
	s.release(lease)
	s.duplicate(keyed("b", "k"), "r")
	lease = s.acquire("r", "b")
	s.append(lease, 1, end(journal.RunRequeued))
	s.duplicate(keyed("b", "k"), "r")
	s.suspend(lease, 2, noon())
	s.duplicate(keyed("b", "k"), "r")
	s.append(s.acquire("r", "b"), 3, end(journal.RunError))
	s.make(keyed("b", "k"))
}

func dedupDeleted(s *subject) {
	d, ok := s.store.(journal.Deleter)
	if !ok {
		return
	}
	s.make(keyed("a", "k"))
	require.NoError(s.t, d.Delete(s.t.Context(), "a"))
	s.make(keyed("b", "k"))
	n, err := d.Prune(s.t.Context(), time.Now().Add(time.Hour), journal.Pending)
	require.NoError(s.t, err)
	assert.Equal(s.t, 1, n)
	s.make(keyed("b", "k"))
	s.duplicate(keyed("a", "k"), "b")

	// The key belongs to the run that has it, not to one that had it before.
	s.append(s.acquire("b", "a"), 1, end(journal.RunComplete))
	s.make(keyed("c", "k"))
	require.NoError(s.t, d.Delete(s.t.Context(), "b"))
	s.duplicate(keyed("a", "k"), "c")
}

func dedupExists(s *subject) {
	s.make(keyed("a", "k"))
	s.create("b")
	for _, n := range []journal.NewRun{keyed("a", "k"), keyed("a", "other"), keyed("b", "k")} {
		_, err := s.store.Create(s.t.Context(), n)
		require.ErrorIs(s.t, err, journal.ErrExists)
	}
}

func dedupMany(s *subject) {
	both := s.handles()
	for round := range size(20, 5) {
		key := name(round)
		var mu sync.Mutex
		var all sync.WaitGroup
		var won string
		others := map[string]bool{}
		start := make(chan struct{})
		for n := range 8 {
			all.Go(func() {
				<-start
				mine := keyed(fmt.Sprintf("%s/%d", key, n), key)
				_, err := both[n%2].store.Create(s.t.Context(), mine)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					assert.Empty(s.t, won)
					won = mine.Run.ID
					return
				}
				var duplicate *journal.DuplicateError
				if assert.ErrorAs(s.t, err, &duplicate) {
					others[duplicate.Other] = true
				}
			})
		}
		close(start)
		all.Wait()
		require.NotEmpty(s.t, won)
		require.Equal(s.t, map[string]bool{won: true}, others)
		s.append(s.acquire(won, "a"), 1, end(journal.RunComplete))
		s.make(keyed(key, key))
	}
}
