package openai_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
	"github.com/stretchr/testify/require"
)

// Many runs share one stack over real connections: whatever happens to the calls, each returns, each error has a class, and
// nothing stays held. Leaks are looked for when the package's tests are done.
func TestManyRunsShareOneStack(t *testing.T) {
	var rules []scripted.Rule
	for i, f := range []scripted.Failure{
		scripted.Status(500), scripted.RateLimited(time.Millisecond), scripted.Cut("a"), scripted.Reset("a"), scripted.Stall("a"),
		scripted.StreamError("502", "a"), scripted.NoChoices(), scripted.Refusal("no"), scripted.Page(524), scripted.Status(400),
	} {
		rules = append(rules, scripted.On(scripted.Last(fmt.Sprintf("case %d.", i))).Fail(f))
	}
	rules = append(rules, scripted.On().Tokens("o", "k").Every(time.Millisecond))
	first, second := serve(t, scripted.New(rules...).Handler()), serve(t, scripted.New(rules...).Handler())
	slots, err := providers.MaxConcurrent{Calls: 8}.New()
	require.NoError(t, err)
	p, err := providers.Wrap(first,
		providers.Fallback{Then: []providers.Provider{second}},
		providers.Breaker{Failures: 5, OpenFor: time.Millisecond, ProbeTimeout: 50 * time.Millisecond},
		providers.RateLimit{RequestsPerMinute: 60_000, TokensPerMinute: 60_000_000, MaxWait: time.Second},
		slots,
		providers.Timeout{Call: 200 * time.Millisecond, Idle: 20 * time.Millisecond},
	)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for run := range 40 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(run)))
			for range 15 {
				oneCall(t, p, random)
			}
		})
	}
	wg.Wait()
	require.Zero(t, slots.InUse())
	require.Zero(t, slots.Waiting())
}

// oneCall makes a call that may fail, be cancelled, or be left early.
func oneCall(t *testing.T, p providers.Provider, random *rand.Rand) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(5+random.IntN(400))*time.Millisecond)
	defer cancel()
	req := hello()
	req.Messages[0].Content = fmt.Sprintf("case %d.", random.IntN(16))
	var err error
	if random.IntN(2) == 0 {
		_, err = p.Chat(ctx, req)
	} else {
		leave := random.IntN(4)
		for _, e := range p.Stream(ctx, req) {
			if err = e; leave == 0 {
				break
			}
			leave--
		}
	}
	if err != nil && classifier.Default().Classify(err).Class == classifier.Unknown {
		t.Errorf("an error of unknown class: %v", err)
	}
}
