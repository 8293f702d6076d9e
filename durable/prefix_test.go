package durable_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
)

// rich returns the runs of an undisturbed run with all there is.
func rich(t *testing.T) map[string]journal.NewRun {
	t.Helper()
	runs := map[string]journal.NewRun{}
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		_, err := drive(t, store, &counter{})
		require.NoError(t, err)
		for _, id := range []string{"r", "r-child#1"} {
			run, err := store.Load(t.Context(), id)
			require.NoError(t, err)
			inbox, err := store.Inbox(t.Context(), id, 0)
			require.NoError(t, err)
			runs[id] = journal.NewRun{Run: run, Events: events(t, store, id), Messages: inbox}
		}
	})
	return runs
}

func create(t *testing.T, runs ...journal.NewRun) *memory.Store {
	t.Helper()
	store := memory.New()
	for _, n := range runs {
		_, err := store.Create(context.Background(), n)
		require.NoError(t, err)
	}
	return store
}

func TestEveryPrefixOfARichJournalReplays(t *testing.T) {
	runs := rich(t)
	parent, child := runs["r"], runs["r-child#1"]
	for n := 1; n < len(parent.Events); n++ {
		for _, withChild := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				prefix := parent
				prefix.Events = parent.Events[:n]
				store := create(t, prefix)
				if withChild {
					store = create(t, prefix, child)
				}
				recorded, c := recordedSteps(t, store), &counter{}
				out, err := drive(t, store, c)
				require.NoError(t, err, "%d events", n)
				assert.Equal(t, wantEverything, out)
				consistent(t, store)
				for name := range recorded {
					assert.Zero(t, c.of(name), "%q is recorded and was called again", name)
				}
			})
		}
	}
}

// Whatever a store gives back: there is a result or an error, and never a panic of ours.
func FuzzReplay(f *testing.F) {
	var parent, child journal.NewRun
	f.Add(3, 0, []byte("{}"))
	f.Add(1, 1, []byte("null"))
	f.Add(6, 2, []byte("step:done"))
	f.Add(9, 3, []byte("1"))
	f.Add(2, 0, []byte(`{"type":"x","causes":[null]}`))
	f.Fuzz(func(t *testing.T, at, field int, to []byte) {
		if parent.Events == nil {
			runs := rich(t)
			parent, child = runs["r"], runs["r-child#1"]
		}
		synctest.Test(t, func(t *testing.T) {
			changed := parent
			changed.Events = slices.Clone(parent.Events[:len(parent.Events)-1])
			e := &changed.Events[abs(at)%len(changed.Events)]
			switch abs(field) % 5 {
			case 0:
				e.Payload = to
			case 1:
				e.Meta = to
			case 2:
				e.Kind = journal.Kind(to)
			case 3:
				e.Name = string(to)
			case 4:
				e.Scope = string(to)
			}
			if changed.Events[0].Kind != journal.RunStart || slices.ContainsFunc(changed.Events, func(e journal.Event) bool { return e.Kind.Terminal() }) {
				return // a store refuses it
			}
			_, err := drive(t, create(t, changed, child), &counter{})
			var p interface{ Unretryable() bool }
			if err != nil && !errors.As(err, &p) {
				t.Logf("%v", err)
			}
		})
	})
}

func abs(n int) int { return int(uint(n) >> 1) }
