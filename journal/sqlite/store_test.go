package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/sqlite"
)

// newRun is a run with its first event.
func newRun(id string) journal.NewRun {
	return journal.NewRun{
		Run:    journal.Run{ID: id, Kind: journal.GraphRun, Name: "g"},
		Events: []journal.Event{{Kind: journal.RunStart, Time: time.Now()}},
	}
}

func open(t testing.TB, path string, opts ...sqlite.Option) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(path, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestARunIsWrittenAndRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := open(t, path)
	n := newRun("one")
	n.Claim = journal.Claim{Owner: "me", TTL: time.Minute}
	l, err := s.Create(t.Context(), n)
	require.NoError(t, err)
	for i := range int64(10) {
		events := []journal.Event{{Kind: journal.StepDone, Name: "a", N: int(i)}, {Kind: journal.StepDone, Name: "b", N: int(i)}}
		require.NoError(t, s.Append(t.Context(), l, journal.Append{After: 1 + 2*i, Events: events}))
	}
	require.NoError(t, s.Append(t.Context(), l, journal.Append{After: 21, Events: []journal.Event{{Kind: journal.RunComplete}}}))
	for after := range int64(23) {
		next := after
		for e, err := range s.Events(t.Context(), "one", after) {
			require.NoError(t, err)
			next++
			require.Equal(t, next, e.Seq)
		}
		require.EqualValues(t, 22, next)
	}
	r, err := s.Load(t.Context(), "one")
	require.NoError(t, err)
	require.Equal(t, journal.Completed, r.Status)
	require.EqualValues(t, 22, r.Head)
}
