package superstep_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
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

// policy retries what its class allows, without jitter.
func policy(attempts int) retrypolicy.WorkflowNodeRetryPolicy {
	p := retrypolicy.New()
	p.MaxAttempts = attempts
	return p
}

// flaky fails with err until the given attempt.
func flaky(until int, err error, u up) nodeFn {
	return func(ctx context.Context, _ st) (up, error) {
		n := task.Info(ctx).Attempt
		task.EmitToken(ctx, task.TokenDelta{Text: fmt.Sprint("attempt ", n)})
		task.AddUsage(ctx, task.Usage{Calls: 1, PromptTokens: 10})
		if n < until {
			return up{Log: []string{"dropped"}, N: 100}, err
		}
		return u, nil
	}
}

func TestRule07_WhatAFailedAttemptReturnedIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := play(
			t.Context(),
			t,
			one(t, flaky(3, statusError(503), up{Log: []string{"kept"}}), graph.Retry(policy(3))),
			superstep.Config{},
			st{},
		)
		require.NoError(t, o.err)
		require.Equal(t, st{Log: []string{"kept"}}, o.State)
		require.Equal(t, task.Usage{Calls: 3, PromptTokens: 30}, o.Usage, "what it used was paid for")
	})
}

func TestRule07_WhereAFailedGotoWantedToGoIsDropped(t *testing.T) {
	for name, opts := range map[string][]graph.Option{"": nil, "with a timeout": {graph.Timeout(time.Second)}} {
		bubble(t, "retried "+name, func(t *testing.T) {
			t.Helper()
			g := build(t, func(b *bld) {
				x, y := b.Node("x", say("x")), b.Node("y", say("y"))
				a := b.Goto("a", func(ctx context.Context, _ st) (up, graph.Next, error) {
					if task.Info(ctx).Attempt == 1 {
						return up{Log: []string{"dropped"}}, graph.To(x), statusError(503)
					}
					return up{Log: []string{"kept"}}, graph.To(y), nil
				}, append(opts, graph.Retry(policy(2)))...)
				b.Targets(a, x, y)
				b.Start(a)
			})
			o := play(t.Context(), t, g, superstep.Config{}, st{})
			require.NoError(t, o.err)
			require.Equal(t, []string{"kept", "y"}, o.State.Log)
		})
		bubble(t, "caught "+name, func(t *testing.T) {
			t.Helper()
			g := build(t, func(b *bld) {
				x, y := b.Node("x", say("x")), b.Node("y", say("y"))
				a := b.Goto("a", func(context.Context, st) (up, graph.Next, error) {
					return up{Log: []string{"dropped"}}, graph.To(x), errBoom
				}, opts...)
				b.Targets(a, x)
				b.Edge(a, y)
				b.Start(a)
				b.Catch(a, func(context.Context, st, error) (up, error) { return up{Log: []string{"caught"}}, nil })
			})
			o := play(t.Context(), t, g, superstep.Config{}, st{})
			require.NoError(t, o.err)
			require.Equal(t, []string{"caught", "y"}, o.State.Log, "its edges are taken, its Goto is not")
		})
	}
}

func TestRule07_EventsCarryTheAttemptAndADiscardComesBeforeTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := play(t.Context(), t, one(t, flaky(3, statusError(503), up{}), graph.Retry(policy(3))), superstep.Config{}, st{})
		require.NoError(t, o.err)
		require.Equal(t, []string{
			"run_started",
			"super_step_started @1",
			"task_started a[0] @1",
			"attempt_started a[0] @1 #1",
			"token_delta a[0] @1 #1",
			"attempt_failed a[0] @1 #1",
			"attempt_discarded a[0] @1 #1",
			"attempt_started a[0] @1 #2",
			"token_delta a[0] @1 #2",
			"attempt_failed a[0] @1 #2",
			"attempt_discarded a[0] @1 #2",
			"attempt_started a[0] @1 #3",
			"token_delta a[0] @1 #3",
			"task_completed a[0] @1 #3",
			"super_step_completed @1",
			"run_completed",
		}, brief(o.events))
		failed := only[*task.AttemptFailed](o.events)
		require.Equal(t, []time.Duration{time.Second, 2 * time.Second}, []time.Duration{failed[0].Delay, failed[1].Delay})
		require.Equal(t, string(classifier.ProviderError), failed[0].Class)
		require.ErrorIs(t, failed[0].Err, statusError(503))
		require.False(t, failed[1].Final)
	})
}

// hinted is a rate limit that says when to come back.
type hinted struct{ time.Duration }

func (hinted) Error() string                              { return "slow down" }
func (hinted) HTTPStatusCode() int                        { return http.StatusTooManyRequests }
func (h hinted) RetryHint() (wait time.Duration, ok bool) { return h.Duration, true }

func TestRule07_TheLastFailureIsFinalAndSaysWhyAndAHintIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := play(t.Context(), t, one(t, fails(hinted{7 * time.Second}), graph.Retry(policy(2))), superstep.Config{}, st{})
		var gaveUp *retrypolicy.AttemptsError
		require.ErrorAs(t, o.err, &gaveUp)
		require.Equal(t, 2, gaveUp.Attempts)
		failed := only[*task.AttemptFailed](o.events)
		require.Len(t, failed, 2)
		require.Equal(t, 7*time.Second, failed[0].Hint)
		require.Equal(t, 7*time.Second, failed[0].Delay)
		require.Equal(t, string(classifier.RateLimited), failed[0].Class)
		require.True(t, failed[1].Final)
		require.Equal(t, string(retrypolicy.ReasonAttemptsUsedUp), failed[1].Reason)
	})
}

func TestRule07_WhatIsEmittedAfterAnAttemptReturnedIsDropped(t *testing.T) {
	for name, opts := range map[string][]graph.Option{"inline": nil, "with a timeout": {graph.Timeout(time.Minute)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var first context.Context
				g := one(t, func(ctx context.Context, _ st) (up, error) {
					if task.Info(ctx).Attempt == 1 {
						first = ctx //nolint:fatcontext // the test keeps it on purpose
						return up{}, statusError(503)
					}
					task.Emit(first, "too late")
					task.EmitToken(first, task.TokenDelta{Text: "too late"})
					task.AddUsage(first, task.Usage{Calls: 1})
					task.Emit(ctx, "in time")
					first = ctx
					return up{}, nil
				}, append(opts, graph.Retry(policy(2)))...)
				o := play(t.Context(), t, g, superstep.Config{}, st{})
				require.NoError(t, o.err)
				custom := only[*task.Custom](o.events)
				require.Len(t, custom, 1)
				require.Equal(t, "in time", custom[0].Value)
				require.Empty(t, only[*task.TokenDelta](o.events))
				require.Zero(t, o.Usage)
				task.Emit(first, "after the run") // must not reach the observer, nor panic
				require.Equal(t, 2, task.Info(first).Attempt)
			})
		})
	}
}

func TestRule07_GoroutinesOfANodeMayEmitConcurrentlyAndPastItsReturn(t *testing.T) {
	var wg sync.WaitGroup
	g := one(t, func(ctx context.Context, _ st) (up, error) {
		ready := make(chan struct{}, 8)
		for range 8 {
			wg.Go(func() {
				for i := range 200 {
					task.Emit(ctx, i)
					task.AddUsage(ctx, task.Usage{Calls: 1})
					if i == 50 {
						ready <- struct{}{}
					}
				}
			})
		}
		for range 8 {
			<-ready
		}
		if task.Info(ctx).Attempt < 3 {
			return up{}, classifier.Transient(errBoom)
		}
		return up{N: 1}, nil
	}, graph.Retry(retrypolicy.WorkflowNodeRetryPolicy{MaxAttempts: 3}))
	o := play(t.Context(), t, g, superstep.Config{}, st{}) // the checker finds an event outside of its attempt
	wg.Wait()
	require.NoError(t, o.err)
	require.GreaterOrEqual(t, len(only[*task.Custom](o.events)), 3*8*50)
	require.GreaterOrEqual(t, o.Usage.Calls, 3*8*50)
}

// quiet is a logger for tests that make warnings.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestRule08_APanicOfANodeIsAPanicErrorWithWhoseValueAndStack(t *testing.T) {
	type custom struct{ X int }
	anyError := retrypolicy.Standard()
	for _, value := range []any{"text", errBoom, statusError(503), custom{7}, nil, classifier.Transient(errBoom), context.Canceled} {
		for name, opts := range map[string][]graph.Option{
			"inline": {graph.Retry(anyError)}, "with a timeout": {graph.Timeout(time.Minute), graph.Retry(anyError)},
		} {
			t.Run(fmt.Sprintf("%T %s", value, name), func(t *testing.T) {
				calls := 0
				g := one(t, func(context.Context, st) (up, error) { calls++; panic(value) }, opts...)
				o := play(t.Context(), t, g, superstep.Config{}, st{})
				p := panicOf(t, o.err)
				require.Equal(t, `node "a"`, p.Whose)
				if value == nil {
					require.IsType(t, new(runtime.PanicNilError), p.Value)
				} else {
					require.Equal(t, value, p.Value)
				}
				require.Contains(t, string(p.Stack), "rules7and8_test.go")
				require.Equal(t, 1, calls, "a panic is not retried")
				var node *superstep.NodeError
				require.ErrorAs(t, o.err, &node)
				require.Equal(t, classifier.Panic, node.Class)
				require.Equal(t, string(classifier.Panic), only[*task.RunFailed](o.events)[0].Class)
			})
		}
	}
}

func panicOf(tb testing.TB, err error) *task.PanicError {
	tb.Helper()
	var p *task.PanicError
	require.ErrorAs(tb, err, &p)
	return p
}

// everyCall describes graphs in which one call into user code does something hostile.
func everyCall(tb testing.TB, hostile func()) map[string]*graph.Graph[st, up] {
	tb.Helper()
	sub := func(in func(st) st, out func(st) up) *graph.Graph[st, up] {
		child := one(tb, say("child"))
		return build(tb, func(b *bld) { b.Start(graph.Sub(b, "a", child, in, out)) })
	}
	merge := graph.New("test", graph.Merge(func(s st, _ []graph.Write[up]) (st, error) { hostile(); return s, nil }))
	merge.Start(merge.Node("a", say()))
	merged, err := merge.Compile()
	require.NoError(tb, err)
	fold := graph.New("test", graph.Reduce(func(s st, _ up) st { hostile(); return s }))
	fold.Start(fold.Node("a", say()))
	folded, err := fold.Compile()
	require.NoError(tb, err)
	router := func(b *bld, work nodeFn) {
		n := b.Node("a", work)
		b.Start(n)
		b.Route(n, func(st) graph.Next { hostile(); return graph.To() }, graph.End)
	}
	return map[string]*graph.Graph[st, up]{
		"router": build(tb, func(b *bld) { router(b, say()) }),
		"router in a subgraph": build(tb, func(b *bld) {
			b.Start(
				graph.Sub(b, "a", build(tb, func(b *bld) { router(b, say()) }), func(s st) st { return s }, func(st) up { return up{} }),
			)
		}),
		"router in one of several subgraphs": build(tb, func(b *bld) {
			b.Start(b.Node("other", waits),
				graph.Sub(b, "a", build(tb, func(b *bld) { router(b, say()) }), func(s st) st { return s }, func(st) up { return up{} }))
		}),
		"reducer (Merge)":  merged,
		"reducer (Reduce)": folded,
		"in function":      sub(func(s st) st { hostile(); return s }, func(st) up { return up{} }),
		"out function":     sub(func(s st) st { return s }, func(st) up { hostile(); return up{} }),
		"Catch handler": build(tb, func(b *bld) {
			n := b.Node("a", fails(errBoom))
			b.Start(n)
			b.Catch(n, func(context.Context, st, error) (up, error) { hostile(); return up{}, nil })
		}),
		"Retryable": one(tb, fails(errBoom), graph.Retry(retrypolicy.WorkflowNodeRetryPolicy{
			MaxAttempts: 3, Retryable: func(error) bool { hostile(); return true },
		})),
		"node in one of several": build(tb, func(b *bld) {
			b.Start(b.Node("a", func(context.Context, st) (up, error) { hostile(); return up{}, nil }), b.Node("other", waits))
		}),
	}
}

func TestRule08_APanicInAnyCallIntoUserCodeIsRecoveredAndNamed(t *testing.T) {
	whose := map[string]string{
		"router": "router", "router in a subgraph": "router", "router in one of several subgraphs": "router",
		"reducer (Merge)": "reducer", "reducer (Reduce)": "reducer",
		"in function": "in function", "out function": "out function", "Catch handler": "Catch handler",
		"Retryable": "etry", "node in one of several": `node "a"`,
	}
	for name, g := range everyCall(t, func() { panic("ouch") }) {
		t.Run(name, func(t *testing.T) {
			o := play(t.Context(), t, g, superstep.Config{Logger: quiet()}, st{V: "in"})
			p := panicOf(t, o.err)
			require.Contains(t, p.Whose, whose[name])
			require.Equal(t, "ouch", p.Value)
			require.NotEmpty(t, p.Stack)
			require.Equal(t, st{V: "in"}, o.State)
			require.Contains(t, o.err.Error(), "ouch")
			require.Regexp(t, `["f ]a[":]`, o.err.Error(), "it says where")
		})
	}
}

func TestRule08_ACallThatEndsItsGoroutineIsLikeAPanic(t *testing.T) {
	for name, g := range everyCall(t, runtime.Goexit) {
		t.Run(name, func(t *testing.T) {
			var o outcome[st]
			done := make(chan struct{})
			go func() {
				defer close(done)
				//nolint:testifylint // the test waits for it, and fails if it does not return
				o = play(context.Background(), t, g, superstep.Config{Logger: quiet()}, st{V: "in"})
			}()
			select {
			case <-done:
			case <-time.After(5 * time.Second):
				require.Fail(t, "Run does not return")
			}
			require.NotNil(t, o.Result, "Run has returned")
			require.Equal(t, task.ErrGoexit, panicOf(t, o.err).Value)
			if name == "Catch handler" {
				require.ErrorIs(t, o.err, errBoom, "its error wraps the first")
			}
		})
	}
	for name, opts := range map[string][]graph.Option{"inline": nil, "with a timeout": {graph.Timeout(time.Minute)}} {
		t.Run("node "+name, func(t *testing.T) {
			g := one(
				t,
				func(context.Context, st) (up, error) { runtime.Goexit(); return up{}, nil },
				append(opts, graph.Retry(retrypolicy.Standard()))...)
			o := play(t.Context(), t, g, superstep.Config{}, st{})
			require.Equal(t, task.ErrGoexit, panicOf(t, o.err).Value)
			require.Equal(t, `node "a"`, panicOf(t, o.err).Whose)
			require.Len(t, only[*task.AttemptStarted](o.events), 1, "not retried")
		})
		t.Run("node caught "+name, func(t *testing.T) {
			g := build(t, func(b *bld) {
				n := b.Node("a", func(context.Context, st) (up, error) { runtime.Goexit(); return up{}, nil }, opts...)
				b.Start(n)
				b.Catch(n, func(_ context.Context, _ st, err error) (up, error) { return up{V: "caught"}, nil })
			})
			o := play(t.Context(), t, g, superstep.Config{}, st{})
			require.Equal(
				t,
				task.ErrGoexit,
				panicOf(t, o.err).Value,
				"nobody catches it, with or without a timeout: the goroutine may be gone",
			)
			require.Empty(t, o.State.V)
		})
	}
}

func TestRule08_AnObserversPanicFailsTheRunAtEveryEvent(t *testing.T) {
	g := build(t, func(b *bld) {
		a := b.Node(
			"a",
			flaky(2, classifier.Transient(errBoom), up{Log: []string{"a"}}),
			graph.Retry(retrypolicy.WorkflowNodeRetryPolicy{MaxAttempts: 2}),
		)
		c := b.Node("c", say("c"))
		d := b.Node("d", say("d"))
		b.Start(a)
		b.Edge(a, c)
		b.Edge(a, d)
	})
	n := len(play(t.Context(), t, g, superstep.Config{Logger: quiet()}, st{}).events)
	for at := range n {
		t.Run(fmt.Sprint("event ", at), func(t *testing.T) {
			i := -1
			var kind task.Kind
			bad := func(ev task.Event) {
				if i++; i == at {
					kind = ev.Head().Kind
					panic(fmt.Sprint("at ", at))
				}
			}
			o := play(t.Context(), t, g, superstep.Config{Logger: quiet(), Observers: []func(task.Event){bad}}, st{})
			require.Error(t, o.err, "the panic at %s is lost", kind)
			p := panicOf(t, o.err)
			require.Equal(t, "observer", p.Whose)
			require.Equal(t, fmt.Sprint("at ", at), p.Value)
			if kind != task.KindRunCompleted {
				require.Len(t, only[*task.RunFailed](o.events), 1, "the other observers see the failure")
			}
		})
	}
}

func TestRule08_AClassifiersPanicIsLoggedAndTheDefaultAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		cfg := superstep.Config{
			Logger:     slog.New(slog.NewTextHandler(&log, nil)),
			Classifier: classifier.Func(func(error) classifier.Classification { panic("ouch") }),
		}
		o := play(t.Context(), t, one(t, flaky(2, statusError(503), up{V: "done"}), graph.Retry(policy(2))), cfg, st{})
		require.NoError(t, o.err)
		require.Equal(t, "done", o.State.V)
		require.Contains(t, log.String(), "classifier panicked")
	})
}

// nilMethod is an error type whose nil pointer cannot tell its text: the commonest mistake with error types.
type nilMethod struct{ text string }

func (e *nilMethod) Error() string { return e.text }

func TestRule08_AnErrorWhoseTextPanicsDoesNotTakeTheProcessDown(t *testing.T) {
	twice := retrypolicy.WorkflowNodeRetryPolicy{MaxAttempts: 2, Retryable: retrypolicy.AnyError}
	for name, opts := range map[string][]graph.Option{"inline": nil, "with retries": {graph.Retry(twice)}} {
		t.Run(name, func(t *testing.T) {
			var bad *nilMethod
			o := play(t.Context(), t, one(t, fails(bad), opts...), superstep.Config{Logger: quiet()}, st{})
			require.Error(t, o.err)
			require.NotEmpty(t, o.err.Error())
			var node *superstep.NodeError
			require.ErrorAs(t, o.err, &node)
			require.Equal(t, "a", node.Node)
		})
	}
	t.Run("Merge", func(t *testing.T) {
		var bad *nilMethod
		b := graph.New("test", graph.Merge(func(s st, _ []graph.Write[up]) (st, error) { return s, bad }))
		b.Start(b.Node("a", say()))
		g, err := b.Compile()
		require.NoError(t, err)
		o := play(t.Context(), t, g, superstep.Config{Logger: quiet()}, st{})
		require.Error(t, o.err)
		require.NotEmpty(t, o.err.Error())
	})
	t.Run("Catch", func(t *testing.T) {
		var bad *nilMethod
		g := build(t, func(b *bld) {
			n := b.Node("a", fails(bad))
			b.Start(n)
			b.Catch(n, func(_ context.Context, _ st, err error) (up, error) { return up{}, errors.Join(errBoom, err) })
		})
		o := play(t.Context(), t, g, superstep.Config{Logger: quiet()}, st{})
		require.Error(t, o.err)
		require.NotPanics(t, func() { _ = o.err.Error() })
	})
}

func TestRule08_APanicIsAFailureForACatchHandler(t *testing.T) {
	g := build(t, func(b *bld) {
		n := b.Node("a", func(context.Context, st) (up, error) { panic("ouch") })
		b.Start(n)
		b.Catch(n, func(_ context.Context, _ st, err error) (up, error) {
			var p *task.PanicError
			if !errors.As(err, &p) {
				return up{}, err
			}
			return up{V: fmt.Sprint(p.Value)}, nil
		})
	})
	o := play(t.Context(), t, g, superstep.Config{}, st{})
	require.NoError(t, o.err)
	require.Equal(t, "ouch", o.State.V)
}

// policyNow retries what its class allows, at once.
func policyNow(attempts int) retrypolicy.WorkflowNodeRetryPolicy {
	return retrypolicy.WorkflowNodeRetryPolicy{MaxAttempts: attempts}
}
