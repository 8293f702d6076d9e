package superstep_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

// word is a task that writes its item to the log.
func word(_ context.Context, _ st, w string) (up, error) { return up{Log: []string{w}}, nil }

func TestSemantics_StaticallyActivatedTasksComeBeforeFannedOutOnes(t *testing.T) {
	g := build(t, func(b *bld) {
		fan := graph.Task(b, "fan", word) // declared first, yet behind
		s := b.Node("s", say())
		x := b.Node("x", say("x"))
		gan := graph.Task(b, "gan", word)
		y := b.Node("y", say("y"))
		b.Start(s)
		b.Edge(s, y)
		b.Route(s, func(st) graph.Next {
			return graph.All(gan.Each([]string{"g1", "g0"}), fan.Each([]string{"f1", "f0"}), graph.To(x))
		}, gan, fan, x)
	})
	o := play(t.Context(), t, g, superstep.Config{}, st{})
	require.NoError(t, o.err)
	require.Equal(t, []string{"x", "y", "f1", "f0", "g1", "g0"}, o.State.Log)
}

func TestSemantics_AFanOutOfAFanOutRunsInTheNextSuperStep(t *testing.T) {
	g := build(t, func(b *bld) {
		s := b.Node("s", say())
		outer := graph.Task(b, "outer", word)
		inner := graph.Task(b, "inner", func(_ context.Context, s st, w string) (up, error) {
			return up{Log: []string{fmt.Sprint(w, len(s.Log))}}, nil
		})
		b.Start(s)
		b.Route(s, each(outer, "a", "b"), outer)
		b.Route(outer, func(s st) graph.Next { return inner.Each(s.Log) }, inner) // one router, asked once
	})
	o := play(t.Context(), t, g, superstep.Config{}, st{})
	require.NoError(t, o.err)
	require.Equal(t, []string{"a", "b", "a2", "b2"}, o.State.Log)
	require.Equal(t, 3, o.SuperSteps)
}

func TestSemantics_SeveralEachOfOneNodeInOneSuperStepKeepTheRoutersOrder(t *testing.T) {
	g := build(t, func(b *bld) {
		x, y := b.Node("x", say()), b.Node("y", say())
		fan := graph.Task(b, "fan", func(ctx context.Context, _ st, w string) (up, error) {
			return up{Log: []string{fmt.Sprint(w, task.Info(ctx).Index)}}, nil
		})
		b.Start(y, x)
		b.Route(y, func(st) graph.Next {
			return graph.All(fan.Each([]string{"y"}), fan.Each(nil), fan.Each([]string{"y", "y"}))
		}, fan)
		b.Route(x, each(fan, "x"), fan)
		b.Route(x, each(fan, "z"), fan)
	})
	o := play(t.Context(), t, g, superstep.Config{}, st{})
	require.NoError(t, o.err)
	require.Equal(t, []string{"x0", "z1", "y2", "y3", "y4"}, o.State.Log, "numbered through, by the routers' nodes in task order")
}

func TestSemantics_AnUpdateThatSetsNothingStillActivatesEdges(t *testing.T) {
	g := build(t, func(b *bld) {
		x, y := b.Node("x", say()), b.Node("y", say("y"))
		b.Start(x)
		b.Edge(x, y)
	})
	o := play(t.Context(), t, g, superstep.Config{}, st{})
	require.NoError(t, o.err)
	require.Equal(t, []string{"y"}, o.State.Log)
}

func TestSemantics_AConflictIsBetweenTwoTasksOfOneSuperStep(t *testing.T) {
	set := func(v string) nodeFn { return func(context.Context, st) (up, error) { return up{V: v}, nil } }
	t.Run("two nodes", func(t *testing.T) {
		g := build(t, func(b *bld) {
			s := b.Node("s", set("first"))
			x, y := b.Node("x", set("x")), b.Node("y", set("x"))
			b.Start(s)
			b.Edge(s, x)
			b.Edge(s, y)
		})
		o := play(t.Context(), t, g, superstep.Config{}, st{})
		var conflict *graph.ConflictError
		require.ErrorAs(t, o.err, &conflict)
		require.Equal(t, graph.ConflictError{Field: "V", Nodes: [2]string{"x", "y"}}, *conflict)
		var reduce *superstep.ReduceError
		require.ErrorAs(t, o.err, &reduce)
		require.Equal(t, 2, reduce.SuperStep)
		require.Equal(t, []string{"x", "y"}, reduce.Nodes)
		require.Equal(t, "first", o.State.V)
		require.Equal(t, 1, o.SuperSteps)
		require.Len(t, only[*task.SuperStepCompleted](o.events), 1)
	})
	t.Run("two tasks of one node", func(t *testing.T) {
		g := build(t, func(b *bld) {
			s := b.Node("s", say())
			fan := graph.Task(b, "fan", func(_ context.Context, _ st, v string) (up, error) { return up{V: v}, nil })
			b.Start(s)
			b.Route(s, each(fan, "", "x", "", "y"), fan)
		})
		o := play(t.Context(), t, g, superstep.Config{}, st{})
		var conflict *graph.ConflictError
		require.ErrorAs(t, o.err, &conflict)
		require.Equal(t, [2]string{"fan[1]", "fan[3]"}, conflict.Nodes)
	})
	t.Run("different super-steps", func(t *testing.T) {
		g := build(t, func(b *bld) {
			x, y := b.Node("x", set("x")), b.Node("y", set("y"))
			b.Start(x)
			b.Edge(x, y)
		})
		o := play(t.Context(), t, g, superstep.Config{}, st{})
		require.NoError(t, o.err)
		require.Equal(t, "y", o.State.V)
	})
	t.Run("a write and a clear", func(t *testing.T) {
		b := graph.New("test", graph.Fields[state2, clear2]())
		x := b.Node("x", func(context.Context, state2) (clear2, error) { v := "x"; return clear2{V: &v}, nil })
		y := b.Node("y", func(context.Context, state2) (clear2, error) { v := ""; return clear2{V: &v}, nil })
		b.Start(x, y)
		g, err := b.Compile()
		require.NoError(t, err)
		o := play(t.Context(), t, g, superstep.Config{}, state2{})
		require.ErrorAs(t, o.err, new(*graph.ConflictError))
	})
}

type (
	state2 struct{ V string }
	clear2 struct{ V *string }
)

func TestSemantics_AReducersErrorOrPanicFailsTheRunNamesTheNodeAndCommitsNothing(t *testing.T) {
	for name, merge := range map[string]func() error{
		"error": func() error { return errBoom },
		"panic": func() error { panic(errBoom) },
	} {
		t.Run(name, func(t *testing.T) {
			b := graph.New("test", graph.Merge(func(s st, ws []graph.Write[up]) (st, error) {
				for _, w := range ws {
					s.Log = append(s.Log, fmt.Sprint(w.Node, w.Index))
				}
				s.N++
				if len(ws) > 1 {
					return s, merge()
				}
				return s, nil
			}))
			x, y, z := b.Node("x", say()), b.Node("y", say()), b.Node("z", say())
			b.Start(x)
			b.Edge(x, y)
			b.Edge(x, z)
			g, err := b.Compile()
			require.NoError(t, err)
			o := play(t.Context(), t, g, superstep.Config{}, st{})
			var reduce *superstep.ReduceError
			require.ErrorAs(t, o.err, &reduce)
			require.Equal(t, []string{"y", "z"}, reduce.Nodes)
			require.Contains(t, o.err.Error(), `["y" "z"]`)
			require.Equal(t, st{Log: []string{"x-1"}, N: 1}, o.State)
			require.Len(t, only[*task.SuperStepCompleted](o.events), 1)
		})
	}
}

func TestSemantics_TheDefaultPolicyIsCheckedByNewRunnerAsANodesOwn(t *testing.T) {
	sync := build(t, func(b *bld) {
		b.Start(b.Func("sync", func(st) (up, error) { return up{}, nil }, graph.Timeout(time.Second)))
	})
	retries := policy(2)
	_, err := superstep.NewRunner(sync, superstep.Config{Retry: &retries})
	require.ErrorContains(t, err, `node "sync"`)
	require.ErrorContains(t, err, "timeout 1s")
	nested := build(t, func(b *bld) {
		b.Start(graph.Sub(b, "sub", sync, func(s st) st { return s }, func(st) up { return up{} }))
	})
	_, err = superstep.NewRunner(nested, superstep.Config{Retry: &retries})
	require.ErrorContains(t, err, `node "sync"`, "in a subgraph, too")
	once := policy(1)
	_, err = superstep.NewRunner(nested, superstep.Config{Retry: &once})
	require.NoError(t, err)
	bad := retrypolicy.WorkflowNodeRetryPolicy{MaxAttempts: 0, InitialDelay: -1, Jitter: 2}
	_, err = superstep.NewRunner(sync, superstep.Config{Retry: &bad})
	for _, field := range []string{"MaxAttempts", "InitialDelay", "Jitter"} {
		require.ErrorContains(t, err, field)
	}
	require.ErrorAs(t, err, new(*retrypolicy.FieldError))
}

func TestSemantics_APolicyThatRetriesWithoutDelayIsLoggedAsAWarning(t *testing.T) {
	logged := func(g *graph.Graph[st, up], cfg superstep.Config) []string {
		var log recorder
		cfg.Logger = log.logger()
		runner(t, g, cfg)
		return log.lines()
	}
	child := one(t, say(), graph.Retry(policyNow(2)))
	now := policyNow(3)
	require.Len(t, logged(child, superstep.Config{}), 1)
	require.Len(t, logged(one(t, say()), superstep.Config{Retry: &now}), 1)
	require.Empty(t, logged(one(t, say()), superstep.Config{}))
	nested := build(t, func(b *bld) {
		b.Start(graph.Sub(b, "sub", child, func(s st) st { return s }, func(st) up { return up{} }))
	})
	require.Len(t, logged(nested, superstep.Config{}), 1, "of a subgraph's node, too")
}

func TestSemantics_RunnersMayBeMadeConcurrentlyFromOneGraph(t *testing.T) {
	now := policyNow(3)
	g := build(t, func(b *bld) {
		for i := range 3 {
			b.Start(b.Node(fmt.Sprint("n", i), say(), graph.Retry(now)))
		}
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, err := superstep.NewRunner(g, superstep.Config{Retry: &now, Logger: quiet()})
			require.NoError(t, err)
		})
	}
	wg.Wait()
}

func TestSemantics_CheckMutationFindsAndNamesANodeThatMutatesItsSnapshot(t *testing.T) {
	type inner struct {
		list []int
		at   *int
	}
	type state struct {
		M     map[string]int
		L     []int
		P     *inner
		A     any
		Cycle *state
	}
	fresh := func() state {
		n := 1
		s := state{M: map[string]int{"a": 1, "b": 2}, L: []int{1, 2, 3}, P: &inner{list: []int{1}, at: &n}, A: map[string]any{"k": 1}}
		s.Cycle = &s
		return s
	}
	for _, tc := range []struct {
		name, path string
		mutate     func(state)
	}{
		{"a map's value", `state.M[a]`, func(s state) { s.M["a"] = 9 }},
		{"a new key", "state.M", func(s state) { s.M["z"] = 9 }},
		{"a key removed", "state.M", func(s state) { delete(s.M, "a") }},
		{"a slice's element", "state.L[1]", func(s state) { s.L[1] = 9 }},
		{"behind a pointer", "state.P.list[0]", func(s state) { s.P.list[0] = 9 }},
		{"behind two pointers", "state.P.at", func(s state) { *s.P.at = 9 }},
		{"in an interface", "state.A[k]", func(s state) { s.A.(map[string]any)["k"] = 9 }},
		{"a value of another type that prints alike", "state.A[k]", func(s state) { s.A.(map[string]any)["k"] = "1" }},
		{"a map to a new map behind a pointer", "state.P", func(s state) { s.P.list = nil }},
		{"nothing", "", func(state) {}},
		{"an append, which is allowed", "", func(s state) { _ = append(s.L, 1) }},
	} {
		for kind, opts := range map[string][]graph.Option{
			"plain": nil, "retried": {graph.Retry(retrypolicy.WorkflowNodeRetryPolicy{MaxAttempts: 3, Retryable: retrypolicy.AnyError})},
			"with a timeout": {graph.Timeout(time.Minute)},
		} {
			t.Run(tc.name+", "+kind, func(t *testing.T) {
				b := graph.New("test", graph.Reduce(func(s state, _ int) state { return s }))
				ok := func(context.Context, state) (int, error) { return 0, nil }
				b.Start(
					b.Node("x", ok),
					b.Node("culprit", func(_ context.Context, s state) (int, error) { tc.mutate(s); return 0, nil }, opts...),
					b.Node("y", ok),
				)
				g, err := b.Compile()
				require.NoError(t, err)
				_, err = runner(t, g, superstep.Config{CheckMutation: true, Logger: quiet()}).Run(t.Context(), fresh())
				if tc.path == "" {
					require.NoError(t, err)
					return
				}
				var m *superstep.MutationError
				require.ErrorAs(t, err, &m)
				require.Equal(t, "culprit", m.Node)
				require.Contains(t, m.Path, tc.path)
				require.Contains(t, err.Error(), "culprit")
			})
		}
	}
}

func TestSemantics_CheckMutationSeesCatchHandlersAndPanickingNodes(t *testing.T) {
	mutate := func(s st) { s.M["x"]++ }
	t.Run("a Catch handler", func(t *testing.T) {
		g := build(t, func(b *bld) {
			n := b.Node("a", fails(errBoom))
			b.Start(n)
			b.Catch(n, func(_ context.Context, s st, _ error) (up, error) { mutate(s); return up{}, nil })
		})
		o := play(t.Context(), t, g, superstep.Config{CheckMutation: true}, st{M: map[string]int{}})
		require.ErrorAs(t, o.err, new(*superstep.MutationError))
	})
	t.Run("a Catch handler must not hide it", func(t *testing.T) {
		g := build(t, func(b *bld) {
			n := b.Node("a", func(_ context.Context, s st) (up, error) { mutate(s); return up{}, nil })
			b.Start(n)
			b.Catch(n, func(context.Context, st, error) (up, error) { return up{}, nil })
		})
		o := play(t.Context(), t, g, superstep.Config{CheckMutation: true}, st{M: map[string]int{}})
		require.ErrorAs(t, o.err, new(*superstep.MutationError), `Config.CheckMutation "fails the run with a *MutationError"`)
	})
	t.Run("a node that panics", func(t *testing.T) {
		g := one(t, func(_ context.Context, s st) (up, error) { mutate(s); panic("x") })
		o := play(t.Context(), t, g, superstep.Config{CheckMutation: true}, st{M: map[string]int{}})
		require.Error(t, o.err)
	})
}

func TestSemantics_OneCompiledGraphInAHundredGoroutinesGivesAHundredIndependentResults(t *testing.T) {
	g := build(t, func(b *bld) {
		s := b.Node("s", func(_ context.Context, s st) (up, error) { return up{Log: []string{s.V + "s"}}, nil })
		fan := graph.Task(b, "fan", func(_ context.Context, s st, w string) (up, error) {
			s.Log = append(s.Log, "private")
			return up{Log: []string{s.V + w}, M: map[string]int{s.V + w: 1}}, nil
		})
		j := b.Node("j", func(_ context.Context, s st) (up, error) { return up{N: len(s.Log)}, nil })
		b.Start(s)
		b.Route(s, func(s st) graph.Next { return fan.Each([]string{"1", "2", "3"}) }, fan)
		b.Join([]graph.Ref{s, fan}, j)
		again := b.Node("again", func(_ context.Context, s st) (up, error) { return up{Log: []string{s.V + "again"}}, nil })
		b.Route(j, func(s st) graph.Next {
			if s.N == 4 {
				return graph.To(again)
			}
			return graph.To()
		}, again)
		b.Edge(again, j)
	})
	r := runner(t, g, superstep.Config{MaxConcurrency: 3})
	var wg sync.WaitGroup
	results := make([]*superstep.Result[st], 100)
	errs := make([]error, 100)
	for i := range results {
		wg.Go(func() {
			results[i], errs[i] = r.Run(context.Background(), st{V: fmt.Sprint("run", i, ".")})
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	ids := map[string]bool{}
	for i, res := range results {
		ids[res.RunID] = true
		name := fmt.Sprint("run", i, ".")
		require.Equal(t, []string{name + "s", name + "1", name + "2", name + "3"}, res.State.Log[:4])
		require.Len(t, res.State.M, 3)
		for _, w := range res.State.Log {
			require.Contains(t, w, name)
		}
	}
	require.Len(t, ids, 100)
}

func TestSemantics_ARetriedNodeGivesTheSameSuperStepsAndState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		graphOf := func(until int) *graph.Graph[st, up] {
			return build(t, func(b *bld) {
				a := b.Node("a", flaky(until, statusError(503), up{Log: []string{"a"}, N: 1}), graph.Retry(policy(3)))
				c := b.Node(
					"c",
					flaky(until, hinted{time.Second}, up{Log: []string{"c"}}),
					graph.Retry(policy(3)),
					graph.Timeout(time.Minute),
				)
				d := b.Node("d", say("d"))
				b.Start(a, c)
				b.Join([]graph.Ref{a, c}, d)
			})
		}
		smooth := play(t.Context(), t, graphOf(1), superstep.Config{MaxSuperSteps: 2}, st{})
		retried := play(t.Context(), t, graphOf(3), superstep.Config{MaxSuperSteps: 2}, st{})
		require.NoError(t, smooth.err)
		require.NoError(t, retried.err, "attempts do not count as super-steps")
		require.Equal(t, smooth.State, retried.State)
		require.Equal(t, smooth.SuperSteps, retried.SuperSteps)
		require.Equal(t, 2, retried.SuperSteps)
		require.Equal(t, smooth.Unfired, retried.Unfired)
		require.Len(t, only[*task.AttemptStarted](retried.events), 7)
		require.Equal(t, 6, retried.Usage.Calls)
	})
}

func TestSemantics_CheckMutationLeavesStatesOfAllKindsAlone(t *testing.T) {
	type state struct {
		Ptr   *int
		Nil   *int
		Any   any
		Float map[float64]func()
		Ch    chan int
		Bytes [2]byte
		Deep  []map[string][]*int
		Ring  *state
	}
	n := 7
	s := state{
		Ptr:   &n,
		Any:   []any{1, "x", nil},
		Float: map[float64]func(){1.5: func() {}},
		Ch:    make(chan int),
		Deep:  []map[string][]*int{{"k": {&n, nil}}},
	}
	s.Ring = &s
	for name, mutate := range map[string]func(state){
		"":                         func(state) {},
		"a pointer set in a slice": func(s state) { s.Deep[0]["k"][1] = s.Ptr },
		"a pointer removed":        func(s state) { s.Deep[0]["k"][0] = nil },
		"a slice cut":              func(s state) { s.Deep[0]["k"] = nil },
		"a slice grown":            func(s state) { s.Deep[0]["k"] = append(s.Deep[0]["k"], nil) },
		"an element of an any":     func(s state) { s.Any.([]any)[2] = 3 },
	} {
		t.Run(name, func(t *testing.T) {
			s := s
			s.Deep = []map[string][]*int{{"k": {&n, nil}}}
			s.Any = []any{1, "x", nil}
			b := graph.New("test", graph.Reduce(func(s state, _ int) state { return s }))
			b.Start(b.Node("a", func(_ context.Context, s state) (int, error) { mutate(s); return 0, nil }))
			g, err := b.Compile()
			require.NoError(t, err)
			_, err = runner(t, g, superstep.Config{CheckMutation: true}).Run(t.Context(), s)
			if name == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorAs(t, err, new(*superstep.MutationError))
		})
	}
}

func TestSemantics_CheckMutationSeesPointersThatAreMadeToShareOrPartCompany(t *testing.T) {
	type state struct{ L []*int }
	for name, mutate := range map[string]func(state){
		"share": func(s state) { s.L[2] = s.L[0] },
		"part":  func(s state) { n := 1; s.L[1] = &n },
	} {
		t.Run(name, func(t *testing.T) {
			x, y := 1, 1
			b := graph.New("test", graph.Reduce(func(s state, _ int) state { return s }))
			b.Start(b.Node("a", func(_ context.Context, s state) (int, error) { mutate(s); return 0, nil }))
			g, err := b.Compile()
			require.NoError(t, err)
			_, err = runner(t, g, superstep.Config{CheckMutation: true}).Run(t.Context(), state{[]*int{&x, &x, &y}})
			require.ErrorAs(t, err, new(*superstep.MutationError))
		})
	}
}

func TestSemantics_CheckMutationWorksForAStateWithoutAName(t *testing.T) {
	b := graph.New("test", graph.Reduce(func(s struct{ L []int }, _ int) struct{ L []int } { return s }))
	b.Start(b.Node("a", func(_ context.Context, s struct{ L []int }) (int, error) { s.L[0] = 9; return 0, nil }))
	g, err := b.Compile()
	require.NoError(t, err)
	_, err = runner(t, g, superstep.Config{CheckMutation: true}).Run(t.Context(), struct{ L []int }{[]int{1}})
	var m *superstep.MutationError
	require.ErrorAs(t, err, &m)
	require.Equal(t, "state.L[0]", m.Path)
}
