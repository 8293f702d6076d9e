package superstep_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	memstore "github.com/pawl-go/pawl/journal/memory"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

// What is refused before anything is written, and what is not to be mixed up.

func TestJournal_AThreadWithoutANameIsRefused(t *testing.T) {
	store := memstore.New()
	r := durableRunner(t, one(t, say("secret of alice")), store)
	_, err := r.Run(t.Context(), st{}, superstep.Thread("alice"))
	require.NoError(t, err)

	res, err := r.Continue(t.Context(), "", &up{V: "bob"})
	require.ErrorContains(t, err, "name of the thread is empty")
	assert.Empty(t, res.State)
	_, err = r.Run(t.Context(), st{}, superstep.Thread(""))
	require.ErrorContains(t, err, "name of the thread is empty")
}

func TestJournal_AForkIsNoTurnUnlessThreadSaysSo(t *testing.T) {
	store := memstore.New()
	r := durableRunner(t, one(t, say("a")), store)
	_, err := r.Run(t.Context(), st{}, in("r"), superstep.Thread("talk"))
	require.NoError(t, err)
	_, err = r.Fork(t.Context(), "r", 0, nil, in("aside"))
	require.NoError(t, err)
	_, err = r.Fork(t.Context(), "r", 0, nil, in("other"), superstep.Thread("other talk"))
	require.NoError(t, err)
	for id, thread := range map[string]string{"r": "talk", "aside": "", "other": "other talk"} {
		run, err := store.Load(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, thread, run.Thread, id)
	}
}

func TestJournal_ARetryThatCannotGoOnMakesNoRun(t *testing.T) {
	store := memstore.New()
	_, err := durableRunner(t, one(t, fails(errors.New("no"))), store).Run(t.Context(), st{}, in("r"))
	require.Error(t, err)
	runs := func() int {
		page, err := store.List(t.Context(), journal.Query{})
		require.NoError(t, err)
		return len(page.Runs)
	}
	changed := durableRunner(t, build(t, func(b *bld) { b.Start(b.Node("b", say("b"))) }), store)
	_, err = changed.Retry(t.Context(), "r")
	require.ErrorAs(t, err, new(*superstep.GraphChangedError))
	assert.Equal(t, 1, runs())

	stopped := durableRunner(t, one(t, say("a")), store)
	require.NoError(t, stopped.Stop(t.Context()))
	_, err = stopped.Retry(t.Context(), "r")
	require.ErrorIs(t, err, superstep.ErrStopped)
	_, err = durableRunner(t, one(t, say("a")), store).Retry(t.Context(), "r", superstep.Thread("other"))
	require.ErrorContains(t, err, "takes no Thread")
	assert.Equal(t, 1, runs())
}

func TestJournal_InterruptsNameNodesOfTheGraph(t *testing.T) {
	var foreign graph.Node
	build(t, func(b *bld) {
		foreign = b.Node("a", say("x")) // of the same name
		b.Start(foreign)
	})
	r := durableRunner(t, one(t, say("a")), memstore.New())
	for _, ref := range []graph.Node{foreign, graph.End, {}} {
		_, err := r.Run(t.Context(), st{}, superstep.InterruptBefore(ref))
		require.ErrorContains(t, err, "no node of graph", ref.Name())
	}
}

func TestJournal_AMigrationMustNotBeAmbiguous(t *testing.T) {
	r := durableRunner(t, build(t, func(b *bld) { b.Start(b.Node("a", say("a")), b.Node("b", say("b"))) }), memstore.New())
	for from, to := range map[string]string{"a": "b", "old": "gone"} {
		_, err := r.Resume(t.Context(), "r", superstep.WithMigration(superstep.Migration{Rename: map[string]string{from: to}}))
		require.ErrorContains(t, err, "superstep.Migration renames", from)
	}
}

// Whoever forks a run through a migration gets a run that needs it, too.
func TestJournal_AForkOfAMigratedRunStillNeedsTheMigration(t *testing.T) {
	named := func(name string) *graph.Graph[st, up] {
		return build(t, func(b *bld) {
			first, last := b.Node(name, say("1")), b.Node("last", say("2"))
			b.Start(first)
			b.Edge(first, last)
		})
	}
	store := memstore.New()
	_, err := durableRunner(t, named("old"), store).Run(t.Context(), st{}, in("r"))
	require.NoError(t, err)
	r := durableRunner(t, named("new"), store)
	by := superstep.WithMigration(superstep.Migration{Rename: map[string]string{"old": "new"}})
	res, err := r.Fork(t.Context(), "r", 1, &up{V: "edited"}, in("f"), by)
	require.NoError(t, err)
	assert.Equal(t, []string{"1", "2"}, res.State.Log)
	_, err = r.State(t.Context(), "f")
	require.ErrorAs(t, err, new(*superstep.GraphChangedError))
	s, err := r.State(t.Context(), "f", by)
	require.NoError(t, err)
	assert.Equal(t, "edited", s.State.V)
}

// unreadable writes what it cannot read.
type unreadable struct{ V int }

func (unreadable) UnmarshalJSON([]byte) error { return errors.New("no such thing") }

func TestJournal_AnUpdateThatCannotBeReadBackIsNotSerializable(t *testing.T) {
	type state struct{ U unreadable }
	b := graph.New("g", graph.Replace[state]())
	b.Start(b.Node("a", func(context.Context, state) (state, error) { return state{U: unreadable{V: 1}}, nil }))
	g, err := b.Compile()
	require.NoError(t, err)
	store := memstore.New()
	r, err := superstep.NewRunner(g, superstep.Config{Store: store})
	require.NoError(t, err)
	_, err = r.Run(t.Context(), state{}, in("r"))
	require.Error(t, err)
	if failed := (*durable.RunFailedError)(nil); errors.As(err, &failed) {
		assert.Equal(t, durable.CodeNotSerializable, failed.Code)
	}
}

func TestJournal_TheEndOfTheContextWhileARunIsTakenIsACancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := durableRunner(t, one(t, say("a")), cancelling{memstore.New(), cancel})
	_, err := r.Run(ctx, st{}, in("r"))
	require.ErrorAs(t, err, new(*superstep.CancelledError))
}

// cancelling is a store whose user loses patience while it takes a run.
type cancelling struct {
	*memstore.Store
	cancel context.CancelFunc
}

func (s cancelling) Acquire(ctx context.Context, _ string, _ journal.Claim) (journal.Lease, error) {
	s.cancel()
	<-ctx.Done()
	return journal.Lease{}, ctx.Err()
}

func TestJournal_StreamResume(t *testing.T) {
	store := memstore.New()
	g := one(t, asks("which?"))
	r := durableRunner(t, g, store)
	_, err := r.Run(t.Context(), st{}, in("r"))
	id := questionsOf(t, err)[0]
	open, err := r.Questions(t.Context(), "r")
	require.NoError(t, err)
	require.Len(t, open, 1)
	require.NoError(t, r.Answer(t.Context(), "r", id, "this"))
	var kinds []task.Kind
	for ev, err := range r.StreamResume(t.Context(), "r") {
		require.NoError(t, err)
		kinds = append(kinds, ev.Head().Kind)
	}
	assert.Equal(t, task.KindRunStarted, kinds[0])
	assert.Equal(t, task.KindRunCompleted, kinds[len(kinds)-1])
	for _, err := range r.StreamResume(t.Context(), "nobody") {
		require.ErrorIs(t, err, journal.ErrNotFound)
	}
}

func TestJournal_Signal(t *testing.T) {
	r := durableRunner(t, one(t, func(ctx context.Context, _ st) (up, error) {
		v, err := durable.WaitForSignal[json.Number](ctx, "go")
		return up{V: v.String()}, err
	}), memstore.New())
	_, err := r.Run(t.Context(), st{}, in("r"))
	require.ErrorAs(t, err, new(*durable.SuspendedError))
	require.NoError(t, r.Signal(t.Context(), "r", "go", 7))
	res, err := r.Resume(t.Context(), "r")
	require.NoError(t, err)
	assert.Equal(t, "7", res.State.V)
}

// What InterruptBefore has asked has to be answered, also if the next process does not ask.
func TestJournal_AGateHoldsForWhoeverGoesOn(t *testing.T) {
	var gated graph.Node
	ran := false
	g := build(t, func(b *bld) {
		gated = b.Node("a", func(context.Context, st) (up, error) { ran = true; return up{}, nil })
		b.Start(gated)
	})
	store := memstore.New()
	_, err := durableRunner(t, g, store).Run(t.Context(), st{}, in("r"), superstep.InterruptBefore(gated))
	id := questionsOf(t, err)[0]
	r := durableRunner(t, g, store)
	_, err = r.Resume(t.Context(), "r")
	require.Equal(t, []string{id}, questionsOf(t, err))
	assert.False(t, ran)
	require.NoError(t, r.Answer(t.Context(), "r", id, "go"))
	_, err = r.Resume(t.Context(), "r")
	require.NoError(t, err)
	assert.True(t, ran)
}

func TestJournal_RetryingTwiceMakesOneRun(t *testing.T) {
	store := memstore.New()
	broken := true
	r := durableRunner(t, one(t, func(context.Context, st) (up, error) {
		if broken {
			return up{}, errors.New("no")
		}
		return up{N: 1}, nil
	}), store)
	_, err := r.Run(t.Context(), st{}, in("r"))
	require.Error(t, err)
	broken = false
	for range 2 {
		res, err := r.Retry(t.Context(), "r")
		require.NoError(t, err)
		assert.Equal(t, "r-retry", res.RunID)
		assert.Equal(t, 1, res.State.N)
	}
}

// Strands of a node each in a branch: what an attempt has failed with is called again in the next, whatever began beside it.
func TestJournal_ANodesRetryCallsTheFailedStepOfABranchAgain(t *testing.T) {
	policy := retrypolicy.Standard()
	policy.InitialDelay = 0
	calls := newMeter()
	r := durableRunner(t, one(t, func(ctx context.Context, _ st) (up, error) {
		first := durable.Branch(ctx, "a", func(ctx context.Context) error {
			_, err := durable.Step(ctx, "s", func(context.Context) (int, error) {
				calls.hit("a")
				if calls.all()["a"] < 2 {
					return 0, errors.New("not yet")
				}
				return 1, nil
			})
			return err
		})
		second := durable.Branch(ctx, "b", func(ctx context.Context) error {
			_, err := durable.Step(ctx, "s", func(context.Context) (int, error) { calls.hit("b"); return 1, nil })
			return err
		})
		return up{N: 1}, errors.Join(first, second)
	}, graph.Retry(policy)), memstore.New())
	_, err := r.Run(t.Context(), st{})
	require.NoError(t, err)
	assert.Equal(t, map[string]int{"a": 2, "b": 1}, calls.all())
}

// After a crash behind a failure that a branch had, while another went on, nobody knows whether it was handled. If the node
// returns it, it was not, and it is called again, also by a node that has one attempt only.
func TestJournal_AFailureInDoubtIsCalledAgain(t *testing.T) {
	calls := newMeter()
	g := one(t, func(ctx context.Context, _ st) (up, error) {
		first := durable.Branch(ctx, "a", func(ctx context.Context) error {
			_, err := durable.Step(ctx, "s", func(context.Context) (int, error) {
				calls.hit("a")
				if calls.all()["a"] < 2 {
					return 0, errors.New("not yet")
				}
				return 1, nil
			})
			return err
		})
		second := durable.Branch(ctx, "b", func(ctx context.Context) error {
			_, err := durable.Step(ctx, "s", func(context.Context) (int, error) { calls.hit("b"); return 1, nil })
			return err
		})
		return up{N: 1}, errors.Join(first, second)
	})
	store := journaltest.NewFaulty(memstore.New())
	store.FailWrite(3, journaltest.Before, journaltest.OpAppend) // the task's failure
	_, err := durableRunner(t, g, store).Run(t.Context(), st{}, in("r"))
	require.ErrorIs(t, err, journal.ErrUnavailable)
	res, err := durableRunner(t, g, store).Run(t.Context(), st{}, in("r"))
	require.NoError(t, err)
	assert.Equal(t, 1, res.State.N)
	assert.Equal(t, map[string]int{"a": 2, "b": 1}, calls.all())
}
