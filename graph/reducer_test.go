package graph_test

import (
	"slices"
	"testing"

	"github.com/pawl-go/pawl/graph"
	"github.com/stretchr/testify/require"
)

func TestReduceFoldsInTaskOrder(t *testing.T) {
	got, err := reduce(t, graph.Reduce(func(s string, u string) string { return s + u }), "0", "1", "2", "3")
	require.NoError(t, err)
	require.Equal(t, "0123", got)
}

func TestMergeSeesAllWritesAndMayRefuseThem(t *testing.T) {
	r := graph.Merge(func(s int, writes []graph.Write[int]) (int, error) {
		for _, w := range writes {
			if w.Update < 0 {
				return -1, errTest
			}
			s += w.Update * len(w.Node)
		}
		return s, nil
	})
	got, err := reduce(t, r, 1, 2, 3)
	require.NoError(t, err)
	require.Equal(t, 6, got)
	got, err = reduce(t, r, 1, 2, -3)
	require.ErrorIs(t, err, errTest)
	require.Equal(t, 1, got, "what was refused is not part of the state")
}

func TestReplaceTakesOneTaskASuperStep(t *testing.T) {
	got, err := reduce(t, graph.Replace[string](), "old", "new")
	require.NoError(t, err)
	require.Equal(t, "new", got)
	got, err = reduce(t, graph.Replace[string](), "old")
	require.NoError(t, err)
	require.Equal(t, "old", got)
	_, err = reduce(t, graph.Replace[string](), "old", "x", "x", "x")
	require.EqualError(t, err, `pawl: conflict: the state is replaced by "a" and "b" in one super-step: `+
		`run them one after the other, or use graph.Fields, graph.Reduce or graph.Merge`)
}

func TestReduceMayAppendToTheState(t *testing.T) {
	plan := planOf(t, graph.Reduce(func(s []int, u int) []int { return append(s, u) }))
	var s []int
	var old [][]int
	for i := range 100 {
		require.NoError(t, plan.Reduce(&s, []graph.Write[int]{{Update: i}}))
		view := s
		plan.Clip(&view)
		old = append(old, view)
	}
	for i, view := range old {
		require.Len(t, view, i+1)
		require.Equal(t, i, view[i])
		require.True(t, slices.IsSorted(view))
	}
}
