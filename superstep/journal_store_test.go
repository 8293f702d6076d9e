package superstep_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

// An outage at any write ends the attempt and not the run: it is requeued as soon as the store is back, nothing is sent again,
// and a later call goes on at once.
func TestJournal_AnOutageAtAnyWriteRequeuesTheRun(t *testing.T) {
	calm := journaltest.NewFaulty(newStore())
	want, err := runner(t, everything(t, newMeter()), stored(calm)).Run(t.Context(), st{N: 1}, in("r"))
	require.NoError(t, err)
	appends := calm.Done(journaltest.OpAppend)
	for n := 1; n <= appends; n++ {
		for _, when := range []journaltest.When{journaltest.Before, journaltest.After} {
			t.Run(fmt.Sprint(n, " ", when), func(t *testing.T) {
				inner := newStore()
				store := journaltest.NewFaulty(inner)
				store.FailWrite(n, when, journaltest.OpAppend)
				c := newMeter()
				g := everything(t, c)
				o := play(t.Context(), t, g, superstep.Config{Store: store, Logger: quiet()}, st{N: 1}, in("r"))
				if o.err == nil {
					return // how many there are depends on what is written together
				}
				down := asError[*durable.StoreUnavailableError](t, o.err)
				require.Equal(t, "r", down.RunID)
				require.ErrorIs(t, o.err, journal.ErrUnavailable)
				require.NotErrorAs(t, o.err, new(*superstep.NodeError))
				require.Len(t, only[*task.RunCancelled](o.events), 1, "it says nothing of the work")
				last := lastOf(t, inner, "r")
				if status := statusOf(t, inner, "r"); status != journal.Completed { // it was the last write, and done
					require.Equal(t, journal.RunRequeued, last.Kind)
					require.JSONEq(t, `{"reason":"store_unavailable"}`, string(last.Meta))
					require.Equal(t, journal.Pending, status)
				}
				res, err := runner(t, g, stored(store)).Run(t.Context(), st{N: 1}, in("r"))
				require.NoError(t, err)
				require.Equal(t, want.State, res.State)
				seen := map[string]bool{}
				for _, e := range eventsOf(t, inner, "r") {
					if e.Kind != journal.StepDone && e.Kind != journal.SuperStepDone {
						continue
					}
					key := fmt.Sprint(e.Kind, " ", e.Scope, " ", e.Name, " ", e.N)
					assert.False(t, seen[key], "%s is recorded twice", key)
					seen[key] = true
				}
			})
		}
	}
}

// While the store is away nothing can be said; the lease runs out by itself.
func TestJournal_AnOutageThatLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newStore()
		store := journaltest.NewFaulty(inner)
		g := inLine(t, say("a"), func(context.Context, st) (up, error) {
			store.Outage(true)
			return up{Log: []string{"b"}}, nil
		}, say("c"))
		r := runner(t, g, superstep.Config{Store: store, Logger: quiet(), LeaseTTL: time.Minute})
		res, err := r.Run(t.Context(), st{}, in("r"))
		require.ErrorAs(t, err, new(*durable.StoreUnavailableError))
		require.Equal(t, []string{"a"}, res.State.Log)
		for name, call := range map[string]func() error{
			"Run":      func() error { _, err := r.Run(t.Context(), st{}, in("r")); return err },
			"another":  func() error { _, err := r.Run(t.Context(), st{}); return err },
			"Resume":   func() error { _, err := r.Resume(t.Context(), "r"); return err },
			"State":    func() error { _, err := r.State(t.Context(), "r"); return err },
			"Retry":    func() error { _, err := r.Retry(t.Context(), "r"); return err },
			"Fork":     func() error { _, err := r.Fork(t.Context(), "r", 1, nil); return err },
			"Continue": func() error { _, err := r.Continue(t.Context(), "r", nil); return err },
		} {
			require.ErrorAs(t, call(), new(*durable.StoreUnavailableError), name)
		}
		store.Outage(false)
		time.Sleep(2 * time.Minute)
		again := inLine(t, say("a"), say("b"), say("c"))
		res, err = runner(t, again, stored(store)).Resume(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b", "c"}, res.State.Log)
	})
}

// The store fails when a run is loaded: it is not begun anew.
func TestJournal_AReadThatFailsIsNoFreshStart(t *testing.T) {
	c, store := newMeter(), newStore()
	g := inLine(t, counted(c, "a", say("a")), asks("?"))
	_, err := runner(t, g, stored(store)).Run(t.Context(), st{}, in("r"))
	require.ErrorAs(t, err, new(*durable.SuspendedError))
	before := eventsOf(t, store, "r")
	faulty := &unloadable{Store: store}
	_, err = runner(t, g, stored(faulty)).Run(t.Context(), st{}, in("r"))
	require.ErrorAs(t, err, new(*durable.StoreUnavailableError))
	require.Equal(t, before, eventsOf(t, store, "r"))
	require.Equal(t, 1, c.all()["a"])
}

// unloadable is a store whose runs cannot be loaded.
type unloadable struct{ journal.Store }

func (*unloadable) Load(context.Context, string) (journal.Run, error) {
	return journal.Run{}, &journal.UnavailableError{Op: "load", Err: errOther}
}

// Any other error of the store is raised once and ends the run.
func TestJournal_AnyOtherErrorOfTheStoreEndsTheRun(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		code durable.Code
	}{
		"a fault":   {errOther, durable.CodeInternal},
		"a refusal": {&journal.RefusedError{Run: "r", Reason: journal.ErrConflict, Detail: "odd"}, durable.CodeEventRefused},
	} {
		t.Run(name, func(t *testing.T) {
			inner, c := newStore(), newMeter()
			g := build(t, func(b *bld) {
				a := b.Node("a", counted(c, "a", func(ctx context.Context, _ st) (up, error) {
					_, err := durable.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil })
					return up{}, err
				}), graph.Retry(stubborn(3)))
				b.Catch(a, func(context.Context, st, error) (up, error) { c.hit("handler"); return up{}, nil })
				b.Start(a)
			})
			var o once
			store := &appending{Store: inner, before: func(journal.Append) error {
				if o.first() {
					return tt.err
				}
				return nil
			}}
			_, err := runner(t, g, stored(store)).Run(t.Context(), st{}, in("r"))
			require.ErrorIs(t, err, tt.err)
			require.Equal(t, map[string]int{"a": 1}, c.all())
			require.Equal(t, journal.Failed, statusOf(t, inner, "r"))
			m, merr := durable.FailureOf(lastOf(t, inner, "r"))
			require.NoError(t, merr)
			require.Equal(t, tt.code, m.Code)
			_, again := runner(t, g, stored(store)).Run(t.Context(), st{}, in("r"))
			require.Equal(t, tt.code, asError[*durable.RunFailedError](t, again).Code)
			require.Equal(t, tt.code, asError[*durable.RunFailedError](t, err).Code, "live equals replayed")
			require.Equal(t, err.Error(), again.Error())
		})
	}
}

// appending is a store that asks before each append.
type appending struct {
	journal.Store

	before func(journal.Append) error
}

func (s *appending) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	if err := s.before(a); err != nil {
		return err
	}
	return s.Store.Append(ctx, l, a)
}

// A run that another owner has taken is fenced: the old owner stands down and writes nothing, whatever its node comes to.
func TestJournal_ARunThatWasTakenIsLeftAlone(t *testing.T) {
	for name, fn := range map[string]nodeFn{
		"a result": say("old"),
		"a step": func(ctx context.Context, _ st) (up, error) {
			_, err := durable.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil })
			return up{Log: []string{"old"}}, err
		},
		"an error": fails(errBroken),
		"a wait":   waits,
	} {
		bubble(t, name, func(t *testing.T) {
			t.Helper()
			store, c := newStore(), newMeter()
			inside, taken := make(chan struct{}), make(chan struct{})
			g := build(t, func(b *bld) {
				a := b.Node("a", func(ctx context.Context, s st) (up, error) {
					c.hit("a")
					if c.all()["a"] > 1 {
						return up{Log: []string{"new"}}, nil
					}
					close(inside)
					<-taken
					return fn(ctx, s)
				})
				b.Catch(a, func(context.Context, st, error) (up, error) { c.hit("handler"); return up{}, nil })
				b.Start(a)
			})
			// The old owner cannot renew its lease, as if its process had been asleep.
			old := journaltest.NewFaulty(store)
			old.OnWrite(func(w journaltest.Write) { old.Outage(w.Op == journaltest.OpRenew && w.When == journaltest.Before) })
			wait := begin(t.Context(), t, g, superstep.Config{Store: old, Logger: quiet(), LeaseTTL: time.Second}, in("r"))
			<-inside
			time.Sleep(10 * time.Second)
			res, err := runner(t, g, stored(store)).Run(t.Context(), st{}, in("r"))
			require.NoError(t, err)
			require.Equal(t, []string{"new"}, res.State.Log)
			before := eventsOf(t, store, "r")
			old.OnWrite(nil)
			old.Outage(false)
			close(taken)
			o := wait()
			require.ErrorIs(t, o.err, context.Canceled)
			require.ErrorAs(t, o.err, new(*durable.RunLostError))
			require.Len(t, only[*task.RunCancelled](o.events), 1)
			require.Equal(t, before, eventsOf(t, store, "r"))
			require.Equal(t, map[string]int{"a": 2}, c.all())
		})
	}
}

// A panic in an observer fails the run and says whose it was.
func TestJournal_APanicInAnObserverFailsTheRun(t *testing.T) {
	for _, kind := range []task.Kind{task.KindRunStarted, task.KindTaskStarted, task.KindTaskCompleted, task.KindSuperStepCompleted} {
		store := newStore()
		cfg := stored(store)
		cfg.Observers = []func(task.Event){func(ev task.Event) {
			if ev.Head().Kind == kind {
				panic("ouch")
			}
		}}
		_, err := runner(t, inLine(t, say("a"), say("b")), cfg).Run(t.Context(), st{}, in("r"))
		require.Equal(t, "observer", asError[*task.PanicError](t, err).Whose, kind)
		require.Equal(t, journal.Failed, statusOf(t, store, "r"), kind)
		_, again := runner(t, inLine(t, say("a"), say("b")), stored(store)).Run(t.Context(), st{}, in("r"))
		require.Equal(t, err.Error(), again.Error(), kind)
	}
}

func TestJournal_FiftyRunsAtOnceOnOneStore(t *testing.T) {
	store, c := newStore(), newMeter()
	r := runner(t, everything(t, c), stored(store))
	var all sync.WaitGroup
	results := make([]*superstep.Result[st], 50)
	for i := range results {
		all.Go(func() {
			var err error
			results[i], err = r.Run(context.Background(), st{N: 1}, in(fmt.Sprint(i)))
			assert.NoError(t, err)
			_, err = r.State(context.Background(), fmt.Sprint(i))
			assert.NoError(t, err)
		})
	}
	all.Wait()
	for i, res := range results {
		require.Equal(t, fmt.Sprint(i), res.RunID)
		require.Equal(t, results[0].State, res.State)
	}
	require.Equal(t, 50, c.all()["plan"])
}

// The same id from many sides: one of them runs it.
func TestJournal_OneRunFromManySides(t *testing.T) {
	store, c := newStore(), newMeter()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			r := runner(t, one(t, counted(c, "a", say("a"))), stored(store))
			for {
				_, err := r.Run(context.Background(), st{}, in("r"))
				if !errors.As(err, new(*durable.RunLockedError)) {
					assert.NoError(t, err)
					return
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, 1, c.all()["a"])
}
