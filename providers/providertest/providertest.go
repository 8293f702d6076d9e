// Package providertest is the conformance suite that every provider passes. A provider that speaks to an OpenAI-compatible
// endpoint is tested against the handler of a script:
//
//	func TestConformance(t *testing.T) {
//		providertest.Run(t, providertest.Harness{
//			New: func(t *testing.T, script *scripted.Script) providers.Provider {
//				srv := httptest.NewServer(script.Handler())
//				t.Cleanup(srv.Close)
//				return myprovider.New(srv.URL)
//			},
//		})
//	}
//
// The suite needs no network beyond the provider's own, and takes about a second.
package providertest

import (
	"testing"

	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
	"go.uber.org/goleak"
)

// Harness says how to make the provider under test.
type Harness struct {
	// New returns a provider that is answered by the script. What it opens it closes with t.Cleanup, idle connections
	// included: the suite looks for leaked goroutines.
	New func(t *testing.T, script *scripted.Script) providers.Provider
	// Secrets are texts that no error may show, such as the API key that New uses. The suite lets the server quote them.
	Secrets []string
}

// Run runs the suite as subtests of t. Subtests are named after what they check.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.New == nil {
		t.Fatal("providertest: Harness.New is nil: say how to make the provider")
	}
	before := goleak.IgnoreCurrent()
	s := suite{h}
	t.Run("answers", s.answers)
	t.Run("failures", s.failures)
	t.Run("endings", s.endings)
	t.Run("contexts", s.contexts)
	t.Run("secrets", s.secrets)
	t.Run("concurrency", s.concurrency)
	if err := goleak.Find(before); err != nil {
		t.Errorf("providertest: the provider leaks: %v", err)
	}
}

type suite struct{ Harness }

// model and prompt are what the suite asks with. The prompt must never be seen in an error.
const (
	model  = "suite-model"
	prompt = "the-suite-prompt with three words"
)

func request() providers.Request {
	return providers.Request{Model: model, Messages: []providers.Message{
		{Role: "system", Content: "be brief"},
		{Role: "user", Content: prompt},
	}}
}
