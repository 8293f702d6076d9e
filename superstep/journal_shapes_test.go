package superstep_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/superstep"
)

// crashable are graphs of one shape each, for a crash at every write.
func crashable(tb testing.TB) map[string]func(c *meter) *graph.Graph[st, up] {
	tb.Helper()
	node := func(c *meter, name string) nodeFn { return counted(c, name, say(name)) }
	leafOf := func(c *meter) func(context.Context, st, int) (up, error) {
		return func(_ context.Context, s st, i int) (up, error) {
			c.hit("leaf %d at %d", i, s.N)
			return up{Log: []string{fmt.Sprint("leaf", i)}}, nil
		}
	}
	return map[string]func(c *meter) *graph.Graph[st, up]{
		"a join of sources of several super-steps, in a loop": func(c *meter) *graph.Graph[st, up] {
			return build(tb, func(b *bld) {
				begin := b.Node("begin", func(_ context.Context, s st) (up, error) {
					c.hit("begin %d", s.N)
					return up{N: 1, Log: []string{"begin"}}, nil
				})
				early, late1, late2 := b.Node("early", say("early")), b.Node("late1", say("late1")), b.Node("late2", say("late2"))
				end := b.Node("end", say("end"))
				b.Start(begin)
				b.Edge(begin, early)
				b.Edge(begin, late1)
				b.Edge(late1, late2)
				b.Join([]graph.Ref{early, late2}, end)
				b.Route(end, func(s st) graph.Next {
					if s.N < 3 {
						return graph.To(begin)
					}
					return graph.To(graph.End)
				}, begin, graph.End)
			})
		},
		"deferred nodes and deferred fan-outs": func(c *meter) *graph.Graph[st, up] {
			return build(tb, func(b *bld) {
				a, x, y := b.Node("a", node(c, "a")), b.Node("x", node(c, "x")), b.Node("y", node(c, "y"))
				leaf := graph.Task(b, "leaf", leafOf(c), graph.Defer())
				last := b.Node("last", node(c, "last"), graph.Defer())
				b.Start(a)
				b.Edge(a, x)
				b.Edge(x, y)
				b.Edge(a, last)
				b.Route(a, each(leaf, 1, 2), leaf)
			})
		},
		"a subgraph in a fan-out": func(c *meter) *graph.Graph[st, up] {
			inner := build(tb, func(b *bld) {
				p := b.Node("p", func(_ context.Context, s st) (up, error) { c.hit("p %d", s.N); return up{Log: []string{"p"}}, nil })
				leaf := graph.Task(b, "leaf", leafOf(c))
				q := b.Node("q", func(_ context.Context, s st) (up, error) { c.hit("q %d", s.N); return up{Log: []string{"q"}}, nil })
				b.Start(p)
				b.Route(p, each(leaf, 1, 2), leaf)
				b.Edge(leaf, q)
			})
			return build(tb, func(b *bld) {
				a := b.Node("a", node(c, "a"))
				sub := graph.SubTask(b, "sub", inner, func(_ st, i int) st { return st{N: i} }, func(s st) up {
					return up{Log: []string{fmt.Sprint(s.N, s.Log)}}
				})
				end := b.Node("end", node(c, "end"))
				b.Start(a)
				b.Route(a, each(sub, 10, 20, 30), sub)
				b.Edge(sub, end)
			})
		},
		"a Goto with items, and one that jumps back": func(c *meter) *graph.Graph[st, up] {
			return build(tb, func(b *bld) {
				leaf := graph.Task(b, "leaf", leafOf(c))
				var jump graph.Node
				jump = b.Goto("jump", func(_ context.Context, s st) (up, graph.Next, error) {
					c.hit("jump %d", s.N)
					next := leaf.Each([]int{s.N, s.N + 1})
					if s.N < 2 {
						next = graph.All(next, graph.To(jump))
					}
					return up{N: 1}, next, nil
				})
				b.Start(jump)
				b.Targets(jump, jump, leaf)
			})
		},
		"a loop with checkpoints": func(c *meter) *graph.Graph[st, up] {
			return build(tb, func(b *bld) {
				a := b.Node("a", func(_ context.Context, s st) (up, error) {
					c.hit("a %d", s.N)
					return up{N: 1, Log: []string{strings.Repeat("x", 12<<10)}}, nil
				})
				side := b.Node("side", func(_ context.Context, s st) (up, error) { c.hit("side %d", s.N); return up{}, nil })
				both := b.Node("both", func(_ context.Context, s st) (up, error) { return up{Log: []string{fmt.Sprint("both ", s.N)}}, nil })
				b.Start(a)
				b.Route(a, func(s st) graph.Next {
					if s.N < 8 {
						return graph.To(a, side)
					}
					return graph.To(graph.End)
				}, a, side, graph.End)
				b.Join([]graph.Ref{a, side}, both)
			})
		},
	}
}

func TestJournal_EveryShapeGoesOnAfterACrashAtAnyWrite(t *testing.T) {
	for name, shape := range crashable(t) {
		t.Run(name, func(t *testing.T) {
			calm := journaltest.NewFaulty(newStore())
			want, err := runner(t, shape(newMeter()), stored(calm)).Run(t.Context(), st{}, in("r"))
			require.NoError(t, err)
			for n := 1; n <= calm.Done(journaltest.OpCreate, journaltest.OpAppend); n++ {
				for _, when := range []journaltest.When{journaltest.Before, journaltest.After} {
					c, inner := newMeter(), newStore()
					g, store := shape(c), journaltest.NewFaulty(inner)
					store.FailWrite(n, when, journaltest.OpCreate, journaltest.OpAppend)
					_, err := runner(t, g, superstep.Config{Store: store, Logger: quiet()}).Run(t.Context(), st{}, in("r"))
					if err != nil {
						require.ErrorIs(t, err, journal.ErrUnavailable)
					}
					o := play(t.Context(), t, g, stored(inner), st{}, in("r"))
					require.NoError(t, o.err, "write %d, %s", n, when)
					require.Equal(t, want.State, o.State, "write %d, %s", n, when)
					require.Equal(t, want.SuperSteps, o.SuperSteps)
					require.Equal(t, want.Unfired, o.Unfired)
					repeated := 0
					for what, calls := range c.all() {
						assert.LessOrEqual(t, calls, 2, what)
						repeated += calls - 1
					}
					assert.LessOrEqual(t, repeated, 6, "only what was in flight")
					last, err := runner(t, g, stored(inner)).State(t.Context(), "r")
					require.NoError(t, err)
					require.Equal(t, want.State, last.State)
				}
			}
		})
	}
}

// The journal grows with what the nodes write, not with steps times state.
func TestJournal_GrowsLinearly(t *testing.T) {
	sizes := map[int]int{}
	for _, steps := range []int{200, 400, 800} {
		store := newStore()
		g := build(t, func(b *bld) {
			a := b.Node("a", func(context.Context, st) (up, error) { return up{N: 1, Log: []string{strings.Repeat("y", 1000)}}, nil })
			b.Start(a)
			b.Route(a, func(s st) graph.Next {
				if s.N < steps {
					return graph.To(a)
				}
				return graph.To(graph.End)
			}, a, graph.End)
		})
		res, err := runner(t, g, superstep.Config{Store: store, MaxSuperSteps: steps}).Run(t.Context(), st{}, in("r"))
		require.NoError(t, err)
		require.Equal(t, steps, res.State.N)
		for _, e := range eventsOf(t, store, "r") {
			sizes[steps] += len(e.Payload) + len(e.Meta) + len(e.Scope)
		}
	}
	t.Log("bytes by steps:", sizes)
	for _, steps := range []int{200, 400} {
		require.Less(t, float64(sizes[2*steps])/float64(sizes[steps]), 2.6, "twice the steps: about twice the bytes")
	}
	require.Less(t, sizes[800], 5*800*1000, "each byte is written a bounded number of times")
}
