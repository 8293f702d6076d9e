package graph_test

import (
	"context"
	"testing"

	"github.com/pawl-go/pawl/graph"
	"github.com/stretchr/testify/require"
)

func names(next graph.Next) []string {
	out := []string{}
	for i := range next.Len() {
		out = append(out, next.At(i).Name())
	}
	return out
}

func TestNextKeepsTheOrder(t *testing.T) {
	b := newBuilder("a")
	n, m := b.Node("n", work), b.Node("m", work)
	k := graph.Task(b, "k", workOn)
	for _, tt := range []struct {
		next graph.Next
		want []string
	}{
		{graph.Next{}, []string{}},
		{graph.To(), []string{}},
		{graph.To(n), []string{"n"}},
		{graph.To(m, n, m, graph.End), []string{"m", "n", "m", "End"}},
		{k.Each(nil), []string{"k"}},
		{graph.All(), []string{}},
		{graph.All(graph.To()), []string{}},
		{graph.All(graph.To(n, m), k.Each([]string{"a"}), graph.To(), k.Each(nil), graph.To(n)), []string{"n", "m", "k", "k", "n"}},
		{graph.All(graph.All(graph.To(m), graph.To(n)), graph.To(graph.Node{})), []string{"m", "n", "zero Node"}},
	} {
		require.Equal(t, tt.want, names(tt.next))
	}
}

func TestOnlyEachSendsItems(t *testing.T) {
	b := newBuilder("a")
	next := graph.All(graph.To(b.Node("n", work)), graph.Task(b, "k", workOn).Each([]string{"a", "b"}))
	require.Nil(t, next.At(0).Items)
	require.Equal(t, 2, next.At(1).Items.Len())
	require.Equal(t, 0, graph.Task(b, "l", workOn).Each(nil).At(0).Items.Len(), "no items are not nil Items")
}

func TestAnswersShareNothing(t *testing.T) {
	b := newBuilder("a")
	n, m, o := b.Node("n", work), b.Node("m", work), b.Node("o", work)
	handles := []graph.Node{n, n, n}
	base := graph.To(handles...)
	handles[1] = m
	first, second := graph.All(base, graph.To(m)), graph.All(base, graph.To(o))
	require.Equal(t, []string{"n", "n", "n"}, names(base))
	require.Equal(t, []string{"n", "n", "n", "m"}, names(first))
	require.Equal(t, []string{"n", "n", "n", "o"}, names(second))
}

var sink graph.Next

func TestOneTargetCostsNoAllocation(t *testing.T) {
	b := newBuilder("a")
	n, k := b.Node("n", work), graph.Task(b, "k", workOn)
	items := []string{"a", "b", "c"}
	require.Zero(t, testing.AllocsPerRun(100, func() { sink = graph.To(n) }))
	require.Zero(t, testing.AllocsPerRun(100, func() { sink = graph.To(graph.End) }))
	require.Zero(t, testing.AllocsPerRun(100, func() { sink = graph.To() }))
	require.Zero(t, testing.AllocsPerRun(100, func() { sink = graph.All(graph.To(n)) }))
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { sink = k.Each(items) }), 1.0, "the slice is boxed, not the items")
}

func TestNames_HandlesTellTheirs(t *testing.T) {
	b := graph.New("names", graph.Replace[int]())
	n := b.Node("n", func(context.Context, int) (int, error) { return 0, nil })
	task := graph.Task(b, "task", func(context.Context, int, string) (int, error) { return 0, nil })
	require.Equal(t, []string{"n", "task", "End", "", ""},
		[]string{n.Name(), task.Name(), graph.End.Name(), graph.Node{}.Name(), graph.TaskNode[int]{}.Name()})
}
