package main

import (
	"context"
	"io/fs"
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The lines of tasks that run side by side may come in another order; everything else may not differ.
//

func Example() {
	if err := run(context.Background(), os.DirFS("docs"), "tides, and what sailors make of them", false); err != nil {
		panic(err)
	}
	// Unordered output:
	// super-step 1, tasks: 1
	//   plan: attempt 1 failed: pawl: provider "gpt": provider_error (HTTP 503, type server_error, model scripted)
	//   plan: retried after 100ms
	//   plan: done in attempt 2
	// super-step 2, tasks: 4
	//   outline: done in attempt 1
	//   search[1]: attempt 1 failed: pawl: provider "gpt": rate_limited (HTTP 429, code rate_limit_exceeded, type requests, model scripted, wait 300ms)
	//   search[1]: retried after 300ms (the server asked for 300ms)
	//   search[0]: done in attempt 1
	//   search[2]: done in attempt 1
	//   search[1]: done in attempt 2
	// super-step 3, tasks: 1
	// Tides are caused by the wi
	//   draft: attempt 1 failed: pawl: provider "gpt": provider_error: the answer ended before it was whole (model scripted)
	//   draft: retried after 100ms
	//   draft: retracted: forget the 6 tokens above
	// Tides are caused by the difference between the moon's pull on the near side of the earth, on its centre, and on its far side. [tides.txt]
	// Spring tides come twice a month, near new moon and full moon, when sun, moon and earth stand in a line and the tides of sun and moon add up. [spring-and-neap.txt]
	//   draft: done in attempt 2
	// super-step 4, tasks: 1
	//   review: done in attempt 1
	// super-step 5, tasks: 1
	// Tides are caused by the difference between the moon's pull on the near side of the earth, on its centre, and on its far side. [tides.txt]
	// Spring tides come twice a month, near new moon and full moon, when sun, moon and earth stand in a line and the tides of sun and moon add up. [spring-and-neap.txt]
	// Tide tables give the time and height of high and low water at a port, and sailors use them to know the depth over a bar or beside a quay: the height of the tide is added to the depth on the chart. [tide-tables.txt]
	//   draft: done in attempt 1
	// super-step 6, tasks: 1
	//   review: done in attempt 1
	//
	// Tides are caused by the difference between the moon's pull on the near side of the earth, on its centre, and on its far side. [tides.txt]
	// Spring tides come twice a month, near new moon and full moon, when sun, moon and earth stand in a line and the tides of sun and moon add up. [spring-and-neap.txt]
	// Tide tables give the time and height of high and low water at a port, and sailors use them to know the depth over a bar or beside a quay: the height of the tide is added to the depth on the chart. [tide-tables.txt]
	//
	// 6 super-steps, 12 model calls, 1229 prompt and 287 completion tokens
	//
	// NODE     TASKS  ATTEMPTS  WAITED  PROMPT  ANSWER  RETRIED
	// plan     1      2         100ms   26      22      provider_error
	// outline  1      1         0s      20      3       -
	// search   3      4         300ms   452     101     rate_limited
	// draft    2      3         100ms   329     155     provider_error
	// review   2      2         0s      402     6       -
}

func TestTheFolderIsThere(t *testing.T) {
	names, err := fs.Glob(shipped, "docs/*.txt")
	require.NoError(t, err)
	require.Len(t, names, 12)
}

func TestSearchFindsTheRarestWords(t *testing.T) {
	lib, err := openLibrary(os.DirFS("docs"))
	require.NoError(t, err)
	for query, want := range map[string]string{
		"who built the first machine that predicts tides": "tide-tables.txt",
		"largest tides in Canada":                         "fundy.txt",
		"Harrison's sea watch":                            "longitude.txt",
		"why does the moon move away from the earth":      "slowing-earth.txt",
		"height of the pole star":                         "latitude.txt",
		"what is a knot":                                  "dead-reckoning.txt",
	} {
		found := lib.search(query, 1)
		require.NotEmpty(t, found, query)
		require.Equal(t, want, found[0].source, query)
	}
	require.Empty(t, lib.search("quantum chromodynamics", 3))
	require.Empty(t, lib.search("", 3))
}

func TestAnEmptyFolderIsRefused(t *testing.T) {
	require.EqualError(t, run(t.Context(), fstest.MapFS{}, "tides", false), "no text in the .txt files of the folder (0 of them)")
}

func TestLiveNeedsAnEndpoint(t *testing.T) {
	for _, name := range []string{"OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"} {
		t.Setenv(name, "")
	}
	require.ErrorContains(t, run(t.Context(), os.DirFS("docs"), "tides", true), "-live: OPENAI_API_KEY is not set")
}
