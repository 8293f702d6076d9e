package graph_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/stretchr/testify/require"
)

func TestCompileGivesThePlan(t *testing.T) {
	g := everything(t)
	require.Equal(t, "everything", g.Name())
	p := g.Plan()
	require.Equal(t, []int{0, 1}, p.Start)
	require.Equal(t, []graph.PlanJoin{{Sources: []int{3, 4, 5}, Target: 6}, {Sources: []int{0, 1}, Target: 4}}, p.Joins)
	var got []string
	for _, n := range p.Nodes {
		got = append(got, fmt.Sprint(n.Kind, ":", n.Name, n.Edges, n.Targets, n.Joins, n.Timeout, n.MaxConcurrency, n.MaxSuperSteps,
			bits(n.Kind.FannedOut(), n.Deferred, n.Retry != nil, n.Call != nil, n.Sub != nil, n.Catch != nil), len(n.Routers)))
	}
	require.Equal(t, []string{ // bits: fanned out, deferred, has a policy, a function, a subgraph, a handler
		"node:a[2] [] [1] 1.5s 4 0 000101 2",
		"func:fn[4] [] [1] 0s 0 0 001100 0",
		"goto:supervisor[] [4 3 2 -1] [] 0s 0 0 000100 0",
		"task:task[] [] [0] 0s 2 0 100101 0",
		"sub:sub[4] [] [0] 0s 0 20 000010 0",
		"subtask:subtask[] [] [0] 0s 0 0 110010 0",
		"node:last[] [] [] 0s 0 0 010100 0",
	}, got)
	require.Equal(t, []int{5, 6}, p.Nodes[0].Routers[0].Targets)
	require.Equal(t, []int{-1}, p.Nodes[0].Routers[1].Targets)
	require.Zero(t, p.Nodes[0].Routers[0].Route(State{}).Len())
}

// bits writes truths as a word.
func bits(truths ...bool) string {
	out := ""
	for _, b := range truths {
		out += map[bool]string{true: "1", false: "0"}[b]
	}
	return " " + out + " "
}

func TestWhatIsSaidTwiceCountsOnce(t *testing.T) {
	b := newBuilder("twice")
	n, m, o := b.Node("n", work), b.Node("m", work), b.Goto("o", workAndGo)
	b.Start(n, m, n)
	b.Start(m)
	for range 2 {
		b.Edge(n, m)
		b.Edge(n, graph.End)
		b.Edge(n, o)
		b.Join([]graph.Ref{m, n, m}, o)
		b.Targets(o, n, n, graph.End)
	}
	b.Route(n, nowhere, m, m, graph.End)
	p := mustCompile(t, b).Plan()
	require.Equal(t, []int{0, 1}, p.Start)
	require.Equal(t, []int{1, 2}, p.Nodes[0].Edges)
	require.Equal(t, []graph.PlanJoin{{Sources: []int{0, 1}, Target: 2}}, p.Joins)
	require.Equal(t, []int{0, -1}, p.Nodes[2].Targets)
	require.Equal(t, []int{1, -1}, p.Nodes[0].Routers[0].Targets)
}

func TestTheLastOfTwoEqualOptionsCounts(t *testing.T) {
	b := newBuilder("options")
	b.Start(b.Node("n", work, graph.Timeout(-1), graph.Timeout(time.Second)))
	require.Equal(t, time.Second, mustCompile(t, b).Plan().Nodes[0].Timeout)
}

func TestAnOptionMayServeSeveralNodesAndItsPolicyIsCopied(t *testing.T) {
	policy := retrypolicy.Standard()
	o := graph.Retry(policy)
	policy.MaxAttempts = 0
	b := newBuilder("options")
	b.Start(b.Node("n", work, o), b.Node("m", work, o))
	for _, n := range mustCompile(t, b).Plan().Nodes {
		require.Equal(t, 3, n.Retry.MaxAttempts)
	}
}

func TestTheGraphDoesNotChangeWithItsBuilder(t *testing.T) {
	b := newBuilder("a")
	n, o := b.Node("n", work), b.Goto("o", workAndGo)
	b.Start(n)
	b.Edge(n, o)
	b.Targets(o, n)
	g := mustCompile(t, b)
	text, fingerprint, plan := g.DOT(), g.Fingerprint(), *g.Plan()
	plan.Nodes = slices.Clone(plan.Nodes)

	m := b.Node("m", work, graph.Defer())
	b.Start(m)
	b.Edge(n, m)
	b.Edge(n, graph.End)
	b.Route(n, nowhere, m)
	b.Targets(o, m)
	b.Join([]graph.Ref{n, o}, m)
	b.Catch(n, recoverFrom)
	require.Equal(t, text, g.DOT())
	require.Equal(t, fingerprint, g.Fingerprint())
	require.Len(t, g.Plan().Nodes, 2)
	for i := range plan.Nodes {
		was, is := plan.Nodes[i], g.Plan().Nodes[i]
		require.Equal(t, was.NodeConfig, is.NodeConfig)
		require.Len(t, is.Routers, len(was.Routers))
		require.Nil(t, is.Catch)
	}

	second := mustCompile(t, b)
	require.NotEqual(t, fingerprint, second.Fingerprint())
	require.Len(t, second.Plan().Nodes, 3)
	_, ours := g.Plan().Index(graph.To(m).At(0))
	require.False(t, ours, "a node that was added later is none of the first graph")
	i, ours := second.Plan().Index(graph.To(m).At(0))
	require.True(t, ours)
	require.Equal(t, 2, i)
}

func TestABuilderThatWasRefusedCanBeMended(t *testing.T) {
	b := newBuilder("a")
	n := b.Node("n", work)
	_, err := b.Compile()
	require.Error(t, err)
	b.Start(n)
	mustCompile(t, b)
}

func TestIndexKnowsItsOwnHandles(t *testing.T) {
	b, other := newBuilder("a"), newBuilder("a")
	n, m := b.Node("n", work), other.Node("n", work)
	b.Start(n)
	other.Start(m)
	p, q := mustCompile(t, b).Plan(), mustCompile(t, other).Plan()
	again := mustCompile(t, b).Plan()
	for _, tt := range []struct {
		name  string
		plan  *graph.Plan[State, Update]
		next  graph.Next
		index int
		ok    bool
		text  string
	}{
		{"own", p, graph.To(n), 0, true, "n"},
		{"own, of the second graph", again, graph.To(n), 0, true, "n"},
		{"End", p, graph.To(graph.End), -1, true, "End"},
		{"of another graph", q, graph.To(n), 0, false, "n"},
		{"zero", p, graph.To(graph.Node{}), 0, false, "zero Node"},
		{"zero task", p, graph.TaskNode[int]{}.Each([]int{1}), 0, false, "zero Node"},
	} {
		i, ok := tt.plan.Index(tt.next.At(0))
		require.Equal(t, tt.ok, ok, tt.name)
		require.Equal(t, tt.index, i, tt.name)
		require.Equal(t, tt.text, tt.next.At(0).Name(), tt.name)
	}
	_, ok := p.Index(graph.Target{})
	require.False(t, ok)
}

func TestWarningsIncludeThoseOfSubgraphs(t *testing.T) {
	policy := retrypolicy.WorkflowNodeRetryPolicy{MaxAttempts: 2, BackoffMultiplier: 1}
	inner := newBuilder("inner")
	inner.Start(inner.Node("n", work, graph.Retry(policy)))
	b := newBuilder("outer")
	b.Start(graph.Sub(b, "sub", mustCompile(t, inner), in, out), b.Func("f", plain, graph.Retry(policy)))
	g := mustCompile(t, b)
	require.Equal(t, []string{
		`node "sub": node "n": retry policy: InitialDelay is 0: it retries without any delay`,
		`node "f": retry policy: InitialDelay is 0: it retries without any delay`,
	}, g.Warnings())
	g.Warnings()[0] = "changed"
	require.NotEqual(t, "changed", g.Warnings()[0])
}

func TestAFuncMayHaveATimeoutOrRetriesOrOneAttemptWithATimeout(t *testing.T) {
	b := newBuilder("funcs")
	b.Start(
		b.Func("a", plain, graph.Timeout(time.Second)),
		b.Func("b", plain, graph.Retry(retrypolicy.Standard())),
		b.Func("c", plain, graph.Timeout(time.Second), graph.Retry(retrypolicy.New())),
		b.Node("d", work, graph.Timeout(time.Second), graph.Retry(retrypolicy.Standard())))
	mustCompile(t, b)
}

func TestSelfLoopsDeadEndsAndNamesOfAnyScriptAreLegal(t *testing.T) {
	b := newBuilder("名前/[x]")
	n, end := b.Node("日本語 \"q\" \\ é", work), b.Node("End", work)
	b.Start(n, end)
	b.Edge(n, n)
	b.Edge(end, graph.End)
	mustCompile(t, b)
}

// Each call of a plan passes on what it is given.
func TestCallsReachTheirFunctions(t *testing.T) {
	var calls []string
	note := func(format string, args ...any) { calls = append(calls, fmt.Sprintf(format, args...)) }
	update := Update{Draft: "u"}
	b := newBuilder("calls")
	n := b.Node("n", func(ctx context.Context, s State) (Update, error) {
		note("node %s", s.Draft)
		return update, ctx.Err()
	})
	f := b.Func("f", func(s State) (Update, error) {
		note("func %s", s.Draft)
		return update, errTest
	})
	o := b.Goto("o", func(ctx context.Context, s State) (Update, graph.Next, error) {
		note("goto %s", s.Draft)
		return update, graph.To(n), ctx.Err()
	})
	k := graph.Task(b, "k", func(ctx context.Context, s State, item string) (Update, error) {
		note("task %s: %s", s.Draft, item)
		return update, ctx.Err()
	})
	b.Start(n, f, o)
	b.Targets(o, n)
	b.Route(n, func(s State) graph.Next { return k.Each([]string{s.Draft, "y"}) }, k)
	b.Catch(n, func(_ context.Context, s State, err error) (Update, error) {
		note("catch %s %v", s.Draft, err)
		return update, nil
	})
	graph.CatchTask(b, k, func(_ context.Context, s State, item string, err error) (Update, error) {
		note("catch %s %s: %v", s.Draft, item, err)
		return update, nil
	})
	g := mustCompile(t, b)
	sub := newBuilder("outer")
	sub.Start(graph.Sub(sub, "sub", g, in, out))
	hidden := mustCompile(t, sub).Plan().Nodes[0].Sub.Child.Plan()

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s := State{Draft: "x"}
	p := g.Plan()
	items := p.Nodes[0].Routers[0].Route(s).At(0).Items
	require.Equal(t, 2, items.Len())
	for i, node := range p.Nodes {
		var next graph.Next
		u, err := node.Call(ended, s, items, 1, &next)
		require.Equal(t, update, u)
		require.Error(t, err)
		require.Equal(t, node.Name == "o", next.Len() == 1)
		if node.Catch != nil {
			_, err = node.Catch(t.Context(), s, items, 0, errTest)
			require.NoError(t, err)
		}
		boxed, err := hidden.Nodes[i].Call(t.Context(), s, items, 1, &next)
		require.Equal(t, update, boxed)
		require.Equal(t, node.Name == "f", err != nil)
		if node.Catch != nil {
			_, err = hidden.Nodes[i].Catch(t.Context(), s, items, 0, errTest)
			require.NoError(t, err)
		}
	}
	require.Equal(t, []string{
		"node x", "catch x test", "node x", "catch x test", "func x", "func x", "goto x", "goto x",
		"task x: y", "catch x x: test", "task x: y", "catch x x: test",
	}, calls)
	i, ok := hidden.Index(hidden.Nodes[0].Routers[0].Route(s).At(0))
	require.True(t, ok)
	require.Equal(t, 3, i)
}

// A subgraph runs as a Graph[any, any]; its reducer and clipper work on what is in the boxes.
func TestSubgraphsKeepTheirTypesInBoxes(t *testing.T) {
	b := newBuilder("outer")
	b.Start(graph.Sub(b, "sub", nested(t), in, func(s State) Update { return Update{Draft: s.Draft} }))
	sub := mustCompile(t, b).Plan().Nodes[0].Sub
	state := sub.In(State{Draft: "d", Notes: append(make([]string, 0, 9), "a")}, nil, -1)
	plan := sub.Child.Plan()
	plan.Clip(&state)
	require.Equal(t, 1, cap(state.(State).Notes))
	require.NoError(t, plan.Reduce(&state, []graph.Write[any]{{Node: "a", Update: Update{Notes: []string{"b"}}}, {Node: "b"}}))
	require.Equal(t, State{Draft: "d", Notes: []string{"a", "b"}}, state)
	require.Equal(t, Update{Draft: "d"}, sub.Out(state))
	require.Equal(t, Update{}, sub.Out(nil))
	err := plan.Reduce(&state, []graph.Write[any]{
		{Node: "a", Index: 1, Update: Update{Draft: "x"}}, {Node: "b", Index: -1, Update: Update{Draft: "y"}},
	})
	require.Equal(t, &graph.ConflictError{Field: "Draft", Nodes: [2]string{"a[1]", "b"}}, err)

	inner := plan.Nodes[0].Sub // of the graph inside
	require.Equal(t, State{Draft: "d"}, inner.In(State{Draft: "d"}, nil, -1))
	require.Equal(t, Update{}, inner.Out(State{Draft: "d"}))
}

func TestAGraphIsSafeForConcurrentUse(t *testing.T) {
	g := everything(t)
	want := g.Mermaid()
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			var s State
			err := g.Plan().Reduce(&s, []graph.Write[Update]{{Update: Update{Draft: fmt.Sprint(i), Notes: []string{"n"}}}})
			g.Plan().Clip(&s)
			if err != nil || s.Draft != fmt.Sprint(i) || g.Mermaid() != want || g.Fingerprint() == "" {
				t.Errorf("run %d: %v %+v", i, err, s)
			}
		})
	}
	wg.Wait()
}

func TestProblemsCanBeTakenApart(t *testing.T) {
	b := newBuilder("a")
	b.Start(b.Node("n", work, graph.Retry(retrypolicy.WorkflowNodeRetryPolicy{MaxAttempts: 1, Jitter: 2})))
	_, err := b.Compile()
	problem, ok := errors.AsType[*graph.Problem](err)
	require.True(t, ok)
	field, ok := errors.AsType[*retrypolicy.FieldError](problem)
	require.True(t, ok)
	require.Equal(t, "Jitter", field.Field)
	require.Equal(t, `node "n"`, problem.Where)
}
