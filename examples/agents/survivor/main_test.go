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

// No kill at any moment makes a call that is kept be made again, and the agent is done in the end.
func TestSurvives(t *testing.T) {
	program := filepath.Join(t.TempDir(), "survivor.exe")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	for _, args := range []string{"-kills 0", "-kills 12 -seed 1", "-kills 40 -seed 2"} {
		t.Run(args, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), program, strings.Fields(args)...).CombinedOutput()
			text := string(out)
			require.NoError(t, err, text)
			require.Contains(t, text, "0 repeated although kept")
			require.Contains(t, text, "done in 14 super-steps, with 36 notes and 3 drafts")
			if args == "-kills 0" {
				require.Contains(t, text, "37 calls: 37 made once;")
			} else {
				require.Contains(t, text, "process 1 was killed")
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	d := &desk{calls: []*call{
		{name: "made once", by: []int{1}, kept: 1},
		{name: "in flight at the kill of 1", by: []int{1, 2}, kept: 2},
		{name: "nobody knows", by: []int{3}},
	}}
	require.NoError(t, d.verdict())
	d.calls = append(d.calls, &call{name: "made again by 4", by: []int{2, 4}, kept: 2})
	require.ErrorIs(t, d.verdict(), errRepeated)
}

func TestLook(t *testing.T) {
	d := &desk{calls: []*call{{name: "a 1", by: []int{1}}, {name: "a 12", by: []int{1}}, {name: "b", by: []int{2}}}}
	kept, lost := d.look(1, [][]byte{[]byte("the answer to " + mark("a 1"))})
	require.Equal(t, 1, kept)
	require.Equal(t, []string{"a 12"}, lost)
}
