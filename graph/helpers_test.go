package graph_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/pawl-go/pawl/graph"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// State and Update are those of most tests.
type State struct {
	Queries []string
	Notes   []string
	Draft   string
	Score   float64
}

type Update struct {
	Queries []string
	Notes   []string `merge:"append"`
	Draft   string
	Score   *float64 `merge:"max"`
}

type (
	builder = graph.Builder[State, Update]
	compile = *graph.Graph[State, Update]
)

func newBuilder(name string) *builder { return graph.New(name, graph.Fields[State, Update]()) }

// What nodes do does not matter to a test of what graphs are.
func work(context.Context, State) (Update, error)           { return Update{}, nil }
func workOn(context.Context, State, string) (Update, error) { return Update{}, nil }
func plain(State) (Update, error)                           { return Update{}, nil }
func workAndGo(context.Context, State) (Update, graph.Next, error) {
	return Update{}, graph.Next{}, nil
}
func recoverFrom(context.Context, State, error) (Update, error)       { return Update{}, nil }
func recoverOn(context.Context, State, string, error) (Update, error) { return Update{}, nil }
func nowhere(State) graph.Next                                        { return graph.To() }
func in(s State) State                                                { return s }
func inItem(s State, _ string) State                                  { return s }
func out(State) Update                                                { return Update{} }

func mustCompile(tb testing.TB, b *builder) compile {
	tb.Helper()
	g, err := b.Compile()
	require.NoError(tb, err)
	return g
}

// child returns a graph to use as a node.
func child() compile {
	b := newBuilder("child")
	b.Start(b.Node("only", work))
	g, err := b.Compile()
	if err != nil {
		panic(err)
	}
	return g
}

// planOf returns the plan of a graph of one node over S and U, to test its reducer.
func planOf[S, U any](tb testing.TB, r graph.Reducer[S, U]) *graph.Plan[S, U] {
	tb.Helper()
	b := graph.New("reduce", r)
	b.Start(b.Func("node", func(S) (u U, err error) { return u, nil }))
	g, err := b.Compile()
	require.NoError(tb, err)
	return g.Plan()
}

// reduce folds updates of nodes "a", "b", ... into s, in one super-step.
func reduce[S, U any](tb testing.TB, r graph.Reducer[S, U], s S, updates ...U) (S, error) {
	tb.Helper()
	writes := make([]graph.Write[U], len(updates))
	for i, u := range updates {
		writes[i] = graph.Write[U]{Node: string(rune('a' + i)), Index: -1, Update: u}
	}
	err := planOf(tb, r).Reduce(&s, writes)
	return s, err
}

// mergeAll is reduce with Fields, which must succeed.
func mergeAll[S, U any](tb testing.TB, s S, updates ...U) S {
	tb.Helper()
	got, err := reduce(tb, graph.Fields[S, U](), s, updates...)
	require.NoError(tb, err)
	return got
}

// golden compares text with a file under testdata, or rewrites the file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "go test ./graph -update rewrites %s", path)
}

var errTest = errors.New("test")
