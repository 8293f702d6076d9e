package superstep_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/task"
)

func TestJournal_APausedRunFinishesItsSuperStepAndRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, store := newMeter(), newStore()
		g := build(t, func(b *bld) {
			pausing := b.Node("pausing", func(ctx context.Context, _ st) (up, error) {
				c.hit("pausing")
				require.NoError(t, durable.Pause(ctx, store, "r", "lunch"))
				time.Sleep(time.Second) // until the owner has heard of it
				_, err := durable.Step(ctx, "step", func(context.Context) (int, error) { c.hit("step"); return 1, nil })
				return up{Log: []string{"pausing"}}, err
			})
			slow := b.Node("slow", func(context.Context, st) (up, error) {
				c.hit("slow")
				time.Sleep(time.Minute)
				return up{Log: []string{"slow"}}, nil
			})
			last := b.Node("last", counted(c, "last", say("last")))
			b.Start(pausing, slow)
			b.Join([]graph.Ref{pausing, slow}, last)
		})
		o := play(t.Context(), t, g, stored(store), st{}, in("r"))
		suspended := asError[*durable.SuspendedError](t, o.err)
		require.Equal(t, []durable.Wait{{Paused: true}}, suspended.Waits)
		require.ErrorContains(t, suspended, "it is paused")
		require.Equal(t, []string{"pausing", "slow"}, o.State.Log, "the super-step has finished")
		require.Len(t, only[*task.RunSuspended](o.events), 1)
		require.Equal(t, journal.Suspended, statusOf(t, store, "r"))
		require.Equal(t, journal.RunSuspended, lastOf(t, store, "r").Kind)
		before := c.all()

		o = play(t.Context(), t, g, stored(store), st{}, in("r"))
		asError[*durable.SuspendedError](t, o.err)
		require.Equal(t, before, c.all(), "whoever takes it again calls none of its nodes")
		require.NoError(t, runner(t, g, stored(store)).Unpause(t.Context(), "r"))
		o = play(t.Context(), t, g, stored(store), st{}, in("r"))
		require.NoError(t, o.err)
		require.Equal(t, []string{"pausing", "slow", "last"}, o.State.Log)
		require.Equal(t, map[string]int{"pausing": 1, "slow": 1, "step": 1, "last": 1}, c.all())
	})
}

func TestJournal_ARunThatIsPausedBeforeItBeginsCallsNoNode(t *testing.T) {
	c, store := newMeter(), newStore()
	g := one(t, counted(c, "a", asks("?")))
	r := runner(t, g, stored(store))
	_, err := r.Run(t.Context(), st{}, in("r"))
	require.Len(t, questionsOf(t, err), 1)
	require.NoError(t, r.Pause(t.Context(), "r", ""))
	require.NoError(t, r.Answer(t.Context(), "r", "1/a[0]/ask1", "yes"))
	for range 2 {
		_, err = r.Resume(t.Context(), "r")
		suspended := asError[*durable.SuspendedError](t, err)
		require.Contains(t, suspended.Waits, durable.Wait{Paused: true})
		require.Equal(t, []string{"1/a[0]/ask1"}, suspended.Questions(), "it still says what else it waits for")
		require.Equal(t, 1, c.all()["a"])
	}
	require.NoError(t, r.Unpause(t.Context(), "r"))
	res, err := r.Resume(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, []string{"yes"}, res.State.Log)
}

// A pause does not wake who waits for an answer, also behind it.
func TestJournal_TasksThatRestAreNotCalledForAPause(t *testing.T) {
	c, store := newMeter(), newStore()
	r := runner(t, one(t, counted(c, "a", asks("?"))), stored(store))
	_, err := r.Run(t.Context(), st{}, in("r"))
	require.Len(t, questionsOf(t, err), 1)
	require.NoError(t, r.Pause(t.Context(), "r", ""))
	_, err = r.Resume(t.Context(), "r")
	asError[*durable.SuspendedError](t, err)
	require.NoError(t, r.Unpause(t.Context(), "r"))
	_, err = r.Resume(t.Context(), "r")
	require.Len(t, questionsOf(t, err), 1)
	require.Equal(t, 1, c.all()["a"])
}

func TestJournal_NoTimerWakesAPausedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		r := runner(t, one(t, func(ctx context.Context, _ st) (up, error) {
			_, err := durable.WaitForSignal[int](ctx, "never", durable.WaitTimeout(time.Minute))
			return up{}, err
		}), stored(store))
		_, err := r.Run(t.Context(), st{}, in("r"))
		require.NotZero(t, asError[*durable.SuspendedError](t, err).Due)
		require.NoError(t, r.Pause(t.Context(), "r", ""))
		time.Sleep(time.Hour)
		_, err = r.Resume(t.Context(), "r")
		require.Zero(t, asError[*durable.SuspendedError](t, err).Due)
		run, err := store.Load(t.Context(), "r")
		require.NoError(t, err)
		require.Zero(t, run.Due)
		require.NoError(t, r.Unpause(t.Context(), "r"))
		_, err = r.Resume(t.Context(), "r")
		asError[*durable.SignalTimeoutError](t, err)
	})
}

func TestJournal_APausedRunCanBeCancelledAndOneInItsLastSuperStepCompletes(t *testing.T) {
	store := newStore()
	r := runner(t, one(t, asks("?")), stored(store))
	_, err := r.Run(t.Context(), st{}, in("r"))
	asError[*durable.SuspendedError](t, err)
	require.NoError(t, r.Pause(t.Context(), "r", ""))
	_, err = r.Resume(t.Context(), "r")
	asError[*durable.SuspendedError](t, err)
	require.NoError(t, r.Cancel(t.Context(), "r", "enough"))
	require.Equal(t, journal.Cancelled, statusOf(t, store, "r"))

	t.Run("last", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := newStore()
			g := one(t, func(ctx context.Context, _ st) (up, error) {
				err := durable.Pause(ctx, store, "r", "")
				time.Sleep(time.Second) // until the owner has heard of it
				return up{Log: []string{"a"}}, err
			})
			_, err := runner(t, g, stored(store)).Run(t.Context(), st{}, in("r"))
			require.NoError(t, err)
		})
	})
}

// The super-step of a subgraph is not the run's.
func TestJournal_APauseLetsSubgraphsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, store := newMeter(), newStore()
		child := inLine(t, func(ctx context.Context, _ st) (up, error) {
			err := durable.Pause(ctx, store, "r", "")
			time.Sleep(time.Second) // until the owner has heard of it
			return up{}, err
		}, counted(c, "second of child", say("child")))
		g := build(t, func(b *bld) {
			sub := graph.Sub(b, "sub", child, func(st) st { return st{} }, func(s st) up { return up{Log: s.Log} })
			last := b.Node("last", counted(c, "last", say("last")))
			b.Start(sub)
			b.Edge(sub, last)
		})
		_, err := runner(t, g, stored(store)).Run(t.Context(), st{}, in("r"))
		asError[*durable.SuspendedError](t, err)
		require.Equal(t, map[string]int{"second of child": 1}, c.all())
	})
}

func TestJournal_GraphsTakeNeitherUpdatesNorQueries(t *testing.T) {
	post := func(t *testing.T, store journal.Store, kind journal.MessageKind) {
		t.Helper()
		_, err := store.Send(t.Context(), "r", journal.Message{Kind: kind, Name: "u", Payload: []byte("1")})
		require.NoError(t, err)
	}
	t.Run("from outside", func(t *testing.T) {
		store := newStore()
		_, err := runner(t, one(t, asks("?")), stored(store)).Run(t.Context(), st{}, in("r"))
		asError[*durable.SuspendedError](t, err)
		_, err = durable.Update[int](t.Context(), store, "r", "u", 1)
		require.Equal(t, durable.RefusedGraph, asError[*durable.UpdateRejectedError](t, err).Reason)
		_, err = durable.Query[int](t.Context(), store, "r", "u", 1)
		require.Equal(t, durable.RefusedGraph, asError[*durable.QueryError](t, err).Reason)
		inbox, err := store.Inbox(t.Context(), "r", 0)
		require.NoError(t, err)
		require.Empty(t, inbox)
	})
	t.Run("when it waits", func(t *testing.T) {
		store := newStore()
		r := runner(t, one(t, asks("?")), stored(store))
		_, err := r.Run(t.Context(), st{}, in("r"))
		asError[*durable.SuspendedError](t, err)
		post(t, store, journal.UpdateMessage)
		post(t, store, journal.QueryMessage)
		_, err = r.Resume(t.Context(), "r")
		asError[*durable.SuspendedError](t, err)
		require.NoError(t, r.Answer(t.Context(), "r", "1/a[0]/ask1", "yes"))
		_, err = r.Resume(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, []journal.Kind{
			journal.RunStart, journal.QuestionAsked, journal.RunSuspended, journal.UpdateRejected, journal.QueryAnswered,
			journal.RunSuspended, journal.QuestionAnswered, journal.StepDone, journal.SuperStepDone, journal.RunComplete,
		}, kindsOf(t, store, "r"))
	})
	t.Run("at a barrier", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := newStore()
			g := inLine(t, func(context.Context, st) (up, error) {
				post(t, store, journal.UpdateMessage)
				synctest.Wait() // until the owner has heard of it
				return up{}, nil
			}, func(ctx context.Context, _ st) (up, error) {
				require.Equal(t, journal.UpdateRejected, eventsOf(t, store, "r")[1].Kind)
				require.Contains(t, string(eventsOf(t, store, "r")[1].Meta), "not a workflow")
				post(t, store, journal.QueryMessage)
				synctest.Wait()
				return up{}, nil
			})
			_, err := runner(t, g, stored(store)).Run(t.Context(), st{}, in("r"))
			require.NoError(t, err)
			last := eventsOf(t, store, "r")
			require.Equal(t, journal.QueryAnswered, last[4].Kind, "before the end")
			snapshot, err := runner(t, g, stored(store)).State(t.Context(), "r")
			require.NoError(t, err)
			require.Equal(t, 2, snapshot.SuperStep)
		})
	})
}
