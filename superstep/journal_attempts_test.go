package superstep_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

// Steps of failed attempts are served to the next attempt, and name counters restart with each.
func TestJournal_StepsOfFailedAttemptsAreServedToTheNext(t *testing.T) {
	c, store := newMeter(), newStore()
	g := one(t, func(ctx context.Context, _ st) (up, error) {
		var got []string
		for i := range 3 {
			v, err := durable.Step(ctx, "page", func(context.Context) (string, error) { c.hit("page %d", i); return fmt.Sprint("p", i), nil })
			if err != nil {
				return up{}, err
			}
			got = append(got, v)
		}
		if task.Info(ctx).Attempt < 3 {
			return up{Log: []string{"lost"}}, errBroken
		}
		return up{Log: got}, nil
	}, graph.Retry(stubborn(3)))
	o := play(t.Context(), t, g, stored(store), st{}, in("r"))
	require.NoError(t, o.err)
	require.Equal(t, []string{"p0", "p1", "p2"}, o.State.Log)
	require.Equal(t, map[string]int{"page 0": 1, "page 1": 1, "page 2": 1}, c.all())
	require.Len(t, only[*task.AttemptFailed](o.events), 2)
	require.Equal(t, []journal.Kind{
		journal.RunStart, journal.StepDone, journal.StepDone, journal.StepDone, journal.StepDone, journal.SuperStepDone, journal.RunComplete,
	}, kindsOf(t, store, "r"), "a retried task records its final outcome only")
	require.Equal(t, 3, eventsOf(t, store, "r")[4].Attempts)
}

// A step that failed runs again with the next attempt, a Once does not: its error is replayed.
func TestJournal_WhatAFailedStepAndAFailedOnceAreToTheNextAttempt(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprint("crash: ", crash), func(t *testing.T) {
			c, store := newMeter(), newStore()
			g := one(t, func(ctx context.Context, _ st) (up, error) {
				_, err := durable.Once(ctx, "charge", func(context.Context) (int, error) { c.hit("charge"); return 0, &codedError{Status: 402} })
				var declined *codedError
				if !errors.As(err, &declined) || declined.Status != 402 {
					return up{}, fmt.Errorf("not as before: %w", err)
				}
				_, err = durable.Step(ctx, "flaky", func(context.Context) (int, error) {
					c.hit("flaky")
					if c.all()["flaky"] < 3 {
						return 0, errBroken
					}
					return 1, nil
				})
				return up{N: 1}, err
			}, graph.Retry(stubborn(map[bool]int{false: 3, true: 1}[crash])))
			res, err := runner(t, g, stored(store)).Run(t.Context(), st{}, in("0"))
			for i := 0; crash && i < 2; i++ {
				require.ErrorIs(t, err, errBroken)
				res, err = runner(t, g, stored(store)).Retry(t.Context(), fmt.Sprint(i), in(fmt.Sprint(i+1)))
			}
			require.NoError(t, err)
			require.Equal(t, 1, res.State.N)
			require.Equal(t, map[string]int{"charge": 1, "flaky": 3}, c.all())
		})
	}
}

// One layer retries: a policy around a step inside a node with a policy of its own.
func TestJournal_OneLayerRetries(t *testing.T) {
	c := newMeter()
	g := one(t, func(ctx context.Context, _ st) (up, error) {
		_, err := durable.Step(ctx, "s", func(context.Context) (int, error) { c.hit("s"); return 0, errBroken }, durable.Retry(stubborn(3)))
		return up{}, err
	}, graph.Retry(stubborn(3)))
	_, err := runner(t, g, stored(newStore())).Run(t.Context(), st{})
	require.ErrorIs(t, err, errBroken)
	require.Equal(t, 3, c.all()["s"])
}

// An abandoned task writes nothing more: its durable calls give an AbandonedError.
func TestJournal_AnAbandonedTaskWritesNothing(t *testing.T) {
	for name, opts := range map[string][]graph.Option{
		"by its timeout": {graph.Timeout(time.Second)}, "by the run's end": nil,
	} {
		bubble(t, name, func(t *testing.T) {
			t.Helper()
			store := newStore()
			release, open := gate(t)
			late := make(chan []error, 1)
			g := build(t, func(b *bld) {
				b.Start(b.Node("quick", say("quick")), b.Node("deaf", func(ctx context.Context, _ st) (up, error) {
					<-release
					called := func(context.Context) (int, error) { t.Error("called"); return 1, nil }
					_, e1 := durable.Step(ctx, "s", called)
					_, e2 := durable.Once(ctx, "o", called)
					_, e3 := durable.Interrupt[int](ctx, "?")
					_, e4 := durable.WaitForSignal[int](ctx, "s")
					late <- []error{e1, e2, e3, e4, durable.Sleep(ctx, 1)}
					return up{Log: []string{"late"}}, nil
				}, opts...))
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			r := runner(t, g, stored(store))
			res, err := r.Run(ctx, st{}, in("r"))
			require.Error(t, err)
			require.Equal(t, 1, res.Abandoned)
			before := eventsOf(t, store, "r")
			open()
			for _, err := range <-late {
				require.Equal(t, "r", asError[*durable.AbandonedError](t, err).RunID)
			}
			synctest.Wait()
			require.Equal(t, before, eventsOf(t, store, "r"))
			require.Zero(t, r.Abandoned())
		})
	}
}

func TestJournal_ADurableCallAfterTheNodeReturnedIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		late := make(chan error)
		var leaked context.Context
		g := inLine(t, func(ctx context.Context, _ st) (up, error) {
			leaked = ctx //nolint:fatcontext // what must not be done
			_, err := durable.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil })
			go func() {
				time.Sleep(time.Second)
				_, err := durable.Step(ctx, "late", func(context.Context) (int, error) { t.Error("called"); return 1, nil })
				late <- err
			}()
			return up{}, err
		}, func(context.Context, st) (up, error) {
			require.ErrorAs(t, <-late, new(*durable.ScopeEndedError))
			return up{}, nil
		})
		_, err := runner(t, g, stored(store)).Run(t.Context(), st{}, in("r"))
		require.NoError(t, err)
		before := eventsOf(t, store, "r")
		_, err = durable.Interrupt[int](leaked, "?")
		require.ErrorAs(t, err, new(*durable.ScopeEndedError))
		require.Equal(t, before, eventsOf(t, store, "r"))
	})
}

// A goroutine that a node leaves behind cannot write into the next attempt.
func TestJournal_ACallOfAFailedAttemptIsRefusedWhileTheNextOneRuns(t *testing.T) {
	store := newStore()
	var first context.Context
	g := one(t, func(ctx context.Context, _ st) (up, error) {
		if first == nil {
			first = ctx //nolint:fatcontext // what must not be done
			return up{}, errBroken
		}
		_, err := durable.Step(first, "s", func(context.Context) (int, error) { t.Error("called"); return 1, nil })
		require.ErrorAs(t, err, new(*durable.ScopeEndedError))
		return up{}, nil
	}, graph.Retry(stubborn(2)))
	_, err := runner(t, g, stored(store)).Run(t.Context(), st{}, in("r"))
	require.NoError(t, err)
}

func TestJournal_PlacesWhereADurableCallIsRefused(t *testing.T) {
	g := one(t, func(ctx context.Context, _ st) (up, error) {
		require.ErrorAs(t, durable.ContinueAsNew(ctx, 1), new(*durable.PlacementError))
		_, err := durable.Step(ctx, "s", func(ctx context.Context) (int, error) {
			inside, err := durable.Step(ctx, "inner", func(context.Context) (int, error) { return 7, nil })
			require.NoError(t, err)
			require.Equal(t, 7, inside)
			_, err = durable.Once(ctx, "o", func(context.Context) (int, error) { return 1, nil })
			require.ErrorAs(t, err, new(*durable.PlacementError))
			require.ErrorAs(t, durable.Sleep(ctx, 1), new(*durable.PlacementError))
			_, err = durable.WaitForSignal[int](ctx, "x")
			require.ErrorAs(t, err, new(*durable.PlacementError))
			_, err = durable.Interrupt[int](ctx, "?")
			require.ErrorAs(t, err, new(*durable.PlacementError))
			return 1, nil
		})
		return up{N: 1}, err
	})
	store := newStore()
	_, err := runner(t, g, stored(store)).Run(t.Context(), st{}, in("r"))
	require.NoError(t, err)
	require.Len(t, eventsOf(t, store, "r"), 5, "a step inside a step leaves no record")
}

// Concurrent branches of a node use durable.Branch; equal names that overlap are an error.
func TestJournal_BranchesInsideANode(t *testing.T) {
	c, store := newMeter(), newStore()
	var crash once
	g := one(t, func(ctx context.Context, _ st) (up, error) {
		var eg errgroup.Group
		got := make([]string, 5)
		for i := range got {
			eg.Go(func() error {
				return durable.Branch(ctx, fmt.Sprint("b", i), func(ctx context.Context) (err error) {
					for k := range 2 {
						var v string
						v, err = durable.Step(ctx, "s", func(context.Context) (string, error) {
							c.hit("%d.%d", i, k)
							return fmt.Sprintf("%d.%d ", i, k), nil
						})
						got[i] += v
					}
					return err
				})
			})
		}
		if err := eg.Wait(); err != nil {
			return up{}, err
		}
		if crash.first() {
			return up{}, errBroken
		}
		return up{Log: got}, nil
	})
	r := runner(t, g, stored(store))
	_, err := r.Run(t.Context(), st{}, in("r"))
	require.ErrorIs(t, err, errBroken)
	res, err := r.Retry(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, []string{"0.0 0.1 ", "1.0 1.1 ", "2.0 2.1 ", "3.0 3.1 ", "4.0 4.1 "}, res.State.Log)
	require.Len(t, c.all(), 10)
	for name, n := range c.all() {
		require.Equal(t, 1, n, name)
	}
	t.Run("overlap", func(t *testing.T) {
		g := one(t, func(ctx context.Context, _ st) (up, error) {
			inside, other := make(chan struct{}), make(chan error)
			go func() {
				<-inside
				_, err := durable.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil })
				other <- err
			}()
			_, _ = durable.Step(ctx, "s", func(context.Context) (int, error) {
				close(inside)
				require.ErrorAs(t, <-other, new(*durable.OverlapError))
				return 1, nil
			})
			return up{N: 1}, nil
		})
		_, err := runner(t, g, stored(newStore())).Run(t.Context(), st{})
		require.ErrorAs(t, err, new(*durable.OverlapError), "whatever the node makes of it")
	})
}

func TestJournal_SignalsAndSleepsInsideNodes(t *testing.T) {
	bubble(t, "a signal suspends and is delivered once and in order", func(t *testing.T) {
		t.Helper()
		store := newStore()
		g := inLine(t, func(ctx context.Context, _ st) (up, error) {
			var u up
			for range 2 {
				v, err := durable.WaitForSignal[string](ctx, "news")
				if err != nil {
					return up{}, err
				}
				u.Log = append(u.Log, v)
			}
			return u, nil
		}, func(ctx context.Context, _ st) (up, error) {
			v, err := durable.WaitForSignal[string](ctx, "news")
			return up{Log: []string{v}}, err
		})
		o := play(t.Context(), t, g, stored(store), st{}, in("r"))
		require.Equal(t, []string{"news"}, asError[*durable.SuspendedError](t, o.err).Signals())
		require.Equal(t, []string{"news"}, only[*task.RunSuspended](o.events)[0].Signals)
		for _, v := range []string{"1", "2", "2", "3"} {
			require.NoError(t, durable.Signal(t.Context(), store, "r", "news", v, durable.SendKey("k"+v)))
		}
		o = play(t.Context(), t, g, stored(store), st{}, in("r"))
		require.NoError(t, o.err)
		require.Equal(t, []string{"1", "2", "3"}, o.State.Log)
	})
	bubble(t, "a wait that ends by itself says when", func(t *testing.T) {
		t.Helper()
		store := newStore()
		g := one(t, func(ctx context.Context, _ st) (up, error) {
			_, err := durable.WaitForSignal[int](ctx, "never", durable.WaitTimeout(time.Hour))
			if late := (*durable.SignalTimeoutError)(nil); errors.As(err, &late) {
				return up{Log: []string{"none"}}, nil
			}
			return up{}, err
		})
		begin := time.Now()
		o := play(t.Context(), t, g, stored(store), st{}, in("r"))
		due := asError[*durable.SuspendedError](t, o.err).Due
		require.WithinDuration(t, begin.Add(time.Hour), due, time.Millisecond)
		require.Equal(t, due, only[*task.RunSuspended](o.events)[0].Due)
		run, err := store.Load(t.Context(), "r")
		require.NoError(t, err)
		require.True(t, due.Equal(run.Due))
		time.Sleep(30 * time.Minute)
		_, err = runner(t, g, stored(store)).Resume(t.Context(), "r")
		require.True(t, due.Equal(asError[*durable.SuspendedError](t, err).Due))
		time.Sleep(31 * time.Minute)
		res, err := runner(t, g, stored(store)).Resume(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, []string{"none"}, res.State.Log)
	})
	bubble(t, "a sleep waits, and only for the rest after a crash", func(t *testing.T) {
		t.Helper()
		store := newStore()
		g := one(t, func(ctx context.Context, _ st) (up, error) { return up{N: 1}, durable.Sleep(ctx, time.Hour) })
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
		defer cancel()
		_, err := runner(t, g, stored(store)).Run(ctx, st{}, in("r"))
		require.ErrorAs(t, err, new(*superstep.CancelledError))
		begin := time.Now()
		res, err := runner(t, g, stored(store)).Resume(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, 1, res.State.N)
		require.WithinDuration(t, begin.Add(40*time.Minute), time.Now(), time.Millisecond)
	})
}

// A crash inside a Catch handler resumes at it, and one that ran is not run again.
func TestJournal_ACrashInsideACatchHandlerResumesAtIt(t *testing.T) {
	c, store := newMeter(), newStore()
	var stop once
	inside := make(chan struct{})
	fan := func(b *bld) graph.Ref {
		leaf := graph.Task(b, "leaf", func(_ context.Context, _ st, i int) (up, error) {
			c.hit("leaf %d", i)
			return up{}, &codedError{Status: 500 + i}
		},
			graph.Retry(stubborn(2)))
		graph.CatchTask(b, leaf, func(ctx context.Context, _ st, i int, err error) (up, error) {
			c.hit("handler %d", i)
			failed := asError[*codedError](t, err)
			require.Equal(t, 500+i, failed.Status)
			require.Equal(t, 2, asError[*superstep.NodeError](t, err).Attempts)
			require.Equal(t, 3, task.Info(ctx).Attempt)
			require.ErrorAs(t, err, new(*retrypolicy.AttemptsError))
			if i == 1 {
				<-inside
			} else if stop.first() {
				close(inside)
				<-ctx.Done()
				return up{}, ctx.Err()
			}
			return up{Log: []string{fmt.Sprint("handled ", i)}}, nil
		})
		start := b.Node("start", say())
		b.Start(start)
		b.Route(start, each(leaf, 1, 2), leaf)
		return leaf
	}
	g := build(t, func(b *bld) {
		end := b.Node("end", say("end"))
		b.Edge(fan(b), end)
	})
	ctx, cancel := context.WithCancel(t.Context())
	cfg := stored(store)
	cfg.Observers = append(cfg.Observers, func(ev task.Event) {
		if done, is := ev.(*task.TaskCompleted); is && done.Node == "leaf" {
			cancel()
		}
	})
	_, err := runner(t, g, cfg).Run(ctx, st{}, in("r"))
	require.ErrorAs(t, err, new(*superstep.CancelledError))
	o := play(t.Context(), t, g, stored(store), st{}, in("r"))
	require.NoError(t, o.err)
	require.Equal(t, []string{"handled 1", "handled 2", "end"}, o.State.Log)
	require.Equal(t, map[string]int{"leaf 1": 2, "leaf 2": 2, "handler 1": 1, "handler 2": 2}, c.all())
}

// The error that a handler gets is the same live and after a crash, and its own failure wraps the first.
func TestJournal_AHandlerThatFails(t *testing.T) {
	store, c := newStore(), newMeter()
	g := build(t, func(b *bld) {
		a := b.Node("a", counted(c, "a", fails(errBroken)))
		b.Catch(a, func(_ context.Context, _ st, err error) (up, error) {
			c.hit("handler")
			if c.all()["handler"] > 2 {
				return up{N: 1}, nil
			}
			return up{}, errOther
		})
		b.Start(a)
	})
	r := runner(t, g, stored(store))
	_, err := r.Run(t.Context(), st{}, in("0"))
	for i := range 2 {
		require.ErrorIs(t, err, errBroken)
		require.ErrorIs(t, err, errOther)
		require.ErrorAs(t, err, new(*superstep.CatchError))
		_, err = r.Retry(t.Context(), fmt.Sprint(i), in(fmt.Sprint(i+1)))
	}
	require.NoError(t, err)
	require.Equal(t, map[string]int{"a": 1, "handler": 3}, c.all(), "the handler runs again, not the node")
}
