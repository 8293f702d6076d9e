package durable_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
	"github.com/pawl-go/pawl/journal/sqlite"
)

// stores are what the benchmarks run on.
func stores(b *testing.B) map[string]func(b *testing.B) journal.Store {
	b.Helper()
	return map[string]func(b *testing.B) journal.Store{
		"memory": func(*testing.B) journal.Store { return memory.New() },
		"sqlite": func(b *testing.B) journal.Store {
			b.Helper()
			db, err := sqlite.Open(filepath.Join(b.TempDir(), "pawl.db"))
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, db.Close()) })
			return db
		},
	}
}

var looping = durable.Workflow("loop", func(ctx context.Context, n int) (int, error) {
	for i := range n {
		if _, err := durable.Step(ctx, "s", func(context.Context) (int, error) { return i, nil }); err != nil {
			return 0, err
		}
	}
	return n, nil
})

// One run of b.N steps, beside the same number of appends of the same size by hand.
func BenchmarkSteps(b *testing.B) {
	for name, open := range stores(b) {
		b.Run(name, func(b *testing.B) {
			store := open(b)
			b.ReportAllocs()
			_, err := durable.Run(b.Context(), store, looping, "r", b.N)
			require.NoError(b, err)
		})
		b.Run(name+" by hand", func(b *testing.B) {
			store := open(b)
			b.ReportAllocs()
			lease, err := store.Create(b.Context(), journal.NewRun{
				Run:    journal.Run{ID: "r", Kind: journal.WorkflowRun, Name: "loop"},
				Events: []journal.Event{{Kind: journal.RunStart}},
				Claim:  journal.Claim{Owner: "b", TTL: time.Hour},
			})
			require.NoError(b, err)
			for i := range b.N {
				e := journal.Event{Kind: journal.StepDone, Name: "s", N: i, Time: durable.Now(), Payload: []byte(fmt.Sprint(i))}
				require.NoError(b, store.Append(b.Context(), lease, journal.Append{After: int64(i + 1), Events: []journal.Event{e}}))
			}
		})
	}
}

// A replay of 1,000 recorded steps.
func BenchmarkReplay(b *testing.B) {
	const n = 1000
	store := memory.New()
	wf := durable.Workflow("loop", func(ctx context.Context, n int) (int, error) {
		for i := range n {
			if _, err := durable.Step(ctx, "s", func(context.Context) (int, error) { return i, nil }); err != nil {
				return 0, err
			}
		}
		return 0, suspend(ctx)
	})
	b.ReportAllocs()
	for b.Loop() {
		_, _ = durable.Run(b.Context(), store, wf, "r", n)
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/n, "ns/step")
}
