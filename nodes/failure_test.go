package nodes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/nodes"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

// Each failure reaches the run's error with its class, and is asked as often as its class says.
func TestFailuresPassThroughNodeError(t *testing.T) {
	for _, row := range []struct {
		name     string
		failure  scripted.Failure
		class    classifier.RunErrorClass
		attempts int
		status   int
	}{
		{"400", scripted.Status(400), classifier.InvalidRequest, 1, 400},
		{"401", scripted.Status(401), classifier.Unauthorized, 1, 401},
		{"403", scripted.Status(403), classifier.Unauthorized, 1, 403},
		{"404", scripted.Status(404), classifier.InvalidRequest, 1, 404},
		{"429", scripted.RateLimited(0), classifier.RateLimited, 3, 429},
		{"429 with hint", scripted.RateLimited(2 * time.Millisecond), classifier.RateLimited, 3, 429},
		{"quota", scripted.Quota(), classifier.QuotaExceeded, 1, 429},
		{"500", scripted.Status(500), classifier.ProviderError, 3, 500},
		{"503", scripted.Status(503), classifier.ProviderError, 3, 503},
		{"overloaded", scripted.Overloaded(), classifier.ProviderError, 3, 529},
		{"page", scripted.Page(524), classifier.ProviderError, 3, 524},
		{"error in 200", scripted.ErrorIn200("server_error"), classifier.ProviderError, 3, 0},
		{"no choices", scripted.NoChoices(), classifier.ProviderError, 3, 0},
		{"prompt filtered", scripted.PromptFiltered(), classifier.ContentFiltered, 1, 0},
		{"filtered", scripted.Filtered("half "), classifier.ContentFiltered, 1, 0},
		{"refusal", scripted.Refusal("I would rather not."), classifier.ContentFiltered, 1, 0},
		{"length", scripted.Truncated("half "), classifier.InvalidResponse, 1, 0},
		{"cut", scripted.Cut("half "), classifier.ProviderError, 3, 0},
		{"reset", scripted.Reset("half "), classifier.ProviderError, 3, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			for name, open := range faces {
				t.Run(name, func(t *testing.T) {
					for name, opts := range map[string][]nodes.ChatOption{"stream": nil, "plain": {nodes.Plain()}} {
						t.Run(name, func(t *testing.T) {
							script := scripted.New(scripted.On().Fail(row.failure))
							o := runChat(t.Context(), t, newChat(open(t, script), opts...), graph.Retry(policy()))
							var failed *superstep.NodeError
							require.ErrorAs(t, o.err, &failed)
							require.Equal(t, "chat", failed.Node)
							require.Equal(t, row.class, failed.Class)
							require.Equal(t, row.attempts, failed.Attempts)
							require.Len(t, script.Calls(), row.attempts)
							var call *providers.CallError
							require.ErrorAs(t, o.err, &call)
							require.Equal(t, "gpt", call.Provider)
							require.Equal(t, "gpt-x", call.Model)
							status, _ := classifier.HTTPStatus(o.err)
							require.Equal(t, row.status, status)
							require.Empty(t, o.State.Answers)
						})
					}
				})
			}
		})
	}
}

func TestAServersHintIsAFloor(t *testing.T) {
	p := retrypolicy.New()
	p.MaxAttempts, p.MaxDelay = 3, 30*time.Second
	t.Run("longer than the policy's delay", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			script := scripted.New(scripted.On().Fail(scripted.RateLimited(7 * time.Second)).Fail(scripted.RateLimited(0)).Reply("yes"))
			began := time.Now()
			o := runChat(t.Context(), t, newChat(script.Provider("gpt")), graph.Retry(p))
			require.NoError(t, o.err)
			require.Equal(t, 7*time.Second+2*time.Second, time.Since(began))
			failed := of[*task.AttemptFailed](o)
			require.Equal(t, []time.Duration{7 * time.Second, 2 * time.Second}, []time.Duration{failed[0].Delay, failed[1].Delay})
			require.Equal(t, []time.Duration{7 * time.Second, 0}, []time.Duration{failed[0].Hint, failed[1].Hint})
		})
	})
	t.Run("longer than MaxDelay", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			script := scripted.New(scripted.On().Fail(scripted.RateLimited(time.Hour)).Reply("never"))
			began := time.Now()
			o := runChat(t.Context(), t, newChat(script.Provider("gpt")), graph.Retry(p))
			require.Zero(t, time.Since(began))
			var gaveUp *retrypolicy.AttemptsError
			require.ErrorAs(t, o.err, &gaveUp)
			require.Equal(t, retrypolicy.ReasonWaitTooLong, gaveUp.Reason)
			require.Equal(t, time.Hour, gaveUp.Hint)
			require.Len(t, script.Calls(), 1)
		})
	})
	t.Run("over HTTP", func(t *testing.T) {
		script := scripted.New(scripted.On().Fail(scripted.RateLimited(30 * time.Millisecond)).Reply("yes"))
		o := runChat(t.Context(), t, newChat(overHTTP(t, script)), graph.Retry(policy()))
		require.NoError(t, o.err)
		failed := of[*task.AttemptFailed](o)[0]
		require.Equal(t, 30*time.Millisecond, failed.Hint)
		require.Equal(t, 30*time.Millisecond, failed.Delay)
	})
}

func TestCancelMidStream(t *testing.T) {
	for name, open := range faces {
		t.Run(name, func(t *testing.T) {
			script := scripted.New(scripted.On().Fail(scripted.Stall("the ", "moon ")))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			b := graph.New("test", graph.Fields[state, update]())
			b.Start(b.Node("chat", newChat(open(t, script)), graph.Retry(policy())))
			o := runGraph(ctx, t, b, superstep.Config{Observers: []func(task.Event){func(ev task.Event) {
				if token, ok := ev.(*task.TokenDelta); ok && token.Text == "moon " {
					cancel()
				}
			}}})
			var cancelled *superstep.CancelledError
			require.ErrorAs(t, o.err, &cancelled)
			require.ErrorIs(t, o.err, context.Canceled)
			require.Len(t, of[*task.AttemptStarted](o), 1)
			require.Len(t, script.Calls(), 1)
			require.Empty(t, o.State.Answers)
			require.Zero(t, o.Abandoned)
		})
	}
}

func TestLeavingTheRunsStreamEndsTheCall(t *testing.T) {
	script := scripted.New(scripted.On().Fail(scripted.Stall("the ", "moon ")))
	b := graph.New("test", graph.Fields[state, update]())
	b.Start(b.Node("chat", newChat(overHTTP(t, script))))
	g, err := b.Compile()
	require.NoError(t, err)
	r, err := superstep.NewRunner(g, superstep.Config{})
	require.NoError(t, err)
	for ev, err := range r.Stream(t.Context(), state{}) {
		require.NoError(t, err)
		if _, ok := ev.(*task.TokenDelta); ok {
			break
		}
	}
	require.Len(t, script.Calls(), 1)
}

func TestAStalledStreamIsATimeoutOfItsAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := scripted.New(scripted.On().Fail(scripted.Stall("the ")).Tokens("the ", "moon"))
		began := time.Now()
		o := runChat(t.Context(), t, newChat(script.Provider("gpt")), graph.Retry(policy()), graph.Timeout(10*time.Second))
		require.NoError(t, o.err)
		require.Equal(t, 10*time.Second+time.Millisecond, time.Since(began))
		require.Equal(t, "start1 the1 fail1 discard1 start2 the2 moon2 done2", story(o))
		require.Equal(t, string(classifier.Timeout), of[*task.AttemptFailed](o)[0].Class)
		require.Equal(t, []string{"the moon"}, o.State.Answers)
	})
}

// The fallback takes over within the attempt: nothing is retried, and the events say who answers.
func TestFallbackInsideANode(t *testing.T) {
	down := scripted.New(scripted.On().Fail(scripted.Status(503)))
	up := scripted.New(scripted.On().Tokens("the ", "moon"))
	p, err := providers.Wrap(overHTTP(t, down),
		providers.Fallback{Then: []providers.Provider{up.Provider("backup")}},
		providers.Breaker{Failures: 2},
	)
	require.NoError(t, err)
	for range 4 {
		o := runChat(t.Context(), t, newChat(p), graph.Retry(policy()))
		require.NoError(t, o.err)
		require.Equal(t, "start1 the1 moon1 done1", story(o))
		require.Equal(t, []string{"the moon"}, o.State.Answers)
		require.Equal(t, "backup", of[*task.TokenDelta](o)[0].Provider)
	}
	require.Len(t, down.Calls(), 2, "the breaker is open after two")
	require.Len(t, up.Calls(), 4)
}

// All fail: the error leads with the first, which decides that it is retried; the 401 of the second is a field.
func TestAFallbackThatFailsIsRetriedByItsFirst(t *testing.T) {
	first := scripted.New(scripted.On().Fail(scripted.Status(503)))
	second := scripted.New(scripted.On().Fail(scripted.Status(401)))
	p, err := providers.Wrap(overHTTP(t, first), providers.Fallback{Then: []providers.Provider{overHTTP(t, second)}})
	require.NoError(t, err)
	o := runChat(t.Context(), t, newChat(p), graph.Retry(policy()))
	var failed *superstep.NodeError
	require.ErrorAs(t, o.err, &failed)
	require.Equal(t, classifier.ProviderError, failed.Class)
	require.Equal(t, 3, failed.Attempts)
	var all *providers.FallbackError
	require.ErrorAs(t, o.err, &all)
	require.Equal(t, classifier.Unauthorized, all.Failures[1].Class)
}

// The remaining time of an open breaker is a floor for the wait, so the next attempt is the probe that closes it.
func TestAnOpenBreakerIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := scripted.New(scripted.On().Fail(scripted.Status(503)).Reply("yes"))
		p, err := providers.Wrap(script.Provider("gpt"), providers.Breaker{Failures: 1, OpenFor: 10 * time.Second})
		require.NoError(t, err)
		retry := retrypolicy.New()
		retry.MaxAttempts = 3
		began := time.Now()
		o := runChat(t.Context(), t, newChat(p), graph.Retry(retry))
		require.NoError(t, o.err)
		require.Equal(t, 10*time.Second, time.Since(began))
		require.Len(t, script.Calls(), 2, "the open breaker made no call")
		failed := of[*task.AttemptFailed](o)
		require.Equal(t, string(classifier.ProviderUnavailable), failed[1].Class)
		require.Equal(t, 9*time.Second, failed[1].Hint)
		require.Equal(t, 2, o.Usage.Calls)
	})
}
