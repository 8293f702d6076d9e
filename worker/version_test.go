package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/worker"
)

// waiting is a graph of two nodes, the first of which is named so.
func waiting(t *testing.T, first string, calls *int) *superstep.Runner[state, update] {
	t.Helper()
	b := graph.New("notes", graph.Fields[state, update]())
	ask := b.Node(first, func(context.Context, state) (update, error) {
		*calls++
		return update{Notes: []string{"asked"}}, nil
	})
	wait := b.Node("wait", func(ctx context.Context, _ state) (update, error) {
		note, err := durable.WaitForSignal[string](ctx, "go")
		return update{Notes: []string{note}}, err
	})
	b.Start(ask)
	b.Edge(ask, wait)
	g, err := b.Compile()
	require.NoError(t, err)
	r, err := superstep.NewRunner(g, superstep.Config{})
	require.NoError(t, err)
	return r
}

// A run of an older graph waits until a worker has a migration for its fingerprint.
func TestOlderGraphsAreServedByTheirMigration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		calls := 0
		old, renamed := waiting(t, "ask", &calls), waiting(t, "question", &calls)
		h, err := client.Start(t.Context(), f.c, old, state{}, client.ID("g"))
		require.NoError(t, err)
		stop := f.work(worker.Config{}, old)
		time.Sleep(time.Second)
		stop()
		require.NoError(t, h.Signal(t.Context(), "go", "said"))

		stop = f.work(worker.Config{}, renamed)
		time.Sleep(time.Hour)
		stop()
		run, err := h.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, journal.Suspended, run.Status, "no worker serves it")

		_, err = renamed.Older(old.Program().Fingerprint, superstep.Migration{Rename: map[string]string{"ask": "nothing"}})
		require.ErrorContains(t, err, "no node of the graph")
		older, err := renamed.Older(old.Program().Fingerprint, superstep.Migration{Rename: map[string]string{"ask": "question"}})
		require.NoError(t, err)
		defer f.work(worker.Config{}, renamed, older)()
		out, err := h.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"asked", "said"}, out.Notes)
		assert.Equal(t, 1, calls, "what is recorded is served")
	})
}
