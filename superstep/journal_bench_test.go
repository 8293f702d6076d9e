package superstep_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver beside which the store is measured

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/sqlite"
	"github.com/pawl-go/pawl/superstep"
)

// Each of these is a task whose outcome is durable before the next one starts. The floors write the same bytes with the
// bare driver: one row a commit, and 100 rows a commit.

const journaledSteps = 100

func BenchmarkJournaled(b *testing.B) {
	b.Run("raw commit", func(b *testing.B) { benchRaw(b, 1) })
	b.Run("raw commit of 100", func(b *testing.B) { benchRaw(b, 100) })
	for _, runs := range []int{1, 100} {
		b.Run(fmt.Sprintf("%d runs", runs), func(b *testing.B) { benchJournaled(b, runs) })
	}
}

func benchRaw(b *testing.B, batch int) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "raw.db")
	db, err := sql.Open("sqlite", path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	require.NoError(b, err)
	defer db.Close()
	ctx := b.Context()
	conn, err := db.Conn(ctx)
	require.NoError(b, err)
	defer conn.Close()
	_, err = conn.ExecContext(ctx, "CREATE TABLE events (run INTEGER, seq INTEGER, n INTEGER, row BLOB, UNIQUE (run, seq))")
	require.NoError(b, err)
	insert, err := conn.PrepareContext(ctx, "INSERT INTO events VALUES (?, ?, 1, ?)")
	require.NoError(b, err)
	defer insert.Close()
	row := make([]byte, 300)
	seq, rows := 0, 0
	for b.Loop() {
		if batch > 1 {
			_, err = conn.ExecContext(ctx, "BEGIN IMMEDIATE")
			require.NoError(b, err)
		}
		for i := range batch {
			_, err = insert.ExecContext(ctx, i, seq, row)
			require.NoError(b, err)
		}
		seq++
		rows += batch
		if batch > 1 {
			_, err = conn.ExecContext(ctx, "COMMIT")
			require.NoError(b, err)
		}
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "steps/s")
}

// benchJournaled runs chains of 100 nodes, so many at once.
func benchJournaled(b *testing.B, runs int) {
	b.Helper()
	store, err := sqlite.Open(filepath.Join(b.TempDir(), "pawl.db"))
	require.NoError(b, err)
	defer store.Close()
	text := string(make([]byte, 200))
	for i := range text {
		text = text[:i] + "x" + text[i+1:]
	}
	g := build(b, func(bd *bld) {
		last := bd.Node("n0", func(context.Context, st) (up, error) { return up{V: text}, nil })
		bd.Start(last)
		for i := 1; i < journaledSteps; i++ {
			n := bd.Node(fmt.Sprint("n", i), func(context.Context, st) (up, error) { return up{V: text}, nil })
			bd.Edge(last, n)
			last = n
		}
	})
	r := durableRunner(b, g, store)
	steps := 0
	for b.Loop() {
		var wg sync.WaitGroup
		for range runs {
			wg.Go(func() {
				if _, err := r.Run(b.Context(), st{}); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
		steps += runs * journaledSteps
	}
	b.ReportMetric(float64(steps)/b.Elapsed().Seconds(), "steps/s")
}

// growing is a loop whose state grows with each super-step.
func growing(tb testing.TB, steps int, stop func(int) error) *graph.Graph[st, up] {
	tb.Helper()
	return build(tb, func(b *bld) {
		n := b.Node("grow", func(_ context.Context, s st) (up, error) {
			if err := stop(s.N); err != nil {
				return up{}, err
			}
			return up{N: 1, Log: []string{fmt.Sprintf("a note of some length, number %06d, for the state to grow by", s.N)}}, nil
		})
		b.Start(n)
		b.Route(n, func(s st) graph.Next {
			if s.N < steps {
				return graph.To(n)
			}
			return graph.To(graph.End)
		}, n, graph.End)
	})
}

// What it takes to go on with a run of 1,000 super-steps, beside reading its rows and decoding their JSON.
func BenchmarkResume(b *testing.B) {
	const steps = 1000
	store, err := sqlite.Open(filepath.Join(b.TempDir(), "pawl.db"))
	require.NoError(b, err)
	defer store.Close()
	var stop context.CancelFunc // the node of super-step 1,001 stops the runner's process, so to say
	g := growing(b, steps+1, func(n int) error {
		if n == steps {
			stop()
			return context.Canceled
		}
		return nil
	})
	r, err := superstep.NewRunner(g, superstep.Config{Store: store, MaxSuperSteps: 2 * steps})
	require.NoError(b, err)
	var ctx context.Context
	ctx, stop = context.WithCancel(b.Context())
	_, err = r.Run(ctx, st{}, superstep.RunID("r"))
	require.ErrorIs(b, err, context.Canceled)

	b.Run("plain read", func(b *testing.B) {
		for b.Loop() {
			for e, err := range store.Events(b.Context(), "r", 0) {
				require.NoError(b, err)
				if e.Kind == journal.StepDone {
					var u up
					require.NoError(b, json.Unmarshal(e.Payload, &u)) //nolint:musttag // as the runner reads it
				}
			}
		}
	})
	b.Run("resume", func(b *testing.B) {
		for b.Loop() {
			ctx, stop = context.WithCancel(b.Context()) //nolint:fatcontext // a new one each time
			_, err := r.Resume(ctx, "r")
			require.ErrorIs(b, err, context.Canceled)
		}
	})
	b.Run("state", func(b *testing.B) {
		for b.Loop() {
			_, err := r.State(b.Context(), "r")
			require.NoError(b, err)
		}
	})
}

// BenchmarkJournalBytes reports what a run leaves in its journal whose state grows each step: it must grow with what the
// nodes wrote, not with steps times state.
func BenchmarkJournalBytes(b *testing.B) {
	for _, steps := range []int{250, 500, 1000, 2000} {
		b.Run(fmt.Sprint(steps), func(b *testing.B) {
			var size int
			for b.Loop() {
				store, err := sqlite.Open(filepath.Join(b.TempDir(), "pawl.db"))
				require.NoError(b, err)
				r, err := superstep.NewRunner(growing(b, steps, func(int) error { return nil }), superstep.Config{Store: store, MaxSuperSteps: 2 * steps})
				require.NoError(b, err)
				res, err := r.Run(b.Context(), st{})
				require.NoError(b, err)
				size = 0
				for e, err := range store.Events(b.Context(), res.RunID, 0) {
					require.NoError(b, err)
					size += len(journal.EncodeRow(res.RunID, e.Seq, []journal.Event{e}))
				}
				require.NoError(b, store.Close())
			}
			b.ReportMetric(float64(size)/float64(steps), "journal-B/step")
			b.ReportMetric(0, "ns/op")
		})
	}
}
