package superstep_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/superstep"
)

// fickle are functions of a graph that may answer otherwise when they are asked again.
type fickle struct {
	route func(graph.TaskNode[int], graph.Node) graph.Next
	add   int
}

// graph is plan -> search or skip -> ask.
func (f *fickle) graph(tb testing.TB, c *meter) *graph.Graph[st, up] {
	tb.Helper()
	b := graph.New("fickle", graph.Reduce(func(s st, u up) st {
		s.N += f.add
		s.Log = append(s.Log, u.Log...)
		return s
	}))
	plan := b.Node("plan", counted(c, "plan", say("plan")))
	search := graph.Task(b, "search", func(context.Context, st, int) (up, error) {
		c.hit("search")
		return up{Log: []string{"search"}}, nil
	})
	skip := b.Node("skip", counted(c, "skip", say("skip")))
	ask := b.Node("ask", asks("?"))
	b.Start(plan)
	b.Route(plan, func(s st) graph.Next {
		if s.N > 100 {
			return graph.To(skip)
		}
		return f.route(search, skip)
	}, search, skip)
	b.Edge(search, ask)
	b.Edge(skip, ask)
	g, err := b.Compile()
	require.NoError(tb, err)
	return g
}

// A run goes on by its recorded plan. Routers, and the reducers that they depend on, are asked again; another answer than the recorded
// one is an error that names the router and both answers, calls nothing, and leaves the run to code that knows better. It spends the
// budget of broken attempts.
func TestJournal_ARouterThatAnswersOtherwiseIsNonDeterminism(t *testing.T) {
	three := func(search graph.TaskNode[int], _ graph.Node) graph.Next { return search.Each([]int{1, 2, 3}) }
	for name, now := range map[string]fickle{
		"another node": {func(_ graph.TaskNode[int], skip graph.Node) graph.Next { return graph.To(skip) }, 1},
		"fewer items":  {func(search graph.TaskNode[int], _ graph.Node) graph.Next { return search.Each([]int{1, 2}) }, 1},
		"another item": {func(search graph.TaskNode[int], _ graph.Node) graph.Next { return search.Each([]int{1, 2, 4}) }, 1},
		"nothing":      {func(graph.TaskNode[int], graph.Node) graph.Next { return graph.To() }, 1},
		"more": {func(search graph.TaskNode[int], skip graph.Node) graph.Next {
			return graph.All(search.Each([]int{1, 2, 3}), graph.To(skip))
		}, 1},
		"by a reducer": {three, 101},
	} {
		t.Run(name, func(t *testing.T) {
			c, store := newMeter(), newStore()
			before := (&fickle{three, 1}).graph(t, c)
			after := now.graph(t, c)
			_, err := runner(t, before, stored(store)).Run(t.Context(), st{}, in("r"))
			id := questionsOf(t, err)[0]
			called := c.all()
			for range 3 {
				_, err = runner(t, after, stored(store)).Resume(t.Context(), "r")
				other := asError[*durable.NonDeterminismError](t, err)
				require.Equal(t, "r", other.RunID)
				require.Contains(t, other.Recorded, "search with 3 items")
				require.Contains(t, other.Met, `"plan"`)
				require.Equal(t, journal.Pending, statusOf(t, store, "r"))
			}
			require.NoError(t, runner(t, before, stored(store)).Answer(t.Context(), "r", id, "yes"))
			res, err := runner(t, before, stored(store)).Resume(t.Context(), "r")
			require.NoError(t, err)
			require.Equal(t, []string{"plan", "search", "search", "search", "yes"}, res.State.Log)
			require.Equal(t, called, c.all(), "nothing was called again")
		})
	}
}

// The fourth attempt within an hour ends the run.
func TestJournal_AReplayThatFailsAgainAndAgainEndsTheRun(t *testing.T) {
	store := newStore()
	way := "b"
	g := func() *superstep.Runner[st, up] {
		return runner(t, build(t, func(b *bld) {
			a, n, m := b.Node("a", say("a")), b.Node("b", asks("?")), b.Node("c", say("c"))
			b.Start(a)
			b.Route(a, func(st) graph.Next {
				if way == "b" {
					return graph.To(n)
				}
				return graph.To(m)
			}, n, m)
		}), stored(store))
	}
	_, err := g().Run(t.Context(), st{}, in("r"))
	require.ErrorAs(t, err, new(*durable.SuspendedError))
	way = "c"
	for range 3 {
		_, err = g().Resume(t.Context(), "r")
		require.ErrorAs(t, err, new(*durable.NonDeterminismError))
	}
	for range 2 {
		_, err = g().Resume(t.Context(), "r")
		require.Equal(t, durable.CodeReplayFailed, asError[*durable.RunFailedError](t, err).Code)
		require.ErrorAs(t, err, new(*durable.NonDeterminismError))
	}
	require.Equal(t, journal.Failed, statusOf(t, store, "r"))
}
