package providertest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
	"github.com/stretchr/testify/require"
)

// failure is a way to fail and what every provider says of it.
type failure struct {
	name   string
	script scripted.Failure
	class  classifier.RunErrorClass
	status int
	hint   time.Duration
}

func header(name, value string) http.Header { return http.Header{name: {value}} }

// allFailures is what servers do. The classes are those of Pawl's table of error facts.
func allFailures() []failure {
	return []failure{
		{"429 with a hint", scripted.RateLimited(200 * time.Millisecond), classifier.RateLimited, 429, 200 * time.Millisecond},
		{"429 without a hint", scripted.RateLimited(0), classifier.RateLimited, 429, 0},
		{
			"429 without a body", scripted.HTTP(429, header("Retry-After-Ms", "150"), ""),
			classifier.RateLimited, 429, 150 * time.Millisecond,
		},
		{"quota", scripted.Quota(), classifier.QuotaExceeded, 429, 0},
		{"400", scripted.Status(400), classifier.InvalidRequest, 400, 0},
		{"401", scripted.Status(401), classifier.Unauthorized, 401, 0},
		{"402", scripted.Status(402), classifier.QuotaExceeded, 402, 0},
		{"403", scripted.Status(403), classifier.Unauthorized, 403, 0},
		{"404", scripted.Status(404), classifier.InvalidRequest, 404, 0},
		{"404 as a page", scripted.Page(404), classifier.InvalidRequest, 404, 0},
		{"408", scripted.Status(408), classifier.Timeout, 408, 0},
		{"409", scripted.Status(409), classifier.InvalidRequest, 409, 0},
		{"422 with flat JSON", scripted.HTTP(422, nil, `{"detail":"bad"}`), classifier.InvalidRequest, 422, 0},
		{"500", scripted.Status(500), classifier.ProviderError, 500, 0},
		{"502 without a body", scripted.HTTP(502, nil, ""), classifier.ProviderError, 502, 0},
		{"503 with a hint", scripted.HTTP(503, header("Retry-After", "3"), "busy"), classifier.ProviderError, 503, 3 * time.Second},
		{"504", scripted.Status(504), classifier.Timeout, 504, 0},
		{"529", scripted.Overloaded(), classifier.ProviderError, 529, 0},
		{"524 as a page", scripted.Page(524), classifier.ProviderError, 524, 0},
		{"200 as a page", scripted.Page(200), classifier.ProviderError, 0, 0},
		{"200 without a body", scripted.HTTP(200, nil, ""), classifier.ProviderError, 0, 0},
		{"200 with an error", scripted.ErrorIn200(""), classifier.ProviderError, 0, 0},
		{"200 with an error 502", scripted.ErrorIn200("502"), classifier.ProviderError, 502, 0},
		{"200 with an error 401", scripted.ErrorIn200("401"), classifier.Unauthorized, 401, 0},
		{"200 with a rate limit", scripted.ErrorIn200("rate_limit_exceeded"), classifier.RateLimited, 0, 0},
		{"no choices", scripted.NoChoices(), classifier.ProviderError, 0, 0},
		{"prompt filtered", scripted.PromptFiltered(), classifier.ContentFiltered, 0, 0},
		{"refusal", scripted.Refusal("no"), classifier.ContentFiltered, 0, 0},
		{"filtered", scripted.Filtered("some"), classifier.ContentFiltered, 0, 0},
		{"filtered to nothing", scripted.Filtered(), classifier.ContentFiltered, 0, 0},
		{"truncated", scripted.Truncated("some"), classifier.InvalidResponse, 0, 0},
		{"cut", scripted.Cut("so", "me"), classifier.ProviderError, 0, 0},
		{"cut before the first token", scripted.Cut(), classifier.ProviderError, 0, 0},
		{"reset", scripted.Reset("so", "me"), classifier.ProviderError, 0, 0},
		{"error in the answer", scripted.StreamError("server_error", "so"), classifier.ProviderError, 0, 0},
		{"error 502 in the answer", scripted.StreamError("502", "so"), classifier.ProviderError, 502, 0},
	}
}

// failures checks that each failure is told by its class, its status and its hint, whichever way the call was made.
func (s suite) failures(t *testing.T) {
	for _, f := range allFailures() {
		p := s.New(t, scripted.New(scripted.On().Fail(f.script)))
		for way, call := range ways(p) {
			t.Run(f.name+" "+way, func(t *testing.T) {
				_, err := call(t.Context(), request())
				f.check(t, p, err)
			})
		}
	}
	t.Run("x-should-retry: false", func(t *testing.T) {
		p := s.New(t, scripted.New(scripted.On().Fail(scripted.HTTP(503, header("X-Should-Retry", "false"), ""))))
		for _, call := range ways(p) {
			_, err := call(t.Context(), request())
			require.True(t, classifier.RetryRefused(err))
		}
	})
	t.Run("a request that no rule answers is a permanent failure", func(t *testing.T) {
		p := s.New(t, scripted.New())
		for _, call := range ways(p) {
			_, err := call(t.Context(), request())
			status, permanent := classifier.PermanentHTTPStatus(err)
			require.True(t, permanent)
			require.Equal(t, 400, status)
		}
	})
	t.Run("the first failure, then an answer", func(t *testing.T) {
		p := s.New(t, scripted.New(scripted.On().Fail(scripted.RateLimited(0)).Reply("better")))
		_, err := p.Chat(t.Context(), request())
		require.Error(t, err)
		resp, err := p.Chat(t.Context(), request())
		require.NoError(t, err)
		require.Equal(t, "better", resp.Text())
	})
}

func (f failure) check(t *testing.T, p providers.Provider, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, f.class, classifier.Default().Classify(err).Class, "%v", err)
	var e *providers.CallError
	require.ErrorAs(t, err, &e)
	require.Equal(t, p.Name(), e.Provider)
	require.Equal(t, model, e.Model)
	require.Equal(t, f.status, e.Status)
	require.Equal(t, f.hint, e.Hint)
	require.False(t, e.NotSent)
	hint, _ := classifier.RetryHint(err)
	require.Equal(t, f.hint, hint)
	if _, permanent := classifier.PermanentHTTPStatus(err); permanent {
		require.False(t, f.class.Transient(), "a permanent status with a transient class")
	}
	require.NotContains(t, err.Error(), prompt)
	require.NotContains(t, err.Error(), "<html>")
}

// endings checks the streams that do not end whole: what had come is not lost, and nothing comes after the error.
func (s suite) endings(t *testing.T) {
	for name, f := range map[string]scripted.Failure{
		"cut": scripted.Cut("so", "me"), "reset": scripted.Reset("so", "me"),
		"error": scripted.StreamError("server_error", "so", "me"), "truncated": scripted.Truncated("so", "me"),
		"filtered": scripted.Filtered("so", "me"),
	} {
		t.Run(name+" keeps what had come", func(t *testing.T) {
			p := s.New(t, scripted.New(scripted.On().Fail(f)))
			var pieces strings.Builder
			var failed error
			for d, err := range p.Stream(t.Context(), request()) {
				require.NoError(t, failed, "nothing comes after an error")
				if failed = err; err != nil {
					require.Nil(t, d)
					continue
				}
				pieces.WriteString(d.Text())
			}
			require.Equal(t, "some", pieces.String())
			var e *providers.CallError
			require.ErrorAs(t, failed, &e)
			require.Equal(t, "some", e.Partial.Text())
		})
	}
	t.Run("a truncated plain answer is reachable", func(t *testing.T) {
		_, err := s.New(t, scripted.New(scripted.On().Fail(scripted.Truncated("some")))).Chat(t.Context(), request())
		var e *providers.CallError
		require.ErrorAs(t, err, &e)
		require.Equal(t, "some", e.Partial.Text())
	})
	t.Run("a stream that is left early ends its call", func(t *testing.T) {
		p := s.New(t, scripted.New(scripted.On().Fail(scripted.Stall("a", "b")).Once(), scripted.On().Reply("next")))
		for d, err := range p.Stream(t.Context(), request()) {
			require.NoError(t, err)
			require.Equal(t, "a", d.Text())
			break
		}
		resp, err := p.Chat(t.Context(), request())
		require.NoError(t, err)
		require.Equal(t, "next", resp.Text())
	})
}

// errCause is what somebody else failed with. No provider may show it as its own failure.
var errCause = errors.New("HTTP 503 of somebody else")

// contexts checks how a call ends with its context.
func (s suite) contexts(t *testing.T) {
	for _, way := range []string{"Chat", "Stream"} {
		t.Run(way+" under a cancelled context is not made", func(t *testing.T) {
			script := scripted.New(scripted.On().Reply("x"))
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errCause)
			_, err := ways(s.New(t, script))[way](ctx, request())
			cancelled(t, err)
			require.Empty(t, script.Calls())
		})
		t.Run(way+" ends when it is cancelled", func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			asked := scripted.When("asked", func(providers.Request) bool {
				cancel(errCause)
				return true
			})
			p := s.New(t, scripted.New(scripted.On(asked).Fail(scripted.Stall("a"))))
			_, err := ways(p)[way](ctx, request())
			cancelled(t, err)
		})
		for name, rule := range map[string]scripted.Rule{
			"a whole answer":   scripted.On().Fail(scripted.Stall("a")),
			"the first byte":   scripted.On().Reply("late").After(time.Hour),
			"the second token": scripted.On().Tokens("a", "b").Every(time.Hour),
		} {
			t.Run(way+" ends at its deadline, waiting for "+name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
				defer cancel()
				_, err := ways(s.New(t, scripted.New(rule)))[way](ctx, request())
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, classifier.Timeout, classifier.Default().Classify(err).Class)
			})
		}
	}
}

func cancelled(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, errCause, "the cause is somebody else's failure")
	require.Equal(t, classifier.Canceled, classifier.Default().Classify(err).Class)
}
