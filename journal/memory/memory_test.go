package memory_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/journal/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemoryPassesTheSuiteOfAllStores(t *testing.T) {
	journaltest.Run(t, journaltest.Harness{Open: func(*testing.T) journal.Store { return memory.New() }})
}

func begin(t *testing.T, store *memory.Store, run string, ttl time.Duration) journal.Lease {
	t.Helper()
	lease, err := store.Create(t.Context(), journal.NewRun{
		Run: journal.Run{ID: run}, Events: []journal.Event{{Kind: journal.RunStart}}, Claim: journal.Claim{Owner: "first", TTL: ttl},
	})
	require.NoError(t, err)
	return lease
}

func TestALeaseLapsesToTheMicrosecondInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		lease := begin(t, store, "r", time.Minute)
		assert.Equal(t, time.Now().Add(time.Minute).UTC(), lease.Until)
		second := journal.Claim{Owner: "second", TTL: time.Hour}

		time.Sleep(time.Minute - time.Microsecond)
		_, err := store.Acquire(t.Context(), "r", second)
		require.ErrorIs(t, err, journal.ErrLocked)
		time.Sleep(time.Microsecond)
		taken, err := store.Acquire(t.Context(), "r", second)
		require.NoError(t, err)
		assert.Equal(t, time.Now().Add(time.Hour).UTC(), taken.Until)
	})
}

func TestRunsOfOneMomentAreListedByTheOrderOfTheirCreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		for _, run := range []string{"b", "c", "a"} {
			begin(t, store, run, 0)
		}
		page, err := store.List(t.Context(), journal.Query{Limit: 2})
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "c"}, []string{page.Runs[0].ID, page.Runs[1].ID})
		page, err = store.List(t.Context(), journal.Query{Limit: 2, Cursor: page.Next})
		require.NoError(t, err)
		require.Len(t, page.Runs, 1)
		assert.Equal(t, "b", page.Runs[0].ID)
	})
}

func TestUpdatedIsWhenTheStatusChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		lease := begin(t, store, "r", time.Minute)
		start := time.Now().UTC()
		updated := func() time.Duration {
			r, err := store.Load(t.Context(), "r")
			require.NoError(t, err)
			assert.Equal(t, start, r.Created)
			return r.Updated.Sub(start)
		}
		appendKind := func(after int64, kind journal.Kind) {
			time.Sleep(time.Second)
			require.NoError(t, store.Append(t.Context(), lease, journal.Append{After: after, Events: []journal.Event{{Kind: kind}}}))
		}
		appendKind(1, journal.StepDone)
		assert.Zero(t, updated())
		appendKind(2, journal.RunSuspended)
		assert.Equal(t, 2*time.Second, updated())
		appendKind(3, journal.RunComplete)
		assert.Equal(t, 3*time.Second, updated())
	})
}

func TestRunsAreReadyToTheMicrosecondInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		n := journal.NewRun{Run: journal.Run{ID: "r", Queue: "q"}, Events: []journal.Event{{Kind: journal.RunStart}}}
		n.Due = time.Now().Add(time.Minute)
		_, err := store.Create(t.Context(), n)
		require.NoError(t, err)
		take := func() []journal.Taken {
			claim := journal.Claim{Owner: "worker", TTL: time.Hour}
			taken, err := store.Take(t.Context(), journal.Take{Claim: claim, Queue: "q", Programs: []journal.Program{{}}, Limit: 1})
			require.NoError(t, err)
			return taken
		}
		time.Sleep(time.Minute - time.Microsecond)
		require.Empty(t, take())
		time.Sleep(time.Microsecond)
		require.Len(t, take(), 1)
		time.Sleep(time.Hour - time.Microsecond)
		require.Empty(t, take())
		time.Sleep(time.Microsecond)
		taken := take()
		require.Len(t, taken, 1)
		assert.Equal(t, journal.Running, taken[0].Was)

		// Stranded is what has waited for longer than the time, and who was announced longer ago.
		stranded := func(waited time.Duration) int {
			taken, err := store.TakeStranded(t.Context(), journal.Take{Queue: "q", Limit: 1}, waited)
			require.NoError(t, err)
			return len(taken)
		}
		_, err = store.Renew(t.Context(), taken[0].Lease, 0)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, store.Announce(t.Context(), "q", []journal.Program{{}}))
		time.Sleep(time.Minute)
		assert.Zero(t, stranded(time.Minute))
		time.Sleep(time.Microsecond)
		assert.Equal(t, 1, stranded(time.Minute))
	})
}

func TestErrorsNameTheRunAndTheRemedy(t *testing.T) {
	store := memory.New()
	lease := begin(t, store, "r", time.Minute)
	_, err := store.Load(t.Context(), "")
	assert.EqualError(t, err, "pawl: a run's id is empty: give it one of 1 to 65536 bytes")
	_, err = store.Load(t.Context(), strings.Repeat("x", journal.MaxIDLength+1))
	assert.ErrorContains(t, err, "the id is too long")
	_, err = store.Create(t.Context(), journal.NewRun{Run: journal.Run{ID: "new"}})
	assert.EqualError(t, err, `pawl: run "new": its first event must be run:start`)
	err = store.Append(t.Context(), lease, journal.Append{After: 7, Events: []journal.Event{{Kind: journal.StepDone}}})
	assert.EqualError(t, err, `pawl: run "r": write refused: not the next event: 1 events for behind number 7, but the last one is number 1`)
	_, err = store.Renew(t.Context(), journal.Lease{Run: "r", Token: 99}, 0)
	assert.EqualError(t, err, `pawl: run "r": write refused: lease lost: token 99 was given up or followed by another`)
	_, err = store.List(t.Context(), journal.Query{Cursor: "x"})
	assert.EqualError(t, err, `pawl: cursor "x": not one of this store: take Next of one of its pages`)
}

// BenchmarkAppend is a run that appends one event of 300 bytes at a time.
func BenchmarkAppend(b *testing.B) {
	store := memory.New()
	lease, err := store.Create(b.Context(), journal.NewRun{
		Run: journal.Run{ID: "r"}, Events: []journal.Event{{Kind: journal.RunStart}}, Claim: journal.Claim{Owner: "me", TTL: time.Hour},
	})
	require.NoError(b, err)
	events := []journal.Event{{Kind: journal.StepDone, Name: "step", Payload: make([]byte, 300)}}
	b.ReportAllocs()
	after := lease.Head
	for b.Loop() {
		if err := store.Append(b.Context(), lease, journal.Append{After: after, Events: events}); err != nil {
			b.Fatal(err)
		}
		after++
	}
}
