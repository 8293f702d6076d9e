package superstep_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/graph"
	memstore "github.com/pawl-go/pawl/journal/memory"
	"github.com/pawl-go/pawl/superstep"
)

// Live equals replayed behind a checkpoint, too: what a reducer makes that JSON does not keep is gone for everybody.
func TestJournal_AReducersStateIsWhatACheckpointKeeps(t *testing.T) {
	type state struct {
		Steps  int
		Value  any
		hidden int
		Seen   []string
	}
	type update struct{ Text string }
	kind := func(v any) string {
		switch v.(type) {
		case int:
			return "int"
		case float64:
			return "float64"
		}
		return "none"
	}
	run := func(t *testing.T, stopAt int) *superstep.Result[state] {
		t.Helper()
		store := memstore.New()
		var stop context.CancelFunc
		b := graph.New("g", graph.Reduce(func(s state, u update) state {
			s.Steps++
			s.Seen = append(s.Seen, kind(s.Value))
			if s.Steps == 1 {
				s.Value, s.hidden = 3, 3
			}
			if s.hidden > 0 {
				s.Seen = append(s.Seen, "hidden")
			}
			return s
		}))
		n := b.Node("n", func(_ context.Context, s state) (update, error) {
			if s.Steps == stopAt && stop != nil {
				stop()
				return update{}, context.Canceled
			}
			return update{Text: strings.Repeat("x", 20<<10)}, nil
		})
		b.Start(n)
		b.Route(n, func(s state) graph.Next {
			if s.Steps < 6 {
				return graph.To(n)
			}
			return graph.To(graph.End)
		}, n, graph.End)
		g, err := b.Compile()
		require.NoError(t, err)
		r, err := superstep.NewRunner(g, superstep.Config{Store: store})
		require.NoError(t, err)
		if stopAt > 0 {
			var ctx context.Context
			ctx, stop = context.WithCancel(t.Context())
			_, err = r.Run(ctx, state{}, in("r"))
			require.ErrorIs(t, err, context.Canceled)
			stop = nil
		}
		res, err := r.Run(t.Context(), state{}, in("r"))
		require.NoError(t, err)
		last, err := r.State(t.Context(), "r")
		require.NoError(t, err)
		assert.Equal(t, res.State.Seen, last.State.Seen)
		return res
	}
	want := run(t, 0)
	assert.Contains(t, want.State.Seen, "float64", "no checkpoint was written")
	for stopAt := 1; stopAt < 6; stopAt++ {
		assert.Equal(t, want.State, run(t, stopAt).State, stopAt)
	}
}
