package providertest_test

import (
	"testing"

	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/providertest"
	"github.com/pawl-go/pawl/providers/scripted"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The suite holds for a provider behind all middleware too: none of it changes an answer or an error.
func TestTheSuiteHoldsBehindMiddleware(t *testing.T) {
	providertest.Run(t, providertest.Harness{
		New: func(t *testing.T, script *scripted.Script) providers.Provider {
			t.Helper()
			p, err := providers.Wrap(script.Provider("fake"),
				providers.Breaker{Failures: 1_000_000},
				providers.RateLimit{RequestsPerMinute: 1_000_000_000, TokensPerMinute: 1_000_000_000},
				providers.MaxConcurrent{Calls: 10},
				providers.Timeout{Call: 1 << 40, Idle: 1 << 40},
			)
			require.NoError(t, err)
			return p
		},
	})
}
