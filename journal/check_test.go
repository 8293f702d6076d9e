package journal_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

// Stores have sums in their indexes: they must stay what they are, and tell apart what only adds up to the same text.
func TestTheSumOfAProgramIsStableAndOfEachPart(t *testing.T) {
	p := journal.Program{Kind: journal.WorkflowRun, Name: "sync", Version: "2", Fingerprint: "f"}
	assert.Equal(t, "c34b95c785bdca0323e0ac864c9bcf01", hex.EncodeToString(p.Sum()))
	seen := map[string]bool{}
	for _, p := range []journal.Program{
		p, {Kind: "workflow", Name: "sync2", Fingerprint: "f"}, {Kind: "workflow", Name: "sync", Version: "2f"},
		{Kind: "workflows", Name: "ync", Version: "2", Fingerprint: "f"}, {},
	} {
		assert.False(t, seen[string(p.Sum())], "%+v", p)
		seen[string(p.Sum())] = true
	}
}

func TestWhatNoStoreTakes(t *testing.T) {
	start, end := journal.Event{Kind: journal.RunStart}, journal.Event{Kind: journal.RunComplete}
	of := func(id string, events ...journal.Event) *journal.NewRun {
		return &journal.NewRun{Run: journal.Run{ID: id}, Events: events}
	}
	require.NoError(t, of("r", start, end).Check())
	require.ErrorContains(t, of("", start).Check(), "a run's id is empty")
	require.ErrorContains(t, of(strings.Repeat("x", journal.MaxIDLength+1), start).Check(), "the id is too long")
	require.ErrorContains(t, of("r").Check(), "its first event must be run:start")
	require.ErrorContains(t, of("r", end).Check(), "its first event must be run:start")
	require.ErrorIs(t, of("r", start, end, start).Check(), journal.ErrEnded)
}
