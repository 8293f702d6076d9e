package providers_test

import (
	"context"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
)

// perSecond allows one call a second.
func perSecond() providers.RateLimit {
	return providers.RateLimit{RequestsPerMinute: 60, RequestBurst: 1}
}

func TestRateLimitSpreadsCalls(t *testing.T) {
	for way := range both(nil) {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, p := play("gpt", scripted.On().Reply("ok"))
				p = wrap(t, p, perSecond())
				start := time.Now()
				for i := range 4 {
					_, err := both(p)[way](t.Context())
					require.NoError(t, err)
					require.Equal(t, time.Duration(i)*time.Second, time.Since(start))
				}
			})
		})
	}
}

func TestRateLimitFailsAtOnceIfTheWaitDoesNotFitTheDeadline(t *testing.T) {
	for way := range both(nil) {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				script, p := play("gpt", scripted.On().Reply("ok"))
				p = wrap(t, p, perSecond())
				_, err := p.Chat(t.Context(), hello())
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				start := time.Now()
				_, err = both(p)[way](ctx)
				require.Zero(t, time.Since(start), "nothing is waited")
				require.Equal(t, classifier.RateLimited, classOf(err))
				hint, _ := classifier.RetryHint(err)
				require.Equal(t, time.Second, hint)
				require.True(t, callError(t, err).NotSent)
				require.ErrorContains(t, err, "does not fit the context's deadline")
				require.Len(t, script.Calls(), 1)

				// The refused call took nothing: the next turn is still a second away.
				_, err = p.Chat(t.Context(), hello())
				require.NoError(t, err)
				require.Equal(t, time.Second, time.Since(start))
			})
		})
	}
}

// No further attempt under that deadline: the retry loop sees the hint.
func TestRateLimitUnderADeadlineIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := play("gpt", scripted.On().Reply("ok"))
		p = wrap(t, p, perSecond())
		_, err := p.Chat(t.Context(), hello())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start, attempts := time.Now(), 0
		_, err = retrypolicy.Do(ctx, &retrypolicy.Loop{Policy: retrypolicy.Standard()}, func(ctx context.Context, _ int) (string, error) {
			attempts++
			_, err := p.Chat(ctx, hello())
			return "", err
		})
		require.Equal(t, classifier.RateLimited, classOf(err))
		require.Equal(t, 1, attempts)
		require.Zero(t, time.Since(start))
	})
}

func TestRateLimitTakesATokenForEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script, p := play("gpt", scripted.On().Fail(scripted.Status(503)).Fail(scripted.Status(503)).Reply("ok"))
		p = wrap(t, p, perSecond())
		start := time.Now()
		policy := retrypolicy.Standard()
		policy.InitialDelay = 0
		_, err := retrypolicy.Do(t.Context(), &retrypolicy.Loop{Policy: policy}, func(ctx context.Context, _ int) (string, error) {
			resp, err := p.Chat(ctx, hello())
			return resp.Text(), err
		})
		require.NoError(t, err)
		require.Len(t, script.Calls(), 3)
		require.Equal(t, 2*time.Second, time.Since(start))
	})
}

func TestRateLimitPausesAsLongAsA429Asks(t *testing.T) {
	for way := range both(nil) {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, p := play("gpt", scripted.On().Fail(scripted.RateLimited(10*time.Second)).Reply("ok"))
				p = wrap(t, p, providers.RateLimit{RequestsPerMinute: 60, RequestBurst: 2})
				start := time.Now()
				_, err := both(p)[way](t.Context())
				require.Equal(t, classifier.RateLimited, classOf(err))
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				_, err = both(p)[way](ctx)
				hint, _ := classifier.RetryHint(err)
				require.Equal(t, 10*time.Second, hint, "the pause does not fit the deadline")
				for i, want := range []int{10, 10, 11, 12} { // a burst, and then one a second
					_, err = both(p)[way](t.Context())
					require.NoError(t, err)
					require.Equal(t, time.Duration(want)*time.Second, time.Since(start), "call %d", i)
				}
			})
		})
	}
}

func TestRateLimitPausesThoseWhoWaitAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, slow := play("gpt", scripted.On().Fail(scripted.RateLimited(10*time.Second)).After(500*time.Millisecond))
		script, p := play("gpt", scripted.On().Reply("ok"))
		l, err := perSecond().New()
		require.NoError(t, err)
		slow, p = wrap(t, slow, l), wrap(t, p, l)
		start := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		go func() { _, _ = slow.Chat(t.Context(), hello()) }()
		synctest.Wait()
		for range 3 {
			go func() {
				_, err := p.Chat(t.Context(), hello())
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					at = append(at, time.Since(start))
				}
			}()
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, script.Calls(), 3)
		require.Equal(t, []time.Duration{10500 * time.Millisecond, 11500 * time.Millisecond, 12500 * time.Millisecond}, at)
	})
}

func TestRateLimitSendsAwayThoseForWhomAPauseIsTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, slow := play("gpt", scripted.On().Fail(scripted.RateLimited(10*time.Second)).After(500*time.Millisecond))
		l, err := perSecond().New()
		require.NoError(t, err)
		slow = wrap(t, slow, l)
		p := wrap(t, &fake{}, l)
		start := time.Now()
		go func() { _, _ = slow.Chat(t.Context(), hello()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err = p.Chat(ctx, hello())
		require.Equal(t, classifier.RateLimited, classOf(err))
		require.Equal(t, 500*time.Millisecond, time.Since(start), "as soon as the pause is known")
		hint, _ := classifier.RetryHint(err)
		require.Equal(t, 10*time.Second, hint)
		_, err = p.Chat(t.Context(), hello())
		require.NoError(t, err)
		require.Equal(t, 10500*time.Millisecond, time.Since(start), "its turn went to the next")
	})
}

// A call that ends during a pause and has used more than estimated must not refill the bucket from the pause on.
func TestRateLimitCountsThroughAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited, first := play("gpt", scripted.On().Fail(scripted.RateLimited(100*time.Second)))
		_, second := play("gpt", scripted.On().Reply("long").Usage(11, 0).After(50*time.Second))
		l, err := providers.RateLimit{TokensPerMinute: 60, TokenBurst: 30, Estimate: func(providers.Request) int { return 10 }}.New()
		require.NoError(t, err)
		first, second = wrap(t, first, l), wrap(t, second, l)
		p := wrap(t, &fake{}, l)
		go func() { _, _ = second.Chat(t.Context(), hello()) }()
		synctest.Wait()
		_, err = first.Chat(t.Context(), hello())
		require.Error(t, err)
		require.Len(t, limited.Calls(), 1)
		start := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		for range 6 {
			go func() {
				_, _ = p.Chat(t.Context(), hello())
				mu.Lock()
				defer mu.Unlock()
				at = append(at, time.Since(start).Round(time.Second))
			}()
			synctest.Wait()
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		_, err = p.Chat(t.Context(), hello())
		require.NoError(t, err)
		// A burst of three, then one in ten seconds.
		seconds := make([]float64, len(at))
		for i, d := range at {
			seconds[i] = d.Seconds()
		}
		require.Equal(t, []float64{100, 100, 100, 110, 120, 130}, seconds)
	})
}

func TestRateLimitIsNotPausedBy(t *testing.T) {
	for name, f := range map[string]scripted.Failure{
		"a 503 with a hint":    scripted.HTTP(503, map[string][]string{"Retry-After": {"60"}}, ""),
		"a 429 without a hint": scripted.RateLimited(0),
		"a quota with a hint": scripted.HTTP(
			429, map[string][]string{"Retry-After": {"60"}}, `{"error":{"code":"insufficient_quota","message":"x"}}`,
		),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, p := play("gpt", scripted.On().Fail(f).Reply("ok"))
				p = wrap(t, p, providers.RateLimit{RequestsPerMinute: 60, RequestBurst: 2})
				start := time.Now()
				_, err := p.Chat(t.Context(), hello())
				require.Error(t, err)
				_, err = p.Chat(t.Context(), hello())
				require.NoError(t, err)
				require.Zero(t, time.Since(start))
			})
		})
	}
	t.Run("another limiter's word", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, p := play("gpt", scripted.On().Reply("ok"))
			p = wrap(t, p, providers.RateLimit{RequestsPerMinute: 6000, RequestBurst: 9},
				providers.RateLimit{RequestsPerMinute: 1, MaxWait: time.Second})
			_, err := p.Chat(t.Context(), hello())
			require.NoError(t, err)
			for range 20 { // what was not sent costs the outer limiter nothing either
				start := time.Now()
				_, err = p.Chat(t.Context(), hello())
				require.Equal(t, classifier.RateLimited, classOf(err))
				require.Zero(t, time.Since(start))
			}
		})
	})
}

func TestRateLimitRefusesAWaitBeyondMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := play("gpt", scripted.On().Fail(scripted.RateLimited(86400*time.Second)).Reply("ok"))
		p = wrap(t, p, perSecond())
		_, err := p.Chat(t.Context(), hello())
		require.Error(t, err)
		_, err = p.Chat(t.Context(), hello())
		require.ErrorContains(t, err, "longer than RateLimit.MaxWait (5m0s)")
		hint, _ := classifier.RetryHint(err)
		require.Equal(t, 86401*time.Second, hint.Round(time.Second)+time.Second)
	})
}

func TestRateLimitCorrectsItsEstimate(t *testing.T) {
	for name, tc := range map[string]struct {
		used int           // tokens of the first call, estimated as 100
		wait time.Duration // before a second call of 100, with 100 tokens of burst and one a second
	}{
		"as estimated": {100, 100 * time.Second},
		"less":         {10, 10 * time.Second},
		"more":         {130, 130 * time.Second},
		"much more":    {230, 200 * time.Second},
		"not reported": {0, 100 * time.Second},
		"nonsense":     {math.MaxInt32, 200 * time.Second},
	} {
		for way := range both(nil) {
			t.Run(name+" "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					_, p := play("gpt", scripted.On().Reply("ok").Usage(tc.used, 0))
					p = wrap(t, p, providers.RateLimit{
						TokensPerMinute: 60, TokenBurst: 100, Estimate: func(providers.Request) int { return 100 }, MaxWait: time.Hour,
					})
					start := time.Now()
					for range 2 {
						_, err := both(p)[way](t.Context())
						require.NoError(t, err)
					}
					require.Equal(t, tc.wait, time.Since(start).Round(time.Millisecond))
				})
			})
		}
	}
}

func TestRateLimitCountsWhatAFailedAnswerUsed(t *testing.T) {
	for way := range both(nil) {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, p := play("gpt", scripted.On().Fail(scripted.Truncated("x")).Usage(20, 0))
				hundred := func(providers.Request) int { return 100 }
				p = wrap(t, p, providers.RateLimit{TokensPerMinute: 60, TokenBurst: 100, Estimate: hundred})
				start := time.Now()
				for range 2 {
					_, err := both(p)[way](t.Context())
					require.Equal(t, classifier.InvalidResponse, classOf(err))
				}
				require.Equal(t, 20*time.Second, time.Since(start).Round(time.Millisecond))
			})
		})
	}
}

func TestRateLimitRefusesARequestLargerThanItsBurst(t *testing.T) {
	script, p := play("gpt", scripted.On().Reply("ok"))
	p = wrap(t, p, providers.RateLimit{TokensPerMinute: 1000})
	req := hello()
	req.MaxCompletionTokens = 1001
	_, err := p.Chat(t.Context(), req)
	require.Equal(t, classifier.InvalidRequest, classOf(err))
	require.ErrorContains(t, err, "exceed RateLimit.TokenBurst (1000)")
	require.True(t, callError(t, err).NotSent)
	require.Empty(t, script.Calls())
}

func TestRateLimitWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script, p := play("gpt", scripted.On().Reply("ok"))
		p = wrap(t, p, perSecond())
		_, err := p.Chat(t.Context(), hello())
		require.NoError(t, err)
		start := time.Now()
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(300*time.Millisecond, func() { cancel(&openai.APIError{HTTPStatusCode: 503}) })
		_, err = p.Chat(ctx, hello())
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, classifier.Canceled, classOf(err))
		require.True(t, callError(t, err).NotSent)
		require.Equal(t, 300*time.Millisecond, time.Since(start))
		_, err = p.Chat(ctx, hello())
		require.ErrorIs(t, err, context.Canceled, "and none begins under an ended one")
		_, err = p.Chat(t.Context(), hello())
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(start), "its token went back")
		require.Len(t, script.Calls(), 2)
	})
}

func TestRateLimitNeverAllowsMoreThanItsBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := play("gpt", scripted.On().Reply("ok").Usage(1, 0))
		p = wrap(t, p, providers.RateLimit{TokensPerMinute: 60, TokenBurst: 10, Estimate: func(providers.Request) int { return 10 }})
		for range 20 { // each gives nine tokens back, which must not pile up
			_, err := p.Chat(t.Context(), hello())
			require.NoError(t, err)
		}
		time.Sleep(time.Hour)
		start := time.Now()
		for range 20 {
			_, err := p.Chat(t.Context(), hello())
			require.NoError(t, err)
		}
		// 20 calls use 20 tokens, of which 10 are there; the last call needs all 10 of the bucket before it may start.
		require.Equal(t, 19*time.Second, time.Since(start).Round(time.Millisecond))
	})
}

func TestRateLimitEstimatesTokens(t *testing.T) {
	base := providers.RateLimit{TokensPerMinute: 1_000_000, TokenBurst: 1, CompletionTokens: 10}
	for name, tc := range map[string]struct {
		change func(*providers.Request)
		want   string
	}{
		"text":      {func(r *providers.Request) { r.Messages[0].Content = strings.Repeat("x", 400) }, "114 tokens"},
		"a maximum": {func(r *providers.Request) { r.MaxTokens = 50 }, "55 tokens"}, //nolint:staticcheck // deprecated, yet in use
		"several":   {func(r *providers.Request) { r.N = 3 }, "35 tokens"},
		"a tool":    {func(r *providers.Request) { r.Tools = []providers.Tool{{Type: "function"}} }, "20 tokens"},
		"a tool call": {func(r *providers.Request) {
			r.Messages[0].ToolCalls = []providers.ToolCall{scripted.Tool("a", "name", "args")}
		}, "17 tokens"},
		"text and image": {func(r *providers.Request) {
			image := openai.ChatMessagePart{ImageURL: &openai.ChatMessageImageURL{}}
			r.Messages[0] = providers.Message{MultiContent: []openai.ChatMessagePart{{Text: "12345678"}, image}}
		}, "1016 tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			req := hello()
			tc.change(&req)
			_, err := wrap(t, &fake{}, base).Chat(t.Context(), req)
			require.ErrorContains(t, err, "estimated "+tc.want)
		})
	}
}

func TestRateLimitIsSharedBetweenProviders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := perSecond().New()
		require.NoError(t, err)
		start := time.Now()
		for range 2 {
			_, err := wrap(t, &fake{}, l).Chat(t.Context(), hello())
			require.NoError(t, err)
		}
		require.Equal(t, time.Second, time.Since(start))
	})
}

func TestRateLimitUnderManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := play("gpt", scripted.On().Reply("ok").Usage(3, 3))
		p = wrap(t, p, providers.RateLimit{RequestsPerMinute: 600, TokensPerMinute: 60_000, RequestBurst: 1})
		start := time.Now()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				for _, call := range both(p) {
					_, err := call(t.Context())
					require.NoError(t, err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, 19900*time.Millisecond, time.Since(start).Round(10*time.Millisecond))
	})
}

func TestRateLimitLetsPanicsPass(t *testing.T) {
	p := wrap(t, &fake{
		chat:   func(context.Context, providers.Request) (*providers.Response, error) { panic("mine") },
		stream: func(context.Context, func(*providers.Delta, error) bool) { panic("mine") },
	}, providers.RateLimit{RequestsPerMinute: 6000, RequestBurst: 10})
	for _, call := range both(p) {
		require.PanicsWithValue(t, "mine", func() { _, _ = call(t.Context()) })
	}
}

func TestRateLimitRefusesABadConfiguration(t *testing.T) {
	bad := providers.RateLimit{
		RequestsPerMinute: -1, TokensPerMinute: -1, RequestBurst: -1, TokenBurst: -1, CompletionTokens: -1, MaxWait: -1,
	}
	_, err := bad.New()
	requireProblems(t, err, "providers.RateLimit",
		"RequestsPerMinute", "TokensPerMinute", "RequestBurst", "TokenBurst", "CompletionTokens", "MaxWait")
	_, err = bad.Wrap(&fake{})
	require.Error(t, err)
	requireProblems(t, providers.RateLimit{}.Validate(), "providers.RateLimit", "RequestsPerMinute")
}

// endless is an error whose tree never ends.
type endless struct{}

func (*endless) Error() string   { return "endless" }
func (e *endless) Unwrap() error { return e }

func TestMiddlewareSurvivesAnErrorWithoutEnd(t *testing.T) {
	p := &fake{name: "odd", chat: func(context.Context, providers.Request) (*providers.Response, error) {
		return nil, &endless{}
	}}
	for _, m := range []providers.Middleware{
		providers.RateLimit{RequestsPerMinute: 600}, providers.Breaker{}, providers.Timeout{Call: time.Minute},
		providers.MaxConcurrent{Calls: 1}, providers.Fallback{Then: []providers.Provider{p}},
	} {
		wrapped, err := providers.Wrap(p, m)
		require.NoError(t, err)
		_, err = wrapped.Chat(t.Context(), hello())
		require.Error(t, err)
	}
}
