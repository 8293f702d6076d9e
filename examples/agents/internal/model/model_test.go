package model_test

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-go/pawl/examples/agents/internal/model"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var question = providers.Request{Messages: []providers.Message{{Role: "user", Content: "well?"}}}

func TestScripted(t *testing.T) {
	gpt, closeModel, err := model.Open("gpt", false, scripted.New(scripted.On().Reply("yes, well")))
	require.NoError(t, err)
	defer closeModel()
	resp, err := gpt.Chat(t.Context(), question)
	require.NoError(t, err)
	require.Equal(t, "yes, well", resp.Text())
	require.Equal(t, "gpt", resp.Provider)
	require.Equal(t, "scripted", resp.Model)
}

func TestLiveAsksTheEndpointOfTheEnvironment(t *testing.T) {
	script := scripted.New(scripted.On(scripted.Model("big")).Reply("from afar"))
	endpoint := httptest.NewServer(script.Handler())
	defer endpoint.Close()
	t.Setenv("OPENAI_BASE_URL", endpoint.URL+"/v1")
	t.Setenv("OPENAI_API_KEY", "none")
	t.Setenv("OPENAI_MODEL", "big")
	gpt, closeModel, err := model.Open("gpt", true, nil)
	require.NoError(t, err)
	defer closeModel()
	resp, err := gpt.Chat(t.Context(), question)
	require.NoError(t, err)
	require.Equal(t, "from afar", resp.Text())
}

func TestLiveSaysWhichVariableIsMissing(t *testing.T) {
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
	t.Setenv("OPENAI_API_KEY", "")
	t.Setenv("OPENAI_MODEL", "")
	_, _, err := model.Open("gpt", true, nil)
	require.EqualError(t, err, "-live: OPENAI_API_KEY is not set: set it to your key, or to any word for an endpoint that wants none\n"+
		"-live: OPENAI_MODEL is not set: set it to the name of a model that the endpoint serves")
}

func TestLiveRefusesABadURL(t *testing.T) {
	t.Setenv("OPENAI_BASE_URL", "localhost")
	t.Setenv("OPENAI_API_KEY", "none")
	t.Setenv("OPENAI_MODEL", "big")
	_, _, err := model.Open("gpt", true, nil)
	var bad *providers.ConfigError
	require.ErrorAs(t, err, &bad)
}
