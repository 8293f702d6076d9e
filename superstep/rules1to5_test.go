package superstep_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

func TestRule01_AllTasksOfASuperStepSeeTheSameSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen [3]st
		g := build(t, func(b *bld) {
			for i := range seen {
				n := b.Node(fmt.Sprint("n", i), func(ctx context.Context, s st) (up, error) {
					time.Sleep(time.Duration(3-i) * time.Second) // the others finish meanwhile
					seen[i] = s
					return up{Log: []string{fmt.Sprint(i)}, N: 1}, nil
				})
				b.Start(n)
			}
		})
		o := play(t.Context(), t, g, superstep.Config{}, st{V: "in", Log: []string{"x"}})
		require.NoError(t, o.err)
		for i := range seen {
			require.Equal(t, st{V: "in", Log: []string{"x"}}, seen[i])
		}
		require.Equal(t, st{V: "in", Log: []string{"x", "0", "1", "2"}, N: 3}, o.State)
	})
}

func TestRule01_UpdatesAreReducedInTaskOrderNeverInCompletionOrder(t *testing.T) {
	// Each delay table finishes in another order; -1 leaves the order to the scheduler.
	for _, delays := range [][]int{{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 4, 0, 3, 1}, {0, 0, 0, 0, 0}} {
		synctest.Test(t, func(t *testing.T) {
			wait := func(i int) { time.Sleep(time.Duration(delays[i]) * time.Second) }
			g := build(t, func(b *bld) {
				start := b.Node("start", say())
				fan := graph.Task(b, "fan", func(_ context.Context, _ st, i int) (up, error) {
					wait(i)
					return up{Log: []string{fmt.Sprint("fan", i)}}, nil
				})
				z := b.Node("z", func(context.Context, st) (up, error) { wait(3); return up{Log: []string{"z"}}, nil })
				a := b.Node("a", func(context.Context, st) (up, error) { wait(4); return up{Log: []string{"a"}}, nil })
				b.Start(start)
				b.Edge(start, a)
				b.Edge(start, z)
				b.Route(start, each(fan, 0, 1, 2), fan)
			})
			o := play(t.Context(), t, g, superstep.Config{}, st{})
			require.NoError(t, o.err)
			// Node declaration order, then fan-out index; what is fanned out comes last.
			require.Equal(t, []string{"z", "a", "fan0", "fan1", "fan2"}, o.State.Log)
		})
	}
}

func TestRule01_TaskEventsStandInCompletionOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := build(t, func(b *bld) {
			start := b.Node("start", say())
			fan := graph.Task(b, "fan", func(_ context.Context, _ st, i int) (up, error) {
				time.Sleep(time.Duration(10-i) * time.Second)
				return up{}, nil
			})
			b.Start(start)
			b.Route(start, each(fan, 0, 1, 2, 3), fan)
		})
		o := play(t.Context(), t, g, superstep.Config{}, st{})
		require.NoError(t, o.err)
		var order []int
		for _, ev := range only[*task.TaskCompleted](o.events) {
			if ev.Node == "fan" {
				order = append(order, ev.Index)
			}
		}
		require.Equal(t, []int{3, 2, 1, 0}, order)
	})
}

func TestRule02_RoutersRunAfterTheBarrierOnTheMergedState(t *testing.T) {
	var seen []st
	g := build(t, func(b *bld) {
		x, y, end := b.Node("x", say("x")), b.Node("y", say("y")), b.Node("end", say("end"))
		b.Start(y, x)
		b.Route(x, func(s st) graph.Next { seen = append(seen, s); return graph.To(end) }, end)
	})
	o := play(t.Context(), t, g, superstep.Config{}, st{})
	require.NoError(t, o.err)
	require.Equal(t, []st{{Log: []string{"x", "y"}}}, seen)
	require.Equal(t, []string{"x", "y", "end"}, o.State.Log)
}

func TestRule02_AnUndeclaredTargetIsATypedErrorWithSourceAndTarget(t *testing.T) {
	var elsewhere, later, zero graph.Node
	build(t, func(b *bld) {
		elsewhere = b.Node("elsewhere", say())
		b.Start(elsewhere)
	})
	router := func(target *graph.Node) *graph.Graph[st, up] {
		return build(t, func(b *bld) {
			a, c := b.Node("a", say("a")), b.Node("c", say())
			later = b.Node("later", say())
			b.Start(a)
			b.Edge(c, later)
			b.Route(a, func(st) graph.Next { return graph.To(c, *target) }, c)
		})
	}
	gotoer := func(target *graph.Node) *graph.Graph[st, up] {
		return build(t, func(b *bld) {
			c := b.Node("c", say())
			later = b.Node("later", say())
			a := b.Goto("a", func(context.Context, st) (up, graph.Next, error) {
				return up{Log: []string{"a"}}, graph.To(*target), nil
			})
			b.Targets(a, c)
			b.Edge(c, later)
			b.Start(a)
		})
	}
	end := graph.End
	for _, tc := range []struct {
		name    string
		target  *graph.Node
		want    string
		foreign bool
	}{
		{"a node of the graph", &later, "later", false},
		{"a node of another graph", &elsewhere, "elsewhere", true},
		{"End", &end, "End", false},
		{"the zero node", &zero, "zero Node", true},
	} {
		for kind, compile := range map[string]func(*graph.Node) *graph.Graph[st, up]{"router": router, "goto": gotoer} {
			t.Run(kind+" names "+tc.name, func(t *testing.T) {
				o := play(t.Context(), t, compile(tc.target), superstep.Config{}, st{V: "in"})
				var re *superstep.RouteError
				require.ErrorAs(t, o.err, &re)
				require.Equal(t, superstep.RouteError{SuperStep: 1, Source: "a", Target: tc.want, Foreign: tc.foreign}, *re)
				require.Contains(t, o.err.Error(), `"a"`)
				require.Contains(t, o.err.Error(), tc.want)
				require.Equal(t, st{V: "in"}, o.State, "nothing of the super-step is committed")
				require.Zero(t, o.SuperSteps)
			})
		}
	}
}

func TestRule03_EndEndsOneBranchNotTheRun(t *testing.T) {
	g := build(t, func(b *bld) {
		x, y, z := b.Node("x", say("x")), b.Node("y", say("y")), b.Node("z", say("z"))
		never := b.Node("never", say("never"))
		b.Start(x, y)
		b.Edge(x, graph.End)
		b.Edge(y, z)
		b.Route(z, to(graph.End), graph.End, never)
		b.Join([]graph.Ref{z, never}, x)
	})
	o := play(t.Context(), t, g, superstep.Config{}, st{})
	require.NoError(t, o.err)
	require.Equal(t, []string{"x", "y", "z"}, o.State.Log)
	require.Equal(t, 2, o.SuperSteps)
	require.Equal(t, []task.Unfired{
		{Target: "x", Join: true, Arrived: []string{"z"}, Missing: []string{"never"}},
		{Target: "never"},
	}, o.Unfired)
	joins := only[*task.JoinUnfired](o.events)
	require.Len(t, joins, 1)
	require.Equal(t, o.Unfired[0], joins[0].Unfired)
	done := only[*task.RunCompleted[st]](o.events)
	require.Len(t, done, 1)
	require.Equal(t, o.Unfired, done[0].Unfired)
}

func TestRule04_ANodeActivatedByManyWaysRunsOnceAFanOutOncePerItem(t *testing.T) {
	g := build(t, func(b *bld) {
		x, y, z := b.Node("x", say("x")), b.Node("y", say("y")), b.Node("z", say("z"))
		fan := graph.Task(b, "fan", func(_ context.Context, _ st, i string) (up, error) {
			return up{Log: []string{i}}, nil
		})
		gt := b.Goto("gt", func(context.Context, st) (up, graph.Next, error) { return up{}, graph.To(z, z), nil })
		b.Start(x, y, gt, x)
		b.Targets(gt, z)
		b.Edge(x, z)
		b.Edge(x, z)
		b.Edge(y, z)
		b.Edge(gt, z)
		b.Route(x, func(st) graph.Next { return graph.All(graph.To(z), fan.Each([]string{"i", "i"})) }, z, fan)
		b.Route(y, each(fan, "i"), fan)
		b.Join([]graph.Ref{x, y}, z)
	})
	o := play(t.Context(), t, g, superstep.Config{}, st{})
	require.NoError(t, o.err)
	require.Equal(t, []string{"x", "y", "z", "i", "i", "i"}, o.State.Log)
}

func TestRule04_GotoAndRoutersAddToStaticEdges(t *testing.T) {
	g := build(t, func(b *bld) {
		s, r, q, n := b.Node(
			"static",
			say("static"),
		), b.Node(
			"routed",
			say("routed"),
		), b.Node(
			"routed2",
			say("routed2"),
		), b.Node(
			"named",
			say("named"),
		)
		a := b.Goto("a", func(context.Context, st) (up, graph.Next, error) { return up{}, graph.To(n), nil })
		b.Start(a)
		b.Targets(a, n)
		b.Edge(a, s)
		b.Route(a, to(r), r)
		b.Route(a, to(q), q)
	})
	o := play(t.Context(), t, g, superstep.Config{}, st{})
	require.NoError(t, o.err)
	require.Equal(t, []string{"static", "routed", "routed2", "named"}, o.State.Log)
}

// peak counts how many are inside at once.
type peak struct{ now, most atomic.Int64 }

func (p *peak) enter() {
	n := p.now.Add(1)
	for m := p.most.Load(); n > m && !p.most.CompareAndSwap(m, n); m = p.most.Load() {
	}
}
func (p *peak) leave() { p.now.Add(-1) }

func TestRule04_MaxConcurrencyBoundsHowManyTasksRunAtOnce(t *testing.T) {
	for _, limit := range []int{0, 1, 2, 7} {
		synctest.Test(t, func(t *testing.T) {
			var p peak
			work := func(context.Context, st, int) (up, error) {
				p.enter()
				defer p.leave()
				time.Sleep(time.Second)
				return up{N: 1}, nil
			}
			child := build(t, func(b *bld) {
				s := b.Node("s", say())
				w := graph.Task(b, "w", work)
				b.Start(s)
				b.Route(s, each(w, 1, 2, 3), w)
			})
			g := build(t, func(b *bld) {
				s := b.Node("s", say())
				w := graph.Task(b, "w", work)
				sub := graph.SubTask(b, "sub", child, func(st, int) st { return st{} }, func(s st) up { return up{N: s.N} })
				b.Start(s)
				b.Route(s, func(st) graph.Next { return graph.All(w.Each([]int{1, 2, 3, 4, 5}), sub.Each([]int{1, 2, 3})) }, w, sub)
			})
			begin := time.Now()
			o := play(t.Context(), t, g, superstep.Config{MaxConcurrency: limit}, st{})
			require.NoError(t, o.err)
			require.Equal(t, 14, o.State.N)
			if limit == 0 {
				require.EqualValues(t, 14, p.most.Load())
				return
			}
			require.LessOrEqual(t, p.most.Load(), int64(limit))
			require.Equal(t, time.Duration((14+limit-1)/limit)*time.Second, time.Since(begin), "no place is left empty")
		})
	}
}

func TestRule04_ANodesOwnMaxConcurrencyHoldsInTheWholeRun(t *testing.T) {
	t.Run("fan-out", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var p, q peak
			at := func(p *peak) func(context.Context, st, int) (up, error) {
				return func(context.Context, st, int) (up, error) {
					p.enter()
					defer p.leave()
					time.Sleep(time.Second)
					return up{N: 1}, nil
				}
			}
			g := build(t, func(b *bld) {
				s := b.Node("s", say())
				w := graph.Task(b, "w", at(&p), graph.MaxConcurrency(2))
				v := graph.Task(b, "v", at(&q))
				b.Start(s)
				b.Route(s, func(st) graph.Next { return graph.All(w.Each(make([]int, 6)), v.Each(make([]int, 6))) }, w, v)
			})
			begin := time.Now()
			o := play(t.Context(), t, g, superstep.Config{}, st{})
			require.NoError(t, o.err)
			require.EqualValues(t, 2, p.most.Load())
			require.EqualValues(t, 6, q.most.Load())
			require.Equal(t, 3*time.Second, time.Since(begin))
		})
	})
	t.Run("parallel instances of a subgraph", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var p peak
			child := one(t, func(context.Context, st) (up, error) {
				p.enter()
				defer p.leave()
				time.Sleep(time.Second)
				return up{N: 1}, nil
			}, graph.MaxConcurrency(2))
			g := build(t, func(b *bld) {
				s := b.Node("s", say())
				sub := graph.SubTask(b, "sub", child, func(st, int) st { return st{} }, func(s st) up { return up{N: s.N} })
				b.Start(s)
				b.Route(s, each(sub, 1, 2, 3, 4, 5, 6), sub)
			})
			o := play(t.Context(), t, g, superstep.Config{}, st{})
			require.NoError(t, o.err)
			require.Equal(t, 6, o.State.N)
			require.LessOrEqual(
				t,
				p.most.Load(),
				int64(2),
				`graph.MaxConcurrency: "bounds how many tasks of the node run at once in one run"`,
			)
		})
	})
	t.Run("of a SubTask bounds its instances", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var p peak
			child := one(t, func(context.Context, st) (up, error) {
				p.enter()
				defer p.leave()
				time.Sleep(time.Second)
				return up{N: 1}, nil
			})
			g := build(t, func(b *bld) {
				s := b.Node("s", say())
				sub := graph.SubTask(
					b,
					"sub",
					child,
					func(st, int) st { return st{} },
					func(s st) up { return up{N: s.N} },
					graph.MaxConcurrency(2),
				)
				b.Start(s)
				b.Route(s, each(sub, 1, 2, 3, 4, 5, 6), sub)
			})
			o := play(t.Context(), t, g, superstep.Config{}, st{})
			require.NoError(t, o.err)
			require.EqualValues(t, 2, p.most.Load())
		})
	})
}

func TestRule05_ExactlyNSuperStepsPassWithNAndOneMoreIsAnError(t *testing.T) {
	for _, n := range []int{1, 2, 100} {
		g := loop(t, n)
		o := play(t.Context(), t, g, superstep.Config{MaxSuperSteps: n}, counter{})
		require.NoError(t, o.err)
		require.Equal(t, n, o.SuperSteps)
		require.Equal(t, n, o.State.N)

		g = loop(t, n+1)
		o = play(t.Context(), t, g, superstep.Config{MaxSuperSteps: n}, counter{})
		var limit *superstep.MaxSuperStepsError
		require.ErrorAs(t, o.err, &limit)
		require.Equal(t, superstep.MaxSuperStepsError{Limit: n, Active: []string{"again"}}, *limit)
		require.Equal(t, n, o.State.N, "what the allowed ones did is there")
		require.Equal(t, n, o.SuperSteps)
		require.Contains(t, o.err.Error(), "again")
		require.Empty(t, only[*task.RunCompleted[counter]](o.events), "never reported as success")
		require.Len(t, only[*task.RunFailed](o.events), 1)
	}
}

func TestRule05_TheDefaultIsAHundredAndActiveNodesAreNamedOnce(t *testing.T) {
	g := build(t, func(b *bld) {
		x, y := b.Node("x", say()), b.Node("y", say())
		fan := graph.Task(b, "fan", func(context.Context, st, int) (up, error) { return up{}, nil })
		b.Start(x, y)
		b.Edge(x, x)
		b.Edge(x, y)
		b.Route(x, each(fan, 1, 2), fan)
	})
	o := play(t.Context(), t, g, superstep.Config{}, st{})
	var limit *superstep.MaxSuperStepsError
	require.ErrorAs(t, o.err, &limit)
	require.Equal(t, superstep.MaxSuperStepsError{Limit: 100, Active: []string{"x", "y", "fan"}}, *limit)
}

func TestRule05_ASubCountsAsOneAndHasItsOwnLimit(t *testing.T) {
	sub := func(limit ...graph.Option) *graph.Graph[counter, counterUpdate] {
		b := graph.New("outer", graph.Fields[counter, counterUpdate]())
		n := graph.Sub(
			b,
			"inner",
			loop(t, 5),
			func(counter) counter { return counter{} },
			func(c counter) counterUpdate { return counterUpdate{N: c.N} },
			limit...)
		b.Start(n)
		g, err := b.Compile()
		require.NoError(t, err)
		return g
	}
	t.Run("the executor's", func(t *testing.T) {
		o := play(t.Context(), t, sub(), superstep.Config{MaxSuperSteps: 5}, counter{})
		require.NoError(t, o.err)
		require.Equal(t, 1, o.SuperSteps)
		require.Equal(t, 5, o.State.N)
	})
	t.Run("its own, lower", func(t *testing.T) {
		o := play(t.Context(), t, sub(graph.MaxSuperSteps(4)), superstep.Config{}, counter{})
		var limit *superstep.MaxSuperStepsError
		require.ErrorAs(t, o.err, &limit)
		require.Equal(t, 4, limit.Limit)
		var node *superstep.NodeError
		require.ErrorAs(t, o.err, &node)
		require.Equal(t, "inner", node.Node)
		require.Zero(t, o.State.N)
	})
	t.Run("its own, higher", func(t *testing.T) {
		o := play(t.Context(), t, sub(graph.MaxSuperSteps(5)), superstep.Config{MaxSuperSteps: 1}, counter{})
		require.NoError(t, o.err)
		require.Equal(t, 5, o.State.N)
	})
}

func TestRule05_NegativeConfigIsRefusedEveryFieldNamed(t *testing.T) {
	_, err := superstep.NewRunner(loop(t, 1), superstep.Config{
		MaxSuperSteps: -1, RunTimeout: -1, MaxConcurrentRuns: -1, MaxConcurrency: -1, Grace: -1,
		Observers: []func(task.Event){nil},
	})
	require.Error(t, err)
	for _, field := range []string{"MaxSuperSteps", "RunTimeout", "MaxConcurrentRuns", "MaxConcurrency", "Grace", "Observers[0]"} {
		require.Contains(t, err.Error(), field)
	}
	_, err = superstep.NewRunner[st, up](nil, superstep.Config{})
	require.ErrorContains(t, err, "the graph is nil")
}
