package superstep_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

func TestSemantics_ACatchHandlerRunsAfterTheAttemptsSeesTheTypedErrorAndItsUpdateIsTheNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got error
		var info task.Task
		calls := 0
		g := build(t, func(b *bld) {
			a := b.Node(
				"a",
				func(context.Context, st) (up, error) { calls++; return up{Log: []string{"lost"}}, hinted{time.Second} },
				graph.Retry(policy(3)),
			)
			next := b.Node("next", say("next"))
			b.Start(a)
			b.Edge(a, next)
			b.Catch(a, func(ctx context.Context, s st, err error) (up, error) {
				got, info = err, task.Info(ctx)
				task.AddUsage(ctx, task.Usage{Calls: 1})
				return up{Log: []string{"caught " + s.V}}, nil
			})
		})
		o := play(t.Context(), t, g, superstep.Config{}, st{V: "in"})
		require.NoError(t, o.err)
		require.Equal(t, 3, calls)
		require.Equal(t, []string{"caught in", "next"}, o.State.Log)
		var node *superstep.NodeError
		require.ErrorAs(t, got, &node)
		require.Equal(t, 3, node.Attempts)
		require.Equal(t, classifier.RateLimited, node.Class)
		require.ErrorAs(t, got, new(hinted))
		require.ErrorAs(t, got, new(*retrypolicy.AttemptsError))
		require.Equal(t, 4, info.Attempt, "a Catch handler counts as one attempt more")
		require.Equal(t, 1, o.Usage.Calls)
		started := only[*task.AttemptStarted](o.events)
		require.True(t, started[3].Handler)
		require.False(t, started[2].Handler)
		require.Equal(t, 4, only[*task.TaskCompleted](o.events)[0].Attempt)
	})
}

func TestSemantics_ACatchHandlerThatFailsWrapsTheFirst(t *testing.T) {
	second := &fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}
	calls := 0
	g := build(t, func(b *bld) {
		a := b.Node("a", fails(statusError(503)))
		b.Start(a)
		b.Catch(a, func(context.Context, st, error) (up, error) { calls++; return up{Log: []string{"lost"}}, second })
	})
	retry := policyNow(3)
	o := play(t.Context(), t, g, superstep.Config{Retry: &retry, Logger: quiet()}, st{})
	require.Equal(t, 1, calls, "a handler is not retried")
	require.ErrorIs(t, o.err, fs.ErrNotExist)
	require.ErrorIs(t, o.err, statusError(503), "the first is wrapped")
	var both *superstep.CatchError
	require.ErrorAs(t, o.err, &both)
	require.Equal(t, error(second), both.Handler)
	require.ErrorIs(t, both.First, statusError(503))
	require.Contains(t, o.err.Error(), "file does not exist")
	require.Contains(t, o.err.Error(), "503")
	var node *superstep.NodeError
	require.ErrorAs(t, o.err, &node)
	require.Equal(t, "a", node.Node)
	require.Empty(t, o.State.Log)
}

func TestSemantics_CatchTaskIsGivenTheItemAndOtherTasksGoOn(t *testing.T) {
	g := build(t, func(b *bld) {
		s := b.Node("s", say())
		fan := graph.Task(b, "fan", func(_ context.Context, _ st, i int) (up, error) {
			if i%2 == 1 {
				return up{}, errBoom
			}
			return up{Log: []string{fmt.Sprint("ok", i)}}, nil
		})
		graph.CatchTask(b, fan, func(_ context.Context, _ st, i int, err error) (up, error) {
			return up{Log: []string{fmt.Sprint("caught", i, errors.Is(err, errBoom))}}, nil
		})
		b.Start(s)
		b.Route(s, each(fan, 0, 1, 2, 3), fan)
	})
	o := play(t.Context(), t, g, superstep.Config{}, st{})
	require.NoError(t, o.err)
	require.Equal(t, []string{"ok0", "caught1 true", "ok2", "caught3 true"}, o.State.Log)
}

func TestSemantics_TheEndOfTheRunIsNothingToCatch(t *testing.T) {
	caught := false
	handler := func(context.Context, st, error) (up, error) { //nolint:unparam // it is a handler
		caught = true
		return up{}, nil
	}
	synctest.Test(t, func(t *testing.T) {
		g := build(t, func(b *bld) {
			a := b.Node("a", waits)
			b.Start(a)
			b.Catch(a, handler)
		})
		o := play(t.Context(), t, g, superstep.Config{RunTimeout: time.Second}, st{})
		require.ErrorAs(t, o.err, new(*superstep.RunTimeoutError))
	})
	g := build(t, func(b *bld) {
		a := b.Node("a", waits)
		b.Start(a, b.Node("bad", fails(errBoom)))
		b.Catch(a, handler)
	})
	require.ErrorIs(t, play(t.Context(), t, g, superstep.Config{}, st{}).err, errBoom)
	require.False(t, caught, "neither the run's end nor a sibling's failure is the node's own")
}

func TestSemantics_AFailedSuperStepHasNoCompletedEvent(t *testing.T) {
	bad := map[string]*graph.Graph[st, up]{
		"node":   one(t, fails(errBoom)),
		"router": everyCall(t, func() { panic("x") })["router"],
		"reducer": build(t, func(b *bld) {
			v := func(context.Context, st) (up, error) { return up{V: "v"}, nil }
			b.Start(b.Node("x", v), b.Node("y", v))
		}),
	}
	for name, g := range bad {
		t.Run(name, func(t *testing.T) {
			o := play(t.Context(), t, g, superstep.Config{}, st{})
			require.Error(t, o.err)
			require.Len(t, only[*task.SuperStepStarted](o.events), 1)
			require.Empty(t, only[*task.SuperStepCompleted](o.events))
			failed := only[*task.RunFailed](o.events)
			require.Len(t, failed, 1)
			require.Equal(t, o.err, failed[0].Err)
			require.Equal(t, o.err.Error(), failed[0].Text)
			require.NotEmpty(t, failed[0].Class)
		})
	}
}

func TestSemantics_AnExhaustedRetryCarriesTheLastErrorTheEarlierOnesAreInTheEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := play(t.Context(), t, one(t, func(ctx context.Context, _ st) (up, error) {
			return up{}, statusError(500 + task.Info(ctx).Attempt)
		}, graph.Retry(policy(3))), superstep.Config{}, st{})
		require.ErrorIs(t, o.err, statusError(503))
		require.NotErrorIs(t, o.err, statusError(502))
		require.Contains(t, o.err.Error(), "3 attempts")
		failed := only[*task.AttemptFailed](o.events)
		require.Len(t, failed, 3)
		for i, ev := range failed {
			require.ErrorIs(t, ev.Err, statusError(501+i))
			require.Equal(t, i == 2, ev.Final)
		}
	})
}

func TestSeed_PermanentStatusesAreNeverRetriedAndPassingFailuresAre(t *testing.T) {
	yes := classifier.Func(func(error) classifier.Classification {
		return classifier.Classification{Class: classifier.ProviderError}
	})
	var refused net.Error = &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for _, tc := range []struct {
		err   error
		cfg   superstep.Config
		calls int
	}{
		{statusError(404), superstep.Config{Classifier: yes}, 1},
		{statusError(409), superstep.Config{Classifier: yes}, 1},
		{fmt.Errorf("5xx: %w", statusError(400)), superstep.Config{Classifier: yes}, 1},
		{errors.Join(errBoom, statusError(404)), superstep.Config{Classifier: yes}, 1},
		{errors.New("HTTP 404 Not Found"), superstep.Config{Classifier: yes}, 1},
		{classifier.Transient(statusError(404)), superstep.Config{Classifier: yes}, 1},
		{statusError(503), superstep.Config{}, 3},
		{statusError(429), superstep.Config{}, 3},
		{statusError(408), superstep.Config{}, 3},
		{context.DeadlineExceeded, superstep.Config{}, 3},
		{openBreaker{}, superstep.Config{}, 3},
		{refused, superstep.Config{}, 3},
		{errBoom, superstep.Config{}, 1},
		{errBoom, superstep.Config{Classifier: yes}, 3},
		{classifier.Poison(statusError(503)), superstep.Config{Classifier: yes}, 1},
		{classifier.Transient(errBoom), superstep.Config{}, 3},
	} {
		bubble(t, fmt.Sprintf("%T %v", tc.err, tc.err), func(t *testing.T) {
			t.Helper()
			for _, own := range []bool{true, false} { // the node's policy, or the run's default
				calls := 0
				fn := func(context.Context, st) (up, error) { calls++; return up{}, tc.err }
				cfg, p := tc.cfg, policy(3)
				var opts []graph.Option
				if own {
					opts = []graph.Option{graph.Retry(p)}
				} else {
					cfg.Retry = &p
				}
				o := play(t.Context(), t, one(t, fn, opts...), cfg, st{})
				require.ErrorIs(t, o.err, tc.err)
				require.Equal(t, tc.calls, calls)
				var node *superstep.NodeError
				require.ErrorAs(t, o.err, &node)
				require.Equal(t, tc.calls, node.Attempts)
			}
		})
	}
}

// openBreaker is what a circuit breaker returns while it is open.
type openBreaker struct{}

func (openBreaker) Error() string                           { return "circuit open" }
func (openBreaker) RunErrorClass() classifier.RunErrorClass { return classifier.ProviderUnavailable }

func TestSemantics_ANodesOwnPolicySwitchesTheDefaultOff(t *testing.T) {
	calls := 0
	p := policyNow(5)
	o := play(
		t.Context(),
		t,
		one(t, func(context.Context, st) (up, error) { calls++; return up{}, statusError(503) }, graph.Retry(retrypolicy.New())),
		superstep.Config{Retry: &p, Logger: quiet()},
		st{},
	)
	require.Error(t, o.err)
	require.Equal(t, 1, calls)
}

func TestSemantics_OnlyOneLayerRetries(t *testing.T) {
	calls := 0
	standard := retrypolicy.Standard()
	standard.InitialDelay = 0
	inner := &retrypolicy.Loop{Policy: standard}
	o := play(t.Context(), t, one(t, func(ctx context.Context, _ st) (up, error) {
		return retrypolicy.Do(ctx, inner, func(context.Context, int) (up, error) { calls++; return up{}, statusError(503) })
	}, graph.Retry(policyNow(3))), superstep.Config{Logger: quiet()}, st{})
	require.ErrorIs(t, o.err, statusError(503))
	require.Equal(t, 3, calls, "3 calls, not 9")
}

func TestSemantics_AWaitThatDoesNotFitTheDeadlineIsNotSlept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policy(3)
		p.InitialDelay = 5 * time.Second
		begin := time.Now()
		o := play(t.Context(), t, one(t, fails(statusError(503)), graph.Retry(p)), superstep.Config{RunTimeout: time.Second}, st{})
		require.ErrorIs(t, o.err, statusError(503), "at once, with the last provider error")
		require.Zero(t, time.Since(begin))
	})
}

func TestSemantics_StopDrains(t *testing.T) {
	// work takes a second, whatever its context says, unless its run is cancelled.
	work := func(word string, d time.Duration) nodeFn {
		return func(ctx context.Context, _ st) (up, error) {
			timer := time.NewTimer(d)
			defer timer.Stop()
			select {
			case <-timer.C:
				return up{Log: []string{word}}, nil
			case <-ctx.Done():
				return up{}, ctx.Err()
			}
		}
	}
	chain := func(first, second time.Duration) *graph.Graph[st, up] {
		return build(t, func(b *bld) {
			x, y := b.Node("x", work("x", first)), b.Node("y", work("y", second))
			b.Start(x)
			b.Edge(x, y)
		})
	}
	stopAfter := func(t *testing.T, r *superstep.Runner[st, up], d time.Duration) {
		t.Helper()
		done := make(chan struct{})
		time.AfterFunc(d, func() {
			defer close(done)
			if err := r.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
		t.Cleanup(func() { <-done })
	}
	bubble(t, "no new super-step starts, the present one finishes", func(t *testing.T) {
		t.Helper()
		p := &tape{}
		r := runner(t, chain(2*time.Second, time.Second), superstep.Config{Observers: []func(task.Event){p.observe}})
		stopAfter(t, r, time.Second)
		begin := time.Now()
		res, err := r.Run(t.Context(), st{})
		require.ErrorIs(t, err, superstep.ErrStopped)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 2*time.Second, time.Since(begin))
		require.Equal(t, []string{"x"}, res.State.Log)
		require.Equal(t, 1, res.SuperSteps)
		checkEvents(t, p.all())
		require.Len(t, only[*task.RunCancelled](p.all()), 1)
	})
	bubble(t, "a run in its last super-step simply completes", func(t *testing.T) {
		t.Helper()
		r := runner(t, chain(time.Second, 2*time.Second), superstep.Config{})
		stopAfter(t, r, 2*time.Second)
		res, err := r.Run(t.Context(), st{})
		require.NoError(t, err)
		require.Equal(t, []string{"x", "y"}, res.State.Log)
	})
	bubble(t, "what does not finish within Grace is cancelled", func(t *testing.T) {
		t.Helper()
		r := runner(t, chain(time.Hour, time.Second), superstep.Config{Grace: 3 * time.Second})
		stopAfter(t, r, time.Second)
		begin := time.Now()
		_, err := r.Run(t.Context(), st{})
		require.ErrorIs(t, err, superstep.ErrStopped)
		require.Equal(t, 4*time.Second, time.Since(begin))
	})
	bubble(t, "a subgraph is part of its super-step", func(t *testing.T) {
		t.Helper()
		g := build(t, func(b *bld) {
			b.Start(
				graph.Sub(
					b,
					"sub",
					chain(2*time.Second, time.Second),
					func(s st) st { return s },
					func(s st) up { return up{Log: s.Log} },
				),
			)
		})
		r := runner(t, g, superstep.Config{})
		stopAfter(t, r, time.Second)
		res, err := r.Run(t.Context(), st{})
		require.NoError(t, err)
		require.Equal(t, []string{"x", "y"}, res.State.Log)
	})
	bubble(t, "the caller's context still ends a run that is being drained", func(t *testing.T) {
		t.Helper()
		r := runner(t, chain(time.Hour, time.Second), superstep.Config{Grace: time.Hour})
		stopAfter(t, r, time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		begin := time.Now()
		_, err := r.Run(ctx, st{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 2*time.Second, time.Since(begin))
	})
	t.Run("before a run, twice, and concurrently", func(t *testing.T) {
		r := runner(t, one(t, say()), superstep.Config{})
		require.NoError(t, r.Stop(t.Context()))
		require.NoError(t, r.Stop(t.Context()))
		res, err := r.Run(t.Context(), st{V: "in"})
		require.ErrorIs(t, err, superstep.ErrStopped)
		require.Equal(t, "in", res.State.V)
		evs, err := collect(t, r.Stream(t.Context(), st{}))
		require.ErrorIs(t, err, superstep.ErrStopped)
		require.Empty(t, only[*task.TaskStarted](evs))
	})
	bubble(t, "with a context that ends first", func(t *testing.T) {
		t.Helper()
		release, open := gate(t)
		r := runner(t, one(t, deaf(release, up{}, nil)), superstep.Config{Grace: time.Hour})
		done := make(chan error, 1)
		go func() { _, err := r.Run(context.Background(), st{}); done <- err }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, r.Stop(ctx), context.DeadlineExceeded)
		open()
		require.NoError(t, <-done)
		require.NoError(t, r.Stop(t.Context()))
	})
}

func TestSemantics_MaxConcurrentRunsLetsFurtherRunsWaitInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p peak
		var order []string
		r := runner(t, one(t, func(_ context.Context, s st) (up, error) {
			p.enter()
			defer p.leave()
			order = append(order, s.V)
			time.Sleep(time.Second)
			return up{}, nil
		}), superstep.Config{MaxConcurrentRuns: 1, RunTimeout: 1500 * time.Millisecond})
		errs := make(chan error, 9)
		run := func(ctx context.Context, v string) {
			go func() { _, err := r.Run(ctx, st{V: v}); errs <- err }()
			synctest.Wait()
		}
		short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		for i, v := range []string{"a", "b", "c"} {
			run(t.Context(), v)
			if i == 0 {
				run(short, "cancelled")
			}
		}
		require.ErrorIs(t, <-errs, context.DeadlineExceeded, "the one that waited with a short context, after 0.5 s")
		for range 3 {
			require.NoError(t, <-errs, "waiting does not count against RunTimeout")
		}
		require.Equal(t, []string{"a", "b", "c"}, order)
		require.EqualValues(t, 1, p.most.Load())
	})
}

func TestSemantics_StopEndsRunsThatWaitForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, open := gate(t)
		r := runner(t, one(t, deaf(release, up{}, nil)), superstep.Config{MaxConcurrentRuns: 1, Grace: time.Hour})
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { _, err := r.Run(context.Background(), st{}); first <- err }()
		synctest.Wait()
		go func() { _, err := r.Run(context.Background(), st{}); second <- err }()
		synctest.Wait()
		stopped := make(chan error, 1)
		go func() { stopped <- r.Stop(context.Background()) }()
		require.ErrorIs(t, <-second, superstep.ErrStopped)
		open()
		require.NoError(t, <-first)
		require.NoError(t, <-stopped)
	})
}

func TestSemantics_TheDefaultsAreGraceOf5sAndNoLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, open := gate(t)
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		begin := time.Now()
		o := play(ctx, t, one(t, deaf(release, up{}, nil)), superstep.Config{}, st{})
		require.ErrorIs(t, o.err, context.DeadlineExceeded)
		require.Equal(t, 24*time.Hour+5*time.Second, time.Since(begin))
		open()
	})
	require.NotNil(t, slog.Default())
}

func TestSemantics_RunIDsAreDataAndAnEmptyOneIsRefused(t *testing.T) {
	g := one(t, func(ctx context.Context, _ st) (up, error) { return up{V: task.Info(ctx).RunID}, nil })
	for _, id := range []string{"x", "../../etc/passwd", "a\nb", `"; DROP TABLE runs; --`, "日本", string(make([]byte, 10_000))} {
		o := play(t.Context(), t, g, superstep.Config{}, st{}, superstep.RunID(id))
		require.NoError(t, o.err)
		require.Equal(t, id, o.RunID)
		require.Equal(t, id, o.State.V)
	}
	o := play(t.Context(), t, g, superstep.Config{}, st{V: "in"}, superstep.RunID(""))
	require.ErrorContains(t, o.err, "empty")
	require.Equal(t, "in", o.State.V)
	evs, err := collect(t, runner(t, g, superstep.Config{}).Stream(t.Context(), st{}, superstep.RunID("")))
	require.Error(t, err)
	require.Empty(t, evs)
	a, b := play(t.Context(), t, g, superstep.Config{}, st{}), play(t.Context(), t, g, superstep.Config{}, st{})
	require.NotEqual(t, a.RunID, b.RunID)
}
