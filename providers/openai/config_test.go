package openai_test

import (
	"net/http"
	"testing"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/openai"
	"github.com/stretchr/testify/require"
)

func TestConfigNamesEveryBadField(t *testing.T) {
	_, err := openai.New(openai.Config{
		Name: " ", BaseURL: "ftp://user:hunter2@host/x?key=hunter2", APIKey: "hunter2\n",
		Header: http.Header{"bad name": {"hunter2\r\n"}}, IdempotencyHeader: "a b", MaxResponseBytes: -1,
	})
	var e *providers.ConfigError
	require.ErrorAs(t, err, &e)
	var fields []string
	for _, p := range e.Problems {
		fields = append(fields, p.Field)
		require.NotEmpty(t, p.Value)
		require.NotEmpty(t, p.Remedy)
	}
	require.Equal(t, []string{"Name", "BaseURL", "APIKey", "Header", "Header[bad name]", "IdempotencyHeader", "MaxResponseBytes"}, fields)
	require.NotContains(t, err.Error(), "hunter2")
	require.Equal(t, classifier.CompilationFailed, classifier.Default().Classify(err).Class)
}

func TestConfigBaseURL(t *testing.T) {
	for url, ok := range map[string]bool{
		"": true, "https://api.groq.com/openai/v1": true, "http://127.0.0.1:11434/v1/": true,
		"api.groq.com": false, "/v1": false, "https://": false, "https://h/v1#x": false, "https://h/\x7f": false,
	} {
		require.Equal(t, ok, openai.Config{BaseURL: url}.Validate() == nil, url)
	}
}

func TestConfigDefaults(t *testing.T) {
	c, err := openai.New(openai.Config{})
	require.NoError(t, err)
	require.Equal(t, "openai", c.Name())
}
