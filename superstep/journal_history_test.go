package superstep_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/superstep"
)

// history reads the history of run "r".
func history(tb testing.TB, r *superstep.Runner[st, up], before int) []*superstep.Snapshot[st] {
	tb.Helper()
	var out []*superstep.Snapshot[st]
	for s, err := range r.History(tb.Context(), "r", before) {
		require.NoError(tb, err)
		out = append(out, s)
	}
	return out
}

func TestJournal_HistoryListsTheNewestFirstAndPages(t *testing.T) {
	store := newStore()
	g := build(t, func(b *bld) {
		a := b.Node("a", say("a"))
		leaf := graph.Task(b, "leaf", word)
		side := b.Node("side", say("side"))
		end := b.Node("end", say("end"), graph.Defer())
		b.Start(a)
		b.Route(a, each(leaf, "x", "y"), leaf)
		b.Edge(a, side)
		b.Edge(side, end)
	})
	r := runner(t, g, stored(store))
	begin := time.Now().Add(-time.Millisecond)
	res, err := r.Run(t.Context(), st{V: "in"}, in("r"))
	require.NoError(t, err)
	all := history(t, r, 0)
	var steps []string
	for _, s := range all {
		steps = append(steps, fmt.Sprint(s.SuperStep, s.State.Log, s.Next))
		require.Equal(t, "r", s.RunID)
		require.Equal(t, "in", s.State.V)
		require.WithinRange(t, s.Time, begin, time.Now().Add(time.Millisecond))
	}
	require.Equal(t, []string{
		"3 [a side x y end] []", "2 [a side x y] [end]", "1 [a] [side leaf[0] leaf[1]]", "0 [] [a]",
	}, steps)
	require.Equal(t, all[2:], history(t, r, all[1].SuperStep), "a page begins where the last one ended")
	require.Empty(t, history(t, r, all[3].SuperStep-1))
	for s := range r.History(t.Context(), "r", 0) { // it may be left early
		require.Equal(t, 3, s.SuperStep)
		break
	}
	last, err := r.State(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, all[0], last)
	require.Equal(t, res.State, last.State)
	// What is handed out is the caller's own.
	_ = append(all[2].State.Log, "mine")
	require.Equal(t, []string{"a", "x"}, append(all[2].State.Log, "x"))
	for _, err := range r.History(t.Context(), "none", 0) {
		require.ErrorIs(t, err, journal.ErrNotFound)
	}
}

func TestJournal_StateAndHistoryOfARunThatIsUnderWayWaitsOrHasEnded(t *testing.T) {
	store := newStore()
	inside, release := make(chan struct{}), make(chan struct{})
	var o once
	g := inLine(t, say("a"), func(ctx context.Context, s st) (up, error) {
		if o.first() {
			close(inside)
			<-release
		}
		return asks("?")(ctx, s)
	}, fails(errBroken))
	r := runner(t, g, stored(store))
	done := make(chan error)
	go func() {
		_, err := r.Run(t.Context(), st{}, in("r"))
		done <- err
	}()
	look := func(step int, next []string, log ...string) {
		t.Helper()
		s, err := runner(t, g, stored(store)).State(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, step, s.SuperStep)
		require.Equal(t, next, s.Next)
		require.Equal(t, log, s.State.Log)
		require.Len(t, history(t, r, 0), step+1)
	}
	<-inside
	look(1, []string{"b"}, "a")
	close(release)
	require.ErrorAs(t, <-done, new(*durable.SuspendedError))
	look(1, []string{"b"}, "a")
	require.NoError(t, r.Answer(t.Context(), "r", "2/b[0]/ask1", "yes"))
	look(1, []string{"b"}, "a")
	_, err := r.Resume(t.Context(), "r")
	require.ErrorIs(t, err, errBroken)
	look(2, []string{"c"}, "a", "yes")
}

func TestJournal_HistoryNeedsAStore(t *testing.T) {
	r := runner(t, one(t, say("a")), superstep.Config{})
	for _, err := range r.History(t.Context(), "r", 0) {
		require.ErrorContains(t, err, "Config.Store")
	}
	for name, err := range map[string]error{
		"State":    func() error { _, err := r.State(t.Context(), "r"); return err }(),
		"Resume":   func() error { _, err := r.Resume(t.Context(), "r"); return err }(),
		"Retry":    func() error { _, err := r.Retry(t.Context(), "r"); return err }(),
		"Fork":     func() error { _, err := r.Fork(t.Context(), "r", 0, nil); return err }(),
		"Continue": func() error { _, err := r.Continue(t.Context(), "r", nil); return err }(),
		"Answer":   r.Answer(t.Context(), "r", "q", 1),
		"Cancel":   r.Cancel(t.Context(), "r", ""),
		"Pause":    r.Pause(t.Context(), "r", ""),
		"Unpause":  r.Unpause(t.Context(), "r"),
		"Thread":   func() error { _, err := r.Run(t.Context(), st{}, superstep.Thread("t")); return err }(),
		"Before":   func() error { _, err := r.Run(t.Context(), st{}, superstep.InterruptBefore(graph.Node{})); return err }(),
	} {
		require.ErrorContains(t, err, "Config.Store", name)
	}
}
