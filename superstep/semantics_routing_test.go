package superstep_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

// steps tells which nodes ran in each super-step of the run's own graph.
func steps(evs []task.Event) [][]string {
	var out [][]string
	for _, ev := range evs {
		h := ev.Head()
		if parent(h.Node) != "" {
			continue
		}
		switch ev.(type) {
		case *task.SuperStepStarted:
			if h.Node == "" {
				out = append(out, nil)
			}
		case *task.TaskStarted:
			out[len(out)-1] = append(out[len(out)-1], h.Node)
		}
	}
	return out
}

func TestSemantics_ARouterMayNameSeveralTargetsDuplicatesCollapseAnEmptyAnswerEndsTheBranch(t *testing.T) {
	g := build(t, func(b *bld) {
		s := b.Node("s", say("s"))
		x, y := b.Node("x", say("x")), b.Node("y", say("y"))
		fan := graph.Task(b, "fan", word)
		never := b.Node("never", say("never"))
		b.Start(s)
		b.Route(s, func(st) graph.Next {
			return graph.All(graph.To(y, x, y), fan.Each([]string{"f"}), graph.To(x))
		}, x, y, fan)
		b.Route(x, to(), never)
		b.Route(y, func(st) graph.Next { return graph.Next{} }, never)
		b.Route(fan, func(st) graph.Next { return graph.All() }, never)
	})
	o := play(t.Context(), t, g, superstep.Config{}, st{})
	require.NoError(t, o.err)
	require.Equal(t, []string{"s", "x", "y", "f"}, o.State.Log)
	require.Equal(t, 2, o.SuperSteps)
	require.Equal(t, []task.Unfired{{Target: "never"}}, o.Unfired)
}

func TestSemantics_SeveralRoutersOnOneNodeAreIndependent(t *testing.T) {
	asked := [2]int{}
	g := build(t, func(b *bld) {
		s := b.Node("s", say("s"))
		x, y := b.Node("x", say("x")), b.Node("y", say("y"))
		b.Start(s)
		b.Edge(s, x)
		b.Route(s, func(st) graph.Next { asked[0]++; return graph.To(graph.End) }, graph.End)
		b.Route(s, func(st) graph.Next { asked[1]++; return graph.To(y) }, y)
	})
	o := play(t.Context(), t, g, superstep.Config{}, st{})
	require.NoError(t, o.err)
	require.Equal(t, []string{"s", "x", "y"}, o.State.Log)
	require.Equal(t, [2]int{1, 1}, asked)
}

func TestSemantics_ARouterBehindAFanOutIsAskedOnceForEachSuperStepInWhichItRan(t *testing.T) {
	asked := 0
	g := build(t, func(b *bld) {
		s := b.Node("s", say())
		fan := graph.Task(b, "fan", word)
		b.Start(s)
		b.Route(s, each(fan, "a", "b", "c"), fan)
		b.Route(fan, func(state st) graph.Next {
			if asked++; len(state.Log) < 6 {
				return graph.To(s)
			}
			return graph.To()
		}, s)
	})
	o := play(t.Context(), t, g, superstep.Config{}, st{})
	require.NoError(t, o.err)
	require.Equal(t, 2, asked)
	require.Equal(t, []string{"a", "b", "c", "a", "b", "c"}, o.State.Log)
}

func TestSemantics_AnEmptyFanOutEndsThatBranchAndWhatIsBehindDoesNotFire(t *testing.T) {
	for name, items := range map[string][]string{"nil": nil, "empty": {}} {
		t.Run(name, func(t *testing.T) {
			g := build(t, func(b *bld) {
				s, other := b.Node("s", say("s")), b.Node("other", say("other"))
				fan := graph.Task(b, "fan", word)
				behind, joined := b.Node("behind", say("behind")), b.Node("joined", say("joined"))
				b.Start(s, other)
				b.Route(s, func(st) graph.Next { return fan.Each(items) }, fan)
				b.Edge(fan, behind)
				b.Join([]graph.Ref{other, fan}, joined)
			})
			o := play(t.Context(), t, g, superstep.Config{}, st{})
			require.NoError(t, o.err)
			require.Equal(t, []string{"s", "other"}, o.State.Log)
			require.Equal(t, 1, o.SuperSteps)
			require.Equal(t, []task.Unfired{
				{Target: "joined", Join: true, Arrived: []string{"other"}, Missing: []string{"fan"}},
				{Target: "fan"}, {Target: "behind"}, {Target: "joined"},
			}, o.Unfired)
		})
	}
}

func TestSemantics_AJoinFiresOnceThoughItsSourcesArriveInDifferentSuperStepsOrSeveralTimes(t *testing.T) {
	t.Run("different super-steps, several arrivals before it fires", func(t *testing.T) {
		g := build(t, func(b *bld) {
			s := b.Node("s", say("s"))
			again := b.Node("again", say("again"))
			slow := b.Node("slow", say("slow"))
			mid := b.Node("mid", say())
			d := b.Node("d", say("d"))
			b.Start(s)
			b.Edge(s, again)
			b.Edge(s, mid)
			b.Edge(mid, slow)
			b.Edge(mid, again) // again arrives twice before slow
			b.Join([]graph.Ref{again, slow}, d)
		})
		o := play(t.Context(), t, g, superstep.Config{}, st{})
		require.NoError(t, o.err)
		require.Equal(t, [][]string{{"s"}, {"again", "mid"}, {"again", "slow"}, {"d"}}, sorted(steps(o.events)))
		require.Empty(t, o.Unfired)
	})
	t.Run("an arrival after it fired belongs to the next round", func(t *testing.T) {
		g := build(t, func(b *bld) {
			x, y, d := b.Node("x", say("x")), b.Node("y", say("y")), b.Node("d", say("d"))
			b.Start(x, y)
			b.Join([]graph.Ref{x, y}, d)
			b.Route(d, func(s st) graph.Next {
				if len(s.Log) < 4 {
					return graph.To(x)
				}
				return graph.To()
			}, x)
		})
		o := play(t.Context(), t, g, superstep.Config{}, st{})
		require.NoError(t, o.err)
		require.Equal(t, []string{"x", "y", "d", "x"}, o.State.Log, "x alone does not fire it again")
		require.Equal(t, []task.Unfired{{Target: "d", Join: true, Arrived: []string{"x"}, Missing: []string{"y"}}}, o.Unfired)
	})
	t.Run("it resets in loops", func(t *testing.T) {
		g := build(t, func(b *bld) {
			x, y, d := b.Node("x", say("x")), b.Node("y", say("y")), b.Node("d", say("d"))
			b.Start(x, y)
			b.Join([]graph.Ref{x, y}, d)
			b.Route(d, func(s st) graph.Next {
				if len(s.Log) < 9 {
					return graph.To(x, y)
				}
				return graph.To()
			}, x, y)
		})
		o := play(t.Context(), t, g, superstep.Config{}, st{})
		require.NoError(t, o.err)
		require.Equal(t, []string{"x", "y", "d", "x", "y", "d", "x", "y", "d"}, o.State.Log)
		require.Empty(t, o.Unfired)
	})
	t.Run("a join whose target is one of its sources", func(t *testing.T) {
		g := build(t, func(b *bld) {
			x, y := b.Node("x", say("x")), b.Node("y", say("y"))
			b.Start(x, y)
			b.Join([]graph.Ref{x, y}, x)
		})
		o := play(t.Context(), t, g, superstep.Config{}, st{})
		require.NoError(t, o.err)
		require.Equal(t, []string{"x", "y", "x"}, o.State.Log)
	})
	t.Run("two joins on one target in one super-step", func(t *testing.T) {
		g := build(t, func(b *bld) {
			x, y, z, d := b.Node("x", say("x")), b.Node("y", say("y")), b.Node("z", say("z")), b.Node("d", say("d"))
			b.Start(x, y, z)
			b.Join([]graph.Ref{x, y}, d)
			b.Join([]graph.Ref{y, z}, d)
		})
		o := play(t.Context(), t, g, superstep.Config{}, st{})
		require.NoError(t, o.err)
		require.Equal(t, []string{"x", "y", "z", "d"}, o.State.Log)
	})
	t.Run("a fan-out's tasks are one arrival", func(t *testing.T) {
		g := build(t, func(b *bld) {
			s := b.Node("s", say("s"))
			fan := graph.Task(b, "fan", word)
			d := b.Node("d", say("d"))
			b.Start(s)
			b.Route(s, each(fan, "1", "2", "3"), fan)
			b.Join([]graph.Ref{s, fan}, d)
		})
		o := play(t.Context(), t, g, superstep.Config{}, st{})
		require.NoError(t, o.err)
		require.Equal(t, []string{"s", "1", "2", "3", "d"}, o.State.Log)
	})
}

// sorted orders what ran in each super-step by name.
func sorted(steps [][]string) [][]string {
	for _, s := range steps {
		slices.Sort(s)
	}
	return steps
}

func TestSemantics_ADeferredNodeWaitsUntilNothingElseIsActiveAndTheRunGoesOnIfItActivatesOthers(t *testing.T) {
	child := build(t, func(b *bld) {
		x, y := b.Node("x", say("x")), b.Node("y", say("y"))
		b.Start(x)
		b.Edge(x, y)
	})
	g := build(t, func(b *bld) {
		s := b.Node("s", say("s"))
		last := b.Node("last", say("last"), graph.Defer())
		fan := graph.Task(b, "fan", word)
		sub := graph.Sub(b, "sub", child, func(st) st { return st{} }, func(s st) up { return up{Log: s.Log} })
		chain := b.Node("chain", say("chain"))
		more := b.Node("more", say("more"))
		b.Start(s)
		b.Edge(s, last)
		b.Edge(s, chain)
		b.Route(chain, each(fan, "f1", "f2"), fan)
		b.Edge(fan, sub)
		b.Edge(sub, last) // activated a second time while it waits
		b.Route(last, func(s st) graph.Next {
			if len(s.Log) < 9 {
				return graph.To(more)
			}
			return graph.To()
		}, more)
		b.Edge(more, last)
	})
	o := play(t.Context(), t, g, superstep.Config{}, st{})
	require.NoError(t, o.err)
	require.Equal(t, []string{"s", "chain", "f1", "f2", "x", "y", "last", "more", "last"}, o.State.Log)
}

func TestSemantics_DeferredFanOutsSubgraphsAndJoins(t *testing.T) {
	t.Run("a deferred fan-out", func(t *testing.T) {
		g := build(t, func(b *bld) {
			s, x, y := b.Node("s", say("s")), b.Node("x", say("x")), b.Node("y", say("y"))
			fan := graph.Task(b, "fan", word, graph.Defer())
			b.Start(s)
			b.Edge(s, x)
			b.Route(s, each(fan, "f1"), fan)
			b.Edge(x, y)
			b.Route(x, each(fan, "f2", "f3"), fan)
		})
		o := play(t.Context(), t, g, superstep.Config{}, st{})
		require.NoError(t, o.err)
		require.Equal(t, []string{"s", "x", "y", "f1", "f2", "f3"}, o.State.Log, "once per item, also of two fan-outs")
		require.Equal(t, 4, o.SuperSteps)
	})
	t.Run("a deferred node as the source and the target of joins", func(t *testing.T) {
		g := build(t, func(b *bld) {
			s, x := b.Node("s", say("s")), b.Node("x", say("x"))
			d := b.Node("d", say("d"), graph.Defer())
			e := b.Node("e", say("e"), graph.Defer())
			b.Start(s, d)
			b.Edge(s, x)
			b.Join([]graph.Ref{x, d}, e)
		})
		o := play(t.Context(), t, g, superstep.Config{}, st{})
		require.NoError(t, o.err)
		require.Equal(t, []string{"s", "x", "d", "e"}, o.State.Log)
		require.Equal(t, 4, o.SuperSteps)
	})
	t.Run("several deferred nodes run together", func(t *testing.T) {
		g := build(t, func(b *bld) {
			d, e, x := b.Node("d", say("d"), graph.Defer()), b.Node("e", say("e"), graph.Defer()), b.Node("x", say("x"))
			b.Start(e, d, x)
			b.Edge(d, e)
		})
		o := play(t.Context(), t, g, superstep.Config{}, st{})
		require.NoError(t, o.err)
		require.Equal(t, []string{"x", "d", "e", "e"}, o.State.Log)
	})
	t.Run("a deferred start alone", func(t *testing.T) {
		g := build(t, func(b *bld) { b.Start(b.Node("d", say("d"), graph.Defer())) })
		o := play(t.Context(), t, g, superstep.Config{MaxSuperSteps: 1}, st{})
		require.NoError(t, o.err)
		require.Equal(t, 1, o.SuperSteps)
	})
	t.Run("a deferred node inside a subgraph waits for its own graph only", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var at time.Duration
			begin := time.Now()
			child := build(t, func(b *bld) {
				b.Start(b.Node("d", func(context.Context, st) (up, error) { at = time.Since(begin); return up{}, nil }, graph.Defer()))
			})
			g := build(t, func(b *bld) {
				b.Start(graph.Sub(b, "sub", child, func(s st) st { return s }, func(st) up { return up{} }),
					b.Node("slow", func(context.Context, st) (up, error) { time.Sleep(time.Hour); return up{}, nil }))
			})
			require.NoError(t, play(t.Context(), t, g, superstep.Config{}, st{}).err)
			require.Zero(t, at)
		})
	})
}

func TestSemantics_SelfLoopsAndDeadEndsAreLegalAndSuperStepsLeftLetsANodeEndInTime(t *testing.T) {
	var left []int
	g := build(t, func(b *bld) {
		var n graph.Node
		n = b.Goto("n", func(ctx context.Context, _ st) (up, graph.Next, error) {
			k := task.Info(ctx).SuperStepsLeft
			if left = append(left, k); k == 0 {
				return up{}, graph.To(), nil
			}
			return up{}, graph.To(n), nil
		})
		b.Targets(n, n)
		b.Start(n)
	})
	o := play(t.Context(), t, g, superstep.Config{MaxSuperSteps: 7}, st{})
	require.NoError(t, o.err)
	require.Equal(t, 7, o.SuperSteps)
	require.Equal(t, []int{6, 5, 4, 3, 2, 1, 0}, left)
}

func TestSemantics_ACycleIsBoundedByTheLimit(t *testing.T) {
	g := build(t, func(b *bld) {
		x, y := b.Node("x", say("x")), b.Node("y", say("y"))
		b.Start(x)
		b.Edge(x, y)
		b.Edge(y, x)
	})
	o := play(t.Context(), t, g, superstep.Config{MaxSuperSteps: 5}, st{})
	var limit *superstep.MaxSuperStepsError
	require.ErrorAs(t, o.err, &limit)
	require.Equal(t, []string{"y"}, limit.Active)
	require.Equal(t, []string{"x", "y", "x", "y", "x"}, o.State.Log)
}

func TestSemantics_TwoGotosMayPointAtEachOther(t *testing.T) {
	g := build(t, func(b *bld) {
		var x, y graph.Node
		step := func(name string, other *graph.Node) func(context.Context, st) (up, graph.Next, error) {
			return func(_ context.Context, s st) (up, graph.Next, error) {
				if s.N == 5 {
					return up{}, graph.To(graph.End), nil
				}
				return up{N: 1, Log: []string{name}}, graph.To(*other), nil
			}
		}
		x, y = b.Goto("x", step("x", &y)), b.Goto("y", step("y", &x))
		b.Targets(x, y, graph.End)
		b.Targets(y, x, graph.End)
		b.Start(x)
	})
	o := play(t.Context(), t, g, superstep.Config{}, st{})
	require.NoError(t, o.err)
	require.Equal(t, []string{"x", "y", "x", "y", "x"}, o.State.Log)
	require.Equal(t, 6, o.SuperSteps)
}

func TestSemantics_AGotoMayFanOutAndItsAnswerComesOnTop(t *testing.T) {
	g := build(t, func(b *bld) {
		fan := graph.Task(b, "fan", word)
		e := b.Node("e", say("e"))
		x := b.Goto("x", func(context.Context, st) (up, graph.Next, error) {
			return up{}, graph.All(graph.To(e, graph.End), fan.Each([]string{"a", "b"})), nil
		})
		b.Targets(x, fan, e, graph.End)
		b.Edge(x, e)
		b.Start(x)
	})
	o := play(t.Context(), t, g, superstep.Config{}, st{})
	require.NoError(t, o.err)
	require.Equal(t, []string{"e", "a", "b"}, o.State.Log)
}

func TestSemantics_LimitsAreExactAlsoForFanOutsDefersAndJoins(t *testing.T) {
	g := build(t, func(b *bld) {
		s := b.Node("s", say())
		fan := graph.Task(b, "fan", word)
		j, d := b.Node("j", say()), b.Node("d", say(), graph.Defer())
		b.Start(s)
		b.Route(s, each(fan, "1", "2"), fan)
		b.Join([]graph.Ref{s, fan}, j)
		b.Edge(s, d)
	})
	for limit := 1; limit <= 5; limit++ {
		o := play(t.Context(), t, g, superstep.Config{MaxSuperSteps: limit}, st{})
		if limit >= 4 {
			require.NoError(t, o.err)
			continue
		}
		var le *superstep.MaxSuperStepsError
		require.ErrorAs(t, o.err, &le, fmt.Sprint(limit))
		require.Equal(t, [][]string{{"fan"}, {"j"}, {"d"}}[limit-1], le.Active)
		require.Equal(t, limit, o.SuperSteps)
	}
}

func TestSemantics_AnArrivalInTheSuperStepInWhichAJoinFiresBelongsToThatRound(t *testing.T) {
	for _, first := range []string{"a", "b"} { // the order of declaration must not matter
		t.Run(first+" declared first", func(t *testing.T) {
			g := build(t, func(b *bld) {
				other := map[string]string{"a": "b", "b": "a"}[first]
				nodes := map[string]graph.Node{}
				for _, name := range []string{first, other} {
					nodes[name] = b.Node(name, say(name))
				}
				d := b.Node("d", say("d"))
				b.Start(nodes["a"])
				b.Route(nodes["a"], func(s st) graph.Next { // a, then a and b, then b alone
					if len(s.Log) == 1 {
						return graph.To(nodes["a"], nodes["b"])
					}
					return graph.To(nodes["b"])
				}, nodes["a"], nodes["b"])
				b.Join([]graph.Ref{nodes["a"], nodes["b"]}, d)
			})
			o := play(t.Context(), t, g, superstep.Config{}, st{})
			require.NoError(t, o.err)
			require.Equal(t, [][]string{{"a"}, {"a", "b"}, {"b", "d"}}, sorted(steps(o.events)))
			require.Equal(t, []task.Unfired{{Target: "d", Join: true, Arrived: []string{"b"}, Missing: []string{"a"}}}, o.Unfired)
		})
	}
}
