package openai_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/openai"
	"github.com/pawl-go/pawl/providers/providertest"
	"github.com/pawl-go/pawl/providers/scripted"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const apiKey = "sk-test-4f9b2c7d"

// serve returns a client of a loopback server, with the given changes to its configuration.
func serve(t *testing.T, h http.Handler, change ...func(*openai.Config)) *openai.Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	cfg := openai.Config{Name: "test", BaseURL: srv.URL + "/v1", APIKey: apiKey}
	for _, f := range change {
		f(&cfg)
	}
	c, err := openai.New(cfg)
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func TestConformance(t *testing.T) {
	providertest.Run(t, providertest.Harness{
		New: func(t *testing.T, script *scripted.Script) providers.Provider {
			t.Helper()
			return serve(t, script.Handler())
		},
		Secrets: []string{apiKey},
	})
}
