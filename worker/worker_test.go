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

var double = durable.Workflow("double", func(ctx context.Context, n int) (int, error) {
	return durable.Step(ctx, "times two", func(context.Context) (int, error) { return 2 * n, nil })
})

func TestAWorkerRunsWhatAClientHasStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.work(worker.Config{}, double)()
		h, err := client.Start(t.Context(), f.c, double, 21, client.ID("d"))
		require.NoError(t, err)
		out, err := h.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 42, out)
	})
}

type state struct{ Notes []string }

type update struct {
	Notes []string `merge:"append"`
}

func runner(t *testing.T, cfg superstep.Config) *superstep.Runner[state, update] {
	t.Helper()
	b := graph.New("notes", graph.Fields[state, update]())
	first := b.Node("first", func(context.Context, state) (update, error) { return update{Notes: []string{"a"}}, nil })
	second := b.Node("second", func(ctx context.Context, _ state) (update, error) {
		if err := durable.Sleep(ctx, time.Hour); err != nil {
			return update{}, err
		}
		return update{Notes: []string{"b"}}, nil
	})
	b.Start(first)
	b.Edge(first, second)
	g, err := b.Compile()
	require.NoError(t, err)
	r, err := superstep.NewRunner(g, cfg)
	require.NoError(t, err)
	return r
}

func TestAGraphSuspendsWhileANodeSleepsAndGoesOnInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		r := runner(t, superstep.Config{})
		defer f.work(worker.Config{}, r)()
		begun := time.Now()
		h, err := client.Start(t.Context(), f.c, r, state{}, client.ID("g"))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		run, err := h.Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, journal.Suspended, run.Status)
		assert.Empty(t, run.Owner, "a suspended run holds nothing")
		out, err := h.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "b"}, out.Notes)
		assert.Less(t, time.Since(begun)-time.Hour, time.Second, "timers fire within a second")
	})
}
