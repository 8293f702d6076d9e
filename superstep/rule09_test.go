package superstep_test

import (
	"context"
	"errors"
	"runtime"
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

func TestRule09_ATaskThatReturnsAfterItsDeadlineIsATimeoutWhateverItReturns(t *testing.T) {
	for name, err := range map[string]error{
		"success": nil, "a failure": statusError(401), "a poison mark": classifier.Poison(errBoom),
		"ctx.Err": context.DeadlineExceeded, "another deadline": context.Canceled,
	} {
		bubble(t, name, func(t *testing.T) {
			t.Helper()
			g := one(t, func(context.Context, st) (up, error) {
				time.Sleep(2 * time.Second) // ignores its context, but comes back within Grace
				return up{Log: []string{"late"}}, err
			}, graph.Timeout(time.Second), graph.Retry(policy(2)))
			begin := time.Now()
			o := play(t.Context(), t, g, superstep.Config{}, st{})
			require.ErrorAs(t, o.err, new(*retrypolicy.TimeoutError))
			require.ErrorIs(t, o.err, context.DeadlineExceeded)
			var node *superstep.NodeError
			require.ErrorAs(t, o.err, &node)
			require.Equal(t, classifier.Timeout, node.Class)
			require.Equal(t, 2, node.Attempts, "a timeout is retried")
			require.Equal(t, 5*time.Second, time.Since(begin), "two attempts of 2 s, 1 s between")
			require.Empty(t, o.State.Log)
			require.Zero(t, o.Abandoned)
			require.Empty(t, only[*task.TaskAbandoned](o.events))
		})
	}
}

func TestRule09_SuccessAtTheVeryDeadlineOrBefore(t *testing.T) {
	bubble(t, "before", func(t *testing.T) {
		t.Helper()
		o := play(t.Context(), t, one(t, func(context.Context, st) (up, error) {
			time.Sleep(time.Second - 1)
			return up{V: "ok"}, nil
		}, graph.Timeout(time.Second)), superstep.Config{}, st{})
		require.NoError(t, o.err)
	})
	bubble(t, "after", func(t *testing.T) {
		t.Helper()
		o := play(t.Context(), t, one(t, func(context.Context, st) (up, error) {
			time.Sleep(time.Second + 1)
			return up{V: "ok"}, nil
		}, graph.Timeout(time.Second)), superstep.Config{}, st{})
		require.ErrorIs(t, o.err, context.DeadlineExceeded)
	})
}

func TestRule09_WhatIgnoresItsDeadlineIsAbandonedAfterGraceAndTheNextAttemptCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, open := gate(t)
		cameBack := make(chan struct{})
		g := one(t, func(ctx context.Context, _ st) (up, error) {
			if task.Info(ctx).Attempt == 1 {
				defer close(cameBack)
				<-release
				task.Emit(ctx, "late")
				task.AddUsage(ctx, task.Usage{Calls: 99})
				return up{Log: []string{"late"}}, nil
			}
			open()
			<-cameBack
			return up{Log: []string{"second"}}, nil
		}, graph.Timeout(time.Second), graph.Retry(policy(2)))
		begin := time.Now()
		o := play(t.Context(), t, g, superstep.Config{Grace: 3 * time.Second}, st{})
		require.NoError(t, o.err)
		require.Equal(t, []string{"second"}, o.State.Log)
		require.Equal(t, 5*time.Second, time.Since(begin), "1 s timeout, 3 s grace, 1 s delay")
		require.Equal(t, 1, o.Abandoned, "the run reports it")
		require.Len(t, only[*task.TaskAbandoned](o.events), 1)
		require.Zero(t, o.Usage)
		require.Empty(t, only[*task.Custom](o.events))
	})
}

// hostile are graphs whose node "h" ignores its context, in every place where a node can stand.
func hostile(tb testing.TB, fn nodeFn) map[string]*graph.Graph[st, up] {
	tb.Helper()
	in, out := func(s st) st { return s }, func(s st) up { return up{Log: s.Log} }
	hour := graph.Timeout(time.Hour)
	inFan := func(opts ...graph.Option) *graph.Graph[st, up] {
		return build(tb, func(b *bld) {
			s := b.Node("s", say("s"))
			h := graph.Task(b, "h", func(ctx context.Context, s st, i int) (up, error) {
				if i == 1 {
					return fn(ctx, s)
				}
				return waits(ctx, s)
			}, opts...)
			b.Start(s)
			b.Route(s, each(h, 0, 1, 2), h)
		})
	}
	nest := func(child *graph.Graph[st, up], siblings int) *graph.Graph[st, up] {
		return build(tb, func(b *bld) {
			s := b.Node("s", say("s"))
			sub := graph.Sub(b, "sub", child, in, out)
			b.Start(s)
			b.Edge(s, sub)
			for i := range siblings {
				b.Edge(s, b.Node("w"+string(rune('0'+i)), waits))
			}
		})
	}
	caught := build(tb, func(b *bld) {
		s := b.Node("s", say("s"))
		h := b.Node("h", fails(errBoom))
		b.Start(s)
		b.Edge(s, h)
		b.Catch(h, func(ctx context.Context, s st, _ error) (up, error) { return fn(ctx, s) })
	})
	alone := func(opts ...graph.Option) *graph.Graph[st, up] {
		return build(tb, func(b *bld) {
			s := b.Node("s", say("s"))
			h := b.Node("h", fn, opts...)
			b.Start(s)
			b.Edge(s, h)
			after := b.Node("after", say("after"))
			b.Edge(h, after)
		})
	}
	return map[string]*graph.Graph[st, up]{
		"inline": alone(),
		"inline with retries": alone(
			graph.Retry(retrypolicy.WorkflowNodeRetryPolicy{MaxAttempts: 5, Retryable: retrypolicy.AnyError}),
		),
		"with a timeout":                       alone(hour),
		"in a fan-out":                         inFan(),
		"in a fan-out with a timeout":          inFan(hour),
		"in a fan-out with a limit":            inFan(graph.MaxConcurrency(2)),
		"in a Catch handler":                   caught,
		"in a subgraph":                        nest(alone(), 0),
		"in a subgraph with a timeout":         nest(alone(hour), 0),
		"in a subgraph beside others":          nest(alone(), 2),
		"in a fan-out in a subgraph":           nest(inFan(), 0),
		"in a fan-out in a subgraph, siblings": nest(inFan(hour), 2),
		"in a subgraph of a subgraph":          nest(nest(alone(), 0), 0),
		"in a subgraph of subgraphs, siblings": nest(nest(inFan(), 1), 1),
		"in a Catch handler in a subgraph":     nest(caught, 1),
	}
}

func TestRule09_ANodeThatIgnoresTheEndOfTheRunIsAbandonedAfterGrace(t *testing.T) {
	ends := map[string]func(release <-chan struct{}) nodeFn{
		"returns success":  func(release <-chan struct{}) nodeFn { return deaf(release, up{Log: []string{"late"}}, nil) },
		"returns an error": func(release <-chan struct{}) nodeFn { return deaf(release, up{}, statusError(503)) },
		"panics": func(release <-chan struct{}) nodeFn {
			return func(context.Context, st) (up, error) { <-release; panic("late") }
		},
		"ends its goroutine": func(release <-chan struct{}) nodeFn {
			return func(context.Context, st) (up, error) { <-release; runtime.Goexit(); return up{}, nil }
		},
		"emits and uses": func(release <-chan struct{}) nodeFn {
			return func(ctx context.Context, _ st) (up, error) {
				<-release
				task.Emit(ctx, "late")
				task.AddUsage(ctx, task.Usage{Calls: 1})
				_ = task.Info(ctx).IdempotencyKey()
				return up{}, context.Cause(ctx)
			}
		},
	}
	places := hostile(t, waits)
	for end, make1 := range ends {
		for place := range places {
			bubble(t, place+", later "+end, func(t *testing.T) {
				t.Helper()
				release, open := gate(t)
				p := &tape{}
				r := runner(
					t,
					hostile(t, make1(release))[place],
					superstep.Config{Grace: 3 * time.Second, Observers: []func(task.Event){p.observe}, Logger: quiet()},
				)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				begin := time.Now()
				res, err := r.Run(ctx, st{V: "in"})
				require.Equal(t, 4*time.Second, time.Since(begin), "1 s and Grace")
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorAs(t, err, new(*superstep.CancelledError))
				require.Equal(t, 1, res.Abandoned)
				require.Equal(t, 1, r.Abandoned())
				require.NotContains(t, res.State.Log, "late")
				evs := p.all()
				checkEvents(t, evs)
				require.Len(t, only[*task.TaskAbandoned](evs), 1)
				require.Equal(t, 'h', rune(only[*task.TaskAbandoned](evs)[0].Node[len(only[*task.TaskAbandoned](evs)[0].Node)-1]))
				open()
				synctest.Wait()
				require.Zero(t, r.Abandoned(), "it has come back")
				require.Len(t, p.all(), len(evs), "and its late words are dropped")
				require.Zero(t, res.Usage)
			})
		}
	}
}

func TestRule09_AHostileSiblingOfAFailedTaskIsAbandonedAndTheFirstFailureReturned(t *testing.T) {
	for name, opts := range map[string][]graph.Option{"inline": nil, "with a timeout": {graph.Timeout(time.Hour)}} {
		bubble(t, name, func(t *testing.T) {
			t.Helper()
			release, open := gate(t)
			g := build(t, func(b *bld) {
				b.Start(
					b.Node("h", deaf(release, up{N: 1}, nil), opts...),
					b.Node("bad", func(context.Context, st) (up, error) { time.Sleep(time.Second); return up{}, errBoom }),
					b.Node("h2", deaf(release, up{}, nil), opts...),
				)
			})
			o := play(t.Context(), t, g, superstep.Config{Grace: time.Second}, st{})
			require.ErrorIs(t, o.err, errBoom)
			require.Equal(t, 2, o.Abandoned)
			require.Len(t, only[*task.TaskAbandoned](o.events), 2)
			require.Zero(t, o.State.N)
			open()
		})
	}
}

func TestRule09_AnAbandonedNodeHoldsUpNothingElse(t *testing.T) {
	t.Run("neither Stop nor further runs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			release, open := gate(t)
			r := runner(t, one(t, func(_ context.Context, s st) (up, error) {
				if s.V == "deaf" {
					<-release
				}
				return up{N: 1}, nil
			}), superstep.Config{Grace: time.Second, MaxConcurrentRuns: 1, MaxConcurrency: 1, RunTimeout: time.Minute})
			_, err := r.Run(t.Context(), st{V: "deaf"})
			require.ErrorAs(t, err, new(*superstep.RunTimeoutError))
			res, err := r.Run(t.Context(), st{})
			require.NoError(t, err)
			require.Equal(t, 1, res.State.N)
			require.NoError(t, r.Stop(t.Context()))
			open()
		})
	})
}

func TestRule09_TheMutatedResultOfAnAbandonedCallIsNeverAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, open := gate(t)
		g := build(t, func(b *bld) {
			h := b.Node("h", deaf(release, up{Log: []string{"late"}}, nil), graph.Timeout(time.Second))
			b.Start(h)
			b.Catch(h, func(_ context.Context, _ st, err error) (up, error) {
				open() // it returns while the handler runs
				synctest.Wait()
				if !errors.Is(err, context.DeadlineExceeded) {
					return up{}, err
				}
				return up{Log: []string{"caught"}}, nil
			})
		})
		o := play(t.Context(), t, g, superstep.Config{}, st{})
		require.NoError(t, o.err)
		require.Equal(t, []string{"caught"}, o.State.Log)
		require.Equal(t, 1, o.Abandoned)
	})
}
