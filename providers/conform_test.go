package providers_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/task"
	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
)

// ending returns a context, and a provider that ends it in each call and returns the cause, as an HTTP client does.
func ending(t *testing.T) (context.Context, providers.Provider) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	end := func() error {
		cancel(&openai.APIError{HTTPStatusCode: 503})
		return context.Cause(ctx)
	}
	return ctx, providers.Conform(&fake{
		name: "mine",
		chat: func(context.Context, providers.Request) (*providers.Response, error) { return nil, end() },
		stream: func(_ context.Context, yield func(*providers.Delta, error) bool) {
			_ = yield(delta("a"), nil) && yield(nil, end())
		},
	})
}

func TestConformHidesWhatIsReturnedWhenTheContextHasEnded(t *testing.T) {
	for way := range both(nil) {
		t.Run(way, func(t *testing.T) {
			ctx, p := ending(t)
			_, err := both(p)[way](ctx)
			require.ErrorIs(t, err, context.Canceled)
			var api *openai.APIError
			require.NotErrorAs(t, err, &api)
			if way == "Stream" {
				require.Equal(t, "a", callError(t, err).Partial.Text())
			}
			_, err = both(p)[way](ctx)
			require.ErrorIs(t, err, context.Canceled)
			require.True(t, callError(t, err).NotSent, "a call under an ended context is not made")
		})
	}
}

func TestConformHoldsAProviderToItsPromises(t *testing.T) {
	boom := errors.New("boom")
	t.Run("no answer and no error", func(t *testing.T) {
		p := providers.Conform(&fake{name: "mine",
			chat: func(context.Context, providers.Request) (*providers.Response, error) {
				return nil, nil //nolint:nilnil // what is tested
			},
			stream: func(_ context.Context, yield func(*providers.Delta, error) bool) { yield(nil, nil) },
		})
		for _, call := range both(p) {
			_, err := call(t.Context())
			require.Equal(t, classifier.ProviderError, classOf(err))
			require.Equal(t, "mine", callError(t, err).Provider)
			require.Equal(t, "m", callError(t, err).Model)
		}
	})
	t.Run("names", func(t *testing.T) {
		for _, call := range both(providers.Conform(&fake{name: "mine"})) {
			resp, err := call(t.Context())
			require.NoError(t, err)
			require.Equal(t, "mine", resp.Provider)
		}
	})
	t.Run("errors of its own stay what they are", func(t *testing.T) {
		var run meter
		p := providers.Conform(&fake{chat: func(context.Context, providers.Request) (*providers.Response, error) { return nil, boom }})
		_, err := p.Chat(task.NewContext(t.Context(), &run), hello())
		require.Equal(t, boom, err)
		require.Equal(t, task.Usage{Calls: 1}, run.used)
	})
	t.Run("a stream that is left reports what it used", func(t *testing.T) {
		var run meter
		p := providers.Conform(&fake{stream: func(_ context.Context, yield func(*providers.Delta, error) bool) {
			d := delta("a")
			d.Usage = &openai.Usage{PromptTokens: 3, CompletionTokens: 1}
			yield(d, nil)
		}})
		for range p.Stream(task.NewContext(t.Context(), &run), hello()) {
			break
		}
		require.Equal(t, task.Usage{Calls: 1, PromptTokens: 3, CompletionTokens: 1}, run.used)
	})
	t.Run("twice is once", func(t *testing.T) {
		p := providers.Conform(&fake{})
		require.Same(t, p, providers.Conform(p))
	})
}

// What a journal keeps of an error is its exported fields. They are enough for it to say the same again.
func TestErrorsSayTheSameAfterATripThroughJSON(t *testing.T) {
	first := &providers.CallError{
		Provider: "gpt", Model: "m", Class: classifier.ProviderError, Status: 503, Hint: time.Second, NoRetry: true,
		Partial: answer("so far"), Err: http.ErrServerClosed,
	}
	var back providers.CallError
	again(t, first, &back)
	require.EqualError(t, &back, first.Error())
	require.Equal(t, "so far", back.Partial.Text())
	require.Equal(t, [2]any{classifier.ProviderError, true}, [2]any{classOf(&back), classifier.RetryRefused(&back)})
	hint, _ := classifier.RetryHint(&back)
	require.Equal(t, time.Second, hint)

	all := &providers.FallbackError{Failures: []providers.ProviderFailure{
		{Provider: "gpt", Class: classifier.ProviderError, Text: first.Error(), Err: first},
		{Provider: "local", Class: classifier.Unauthorized, Text: "no", Err: http.ErrServerClosed},
	}, NotAsked: []string{"spare"}}
	var allBack providers.FallbackError
	again(t, all, &allBack)
	require.EqualError(t, &allBack, all.Error())

	down := &providers.ProviderUnavailableError{Provider: "gpt", RetryAfter: time.Second}
	var downBack providers.ProviderUnavailableError
	again(t, down, &downBack)
	require.Equal(t, down, &downBack)
}

func again(t *testing.T, from, to any) {
	t.Helper()
	raw, err := json.Marshal(from)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, to))
}

func TestCallErrorSpeaksForItself(t *testing.T) {
	e := &providers.CallError{
		Provider: "gpt", Model: "m", Class: classifier.RateLimited, Detail: "slow down", Status: 429, Code: "c", Type: "t", Param: "p",
		RequestID: "req_1", Hint: 2 * time.Second, NoRetry: true, Message: "server's words", Err: http.ErrServerClosed,
	}
	require.EqualError(t, e, `pawl: provider "gpt": rate_limited: slow down (HTTP 429, code c, type t, param p, model m, `+
		`request req_1, wait 2s, not to be sent again): server's words`)
	require.ErrorIs(t, e, http.ErrServerClosed)
	require.True(t, classifier.RetryRefused(e))
	status, ok := classifier.HTTPStatus(e)
	require.True(t, ok)
	require.Equal(t, 429, status)
	hint, ok := classifier.RetryHint(e)
	require.True(t, ok)
	require.Equal(t, 2*time.Second, hint)
	bare := &providers.CallError{Provider: "gpt", Class: classifier.Timeout}
	require.EqualError(t, bare, `pawl: provider "gpt": timeout`)
	_, ok = classifier.RetryHint(bare)
	require.False(t, ok)
}
