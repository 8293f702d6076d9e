package providers_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/stretchr/testify/require"
)

// requireProblems checks that a configuration error names these fields, each with a value and a remedy.
func requireProblems(t *testing.T, err error, config string, fields ...string) {
	t.Helper()
	var e *providers.ConfigError
	require.ErrorAs(t, err, &e)
	require.Equal(t, config, e.Config)
	var got []string
	for _, p := range e.Problems {
		got = append(got, p.Field)
		require.NotEmpty(t, p.Value)
		require.NotEmpty(t, p.Remedy)
		require.ErrorContains(t, err, p.Field+" is "+p.Value+": "+p.Remedy)
	}
	require.Equal(t, fields, got)
	require.Equal(t, classifier.CompilationFailed, classOf(err))
}

func TestWrapNamesEverythingThatIsWrong(t *testing.T) {
	var none *providers.Limiter
	_, err := providers.Wrap(nil, then(&fake{}), providers.Timeout{Call: -1}, nil, none, providers.MaxConcurrent{})
	require.ErrorContains(t, err, "the provider is nil")
	require.ErrorContains(t, err, "Call is -1ns")
	require.ErrorContains(t, err, "middleware 3 is nil")
	require.ErrorContains(t, err, "middleware 4 is nil")
	require.ErrorContains(t, err, "Calls is 0")
	var p *fake
	_, err = providers.Wrap(p)
	require.ErrorContains(t, err, "the provider is nil")
	_, err = providers.Wrap(&fake{}, lazy{})
	require.ErrorContains(t, err, "middleware 1 (providers_test.lazy) returned no provider")
}

// lazy is a middleware that returns nothing.
type lazy struct{}

func (lazy) Wrap(providers.Provider) (providers.Provider, error) {
	return nil, nil //nolint:nilnil // what is tested
}

func TestMiddlewareRefusesToWrapNothing(t *testing.T) {
	for config, m := range map[string]providers.Middleware{
		"providers.Timeout":       providers.Timeout{Call: time.Second},
		"providers.MaxConcurrent": providers.MaxConcurrent{Calls: 1},
		"providers.RateLimit":     providers.RateLimit{RequestsPerMinute: 1},
		"providers.Breaker":       providers.Breaker{},
		"providers.Fallback":      providers.Fallback{Then: []providers.Provider{&fake{}}},
	} {
		_, err := m.Wrap(nil)
		requireProblems(t, err, config, "next")
	}
}

// marker is a middleware that notes when it is passed.
type marker struct {
	name string
	seen *[]string
}

func (m marker) Wrap(next providers.Provider) (providers.Provider, error) {
	return &fake{name: next.Name(), chat: func(ctx context.Context, req providers.Request) (*providers.Response, error) {
		*m.seen = append(*m.seen, m.name)
		return next.Chat(ctx, req)
	}}, nil
}

func TestWrapPutsTheFirstOutermost(t *testing.T) {
	var seen []string
	p := wrap(t, &fake{name: "gpt"}, marker{"a", &seen}, marker{"b", &seen}, marker{"c", &seen})
	_, err := p.Chat(t.Context(), hello())
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c"}, seen)
	require.Equal(t, "gpt", p.Name())
	same := wrap(t, p)
	require.Equal(t, p, same, "without middleware it is the provider itself")
}

func TestMiddlewareKeepsTheName(t *testing.T) {
	p := wrap(t, &fake{name: "gpt"}, providers.Breaker{}, providers.RateLimit{RequestsPerMinute: 60},
		providers.MaxConcurrent{Calls: 1}, providers.Timeout{Call: time.Second})
	require.Equal(t, "gpt", p.Name())
}
