package superstep_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/superstep"
)

// forking compiles write -> review, which routes by the score: to publish from 8 on, or to rewrite.
func forking(tb testing.TB, c *meter) *graph.Graph[st, up] {
	tb.Helper()
	return build(tb, func(b *bld) {
		write := b.Node("write", counted(c, "write", say("write")))
		review := b.Node("review", counted(c, "review", func(context.Context, st) (up, error) { return up{Log: []string{"review"}, N: 5}, nil }))
		publish := b.Node("publish", counted(c, "publish", say("publish")))
		rewrite := b.Node("rewrite", counted(c, "rewrite", say("rewrite")))
		b.Start(write)
		b.Edge(write, review)
		b.Route(review, func(s st) graph.Next {
			if s.N >= 8 {
				return graph.To(publish)
			}
			return graph.To(rewrite)
		}, publish, rewrite)
	})
}

func TestJournal_ForkBranchesOffAnySuperStep(t *testing.T) {
	for step, calls := range []map[string]int{
		{"write": 2, "review": 2, "rewrite": 2}, {"write": 1, "review": 2, "rewrite": 2},
		{"write": 1, "review": 1, "rewrite": 2}, {"write": 1, "review": 1, "rewrite": 1},
	} {
		t.Run(fmt.Sprint("at ", step), func(t *testing.T) {
			c, store := newMeter(), newStore()
			r := runner(t, forking(t, c), stored(store))
			first, err := r.Run(t.Context(), st{}, in("r"))
			require.NoError(t, err)
			before := eventsOf(t, store, "r")
			fork, err := r.Fork(t.Context(), "r", step, nil, in("f"))
			require.NoError(t, err)
			require.Equal(t, first.State, fork.State)
			require.Equal(t, 3, fork.SuperSteps)
			require.Equal(t, calls, c.all())
			run, err := store.Load(t.Context(), "f")
			require.NoError(t, err)
			require.Equal(t, journal.Link{Kind: journal.ForkOf, Run: "r", SuperStep: step}, run.Link)
			require.Equal(t, before, eventsOf(t, store, "r"), "the other run is left as it is")
			require.NoError(t, store.Delete(t.Context(), "r"), "which is not needed any more")
			again, err := r.Resume(t.Context(), "f")
			require.NoError(t, err)
			require.Equal(t, fork.State, again.State)
			_, err = r.State(t.Context(), "f")
			require.NoError(t, err)
		})
	}
	r := runner(t, forking(t, newMeter()), stored(newStore()))
	_, err := r.Run(t.Context(), st{}, in("r"))
	require.NoError(t, err)
	for _, step := range []int{-1, 4, 100} {
		_, err = r.Fork(t.Context(), "r", step, nil)
		require.ErrorContains(t, err, "no super-step")
	}
	_, err = r.Fork(t.Context(), "none", 0, nil)
	require.ErrorIs(t, err, journal.ErrNotFound)
}

func TestJournal_AnEditGoesThroughTheReducerAndTheRoutersDecideAnew(t *testing.T) {
	c, store := newMeter(), newStore()
	r := runner(t, forking(t, c), stored(store))
	_, err := r.Run(t.Context(), st{}, in("r"))
	require.NoError(t, err)
	fork, err := r.Fork(t.Context(), "r", 2, &up{N: 4, Log: []string{"edit"}}, in("f"))
	require.NoError(t, err)
	require.Equal(t, 9, fork.State.N, "sum, as the tag says")
	require.Equal(t, []string{"write", "review", "edit", "publish"}, fork.State.Log)
	require.Equal(t, map[string]int{"write": 1, "review": 1, "rewrite": 1, "publish": 1}, c.all())
	fork, err = r.Fork(t.Context(), "r", 0, &up{N: 4, Log: []string{"edit"}})
	require.NoError(t, err)
	require.Equal(t, []string{"edit", "write", "review", "publish"}, fork.State.Log)
	fork, err = r.Fork(t.Context(), "r", 1, &up{})
	require.NoError(t, err)
	require.Equal(t, []string{"write", "review", "rewrite"}, fork.State.Log, "an edit that sets nothing still activates the edges")
}

// An edit changes what its super-step has written: it does not conflict with it.
func TestJournal_AnEditComesBehindTheUpdatesOfItsSuperStep(t *testing.T) {
	store := newStore()
	b := graph.New("merge", graph.Merge(func(s st, ws []graph.Write[up]) (st, error) {
		for _, w := range ws {
			if w.Update.V == "refused" {
				return s, errBroken
			}
			s.V, s.Log = w.Update.V, append(s.Log, w.Node)
		}
		return s, nil
	}))
	a := b.Node("a", func(context.Context, st) (up, error) { return up{V: "a"}, nil })
	n := b.Node("b", func(_ context.Context, s st) (up, error) { return up{V: s.V + "b"}, nil })
	b.Start(a)
	b.Edge(a, n)
	g, err := b.Compile()
	require.NoError(t, err)
	r := runner(t, g, stored(store))
	_, err = r.Run(t.Context(), st{}, in("r"))
	require.NoError(t, err)
	res, err := r.Fork(t.Context(), "r", 1, &up{V: "edit"})
	require.NoError(t, err)
	require.Equal(t, "editb", res.State.V)
	require.Equal(t, []string{"a", "(edit)", "b"}, res.State.Log)
	for step := range 2 {
		_, err = r.Fork(t.Context(), "r", step, &up{V: "refused"}, in("f"))
		refused := asError[*superstep.ReduceError](t, err)
		require.Equal(t, []string{"(edit)"}, refused.Nodes)
		require.ErrorIs(t, err, errBroken)
		_, err = store.Load(t.Context(), "f")
		require.ErrorIs(t, err, journal.ErrNotFound)
	}
}

func TestJournal_AForkOfAFork(t *testing.T) {
	c, store := newMeter(), newStore()
	r := runner(t, forking(t, c), stored(store))
	_, err := r.Run(t.Context(), st{}, in("r"))
	require.NoError(t, err)
	_, err = r.Fork(t.Context(), "r", 1, &up{Log: []string{"one"}}, in("f"))
	require.NoError(t, err)
	two, err := r.Fork(t.Context(), "f", 2, &up{Log: []string{"two"}, N: 9}, in("g"))
	require.NoError(t, err)
	require.Equal(t, []string{"write", "one", "review", "two", "publish"}, two.State.Log)
	same, err := r.Fork(t.Context(), "g", 1, nil, in("h"))
	require.NoError(t, err)
	require.Equal(t, []string{"write", "one", "review", "rewrite"}, same.State.Log, "the edit of the fork it comes from stays")
	_, err = r.Fork(t.Context(), "g", 1, &up{}, in("i"))
	require.ErrorContains(t, err, "edited")
	require.NoError(t, store.Delete(t.Context(), "r"))
	require.NoError(t, store.Delete(t.Context(), "f"))
	again, err := r.Fork(t.Context(), "g", 3, nil)
	require.NoError(t, err)
	require.Equal(t, two.State, again.State)
}

// A fork that is asked for again with the same id is the same fork.
func TestJournal_AForkIsMadeOnce(t *testing.T) {
	c, store := newMeter(), newStore()
	r := runner(t, forking(t, c), stored(store))
	_, err := r.Run(t.Context(), st{}, in("r"))
	require.NoError(t, err)
	first, err := r.Fork(t.Context(), "r", 2, &up{N: 9}, in("f"))
	require.NoError(t, err)
	again, err := r.Fork(t.Context(), "r", 2, &up{N: 9}, in("f"))
	require.NoError(t, err)
	require.Equal(t, first.State, again.State)
	require.Equal(t, 1, c.all()["publish"])
	for name, fork := range map[string]func() (*superstep.Result[st], error){
		"another edit":       func() (*superstep.Result[st], error) { return r.Fork(t.Context(), "r", 2, &up{N: 10}, in("f")) },
		"no edit":            func() (*superstep.Result[st], error) { return r.Fork(t.Context(), "r", 2, nil, in("f")) },
		"another super-step": func() (*superstep.Result[st], error) { return r.Fork(t.Context(), "r", 1, &up{N: 9}, in("f")) },
		"another start":      func() (*superstep.Result[st], error) { return r.Fork(t.Context(), "r", 0, nil, in("f")) },
		"no fork at all":     func() (*superstep.Result[st], error) { return r.Fork(t.Context(), "f", 2, nil, in("r")) },
	} {
		_, err := fork()
		require.ErrorAs(t, err, new(*durable.RunConflictError), name)
	}
}

// A run that is under way can be forked: what its super-step has done so far is not taken along.
func TestJournal_AForkOfARunUnderWayDropsPendingOutcomes(t *testing.T) {
	c, store := newMeter(), newStore()
	inside := make(chan struct{}, 2)
	release, open := gate(t)
	slow := func(context.Context, st) (up, error) { //nolint:unparam // a node
		inside <- struct{}{}
		<-release
		return up{Log: []string{"slow"}}, nil
	}
	g := build(t, func(b *bld) {
		a := b.Node("a", counted(c, "a", say("a")))
		quick := b.Node("quick", counted(c, "quick", say("quick")))
		s := b.Node("slow", counted(c, "slow", slow))
		b.Start(a)
		b.Edge(a, quick)
		b.Edge(a, s)
	})
	completed := make(chan struct{})
	cfg := stored(store)
	cfg.Observers = append(cfg.Observers, releaseAfter(1, completed))
	r := runner(t, g, cfg)
	done := make(chan error)
	go func() {
		_, err := r.Run(t.Context(), st{}, in("r"))
		done <- err
	}()
	<-inside
	<-completed
	forked, other := make(chan error), runner(t, g, stored(store))
	go func() {
		res, err := other.Fork(t.Context(), "r", 1, &up{Log: []string{"edit"}})
		if err == nil && fmt.Sprint(res.State.Log) != "[a edit quick slow]" {
			err = fmt.Errorf("%v", res.State.Log)
		}
		forked <- err
	}()
	<-inside
	open()
	require.NoError(t, <-forked)
	require.NoError(t, <-done)
	require.Equal(t, map[string]int{"a": 1, "quick": 2, "slow": 2}, c.all())
}

func TestJournal_AForkAsksItsQuestionsAgain(t *testing.T) {
	store := newStore()
	r := runner(t, inLine(t, asks("first"), asks("second"), say("end")), stored(store))
	_, err := r.Run(t.Context(), st{}, in("r"))
	require.NoError(t, r.Answer(t.Context(), "r", questionsOf(t, err)[0], "1"))
	_, err = r.Resume(t.Context(), "r")
	require.NoError(t, r.Answer(t.Context(), "r", questionsOf(t, err)[0], "2"))
	_, err = r.Resume(t.Context(), "r")
	require.NoError(t, err)
	_, err = r.Fork(t.Context(), "r", 1, nil, in("f"))
	require.Equal(t, []string{"2/b[0]/ask1"}, questionsOf(t, err), "only what lies behind the fork")
	_, err = r.Fork(t.Context(), "r", 0, nil, in("g"))
	require.Equal(t, []string{"1/a[0]/ask1"}, questionsOf(t, err))
	require.NoError(t, r.Answer(t.Context(), "f", "2/b[0]/ask1", "other"))
	res, err := r.Resume(t.Context(), "f")
	require.NoError(t, err)
	require.Equal(t, []string{"1", "other", "end"}, res.State.Log)
}

// A failed, cancelled or suspended run can be forked as any other.
func TestJournal_AForkOfARunThatHasNotCompleted(t *testing.T) {
	store := newStore()
	r := runner(t, inLine(t, say("a"), asks("?"), failsOnce(say("c"))), stored(store))
	_, err := r.Run(t.Context(), st{}, in("r"))
	require.ErrorAs(t, err, new(*durable.SuspendedError))
	_, err = r.Fork(t.Context(), "r", 1, nil, in("of suspended"))
	require.Len(t, questionsOf(t, err), 1)
	require.NoError(t, r.Cancel(t.Context(), "of suspended", ""))
	_, err = r.Fork(t.Context(), "of suspended", 1, nil, in("of cancelled"))
	require.NoError(t, r.Answer(t.Context(), "of cancelled", questionsOf(t, err)[0], "x"))
	_, err = r.Resume(t.Context(), "of cancelled")
	require.ErrorIs(t, err, errBroken)
	res, err := r.Fork(t.Context(), "of cancelled", 2, nil, in("of failed"))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "x", "c"}, res.State.Log)
}
