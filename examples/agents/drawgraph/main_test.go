package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMermaid(t *testing.T) {
	text, err := draw("mermaid")
	require.NoError(t, err)
	requireParts(t, text, "flowchart", "subgraph", "-->", "-.->")
}

func TestDOT(t *testing.T) {
	text, err := draw("dot")
	require.NoError(t, err)
	requireParts(t, text, "digraph", "subgraph cluster", "->", "style=dashed")
	require.Equal(t, strings.Count(text, "{"), strings.Count(text, "}"))
}

// requireParts looks for what the graph has one of each of, and for what the language has.
func requireParts(t *testing.T, text string, parts ...string) {
	t.Helper()
	names := []string{"report", "plan", "outline", "read", "write", "check", "facts", "style", "verdict", "Start", "End"}
	for _, part := range append(append(names, "retry", "each", "join"), parts...) {
		require.Contains(t, text, part)
	}
}

func TestBoth(t *testing.T) {
	text, err := draw("both")
	require.NoError(t, err)
	again, err := draw("both")
	require.NoError(t, err)
	require.Equal(t, text, again)
	require.Contains(t, text, "flowchart")
	require.Contains(t, text, "digraph")
}

func TestAnotherLanguage(t *testing.T) {
	_, err := draw("svg")
	require.EqualError(t, err, `-as "svg": say mermaid, dot or both`)
}
