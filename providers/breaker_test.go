package providers_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/sashabaranov/go-openai"
	"github.com/sony/gobreaker/v2"
	"github.com/stretchr/testify/require"
)

func circuit(t *testing.T, b providers.Breaker) *providers.Circuit {
	t.Helper()
	c, err := b.New()
	require.NoError(t, err)
	return c
}

// open makes a circuit open by failures.
func open(t *testing.T, c *providers.Circuit) {
	t.Helper()
	_, p := play("down", scripted.On().Fail(scripted.Status(503)))
	p = wrap(t, p, c)
	for c.State() == providers.CircuitClosed {
		_, err := p.Chat(t.Context(), hello())
		require.Error(t, err)
	}
}

func TestBreakerOpensAfterFailuresInARowAndSaysWhenItMayClose(t *testing.T) {
	for way := range both(nil) {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				script, p := play("gpt", scripted.On().Fail(scripted.Status(503)))
				c := circuit(t, providers.Breaker{Failures: 3, OpenFor: 10 * time.Second})
				p = wrap(t, p, c)
				call := both(p)[way]
				for range 3 {
					_, err := call(t.Context())
					require.Equal(t, classifier.ProviderError, classOf(err))
				}
				require.Equal(t, providers.CircuitOpen, c.State())
				time.Sleep(4 * time.Second)
				_, err := call(t.Context())
				var e *providers.ProviderUnavailableError
				require.ErrorAs(t, err, &e)
				require.Equal(t, &providers.ProviderUnavailableError{Provider: "gpt", RetryAfter: 6 * time.Second}, e)
				require.ErrorIs(t, err, gobreaker.ErrOpenState)
				require.Equal(t, classifier.ProviderUnavailable, classOf(err))
				require.EqualError(t, err, `pawl: provider "gpt": not called: its breaker is open for another 6s`)
				hint, ok := classifier.RetryHint(err)
				require.True(t, ok)
				require.Len(t, script.Calls(), 3, "an open breaker makes no call")

				time.Sleep(hint) // whoever waits as long as it says gets through
				_, err = call(t.Context())
				require.Equal(t, classifier.ProviderError, classOf(err), "the probe")
				require.Equal(t, providers.CircuitOpen, c.State())
				require.Equal(t, 10*time.Second, c.RetryAfter())
			})
		})
	}
}

func TestBreakerClosesWhenAProbeSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := play("gpt", scripted.On().Fail(scripted.Status(500)).Fail(scripted.Status(500)).Reply("back"))
		c := circuit(t, providers.Breaker{Failures: 2, OpenFor: time.Second})
		p = wrap(t, p, c)
		for range 2 {
			_, err := p.Chat(t.Context(), hello())
			require.Error(t, err)
		}
		time.Sleep(time.Second)
		require.Equal(t, providers.CircuitHalfOpen, c.State())
		require.Zero(t, c.RetryAfter())
		_, err := p.Chat(t.Context(), hello())
		require.NoError(t, err)
		require.Equal(t, providers.CircuitClosed, c.State())
	})
}

// What is no sign in either direction. A breaker that opens after one failure stays closed, and one that is half-open stays
// so and lets the next probe through.
func TestBreakerDoesNotCount(t *testing.T) {
	cancelled := func(t *testing.T) context.Context {
		t.Helper()
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(&openai.APIError{HTTPStatusCode: 503})
		return ctx
	}
	late := func(t *testing.T) context.Context {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		t.Cleanup(cancel)
		return ctx
	}
	timedOutSibling := func(t *testing.T) context.Context {
		t.Helper()
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(&retrypolicy.TimeoutError{After: time.Second})
		return ctx
	}
	stall := scripted.Stall("a")
	usedUp := func(t *testing.T) providers.Middleware {
		t.Helper()
		l, err := providers.RateLimit{RequestsPerMinute: 1, MaxWait: time.Millisecond}.New()
		require.NoError(t, err)
		_, p := play("x", scripted.On().Reply("takes the only token"))
		_, err = wrap(t, p, l).Chat(t.Context(), hello())
		require.NoError(t, err)
		return l
	}
	timeout := func(*testing.T) providers.Middleware { return providers.Timeout{Call: time.Second} }
	for name, tc := range map[string]struct {
		fail  scripted.Failure
		ctx   func(*testing.T) context.Context
		inner func(*testing.T) providers.Middleware
	}{
		"a cancel whose cause is a 503":            {stall, cancelled, nil},
		"a cancel whose cause is a timeout":        {stall, timedOutSibling, nil},
		"the caller's deadline":                    {stall, late, nil},
		"the caller's deadline before a Timeout's": {stall, late, timeout},
		"400":                   {scripted.Status(400), (*testing.T).Context, nil},
		"401":                   {scripted.Status(401), (*testing.T).Context, nil},
		"404":                   {scripted.Status(404), (*testing.T).Context, nil},
		"408":                   {scripted.Status(408), (*testing.T).Context, nil},
		"429":                   {scripted.RateLimited(0), (*testing.T).Context, nil},
		"a quota":               {scripted.Quota(), (*testing.T).Context, nil},
		"a rate limit in a 200": {scripted.ErrorIn200("rate_limit_exceeded"), (*testing.T).Context, nil},
		"our own limiter":       {stall, (*testing.T).Context, usedUp},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, p := play("gpt", scripted.On().Fail(tc.fail))
				c := circuit(t, providers.Breaker{Failures: 1, OpenFor: time.Second})
				outermost := []providers.Middleware{c}
				if tc.inner != nil {
					outermost = append(outermost, tc.inner(t))
				}
				p = wrap(t, p, outermost...)
				for range 10 {
					for _, call := range both(p) {
						_, err := call(tc.ctx(t))
						require.Error(t, err)
					}
				}
				require.Equal(t, providers.CircuitClosed, c.State())

				open(t, c)
				time.Sleep(time.Second)
				for range 3 {
					for _, call := range both(p) {
						_, err := call(tc.ctx(t))
						require.NotEqual(t, classifier.ProviderUnavailable, classOf(err), "the next probe is let through")
					}
				}
				require.Equal(t, providers.CircuitHalfOpen, c.State())
			})
		})
	}
}

func TestBreakerCounts(t *testing.T) {
	attempt := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeoutCause(ctx, time.Second, &retrypolicy.TimeoutError{After: time.Second})
	}
	plain := context.WithCancel
	for name, tc := range map[string]struct {
		fail         scripted.Failure
		ctx          func(context.Context) (context.Context, context.CancelFunc)
		outer, inner []providers.Middleware
		streams      bool // only streams fail so
	}{
		"503":                    {scripted.Status(503), plain, nil, nil, false},
		"529":                    {scripted.Overloaded(), plain, nil, nil, false},
		"an error in a 200":      {scripted.ErrorIn200(""), plain, nil, nil, false},
		"a cut answer":           {scripted.Cut("a"), plain, nil, nil, false},
		"an attempt's timeout":   {scripted.Stall("a"), attempt, nil, nil, false},
		"a Timeout inside":       {scripted.Stall("a"), plain, nil, []providers.Middleware{providers.Timeout{Call: time.Second}}, false},
		"a Timeout around":       {scripted.Stall("a"), plain, []providers.Middleware{providers.Timeout{Call: time.Second}}, nil, false},
		"an idle Timeout inside": {scripted.Stall("a"), plain, nil, []providers.Middleware{providers.Timeout{Idle: time.Second}}, true},
		"an idle Timeout around": {scripted.Stall("a"), plain, []providers.Middleware{providers.Timeout{Idle: time.Second}}, nil, true},
	} {
		for way := range both(nil) {
			if tc.streams && way != "Stream" {
				continue
			}
			t.Run(name+" "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					_, p := play("gpt", scripted.On().Fail(tc.fail))
					c := circuit(t, providers.Breaker{Failures: 2})
					p = wrap(t, p, append(append(tc.outer, c), tc.inner...)...)
					for range 2 {
						require.Equal(t, providers.CircuitClosed, c.State())
						ctx, cancel := tc.ctx(t.Context())
						_, err := both(p)[way](ctx)
						cancel()
						require.Error(t, err)
					}
					require.Equal(t, providers.CircuitOpen, c.State())
				})
			})
		}
	}
	t.Run("errors of unknown class", func(t *testing.T) {
		c := circuit(t, providers.Breaker{Failures: 1})
		p := wrap(t, &fake{chat: func(context.Context, providers.Request) (*providers.Response, error) {
			return nil, errors.New("boom")
		}}, c)
		_, err := p.Chat(t.Context(), hello())
		require.Error(t, err)
		require.Equal(t, providers.CircuitOpen, c.State())
	})
}

func TestBreakerTakesARefusalForASuccess(t *testing.T) {
	for name, f := range map[string]scripted.Failure{"refusal": scripted.Refusal("no"), "truncated": scripted.Truncated("x")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, p := play("gpt", scripted.On().Fail(f))
				c := circuit(t, providers.Breaker{OpenFor: time.Second})
				open(t, c)
				time.Sleep(time.Second)
				_, err := wrap(t, p, c).Chat(t.Context(), hello())
				require.Error(t, err)
				require.Equal(t, providers.CircuitClosed, c.State(), "the provider answered")
			})
		})
	}
}

// The class is the classifier's; that a 4xx and the end of a context are no signs is not for it to say.
func TestBreakerCountsByItsClassifier(t *testing.T) {
	always := func(class classifier.RunErrorClass) classifier.RunErrorClassifier {
		return classifier.Func(func(error) classifier.Classification { return classifier.Classification{Class: class} })
	}
	panics := classifier.Func(func(error) classifier.Classification { panic("mine") })
	var none classifier.Func
	const opens, neutral, closes = "opens", "neutral", "closes"
	for name, tc := range map[string]struct {
		fail  scripted.Failure
		rules classifier.RunErrorClassifier
		want  string
	}{
		"a 500 is a failure":            {scripted.Status(500), nil, opens},
		"a nil function is the default": {scripted.Status(500), none, opens},
		"a 500 that is a filter's word": {scripted.Status(500), always(classifier.ContentFiltered), closes},
		"a 500 that is a bad answer":    {scripted.Status(500), always(classifier.InvalidResponse), closes},
		"a 500 that is a rate limit":    {scripted.Status(500), always(classifier.RateLimited), neutral},
		"a 500 that is a bad request":   {scripted.Status(500), always(classifier.InvalidRequest), neutral},
		"a refusal that is a failure":   {scripted.Refusal("no"), always(classifier.ProviderError), opens},
		"a rate limit in a 200 that is a failure": {
			scripted.ErrorIn200("rate_limit_exceeded"), always(classifier.ProviderError), opens,
		},
		"a class that is none is unknown":                         {scripted.Refusal("no"), always("made up"), opens},
		"a 400 that is called a failure":                          {scripted.Status(400), always(classifier.ProviderError), neutral},
		"a 429 that is called a failure":                          {scripted.RateLimited(0), always(classifier.ProviderError), neutral},
		"a panic leaves it to the default, which knows a 500":     {scripted.Status(500), panics, opens},
		"a panic leaves it to the default, which knows a refusal": {scripted.Refusal("no"), panics, closes},
	} {
		for way := range both(nil) {
			t.Run(name+" "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := circuit(t, providers.Breaker{Failures: 1, OpenFor: time.Second, Classifier: tc.rules})
					_, p := play("gpt", scripted.On().Fail(tc.fail))
					call := both(wrap(t, p, c))[way]
					_, err := call(t.Context())
					require.Error(t, err)
					require.Equal(t, tc.want == opens, c.State() == providers.CircuitOpen)

					halfOpen := circuit(t, providers.Breaker{Failures: 1, OpenFor: time.Second, Classifier: tc.rules})
					panicky := &fake{chat: func(context.Context, providers.Request) (*providers.Response, error) { panic("down") }}
					require.Panics(t, func() { _, _ = wrap(t, panicky, halfOpen).Chat(t.Context(), hello()) })
					time.Sleep(time.Second)
					require.Equal(t, providers.CircuitHalfOpen, halfOpen.State())
					_, err = both(wrap(t, p, halfOpen))[way](t.Context())
					require.Error(t, err)
					require.Equal(t, map[string]providers.CircuitState{
						opens: providers.CircuitOpen, neutral: providers.CircuitHalfOpen, closes: providers.CircuitClosed,
					}[tc.want], halfOpen.State())
				})
			})
		}
	}
	t.Run("a cancelled call is not classified", func(t *testing.T) {
		c := circuit(t, providers.Breaker{Failures: 1, Classifier: always(classifier.ProviderError)})
		_, p := play("gpt", scripted.On().Reply("x"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := wrap(t, p, c).Chat(ctx, hello())
		require.Error(t, err)
		require.Equal(t, providers.CircuitClosed, c.State())
	})
}

// However a probe ends, the breaker goes on.
func TestBreakerAlwaysLearnsHowAProbeEnded(t *testing.T) {
	halfOpen := func(t *testing.T) *providers.Circuit {
		t.Helper()
		c := circuit(t, providers.Breaker{OpenFor: time.Second, ProbeTimeout: time.Minute})
		open(t, c)
		time.Sleep(time.Second)
		return c
	}
	panics := &fake{
		chat:   func(context.Context, providers.Request) (*providers.Response, error) { panic("mine") },
		stream: func(context.Context, func(*providers.Delta, error) bool) { panic("mine") },
	}
	exits := &fake{
		chat: func(context.Context, providers.Request) (*providers.Response, error) {
			runtime.Goexit()
			return answer("never"), nil
		},
		stream: func(context.Context, func(*providers.Delta, error) bool) { runtime.Goexit() },
	}
	for way := range both(nil) {
		t.Run("panic "+way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := halfOpen(t)
				require.PanicsWithValue(t, "mine", func() { _, _ = both(wrap(t, panics, c))[way](t.Context()) })
				require.Equal(t, providers.CircuitOpen, c.State())
			})
		})
		t.Run("Goexit "+way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := halfOpen(t)
				p := wrap(t, exits, c)
				go func() { _, _ = both(p)[way](t.Context()) }()
				synctest.Wait()
				require.Equal(t, providers.CircuitOpen, c.State())
			})
		})
		t.Run("a hanging probe "+way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := halfOpen(t)
				_, stuck := play("gpt", scripted.On().Fail(scripted.Stall("a")))
				p := wrap(t, stuck, c)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() { _, _ = both(p)[way](ctx) }()
				synctest.Wait()
				_, err := both(p)[way](t.Context())
				var e *providers.ProviderUnavailableError
				require.ErrorAs(t, err, &e)
				require.True(t, e.Probing)
				require.ErrorIs(t, err, gobreaker.ErrTooManyRequests)
				require.Equal(t, classifier.ProviderUnavailable, classOf(err))
				require.ErrorContains(t, err, "a probe is under way")
				_, hinted := classifier.RetryHint(err)
				require.False(t, hinted)
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Equal(t, providers.CircuitOpen, c.State(), "the probe counts as failed")
				time.Sleep(time.Second)
				_, ok := play("gpt", scripted.On().Reply("back"))
				_, err = wrap(t, ok, c).Chat(t.Context(), hello())
				require.NoError(t, err, "the next probe is let through")
				require.Equal(t, providers.CircuitClosed, c.State())
			})
		})
	}
	t.Run("a stream that is left", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := halfOpen(t)
			_, p := play("gpt", scripted.On().Tokens("a", "b"))
			for range 3 {
				for _, err := range wrap(t, p, c).Stream(t.Context(), hello()) {
					require.NoError(t, err)
					break
				}
				require.Equal(t, providers.CircuitHalfOpen, c.State())
			}
		})
	})
	t.Run("a consumer that panics", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := halfOpen(t)
			_, p := play("gpt", scripted.On().Tokens("a", "b"))
			p = wrap(t, p, c)
			require.PanicsWithValue(t, "consumer", func() {
				for range p.Stream(t.Context(), hello()) {
					panic("consumer")
				}
			})
			require.Equal(t, providers.CircuitHalfOpen, c.State(), "that is not the provider's fault")
		})
	})
	t.Run("a stream reports when it ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := halfOpen(t)
			_, p := play("gpt", scripted.On().Tokens("a", "b"))
			for _, err := range wrap(t, p, c).Stream(t.Context(), hello()) {
				require.NoError(t, err)
				require.Equal(t, providers.CircuitHalfOpen, c.State())
			}
			require.Equal(t, providers.CircuitClosed, c.State())
		})
	})
}

func TestBreakerOpensByRatio(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fail bool
		_, p := play("gpt",
			scripted.On(scripted.When("fail", func(providers.Request) bool { return fail })).Fail(scripted.Status(500)),
			scripted.On().Reply("ok"))
		c := circuit(t, providers.Breaker{Failures: 100, Ratio: 0.5, MinCalls: 6, Window: time.Minute})
		p = wrap(t, p, c)
		for i := range 5 {
			fail = i%2 == 0
			_, _ = p.Chat(t.Context(), hello())
			require.Equal(t, providers.CircuitClosed, c.State(), "too few calls")
		}
		time.Sleep(2 * time.Minute)
		for i := range 6 {
			require.Equal(t, providers.CircuitClosed, c.State(), "the old calls are out of the window")
			fail = i%2 == 1
			_, _ = p.Chat(t.Context(), hello())
		}
		require.Equal(t, providers.CircuitOpen, c.State())
	})
}

func TestBreakerTellsOfItsChangesOutsideOfLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen [][2]providers.CircuitState
		var c *providers.Circuit
		c = circuit(t, providers.Breaker{Failures: 1, OpenFor: time.Second, OnChange: func(from, to providers.CircuitState) {
			seen = append(seen, [2]providers.CircuitState{from, to})
			_ = c.State() // would deadlock under gobreaker's lock
		}})
		open(t, c)
		time.Sleep(time.Second)
		_, p := play("gpt", scripted.On().Reply("back"))
		_, err := wrap(t, p, c).Chat(t.Context(), hello())
		require.NoError(t, err)
		require.Equal(t, [][2]providers.CircuitState{
			{providers.CircuitClosed, providers.CircuitOpen},
			{providers.CircuitOpen, providers.CircuitHalfOpen},
			{providers.CircuitHalfOpen, providers.CircuitClosed},
		}, seen)
	})
}

func TestBreakerSurvivesAPanicOfOnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		c := circuit(t, providers.Breaker{Failures: 1, OpenFor: time.Second, OnChange: func(_, _ providers.CircuitState) {
			if calls++; calls == 1 {
				panic("observer")
			}
		}})
		_, p := play("gpt", scripted.On().Fail(scripted.Status(500)).Once(), scripted.On().Reply("back"))
		p = wrap(t, p, c)
		require.PanicsWithValue(t, "observer", func() { _, _ = p.Chat(t.Context(), hello()) })
		time.Sleep(time.Second)
		_, err := p.Chat(t.Context(), hello())
		require.NoError(t, err)
		require.Equal(t, 3, calls)
		require.Equal(t, providers.CircuitClosed, c.State())
	})
}

func TestBreakerIsSharedByManyCalls(t *testing.T) {
	_, p := play("gpt", scripted.On().Fail(scripted.Status(500)).Reply("a").Fail(scripted.RateLimited(0)).Reply("b"))
	p = wrap(t, p, providers.Breaker{Failures: 1, OpenFor: time.Nanosecond, OnChange: func(_, _ providers.CircuitState) {}})
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 20 {
				for _, call := range both(p) {
					_, _ = call(t.Context())
				}
			}
		})
	}
	wg.Wait()
}

func TestBreakerRefusesABadConfiguration(t *testing.T) {
	b := providers.Breaker{Failures: -1, Ratio: math.NaN(), MinCalls: -1, Window: -1, OpenFor: -1, Probes: -1, ProbeTimeout: -1}
	_, err := b.New()
	requireProblems(t, err, "providers.Breaker", "Failures", "Ratio", "MinCalls", "Window", "OpenFor", "Probes", "ProbeTimeout")
	_, err = b.Wrap(&fake{})
	require.Error(t, err)
	requireProblems(t, providers.Breaker{Ratio: 1.5}.Validate(), "providers.Breaker", "Ratio")
	require.NoError(t, providers.Breaker{}.Validate())
}

// runDeadline is the cause of the end of a run that takes too long, as an executor sets it.
type runDeadline struct{}

func (runDeadline) Error() string                           { return "the run took too long" }
func (runDeadline) RunErrorClass() classifier.RunErrorClass { return classifier.Timeout }

func TestBreakerDoesNotCountTheDeadlineOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := circuit(t, providers.Breaker{Failures: 1})
		p, err := c.Wrap(scripted.New(scripted.On().Fail(scripted.Stall())).Provider("slow"))
		require.NoError(t, err)
		for range 3 {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, runDeadline{})
			_, err := p.Chat(ctx, ask("x"))
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		require.Equal(t, providers.CircuitClosed, c.State())

		loop := retrypolicy.Loop{Timeout: time.Second}
		_, err = retrypolicy.Do(t.Context(), &loop, func(ctx context.Context, _ int) (*providers.Response, error) {
			return p.Chat(ctx, ask("x"))
		})
		require.Error(t, err)
		require.Equal(t, providers.CircuitOpen, c.State(), "an attempt's deadline does count")
	})
}
