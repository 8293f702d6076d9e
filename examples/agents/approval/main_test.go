package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// talk runs the example in this process.
func talk(t *testing.T, o options, lines ...string) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, run(t.Context(), o, strings.NewReader(strings.Join(lines, "\n")), &out))
	return out.String()
}

func TestAnswersFromTheTerminal(t *testing.T) {
	o := options{file: filepath.Join(t.TempDir(), "runs.db"), run: "r"}
	out := talk(t, o, "say which day", "yes")
	require.Equal(t, 2, strings.Count(out, "The model has written a draft."))
	require.Contains(t, out, "Published: We move to new servers on Friday, from 8 to 9 in the evening. "+
		"(Written again, since somebody said: say which day.)")
	require.Contains(t, out, "Run r is done.")

	require.Equal(t, "Run r is done. Start another with -run NAME.\n", talk(t, o), "what is done is not done again")
}

func TestNobodyAnswers(t *testing.T) {
	o := options{file: filepath.Join(t.TempDir(), "runs.db"), run: "r"}
	out := talk(t, o)
	require.Contains(t, out, "The model has written a draft.")
	require.Contains(t, out, "runs answer r - --string yes")

	again := talk(t, o)
	require.NotContains(t, again, "The model has written a draft.")
	require.Contains(t, again, "We will move to new servers soon.")
}

// The question is asked in one process and answered in others, by this program and by pawl.
func TestOtherProcessesGoOn(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "runs.db")
	program := compile(t, folder, "approval", ".")
	pawl := compile(t, folder, "pawl", "../../../cmd/pawl")

	out := start(t, program, "-store", file)
	require.Contains(t, out, "The model has written a draft.")
	require.Contains(t, out, "Nobody has answered.")

	out = start(t, program, "-store", file, "-answer", "say which day")
	require.Equal(t, 1, strings.Count(out, "The model has written a draft."))
	require.Contains(t, out, "since somebody said: say which day")
	require.Contains(t, out, "Nobody has answered.")

	start(t, pawl, "--store", file, "runs", "answer", "release-note", "-", "--string", "yes")
	out = start(t, program, "-store", file)
	require.NotContains(t, out, "The model has written a draft.")
	require.Contains(t, out, "Published: We move to new servers on Friday")
	require.Contains(t, out, "Run release-note is done.")
}

func compile(t *testing.T, folder, name, pkg string) string {
	t.Helper()
	program := filepath.Join(folder, name+".exe")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, pkg).CombinedOutput()
	require.NoError(t, err, string(out))
	return program
}

func start(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

func TestLiveNeedsAnEndpoint(t *testing.T) {
	for _, name := range []string{"OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"} {
		t.Setenv(name, "")
	}
	o := options{live: true, file: filepath.Join(t.TempDir(), "runs.db"), run: "r"}
	require.ErrorContains(t, run(t.Context(), o, strings.NewReader(""), nil), "-live: OPENAI_BASE_URL is not set")
}
