package sqlite_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	driver "modernc.org/sqlite"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/journal/sqlite"
)

func TestMain(m *testing.M) {
	if child := os.Getenv(childEnv); child != "" {
		os.Exit(runChild(child))
	}
	goleak.VerifyTestMain(m)
}

// The suite that every store passes.
func TestStore(t *testing.T) {
	// Each rule has a store of its own. A copy of an empty one is made faster than a new one.
	made := file(t)
	s, err := sqlite.Open(made)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	journaltest.Run(t, journaltest.Harness{
		Open: func(t *testing.T) journal.Store {
			t.Helper()
			return open(t, copied(t, made))
		},
		Reopen: func(t *testing.T, s journal.Store) journal.Store {
			t.Helper()
			store := s.(*sqlite.Store)
			require.NoError(t, store.Close())
			return open(t, store.Path())
		},
		Second: func(t *testing.T, s journal.Store) journal.Store {
			t.Helper()
			return open(t, s.(*sqlite.Store).Path())
		},
		Kill: func(t *testing.T, s journal.Store) {
			t.Helper()
			require.NoError(t, s.(*sqlite.Store).Close())
		},
		Cuts: cuts(),
		// Written by the releases that had these schemas. To add one, see the package comment.
		Fixtures: []journaltest.Fixture{fixture("schema1"), fixture("schema2")},
		Corrupt:  corrupt,
	})
}

func fixture(name string) journaltest.Fixture {
	return journaltest.Fixture{Name: name, Open: func(t *testing.T) journal.Store {
		t.Helper()
		return open(t, unpacked(t, name))
	}}
}

// cuts are the places where a write can be cut off.
func cuts() []journaltest.Cut {
	cut := func(name string, when journaltest.When) journaltest.Cut {
		return journaltest.Cut{Name: name, When: when, Arm: func(_ *testing.T, s journal.Store) { s.(*sqlite.Store).CutAt(name) }}
	}
	return []journaltest.Cut{
		cut("before the transaction", journaltest.Before),
		cut("before the commit", journaltest.Before),
		cut("behind the commit", journaltest.After),
	}
}

// corrupt changes a byte of the row that has an event.
func corrupt(t *testing.T, s journal.Store, run string, seq int64) {
	t.Helper()
	db := attach(t, s.(*sqlite.Store).Path())
	result, err := db.Exec(`UPDATE events SET row = substr(row, 1, length(row) / 2) || x'ff' || substr(row, length(row) / 2 + 2)
		WHERE run = (SELECT key FROM runs WHERE id = ?) AND seq <= ? AND seq + n > ?`, run, seq, seq)
	require.NoError(t, err)
	n, err := result.RowsAffected()
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
}

// attach opens a file as another program would.
func attach(tb testing.TB, path string) *sql.DB {
	tb.Helper()
	c, err := driver.NewConnector("file:" + path + "?_busy_timeout=5000&_txlock=immediate")
	require.NoError(tb, err)
	db := sql.OpenDB(c)
	tb.Cleanup(func() { require.NoError(tb, db.Close()) })
	return db
}

func file(tb testing.TB) string {
	tb.Helper()
	return filepath.Join(tb.TempDir(), "runs.db")
}

// copied returns a copy of a closed database.
func copied(tb testing.TB, path string) string {
	tb.Helper()
	data, err := os.ReadFile(path)
	require.NoError(tb, err)
	to := file(tb)
	require.NoError(tb, os.WriteFile(to, data, 0o600))
	return to
}

func open(tb testing.TB, path string, opts ...sqlite.Option) *sqlite.Store {
	tb.Helper()
	s, err := sqlite.Open(path, opts...)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	return s
}

// newRun is a run with its first event.
func newRun(id string) journal.NewRun {
	return journal.NewRun{
		Run:    journal.Run{ID: id, Kind: journal.GraphRun, Name: "g"},
		Events: []journal.Event{{Kind: journal.RunStart, Time: time.Now()}},
	}
}

// held makes a run and holds it.
func held(tb testing.TB, s journal.Store, id string) journal.Lease {
	tb.Helper()
	n := newRun(id)
	n.Claim = journal.Claim{Owner: "me", TTL: time.Hour}
	l, err := s.Create(tb.Context(), n)
	require.NoError(tb, err)
	return l
}

// add appends a step.
func add(tb testing.TB, s journal.Store, l journal.Lease, after int64) error {
	tb.Helper()
	return s.Append(tb.Context(), l, journal.Append{After: after, Events: stepOf(after)})
}

// read returns the events of a run.
func read(tb testing.TB, s journal.Store, run string) []journal.Event {
	tb.Helper()
	var events []journal.Event
	for e, err := range s.Events(tb.Context(), run, 0) {
		require.NoError(tb, err)
		events = append(events, e)
	}
	return events
}
