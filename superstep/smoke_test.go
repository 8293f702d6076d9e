package superstep_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/superstep"
	"github.com/stretchr/testify/require"
)

type State struct {
	Topic   string
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

func TestSmoke(t *testing.T) {
	b := graph.New("research", graph.Fields[State, Update]())
	plan := b.Node("plan", func(ctx context.Context, s State) (Update, error) { return Update{Queries: []string{"a", "b", "c"}}, nil })
	search := graph.Task(b, "search", func(ctx context.Context, s State, q string) (Update, error) {
		return Update{Notes: []string{q + "!"}}, nil
	})
	write := b.Node("write", func(ctx context.Context, s State) (Update, error) {
		return Update{Draft: fmt.Sprint(s.Notes, s.Score)}, nil
	})
	review := b.Node("review", func(ctx context.Context, s State) (Update, error) {
		sc := s.Score + 0.3
		return Update{Score: &sc}, nil
	})
	b.Start(plan)
	b.Route(plan, func(s State) graph.Next {
		if len(s.Queries) == 0 {
			return graph.To(write)
		}
		return search.Each(s.Queries)
	}, search, write)
	b.Edge(search, write)
	b.Edge(write, review)
	b.Route(review, func(s State) graph.Next {
		if s.Score >= 0.8 {
			return graph.To(graph.End)
		}
		return graph.To(write)
	}, write, graph.End)
	g, err := b.Compile()
	require.NoError(t, err)
	r, err := superstep.NewRunner(g, superstep.Config{})
	require.NoError(t, err)
	res, err := r.Run(t.Context(), State{Topic: "tides"})
	require.NoError(t, err)
	t.Logf("%+v", res)
	for ev, err := range r.Stream(t.Context(), State{Topic: "tides"}) {
		t.Logf("%T %+v %v", ev, ev, err)
	}
}
