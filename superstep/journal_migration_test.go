package superstep_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/superstep"
)

// Two versions of one agent: what was "look" is "search", and what was Text is Draft.
type (
	oldState  struct{ Text string }
	oldUpdate struct{ Text string }
	newState  struct{ Draft string }
	newUpdate struct{ Draft string }
)

func oldAgent(tb testing.TB, c *meter) *graph.Graph[oldState, oldUpdate] {
	tb.Helper()
	b := graph.New("agent", graph.Fields[oldState, oldUpdate]())
	look := b.Node("look", func(context.Context, oldState) (oldUpdate, error) {
		c.hit("look")
		return oldUpdate{"found"}, nil
	})
	review := b.Node("review", func(ctx context.Context, s oldState) (oldUpdate, error) {
		_, err := asks("?")(ctx, st{})
		return oldUpdate(s), err
	})
	b.Start(look)
	b.Edge(look, review)
	g, err := b.Compile()
	require.NoError(tb, err)
	return g
}

func newAgent(tb testing.TB, c *meter) *graph.Graph[newState, newUpdate] {
	tb.Helper()
	b := graph.New("agent", graph.Fields[newState, newUpdate]())
	search := b.Node("search", func(context.Context, newState) (newUpdate, error) {
		c.hit("search")
		return newUpdate{"found"}, nil
	})
	review := b.Node("review", func(ctx context.Context, s newState) (newUpdate, error) {
		u, err := asks("?")(ctx, st{})
		if err != nil {
			return newUpdate{}, err
		}
		return newUpdate{s.Draft + ", " + u.Log[0]}, nil
	})
	b.Start(search)
	b.Edge(search, review)
	g, err := b.Compile()
	require.NoError(tb, err)
	return g
}

// renameField maps a field of recorded JSON, and leaves what has the new name as it is.
func renameField(data json.RawMessage) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	if text, ok := fields["Text"]; ok {
		fields["Draft"] = text
		delete(fields, "Text")
	}
	return json.Marshal(fields)
}

// A run does not go on with another version of its graph, and the error lists what has changed. Whoever says what became of it
// can go on, and what is recorded is served.
func TestJournal_AChangedGraphIsRefusedUnlessItIsMigrated(t *testing.T) {
	c, store := newMeter(), newStore()
	_, err := runner(t, oldAgent(t, c), stored(store)).Run(t.Context(), oldState{"in"}, in("r"))
	id := questionsOf(t, err)[0]
	before := eventsOf(t, store, "r")
	r := runner(t, newAgent(t, c), stored(store))
	calls := map[string]func() error{
		"Run":     func() error { _, err := r.Run(t.Context(), newState{"in"}, in("r")); return err },
		"Resume":  func() error { _, err := r.Resume(t.Context(), "r"); return err },
		"State":   func() error { _, err := r.State(t.Context(), "r"); return err },
		"Fork":    func() error { _, err := r.Fork(t.Context(), "r", 1, nil); return err },
		"History": func() error { return firstError(r.History(t.Context(), "r", 0)) },
	}
	for name, call := range calls {
		changed := asError[*superstep.GraphChangedError](t, call())
		require.Equal(t, "r", changed.RunID, name)
		require.Contains(t, changed.Gone, "node look")
		require.Contains(t, changed.New, "node search")
		require.Contains(t, changed.Error(), "Draft")
	}
	require.Equal(t, before, eventsOf(t, store, "r"), "the run is left as it is")

	by := superstep.WithMigration(superstep.Migration{
		Rename: map[string]string{"look": "search"}, State: renameField, Update: renameField,
	})
	require.NoError(t, r.Answer(t.Context(), "r", id, "fine"))
	for range 2 { // also once it has ended
		res, err := r.Resume(t.Context(), "r", by)
		require.NoError(t, err)
		require.Equal(t, newState{"found, fine"}, res.State)
	}
	require.Equal(t, map[string]int{"look": 1}, c.all(), "what is recorded under the old name is not called again")
}

func firstError[T any](seq func(func(T, error) bool)) error {
	for _, err := range seq {
		return err
	}
	return nil
}

// Without a change a migration changes nothing.
func TestJournal_AMigrationOfAnUnchangedGraph(t *testing.T) {
	store := newStore()
	r := runner(t, one(t, asks("?")), stored(store))
	_, err := r.Run(t.Context(), st{}, in("r"))
	require.NoError(t, r.Answer(t.Context(), "r", questionsOf(t, err)[0], "yes"))
	res, err := r.Resume(t.Context(), "r", superstep.WithMigration(superstep.Migration{}))
	require.NoError(t, err)
	require.Equal(t, []string{"yes"}, res.State.Log)
	require.Equal(t, journal.Completed, statusOf(t, store, "r"))
}
