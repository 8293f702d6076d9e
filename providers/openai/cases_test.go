package openai_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/openai"
	"github.com/pawl-go/pawl/providers/scripted"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/stretchr/testify/require"
)

// The tests of this file go the whole way: a retry loop, middleware, the client, HTTP, and a server that plays a script. Time
// is that of package synctest, so the connections are pipes in memory.

// pipes is a net.Listener whose connections are made by Dial.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// inMemory serves a script to a client over pipes. It must be called within a bubble.
func inMemory(tb testing.TB, script *scripted.Script) *openai.Client {
	tb.Helper()
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	srv := &http.Server{Handler: script.Handler()}
	go srv.Serve(p)
	transport := &http.Transport{DialContext: p.Dial}
	tb.Cleanup(func() {
		transport.CloseIdleConnections()
		srv.Close()
	})
	c, err := openai.New(openai.Config{Name: "gpt", BaseURL: "http://pipe.test/v1", HTTPClient: &http.Client{Transport: transport}})
	require.NoError(tb, err)
	return c
}

// retried calls p in a retry loop and returns the attempts, the time it took, and the error.
func retried(ctx context.Context, p providers.Provider, loop *retrypolicy.Loop, way string) (attempts int, took time.Duration, err error) {
	start := time.Now()
	_, err = retrypolicy.Do(ctx, loop, func(ctx context.Context, n int) (*providers.Response, error) {
		attempts = n
		if way == "Stream" {
			return providers.Collect(p.Stream(ctx, hello()))
		}
		return p.Chat(ctx, hello())
	})
	return attempts, time.Since(start), err
}

func threeAttempts() retrypolicy.WorkflowNodeRetryPolicy {
	return retrypolicy.WorkflowNodeRetryPolicy{MaxAttempts: 3, InitialDelay: time.Second, BackoffMultiplier: 2, MaxDelay: 30 * time.Second}
}

// scene is a test that is played once with plain calls and once with streams.
type scene struct {
	*testing.T
	way string
}

// eachWay plays a scene in a bubble each time.
func eachWay(t *testing.T, play func(t scene)) {
	t.Helper()
	for _, way := range []string{"Chat", "Stream"} {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(scene{t, way}) })
		})
	}
}

func TestHowOftenAFailureIsTried(t *testing.T) {
	const (
		tooLarge   = `{"error":{"code":"rate_limit_exceeded","message":"Request too large: Limit 30000, Requested 30182"}}`
		overloaded = `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`
	)
	for name, tc := range map[string]struct {
		fail     scripted.Failure
		attempts int
		class    classifier.RunErrorClass
	}{
		"400":                         {scripted.Status(400), 1, classifier.InvalidRequest},
		"401":                         {scripted.Status(401), 1, classifier.Unauthorized},
		"402":                         {scripted.Status(402), 1, classifier.QuotaExceeded},
		"403":                         {scripted.Status(403), 1, classifier.Unauthorized},
		"404":                         {scripted.Status(404), 1, classifier.InvalidRequest},
		"409":                         {scripted.Status(409), 1, classifier.InvalidRequest},
		"422":                         {scripted.Status(422), 1, classifier.InvalidRequest},
		"425":                         {scripted.Status(425), 1, classifier.InvalidRequest},
		"498":                         {scripted.Status(498), 1, classifier.InvalidRequest},
		"408":                         {scripted.Status(408), 3, classifier.Timeout},
		"429":                         {scripted.RateLimited(0), 3, classifier.RateLimited},
		"500":                         {scripted.Status(500), 3, classifier.ProviderError},
		"504":                         {scripted.Status(504), 3, classifier.Timeout},
		"524 as a page":               {scripted.Page(524), 3, classifier.ProviderError},
		"529":                         {scripted.Overloaded(), 3, classifier.ProviderError},
		"a quota":                     {scripted.Quota(), 1, classifier.QuotaExceeded},
		"a request that is too large": {scripted.HTTP(429, nil, tooLarge), 1, classifier.InvalidRequest},
		"an error in a 200":           {scripted.ErrorIn200(""), 3, classifier.ProviderError},
		"overloaded in a 200":         {scripted.HTTP(200, nil, overloaded), 3, classifier.ProviderError},
		"a 401 in a 200":              {scripted.ErrorIn200("401"), 1, classifier.Unauthorized},
		"no choices":                  {scripted.NoChoices(), 3, classifier.ProviderError},
		"a refusal":                   {scripted.Refusal("no"), 1, classifier.ContentFiltered},
		"truncated":                   {scripted.Truncated("x"), 1, classifier.InvalidResponse},
		"cut":                         {scripted.Cut("x"), 3, classifier.ProviderError},
		"reset":                       {scripted.Reset("x"), 3, classifier.ProviderError},
		"an error in the answer":      {scripted.StreamError("server_error", "x"), 3, classifier.ProviderError},
		"503 that refuses retries":    {scripted.HTTP(503, http.Header{"X-Should-Retry": {"false"}}, ""), 1, classifier.ProviderError},
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t scene) {
				script := scripted.New(scripted.On().Fail(tc.fail))
				attempts, _, err := retried(t.Context(), inMemory(t, script), &retrypolicy.Loop{Policy: threeAttempts()}, t.way)
				require.Equal(t, tc.attempts, attempts)
				require.Len(t, script.Calls(), attempts, "one attempt is one request")
				require.Equal(t, tc.class, classifier.Default().Classify(err).Class)
				require.NotContains(t, err.Error(), "<html>")
			})
		})
	}
}

func TestAPermanentStatusIsTriedOnceWhateverAClassifierSays(t *testing.T) {
	transient := classifier.Func(func(error) classifier.Classification {
		return classifier.Classification{Class: classifier.ProviderError}
	})
	policy := threeAttempts()
	policy.Retryable = retrypolicy.AnyError
	for _, status := range []int{400, 401, 403, 404, 422} {
		eachWay(t, func(t scene) {
			p := inMemory(t, scripted.New(scripted.On().Fail(scripted.Status(status))))
			attempts, _, _ := retried(t.Context(), p, &retrypolicy.Loop{Policy: policy, Classifier: transient}, t.way)
			require.Equal(t, 1, attempts)
		})
	}
}

func TestHintsAreWaitedFor(t *testing.T) {
	uncapped := threeAttempts()
	uncapped.MaxDelay = 0
	for name, tc := range map[string]struct {
		policy   retrypolicy.WorkflowNodeRetryPolicy
		header   func() http.Header
		attempts int
		took     time.Duration
	}{
		"5 s": {threeAttempts(), func() http.Header { return http.Header{"Retry-After": {"5"}} }, 3, 10 * time.Second},
		"a date 3 s ahead": {threeAttempts(), func() http.Header {
			return http.Header{"Retry-After": {time.Now().Add(3 * time.Second).UTC().Format(http.TimeFormat)}}
		}, 3, 5 * time.Second}, // the date has passed before the third attempt, which waits the policy's 2 s
		"-1":  {threeAttempts(), func() http.Header { return http.Header{"Retry-After": {"-1"}} }, 3, 3 * time.Second},
		"NaN": {threeAttempts(), func() http.Header { return http.Header{"Retry-After": {"NaN"}} }, 3, 3 * time.Second},
		"1e300": {
			threeAttempts(), func() http.Header { return http.Header{"Retry-After": {"1e300"}} }, 3, 3 * time.Second,
		},
		"an hour":                {threeAttempts(), func() http.Header { return http.Header{"Retry-After": {"3600"}} }, 1, 0},
		"16 days, without a cap": {uncapped, func() http.Header { return http.Header{"Retry-After": {"1382400"}} }, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t scene) {
				h := tc.header()
				p := inMemory(t, scripted.New(scripted.On().Fail(scripted.HTTP(429, h, ""))))
				attempts, took, err := retried(t.Context(), p, &retrypolicy.Loop{Policy: tc.policy}, t.way)
				require.Equal(t, tc.attempts, attempts)
				require.Equal(t, tc.took, took)
				if took == 0 {
					hint, ok := classifier.RetryHint(err)
					require.True(t, ok, "the hint is in the error")
					require.GreaterOrEqual(t, hint, time.Hour)
				}
			})
		})
	}
}

func TestTheAttemptsDeadlineIsRetriedAndTheRunsIsNot(t *testing.T) {
	stall := func() *scripted.Script { return scripted.New(scripted.On().Fail(scripted.Stall("a"))) }
	t.Run("the attempt's", func(t *testing.T) {
		eachWay(t, func(t scene) {
			loop := &retrypolicy.Loop{Policy: threeAttempts(), Timeout: 10 * time.Second}
			attempts, took, err := retried(t.Context(), inMemory(t, stall()), loop, t.way)
			require.Equal(t, 3, attempts)
			require.Equal(t, 33*time.Second, took)
			require.Equal(t, classifier.Timeout, classifier.Default().Classify(err).Class)
		})
	})
	t.Run("the run's", func(t *testing.T) {
		eachWay(t, func(t scene) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			loop := &retrypolicy.Loop{Policy: threeAttempts(), Timeout: 10 * time.Second}
			attempts, took, err := retried(ctx, inMemory(t, stall()), loop, t.way)
			require.Equal(t, 1, attempts)
			require.Equal(t, 5*time.Second, took)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
	})
	t.Run("a cancel of the run", func(t *testing.T) {
		eachWay(t, func(t scene) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			attempts, took, err := retried(ctx, inMemory(t, stall()), &retrypolicy.Loop{Policy: threeAttempts()}, t.way)
			require.Equal(t, 1, attempts)
			require.Equal(t, time.Second, took)
			require.Equal(t, classifier.Canceled, classifier.Default().Classify(err).Class)
		})
	})
	t.Run("a cancel in the wait", func(t *testing.T) {
		eachWay(t, func(t scene) {
			p := inMemory(t, scripted.New(scripted.On().Fail(scripted.RateLimited(20*time.Second))))
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			attempts, took, err := retried(ctx, p, &retrypolicy.Loop{Policy: threeAttempts()}, t.way)
			require.Equal(t, 1, attempts)
			require.Equal(t, time.Second, took)
			require.Error(t, err)
		})
	})
	t.Run("a wait that does not fit", func(t *testing.T) {
		eachWay(t, func(t scene) {
			p := inMemory(t, scripted.New(scripted.On().Fail(scripted.RateLimited(5*time.Second))))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			attempts, took, err := retried(ctx, p, &retrypolicy.Loop{Policy: threeAttempts()}, t.way)
			require.Equal(t, 1, attempts)
			require.Zero(t, took)
			require.Equal(t, classifier.RateLimited, classifier.Default().Classify(err).Class, "the last provider error")
		})
	})
}

func TestTheBreakerOverHTTP(t *testing.T) {
	eachWay(t, func(t scene) {
		script := scripted.New(scripted.On().Fail(scripted.Status(503)).Fail(scripted.Status(503)).Fail(scripted.Status(400)).Reply("back"))
		circuit, err := providers.Breaker{Failures: 2, OpenFor: 10 * time.Second}.New()
		require.NoError(t, err)
		p, err := providers.Wrap(inMemory(t, script), circuit, providers.Timeout{Call: time.Minute})
		require.NoError(t, err)
		attempts, took, err := retried(t.Context(), p, &retrypolicy.Loop{Policy: threeAttempts()}, t.way)
		require.Equal(t, 3, attempts)
		require.Equal(t, 3*time.Second, took, "1 s and 2 s: the third attempt finds it open")
		var down *providers.ProviderUnavailableError
		require.ErrorAs(t, err, &down)
		require.Equal(t, 8*time.Second, down.RetryAfter, "opened by the second attempt")

		attempts, took, err = retried(t.Context(), p, &retrypolicy.Loop{Policy: threeAttempts()}, t.way)
		require.Equal(t, 2, attempts, "the remaining open time is waited for, then the probe gets a 400")
		require.Equal(t, 8*time.Second, took)
		require.Equal(t, classifier.InvalidRequest, classifier.Default().Classify(err).Class)
		require.Equal(t, providers.CircuitHalfOpen, circuit.State(), "a 400 is no sign in either direction")
		_, _, err = retried(t.Context(), p, &retrypolicy.Loop{Policy: threeAttempts()}, t.way)
		require.NoError(t, err)
		require.Equal(t, providers.CircuitClosed, circuit.State())
		require.Len(t, script.Calls(), 4)
	})
}

func TestSixCancelledCallsAndTenBadRequestsLeaveTheBreakerClosed(t *testing.T) {
	eachWay(t, func(t scene) {
		bad := scripted.On(scripted.Model("bad")).Fail(scripted.Status(400))
		c := inMemory(t, scripted.New(bad, scripted.On().Fail(scripted.Stall("a"))))
		circuit, err := providers.Breaker{Failures: 1}.New()
		require.NoError(t, err)
		p, err := providers.Wrap(c, circuit)
		require.NoError(t, err)
		for range 6 {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(errors.New("a sibling failed: HTTP 503")) })
			_, _, err := retried(ctx, p, &retrypolicy.Loop{Policy: retrypolicy.New()}, t.way)
			require.Equal(t, classifier.Canceled, classifier.Default().Classify(err).Class)
		}
		req := hello()
		req.Model = "bad"
		for range 10 {
			_, err := p.Chat(t.Context(), req)
			require.Error(t, err)
		}
		require.Equal(t, providers.CircuitClosed, circuit.State())
	})
}

// Two parallel calls, one gets a 401, and that cancels the other: the group's error is the 401, the breaker counts neither.
func TestTheFailureOfOneIsNotItsSiblings(t *testing.T) {
	eachWay(t, func(t scene) {
		bad := scripted.On(scripted.Model("bad")).Fail(scripted.Status(401)).After(time.Second)
		script := scripted.New(bad, scripted.On().Fail(scripted.Stall("a")))
		circuit, err := providers.Breaker{Failures: 1}.New()
		require.NoError(t, err)
		p, err := providers.Wrap(inMemory(t, script), circuit)
		require.NoError(t, err)
		ctx, cancel := context.WithCancelCause(t.Context())
		var first, second error
		var wg sync.WaitGroup
		wg.Go(func() {
			req := hello()
			req.Model = "bad"
			_, first = p.Chat(ctx, req)
			cancel(first)
		})
		wg.Go(func() { _, _, second = retried(ctx, p, &retrypolicy.Loop{Policy: retrypolicy.New()}, t.way) })
		wg.Wait()
		require.Equal(t, classifier.Unauthorized, classifier.Default().Classify(first).Class)
		require.Equal(t, classifier.Canceled, classifier.Default().Classify(second).Class)
		require.Equal(t, providers.CircuitClosed, circuit.State())
	})
}

func TestTheWholeStackOverHTTP(t *testing.T) {
	eachWay(t, func(t scene) {
		first := inMemory(t, scripted.New(scripted.On().Fail(scripted.Status(503)).Fail(scripted.Stall("a")).Reply("back")))
		second := inMemory(t, scripted.New(scripted.On().Fail(scripted.Status(401)).Reply("spare")))
		p, err := providers.Wrap(first,
			providers.Fallback{Then: []providers.Provider{second}},
			providers.Breaker{Failures: 5},
			providers.RateLimit{RequestsPerMinute: 60, RequestBurst: 1},
			providers.MaxConcurrent{Calls: 1},
			providers.Timeout{Call: 20 * time.Second, Idle: 10 * time.Second},
		)
		require.NoError(t, err)
		_, _, err = retried(t.Context(), p, &retrypolicy.Loop{Policy: retrypolicy.New()}, t.way)
		require.Equal(t, 503, callError(t, err).Status, "the error leads with the 503")
		_, permanent := classifier.PermanentHTTPStatus(err)
		require.False(t, permanent, "the spare's 401 does not make it permanent")
		var all *providers.FallbackError
		require.ErrorAs(t, err, &all)
		require.Equal(t, classifier.Unauthorized, all.Failures[1].Class)
		for range 2 { // the first one stalls, which for a stream is after its first piece; then it is back
			attempts, _, err := retried(t.Context(), p, &retrypolicy.Loop{Policy: threeAttempts()}, t.way)
			require.NoError(t, err)
			require.LessOrEqual(t, attempts, 2)
		}
	})
}

func TestThreeFailuresInThreeAttempts(t *testing.T) {
	eachWay(t, func(t scene) {
		p := inMemory(t, scripted.New(scripted.On().Fail(scripted.Status(500)).Fail(scripted.Status(502)).Fail(scripted.Status(503))))
		attempts, _, err := retried(t.Context(), p, &retrypolicy.Loop{Policy: threeAttempts()}, t.way)
		require.Equal(t, 3, attempts)
		require.Equal(t, 503, callError(t, err).Status, "the last one")
		require.ErrorContains(t, err, "3 attempts")
	})
}
