package providers_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
)

func then(p ...providers.Provider) providers.Fallback { return providers.Fallback{Then: p} }

func TestFallbackAsksTheNextOnTransientClasses(t *testing.T) {
	unavailable := circuit(t, providers.Breaker{Failures: 1, OpenFor: time.Hour})
	open(t, unavailable)
	for name, f := range map[string]scripted.Failure{
		"429": scripted.RateLimited(time.Hour), "500": scripted.Status(500), "529": scripted.Overloaded(), "504": scripted.Status(504),
		"408": scripted.Status(408), "error in a 200": scripted.ErrorIn200(""), "no choices": scripted.NoChoices(), "cut": scripted.Cut(),
		"open breaker": {},
	} {
		_, first := play("first", scripted.On().Fail(f))
		if name == "open breaker" {
			first = wrap(t, first, unavailable)
		}
		script, second := play("second", scripted.On().Reply("ok"))
		p := wrap(t, first, then(second))
		for way, call := range both(p) {
			t.Run(name+" "+way, func(t *testing.T) {
				resp, err := call(t.Context())
				require.NoError(t, err)
				require.Equal(t, "ok", resp.Text())
				require.Equal(t, "second", resp.Provider, "the answer says who gave it")
			})
		}
		require.Len(t, script.Calls(), 2)
	}
}

func TestFallbackAsksNobodyElseOnPermanentClasses(t *testing.T) {
	for name, f := range map[string]scripted.Failure{
		"400": scripted.Status(400), "401": scripted.Status(401), "404": scripted.Status(404), "quota": scripted.Quota(),
		"refusal": scripted.Refusal("no"), "truncated": scripted.Truncated("x"),
	} {
		_, first := play("first", scripted.On().Fail(f))
		script, second := play("second", scripted.On().Reply("ok"))
		for way, call := range both(wrap(t, first, then(second))) {
			t.Run(name+" "+way, func(t *testing.T) {
				_, err := call(t.Context())
				require.Error(t, err)
				require.Equal(t, "first", callError(t, err).Provider)
				var all *providers.FallbackError
				require.NotErrorAs(t, err, &all, "one failure is itself")
			})
		}
		require.Empty(t, script.Calls())
	}
}

func TestFallbackObeysThePermanentRuleBeforeItsClassifier(t *testing.T) {
	_, first := play("first", scripted.On().Fail(scripted.Status(404)))
	script, second := play("second", scripted.On().Reply("ok"))
	everything := classifier.Func(func(error) classifier.Classification {
		return classifier.Classification{Class: classifier.ProviderError}
	})
	p := wrap(t, first, providers.Fallback{Then: []providers.Provider{second}, Classifier: everything})
	_, err := p.Chat(t.Context(), hello())
	require.Equal(t, 404, callError(t, err).Status)
	require.Empty(t, script.Calls())
}

func TestFallbackSurvivesAPanicOfItsClassifier(t *testing.T) {
	panics := classifier.Func(func(error) classifier.Classification { panic("mine") })
	_, first := play("first", scripted.On().Fail(scripted.Status(503)))
	_, second := play("second", scripted.On().Reply("ok"))
	for way, call := range both(wrap(t, first, providers.Fallback{Then: []providers.Provider{second}, Classifier: panics})) {
		t.Run(way, func(t *testing.T) {
			resp, err := call(t.Context())
			require.NoError(t, err, "the default rules answer")
			require.Equal(t, "second", resp.Provider)
		})
	}
}

func TestFallbackErrorLeadsWithTheFirstFailure(t *testing.T) {
	_, first := play("first", scripted.On().Fail(scripted.HTTP(503, map[string][]string{"Retry-After": {"7"}}, "")))
	_, second := play("second", scripted.On().Fail(scripted.Status(401)))
	script, third := play("third", scripted.On().Reply("ok"))
	p := wrap(t, first, then(second, third))
	require.Equal(t, "first|second|third", p.Name())
	for way, call := range both(p) {
		t.Run(way, func(t *testing.T) {
			_, err := call(t.Context())
			var e *providers.FallbackError
			require.ErrorAs(t, err, &e)
			require.Equal(t, classifier.ProviderError, classOf(err))
			_, permanent := classifier.PermanentHTTPStatus(err)
			require.False(t, permanent, "the second one's 401 does not make it permanent")
			require.Equal(t, 503, callError(t, err).Status)
			hint, _ := classifier.RetryHint(err)
			require.Equal(t, 7*time.Second, hint)
			require.Len(t, e.Failures, 2)
			require.Equal(t, "second", e.Failures[1].Provider)
			require.Equal(t, classifier.Unauthorized, e.Failures[1].Class)
			require.Contains(t, e.Failures[1].Text, "401")
			require.Equal(t, []string{"third"}, e.NotAsked)
			require.EqualError(t, err, `pawl: every provider that was asked failed: first: pawl: provider "first": provider_error (HTTP 503, `+
				`model m, wait 7s); then second: unauthorized; not asked: third`)
		})
	}
	require.Empty(t, script.Calls())
}

// A first failure without a status must not be given the second one's by way of a text.
func TestFallbackErrorHasNoStatusButTheFirstOnes(t *testing.T) {
	_, first := play("first", scripted.On().Fail(scripted.Cut()))
	second := &fake{name: "second", chat: func(context.Context, providers.Request) (*providers.Response, error) {
		return nil, errors.New("HTTP 401: no")
	}}
	_, err := wrap(t, first, then(second)).Chat(t.Context(), hello())
	_, found := classifier.HTTPStatus(err)
	require.False(t, found)
	require.Equal(t, classifier.ProviderError, classOf(err))
}

func TestFallbackStopsWhenTheCallersContextEnds(t *testing.T) {
	for way := range both(nil) {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, first := play("first", scripted.On().Fail(scripted.Stall("a")))
				script, second := play("second", scripted.On().Reply("ok"))
				p := wrap(t, first, then(second))
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(&openai.APIError{HTTPStatusCode: 503}) })
				_, err := both(p)[way](ctx)
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, classifier.Canceled, classOf(err))
				require.Empty(t, script.Calls())
			})
		})
	}
}

func TestFallbackGoesOnAfterAnAttemptsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, first := play("first", scripted.On().Fail(scripted.Stall()))
		_, second := play("second", scripted.On().Reply("ok"))
		p := wrap(t, wrap(t, first, providers.Timeout{Call: time.Second}), then(second))
		for _, call := range both(p) {
			resp, err := call(t.Context())
			require.NoError(t, err)
			require.Equal(t, "second", resp.Provider)
		}
	})
}

func TestFallbackDoesNotStartAStreamAnewThatHasGivenAPiece(t *testing.T) {
	_, first := play("first", scripted.On().Fail(scripted.Cut("so", "me")))
	script, second := play("second", scripted.On().Reply("ok"))
	resp, err := providers.Collect(wrap(t, first, then(second)).Stream(t.Context(), hello()))
	require.Equal(t, "some", resp.Text())
	require.Equal(t, classifier.ProviderError, classOf(err))
	require.Equal(t, "first", callError(t, err).Provider)
	require.Empty(t, script.Calls())
}

func TestFallbackOfAStreamThatIsLeft(t *testing.T) {
	_, first := play("first", scripted.On().Fail(scripted.Status(500)))
	_, second := play("second", scripted.On().Tokens("a", "b"))
	_, third := play("third", scripted.On().Tokens("c"))
	for d, err := range wrap(t, first, then(second, third)).Stream(t.Context(), hello()) {
		require.NoError(t, err)
		require.Equal(t, "a", d.Text())
		break
	}
}

func TestFallbackNamesProvidersThatDoNotNameThemselves(t *testing.T) {
	for _, call := range both(wrap(t, &fake{name: "mine"}, then(&fake{name: "other"}))) {
		resp, err := call(t.Context())
		require.NoError(t, err)
		require.Equal(t, "mine", resp.Provider)
	}
	empty := &fake{name: "mine", chat: func(context.Context, providers.Request) (*providers.Response, error) {
		return nil, nil //nolint:nilnil // what is tested
	}}
	resp, err := wrap(t, empty, then(&fake{name: "other"})).Chat(t.Context(), hello())
	require.NoError(t, err)
	require.Equal(t, "other", resp.Provider, "no answer and no error is a failure")
}

func TestFallbackErrorWithoutFailures(t *testing.T) {
	var e providers.FallbackError
	require.NoError(t, e.Unwrap())
	require.Equal(t, "pawl: every provider that was asked failed", e.Error())
}

func TestFallbackRefusesABadConfiguration(t *testing.T) {
	requireProblems(t, providers.Fallback{}.Validate(), "providers.Fallback", "Then")
	requireProblems(t, then(&fake{}, nil, (*fake)(nil)).Validate(), "providers.Fallback", "Then[1]", "Then[2]")
	_, err := providers.Fallback{}.Wrap(&fake{})
	require.Error(t, err)
}
