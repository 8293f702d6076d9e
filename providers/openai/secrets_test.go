package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	goopenai "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/openai"
)

func TestSecrets_AKeyThatAServerEchoesAnywhereIsNotKept(t *testing.T) {
	for _, field := range []string{"message", "type", "param", "code", "innererror"} {
		for _, status := range []int{200, 400, 429, 500} {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				body := map[string]any{"message": "m", field: apiKey}
				if field == "innererror" {
					body[field] = map[string]any{"code": apiKey}
				}
				_ = json.NewEncoder(w).Encode(map[string]any{"error": body})
			}))
			c, err := openai.New(openai.Config{BaseURL: srv.URL, APIKey: apiKey})
			require.NoError(t, err)
			_, err = c.Chat(t.Context(), providers.Request{Model: "m", Messages: []providers.Message{{Role: "user", Content: "x"}}})
			require.Error(t, err)
			require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), apiKey, "%s %d", field, status)
			var api *goopenai.APIError
			if !errors.As(err, &api) {
				continue
			}
			kept, err := json.Marshal(api)
			require.NoError(t, err)
			require.NotContains(t, string(kept), apiKey, "%s %d", field, status)
			c.CloseIdleConnections()
			srv.Close()
		}
	}
}

func TestSecrets_NoVerbPrintsTheKey(t *testing.T) {
	cfg := openai.Config{BaseURL: "http://127.0.0.1:1", APIKey: apiKey, Header: http.Header{"X-Token": {apiKey}}}
	c, err := openai.New(cfg)
	require.NoError(t, err)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		require.NotContains(t, fmt.Sprintf(verb, c), apiKey, verb)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		require.NotContains(t, fmt.Sprintf(verb, cfg), apiKey, verb)
	}
}
