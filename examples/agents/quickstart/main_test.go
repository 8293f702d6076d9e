package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	if err := run(context.Background(), false); err != nil {
		panic(err)
	}
	// Output:
	// answer: done in attempt 1
	// title: attempt 1 failed: pawl: provider "gpt": provider_error (HTTP 503, type server_error, model scripted)
	// title: retried after 200ms
	// title: done in attempt 2
	//
	// Two Bulges, One Turn
	//
	// The moon pulls the near sea more than the earth, and the earth more than the far sea: two bulges.
	// The earth turns under them once a day.
	//
	// 3 model calls
}

func TestLiveNeedsAnEndpoint(t *testing.T) {
	for _, name := range []string{"OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"} {
		t.Setenv(name, "")
	}
	require.ErrorContains(t, run(t.Context(), true), "-live: OPENAI_BASE_URL is not set")
}
