package superstep_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

// fanGraph runs s, then fan on what s wrote, then d, joined with both.
func fanGraph(tb testing.TB) *graph.Graph[st, up] {
	tb.Helper()
	return build(tb, func(b *bld) {
		s := b.Node("s", say("a", "b"))
		fan := graph.Task(b, "fan", word)
		d := b.Node("d", say("d"))
		b.Start(s)
		b.Route(s, func(s st) graph.Next { return fan.Each(s.Log) }, fan)
		b.Join([]graph.Ref{s, fan}, d)
	})
}

func machine[S, U any](tb testing.TB, g *graph.Graph[S, U], in S, limit int) *superstep.Machine[S, U] {
	tb.Helper()
	m, err := superstep.NewMachine(g, in, limit)
	require.NoError(tb, err)
	return m
}

func TestMachine_SaysWhatIsActiveAndWhatComesNext(t *testing.T) {
	m := machine(t, fanGraph(t), st{V: "in"}, 3)
	require.False(t, m.Done())
	require.Equal(t, 1, m.SuperStep())
	require.Equal(t, 2, m.SuperStepsLeft())
	require.Zero(t, m.SuperSteps())
	require.Equal(t, []superstep.Activation{{Node: 0}}, m.Tasks())
	require.NoError(t, m.Complete(0, up{Log: []string{"a", "b"}}, graph.Next{}))
	require.Equal(t, st{V: "in"}, m.State(), "nothing is reduced before the barrier")
	require.NoError(t, m.Advance())
	require.Equal(t, []string{"a", "b"}, m.State().Log)
	require.Equal(t, 1, m.SuperSteps())
	require.Equal(t, 2, m.SuperStep())
	tasks := m.Tasks()
	require.Len(t, tasks, 2)
	require.Equal(t, []int{1, 0, 0}, []int{tasks[0].Node, tasks[0].Index, tasks[0].Item})
	require.Equal(t, []int{1, 1, 1}, []int{tasks[1].Node, tasks[1].Index, tasks[1].Item})
	require.Equal(t, 2, tasks[0].Items.Len())
	require.NoError(t, m.Complete(1, up{Log: []string{"B"}}, graph.Next{}))
	require.NoError(t, m.Complete(0, up{Log: []string{"A"}}, graph.Next{}))
	require.NoError(t, m.Advance())
	require.Equal(t, []task.Unfired{{Target: "d"}}, m.Unfired())
	require.NoError(t, m.Complete(0, up{Log: []string{"d"}}, graph.Next{}))
	require.NoError(t, m.Advance())
	require.True(t, m.Done())
	require.Empty(t, m.Tasks())
	require.Empty(t, m.Unfired())
	require.Equal(t, []string{"a", "b", "A", "B", "d"}, m.State().Log)
	require.Equal(t, 3, m.SuperStep())
	require.Equal(t, 3, m.SuperSteps())
}

func TestMachine_RefusesMisuseAndStaysWhereItIs(t *testing.T) {
	g := fanGraph(t)
	for _, limit := range []int{0, -1} {
		_, err := superstep.NewMachine(g, st{}, limit)
		require.ErrorContains(t, err, "below 1")
	}
	m := machine(t, g, st{}, 3)
	require.ErrorContains(t, m.Advance(), "not complete", "early")
	for _, i := range []int{-1, 1, 1 << 30} {
		require.ErrorContains(t, m.Complete(i, up{}, graph.Next{}), fmt.Sprint("no task ", i))
	}
	require.NoError(t, m.Complete(0, up{Log: []string{"a", "b"}}, graph.Next{}))
	require.ErrorContains(t, m.Complete(0, up{Log: []string{"twice"}}, graph.Next{}), "completed before")
	require.NoError(t, m.Advance())
	require.Equal(t, []string{"a", "b"}, m.State().Log, "the second outcome was not taken")
	require.NoError(t, m.Complete(1, up{}, graph.Next{}))
	require.ErrorContains(t, m.Advance(), "task 0 (fan) is not complete")
	require.NoError(t, m.Complete(0, up{}, graph.Next{}))
	require.NoError(t, m.Advance())
	require.NoError(t, m.Complete(0, up{Log: []string{"d"}}, graph.Next{}))
	require.NoError(t, m.Advance())
	require.True(t, m.Done())
	require.Error(t, m.Complete(0, up{}, graph.Next{}), "nothing is active")
	require.Error(t, m.Advance(), "a machine that is done has no super-step to accept")
	require.Equal(t, 3, m.SuperSteps())
	require.Equal(t, []string{"a", "b", "d"}, m.State().Log)
}

func TestMachine_ANextFromANodeThatIsNoGotoIsRefused(t *testing.T) {
	var s graph.Node
	g := build(t, func(b *bld) {
		s = b.Node("s", say())
		b.Start(s)
		b.Edge(s, b.Node("d", say()))
	})
	m := machine(t, g, st{}, 3)
	for _, next := range []graph.Next{graph.To(s), graph.To(graph.End), graph.To(graph.Node{})} {
		var re *superstep.RouteError
		require.ErrorAs(t, m.Complete(0, up{}, next), &re)
		require.Equal(t, "s", re.Source)
		require.NotEmpty(t, re.Error())
	}
	require.NoError(t, m.Complete(0, up{}, graph.To()), "the refused outcomes do not count as its completion")
	require.NoError(t, m.Advance())
}

func TestMachine_AfterAnErrorOfAdvanceNothingIsAcceptedAndItCanBeAskedAgain(t *testing.T) {
	broken := true
	for name, hostile := range everyCall(t, func() {
		if broken {
			panic("ouch")
		}
	}) {
		if name != "router" && name != "reducer (Reduce)" && name != "reducer (Merge)" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			broken = true
			m := machine(t, hostile, st{V: "in"}, 1)
			require.NoError(t, m.Complete(0, up{}, graph.Next{}))
			for range 3 {
				require.Equal(t, "ouch", panicOf(t, m.Advance()).Value)
				require.Equal(t, st{V: "in"}, m.State())
				require.Zero(t, m.SuperSteps())
				require.Equal(t, 1, m.SuperStep())
				require.Len(t, m.Tasks(), 1)
				require.False(t, m.Done())
			}
			broken = false
			require.NoError(t, m.Advance())
			require.True(t, m.Done())
			require.Equal(t, 1, m.SuperSteps())
		})
	}
}

func TestMachine_AFailedAdvanceLeavesNoTraceInTheState(t *testing.T) {
	fail := true
	g := build(t, func(b *bld) {
		x, y := b.Node("x", say()), b.Node("y", say())
		b.Start(x, y)
		b.Route(x, func(s st) graph.Next {
			if fail {
				panic(len(s.Log))
			}
			return graph.To()
		}, y)
	})
	m := machine(t, g, st{Log: append(make([]string, 0, 100), "in"), M: map[string]int{"k": 1}}, 9)
	require.NoError(t, m.Complete(0, up{Log: []string{"x"}, M: map[string]int{"x": 1}, N: 1}, graph.Next{}))
	require.NoError(t, m.Complete(1, up{Log: []string{"y"}, M: map[string]int{"k": 2}, N: 1}, graph.Next{}))
	for range 3 {
		require.Equal(t, 3, panicOf(t, m.Advance()).Value)
		require.Equal(t, st{Log: []string{"in"}, M: map[string]int{"k": 1}}, m.State())
	}
	fail = false
	require.NoError(t, m.Advance())
	require.Equal(t, st{Log: []string{"in", "x", "y"}, M: map[string]int{"k": 2, "x": 1}, N: 2}, m.State())
}

func TestMachine_AdvanceAcceptsTheLastSuperStepAndRefusesOneMore(t *testing.T) {
	m := machine(t, loop(t, 3), counter{}, 2)
	require.NoError(t, m.Complete(0, counterUpdate{N: 1}, graph.Next{}))
	require.NoError(t, m.Advance())
	require.NoError(t, m.Complete(0, counterUpdate{N: 1}, graph.Next{}))
	want := superstep.MaxSuperStepsError{Limit: 2, Active: []string{"again"}}
	for _, call := range []struct {
		name string
		do   func() error
	}{
		{"Advance", m.Advance},
		{"Complete", func() error { return m.Complete(0, counterUpdate{N: 1}, graph.Next{}) }},
		{"Advance again", m.Advance},
	} {
		var limit *superstep.MaxSuperStepsError
		require.ErrorAs(t, call.do(), &limit, call.name)
		require.Equal(t, want, *limit, call.name)
		require.False(t, m.Done(), "never success")
	}
	require.Equal(t, 2, m.SuperSteps())
	require.Equal(t, 2, m.State().N, "what was allowed is part of the state")
}

func TestMachine_TwoThatAreToldTheSameDoTheSameAndTasksMayCompleteConcurrently(t *testing.T) {
	g := build(t, func(b *bld) {
		s := b.Node("s", say())
		fan := graph.Task(b, "fan", word)
		b.Start(s)
		b.Route(s, func(s st) graph.Next { return fan.Each(make([]string, 500)) }, fan)
	})
	run := func() st {
		m := machine(t, g, st{}, 9)
		require.NoError(t, m.Complete(0, up{}, graph.Next{}))
		require.NoError(t, m.Advance())
		var wg sync.WaitGroup
		for i := range m.Tasks() {
			wg.Go(func() {
				if err := m.Complete(i, up{Log: []string{fmt.Sprint(i)}}, graph.Next{}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.NoError(t, m.Advance())
		return m.State()
	}
	a, b := run(), run()
	require.Equal(t, a, b)
	for i := range 500 {
		require.Equal(t, fmt.Sprint(i), a.Log[i])
	}
}

func TestMachine_ItNeverWritesIntoWhatItWasGivenOrHasHandedOut(t *testing.T) {
	in := make([]string, 1, 100)
	m := machine(t, fanGraph(t), st{Log: in}, 9)
	early := m.State()
	require.Equal(t, 1, cap(early.Log))
	require.NoError(t, m.Complete(0, up{Log: []string{"a"}}, graph.Next{}))
	require.NoError(t, m.Advance())
	mid := m.State()
	require.Equal(t, len(mid.Log), cap(mid.Log))
	mine := append(mid.Log, "mine") //nolint:gocritic // the very thing that must be safe
	require.NoError(t, m.Complete(0, up{Log: []string{"b"}}, graph.Next{}))
	require.NoError(t, m.Complete(1, up{Log: []string{"c"}}, graph.Next{}))
	require.NoError(t, m.Advance())
	require.Equal(t, []string{"", "a", "mine"}, mine)
	require.Equal(t, []string{"", "a", "b", "c"}, m.State().Log)
	require.Equal(t, make([]string, 100), in[:100])
}
