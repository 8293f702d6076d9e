package superstep_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

// waitsOnce waits for the end of its context the first time, and then does what fn does.
func waitsOnce(fn nodeFn) nodeFn {
	var o once
	return func(ctx context.Context, s st) (up, error) {
		if o.first() {
			return waits(ctx, s)
		}
		return fn(ctx, s)
	}
}

func TestJournal_TheEndOfTheContextEndsTheAttemptAndNotTheRun(t *testing.T) {
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"cancelled": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		},
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		},
	} {
		bubble(t, name, func(t *testing.T) {
			t.Helper()
			c, store := newMeter(), newStore()
			g := build(t, func(b *bld) {
				first := b.Node("first", counted(c, "first", say("first")))
				quick := b.Node("quick", counted(c, "quick", say("quick")))
				slow := b.Node("slow", counted(c, "slow", waitsOnce(say("slow"))), graph.Retry(stubborn(3)))
				b.Catch(slow, func(context.Context, st, error) (up, error) { c.hit("handler"); return up{}, nil })
				b.Start(first)
				b.Edge(first, quick)
				b.Edge(first, slow)
			})
			ctx, cancel := end(t.Context())
			defer cancel()
			o := play(ctx, t, g, stored(store), st{}, in("r"))
			stopped := asError[*superstep.CancelledError](t, o.err)
			require.Equal(t, "r", stopped.RunID)
			require.Equal(t, []string{"first"}, o.State.Log)
			require.Len(t, only[*task.RunCancelled](o.events), 1)
			require.Equal(t, journal.Pending, statusOf(t, store, "r"), "nobody holds it")
			require.False(t, lastOf(t, store, "r").Kind.Terminal())
			o = play(t.Context(), t, g, stored(store), st{}, in("r"))
			require.NoError(t, o.err)
			require.Equal(t, []string{"first", "quick", "slow"}, o.State.Log)
			require.Equal(t, map[string]int{"first": 1, "quick": 1, "slow": 2}, c.all())
			require.True(t, only[*task.RunStarted](o.events)[0].Resumed)
			attempts := only[*task.AttemptStarted](o.events)
			require.Len(t, attempts, 1)
			require.Equal(t, 1, attempts[0].Attempt, "attempts start at 1 again")
		})
	}
}

func TestJournal_ARunWhoseContextHasEndedLeavesNothing(t *testing.T) {
	store := newStore()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := runner(t, one(t, say("a")), stored(store)).Run(ctx, st{}, in("r"))
	require.ErrorAs(t, err, new(*superstep.CancelledError))
	_, err = store.Load(t.Context(), "r")
	require.ErrorIs(t, err, journal.ErrNotFound)
}

// A sibling that finishes within Grace, or was cancelled and finishes all the same, is recorded; an error after the end is not.
func TestJournal_WhatFinishesWithinGraceIsRecordedAndWhatFailsIsNot(t *testing.T) {
	late := func(c *meter, name string, d time.Duration, err error) nodeFn {
		var o once
		return func(ctx context.Context, _ st) (up, error) {
			c.hit("%s", name)
			if !o.first() {
				return up{Log: []string{name}}, nil
			}
			<-ctx.Done()
			time.Sleep(d)
			return up{Log: []string{name}}, err
		}
	}
	nodes := func(c *meter, release <-chan struct{}) []nodeFn {
		return []nodeFn{
			late(c, "success", time.Second, nil), late(c, "failure", time.Second, errBroken),
			func(ctx context.Context, s st) (up, error) {
				c.hit("deaf")
				<-release
				return up{Log: []string{"deaf"}}, nil
			},
		}
	}
	bubble(t, "after the end of the context", func(t *testing.T) {
		t.Helper()
		c, store := newMeter(), newStore()
		release, open := gate(t)
		g := sideBySide(t, nodes(c, release)...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o := play(ctx, t, g, stored(store), st{}, in("r"))
		require.ErrorAs(t, o.err, new(*superstep.CancelledError))
		require.Equal(t, 1, o.Abandoned)
		open()
		synctest.Wait()
		before := eventsOf(t, store, "r")
		require.Len(t, before, 2, "the start, and the success: %v", kindsOf(t, store, "r"))
		res, err := runner(t, g, stored(store)).Run(t.Context(), st{}, in("r"))
		require.NoError(t, err)
		require.Equal(t, []string{"success", "failure", "deaf"}, res.State.Log)
		require.Equal(t, map[string]int{"success": 1, "failure": 2, "deaf": 2}, c.all())
	})
	bubble(t, "after a sibling's failure", func(t *testing.T) {
		t.Helper()
		c, store := newMeter(), newStore()
		release, open := gate(t)
		broken := failsOnce(say("broken"))
		g := sideBySide(t, append(nodes(c, release), counted(c, "broken", func(ctx context.Context, s st) (up, error) {
			time.Sleep(time.Second) // until its siblings are at work
			return broken(ctx, s)
		}))...)
		o := play(t.Context(), t, g, stored(store), st{}, in("r"))
		require.ErrorIs(t, o.err, errBroken)
		require.Equal(t, "d", asError[*superstep.NodeError](t, o.err).Node)
		open()
		synctest.Wait()
		require.Equal(t, []journal.Kind{journal.RunStart, journal.StepError, journal.StepDone, journal.RunError}, kindsOf(t, store, "r"))
		res, err := runner(t, g, stored(store)).Retry(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, []string{"success", "failure", "deaf", "broken"}, res.State.Log)
		require.Equal(t, map[string]int{"success": 1, "failure": 2, "deaf": 2, "broken": 2}, c.all())
	})
	bubble(t, "in a super-step of one task", func(t *testing.T) {
		t.Helper()
		c, store := newMeter(), newStore()
		g := inLine(t, late(c, "success", time.Second, nil), say("next"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o := play(ctx, t, g, stored(store), st{}, in("r"))
		require.ErrorAs(t, o.err, new(*superstep.CancelledError))
		require.Equal(t, []string{"success"}, o.State.Log)
		res, err := runner(t, g, stored(store)).Run(t.Context(), st{}, in("r"))
		require.NoError(t, err)
		require.Equal(t, []string{"success", "next"}, res.State.Log)
		require.Equal(t, 1, c.all()["success"])
	})
}

func TestJournal_ContextCanceledWhileNobodyHasCancelledIsAFailure(t *testing.T) {
	store := newStore()
	g := one(t, fails(fmt.Errorf("client: %w", context.Canceled)))
	_, err := runner(t, g, stored(store)).Run(t.Context(), st{}, in("r"))
	require.Equal(t, "a", asError[*superstep.NodeError](t, err).Node)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, journal.Failed, statusOf(t, store, "r"))
	_, err = runner(t, g, stored(store)).Run(t.Context(), st{}, in("r"))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorAs(t, err, new(*durable.RunFailedError))
}

func TestJournal_StopLetsTheSuperStepFinishAndTheRunGoOnLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, store := newMeter(), newStore()
		slow := func(context.Context, st) (up, error) { time.Sleep(time.Second); return up{Log: []string{"slow"}}, nil }
		g := inLine(t, counted(c, "a", slow), counted(c, "b", say("b")))
		r := runner(t, g, stored(store))
		done := make(chan error)
		go func() {
			_, err := r.Run(t.Context(), st{}, in("r"))
			done <- err
		}()
		synctest.Wait()
		require.NoError(t, r.Stop(t.Context()))
		require.ErrorIs(t, <-done, superstep.ErrStopped)
		require.Equal(t, journal.Pending, statusOf(t, store, "r"))
		_, err := r.Resume(t.Context(), "r")
		require.ErrorIs(t, err, superstep.ErrStopped)
		res, err := runner(t, g, stored(store)).Resume(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, []string{"slow", "b"}, res.State.Log)
		require.Equal(t, map[string]int{"a": 1, "b": 1}, c.all())
	})
}

func TestJournal_ARunInItsLastSuperStepCompletesDespiteStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		r := runner(t, one(t, func(context.Context, st) (up, error) { time.Sleep(time.Second); return up{N: 1}, nil }), stored(store))
		done := make(chan error)
		go func() {
			_, err := r.Run(t.Context(), st{}, in("r"))
			done <- err
		}()
		synctest.Wait()
		require.NoError(t, r.Stop(t.Context()))
		require.NoError(t, <-done)
		require.Equal(t, journal.Completed, statusOf(t, store, "r"))
	})
}

func TestJournal_CancelFromAnotherHandleEndsTheRunForGood(t *testing.T) {
	bubble(t, "under way", func(t *testing.T) {
		t.Helper()
		store := newStore()
		childWF := durable.Workflow("child", func(ctx context.Context, _ int) (int, error) {
			return durable.WaitForSignal[int](ctx, "never")
		})
		g := sideBySide(t, waits, say("b"), func(ctx context.Context, _ st) (up, error) {
			n, err := durable.RunChild(ctx, childWF, 1, durable.ChildID("kid"))
			return up{N: n}, err
		})
		wait := begin(t.Context(), t, g, stored(store), in("r"))
		synctest.Wait()
		require.NoError(t, runner(t, g, stored(store)).Cancel(t.Context(), "r", "no longer needed"))
		o := wait()
		require.Equal(t, &durable.RunCancelledError{RunID: "r", Reason: "no longer needed"}, asError[*durable.RunCancelledError](t, o.err))
		require.ErrorIs(t, o.err, context.Canceled)
		require.Len(t, only[*task.RunCancelled](o.events), 1)
		require.Equal(t, journal.RunCancelled, lastOf(t, store, "r").Kind)
		require.Equal(t, journal.Cancelled, statusOf(t, store, "kid"), "its children are cancelled")
		res, err := runner(t, g, stored(store)).Run(t.Context(), st{}, in("r"))
		require.Equal(t, o.err, err)
		require.Equal(t, o.Result, res)
		_, err = runner(t, g, stored(store)).Retry(t.Context(), "r")
		refused := asError[*durable.RetryError](t, err)
		require.Equal(t, durable.RetryCancelled, refused.Code)
		require.NoError(t, runner(t, g, stored(store)).Cancel(t.Context(), "r", "again"), "cancelling twice is a success")
	})
	t.Run("suspended", func(t *testing.T) {
		store := newStore()
		g := inLine(t, say("a"), asks("?"))
		r := runner(t, g, stored(store))
		_, err := r.Run(t.Context(), st{}, in("r"))
		require.ErrorAs(t, err, new(*durable.SuspendedError))
		require.NoError(t, runner(t, g, stored(store)).Cancel(t.Context(), "r", "late"))
		res, err := r.Resume(t.Context(), "r")
		require.Equal(t, "late", asError[*durable.RunCancelledError](t, err).Reason)
		require.Equal(t, []string{"a"}, res.State.Log)
		require.Equal(t, 1, res.SuperSteps)
		require.ErrorAs(t, r.Answer(t.Context(), "r", "2/b[0]/ask1", "x"), new(*durable.AnswerError))
	})
	t.Run("completed", func(t *testing.T) {
		store := newStore()
		r := runner(t, one(t, say("a")), stored(store))
		_, err := r.Run(t.Context(), st{}, in("r"))
		require.NoError(t, err)
		require.ErrorIs(t, r.Cancel(t.Context(), "r", "late"), journal.ErrEnded)
	})
}

// A cancel that comes while nobody holds the run, and a store that cannot be watched.
func TestJournal_ACancelIsHeardOfWithoutAWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newStore()
		r := runner(t, one(t, waits), stored(struct{ journal.Store }{inner}))
		done := make(chan error)
		go func() {
			_, err := r.Run(t.Context(), st{}, in("r"))
			done <- err
		}()
		synctest.Wait()
		begin := time.Now()
		require.NoError(t, r.Cancel(t.Context(), "r", "x"))
		require.ErrorAs(t, <-done, new(*durable.RunCancelledError))
		require.LessOrEqual(t, time.Since(begin), 2*time.Second)
	})
}

func TestJournal_RunTimeoutCountsTheTimeAtWorkOverSuspensionsAndResumes(t *testing.T) {
	busy := func(d time.Duration, fn nodeFn) nodeFn {
		return func(ctx context.Context, s st) (up, error) {
			select {
			case <-time.After(d):
				return fn(ctx, s)
			case <-ctx.Done():
				return up{}, ctx.Err()
			}
		}
	}
	cfg := func(store journal.Store) superstep.Config {
		return superstep.Config{Store: store, RunTimeout: 10 * time.Second}
	}
	isTimeout := func(t *testing.T, store journal.Store, err error) {
		t.Helper()
		require.Equal(t, 10*time.Second, asError[*superstep.RunTimeoutError](t, err).After)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, durable.CodeTimeout, asError[*durable.RunFailedError](t, err).Code)
		require.Equal(t, journal.Failed, statusOf(t, store, "r"))
	}
	bubble(t, "time suspended does not count", func(t *testing.T) {
		t.Helper()
		store := newStore()
		r := runner(t, inLine(t, busy(4*time.Second, say("a")), asks("?"), busy(4*time.Second, say("c"))), cfg(store))
		_, err := r.Run(t.Context(), st{}, in("r"))
		require.Len(t, questionsOf(t, err), 1)
		time.Sleep(time.Hour)
		require.NoError(t, r.Answer(t.Context(), "r", questionsOf(t, err)[0], "x"))
		_, err = r.Resume(t.Context(), "r")
		require.NoError(t, err)
	})
	bubble(t, "time at work does", func(t *testing.T) {
		t.Helper()
		store := newStore()
		r := runner(t, inLine(t, busy(7*time.Second, say("a")), asks("?"), busy(4*time.Second, say("c"))), cfg(store))
		_, err := r.Run(t.Context(), st{}, in("r"))
		time.Sleep(time.Hour)
		require.NoError(t, r.Answer(t.Context(), "r", questionsOf(t, err)[0], "x"))
		begin := time.Now()
		_, err = r.Resume(t.Context(), "r")
		isTimeout(t, store, err)
		require.Equal(t, 3*time.Second, time.Since(begin))
		_, err = r.Resume(t.Context(), "r")
		isTimeout(t, store, err)
	})
	bubble(t, "also that of attempts whose context has ended", func(t *testing.T) {
		t.Helper()
		store := newStore()
		r := runner(t, inLine(t, busy(8*time.Second, say("a"))), cfg(store))
		var err error
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			_, err = r.Run(ctx, st{}, in("r"))
			cancel()
			if !errors.As(err, new(*superstep.CancelledError)) {
				break
			}
		}
		isTimeout(t, store, err)
	})
	bubble(t, "a retry has its own time", func(t *testing.T) {
		t.Helper()
		store := newStore()
		r := runner(t, inLine(t, busy(8*time.Second, say("a")), waitsOnce(busy(8*time.Second, say("b")))), cfg(store))
		_, err := r.Run(t.Context(), st{}, in("r"))
		isTimeout(t, store, err)
		res, err := r.Retry(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b"}, res.State.Log)
	})
}

func TestJournal_ARunStoppedByTheLimitGoesOnThroughRetryWithAHigherOne(t *testing.T) {
	for _, sub := range []bool{false, true} {
		t.Run(fmt.Sprint("in a subgraph: ", sub), func(t *testing.T) {
			c, store := newMeter(), newStore()
			circle := func(until int) func(b *bld) {
				return func(b *bld) {
					a := b.Node("a", func(_ context.Context, s st) (up, error) { c.hit("%d", s.N); return up{N: 1}, nil })
					b.Start(a)
					b.Route(a, func(s st) graph.Next {
						if s.N < until {
							return graph.To(a)
						}
						return graph.To(graph.End)
					}, a, graph.End)
				}
			}
			g := build(t, circle(8))
			if sub {
				child := g
				g = build(t, func(b *bld) {
					b.Start(graph.Sub(b, "sub", child, func(s st) st { return s }, func(s st) up { return up{N: s.N} }))
				})
			}
			limited := func(n int) *superstep.Runner[st, up] {
				return runner(t, g, superstep.Config{Store: store, MaxSuperSteps: n})
			}
			res, err := limited(5).Run(t.Context(), st{}, in("r"))
			require.Equal(t, []string{"a"}, asError[*superstep.MaxSuperStepsError](t, err).Active)
			require.Equal(t, durable.CodeMaxSuperSteps, asError[*durable.RunFailedError](t, err).Code)
			if !sub {
				require.Equal(t, 5, res.State.N)
			}
			_, err = limited(5).Retry(t.Context(), "r", in("same"))
			require.ErrorAs(t, err, new(*superstep.MaxSuperStepsError))
			_, err = limited(3).Retry(t.Context(), "r", in("lower"))
			require.ErrorAs(t, err, new(*superstep.MaxSuperStepsError))
			require.Len(t, c.all(), 5, "nothing runs again")
			res, err = limited(8).Retry(t.Context(), "r", in("s"))
			require.NoError(t, err)
			require.Equal(t, 8, res.State.N)
			for n, calls := range c.all() {
				require.Equal(t, 1, calls, n)
			}
		})
	}
}
