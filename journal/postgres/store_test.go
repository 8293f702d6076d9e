package postgres_test

import (
	"compress/gzip"
	"context"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/journal/postgres"
)

func TestMain(m *testing.M) {
	if child := os.Getenv(childEnv); child != "" {
		os.Exit(runChild(child))
	}
	theServer.launch()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		dropUsed()
		theServer.stop()
		os.Exit(code)
	}))
}

// The suite that every store passes.
func TestStore(t *testing.T) {
	dsn(t)
	opened := 0
	again := func(t *testing.T, s journal.Store) journal.Store {
		t.Helper()
		opened++
		return open(t, s.(*postgres.Store).Schema(), postgres.Committers(1+opened%2)) // by turns with one and with two
	}
	journaltest.Run(t, journaltest.Harness{
		Open: func(t *testing.T) journal.Store {
			t.Helper()
			opened++
			return open(t, usedSchema(t), postgres.Committers(1+opened%2))
		},
		Reopen: func(t *testing.T, s journal.Store) journal.Store {
			t.Helper()
			require.NoError(t, s.(*postgres.Store).Close())
			return again(t, s)
		},
		Second: again,
		Kill: func(t *testing.T, s journal.Store) {
			t.Helper()
			require.NoError(t, s.(*postgres.Store).Close()) // its leases stay as they are
		},
		Cuts: cuts(),
		// Written by the release that had this schema. To add one, see the package comment.
		Fixtures: []journaltest.Fixture{{Name: "schema1", Open: func(t *testing.T) journal.Store {
			t.Helper()
			return open(t, restored(t, "schema1"))
		}}},
		Corrupt: corrupt,
	})
}

// restored is the name of a schema that a dump of an older release makes.
func restored(t *testing.T, name string) (schema string) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".sql.gz"))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	dump, err := io.ReadAll(z)
	require.NoError(t, err)
	schema = newSchema(t)
	exec1(t, "public", strings.NewReplacer("fixture.", schema+".", "SCHEMA fixture", "SCHEMA "+schema).Replace(string(dump)))
	return schema
}

// cuts are the places where a write can be cut off: the server ends the connection before, in and behind it.
func cuts() []journaltest.Cut {
	cut := func(name, place string, when journaltest.When, later bool) journaltest.Cut {
		return journaltest.Cut{Name: name, When: when, Arm: func(t *testing.T, s journal.Store) {
			t.Helper()
			store := s.(*postgres.Store)
			killer := attach(t, store.Schema())
			done := make(chan struct{})
			if later {
				t.Cleanup(func() { <-done })
			}
			kill := func() {
				var pids []int32 // those of now: the store may be opened again before they are ended
				_ = killer.QueryRow(context.Background(), selectPids, store.Schema()).Scan(&pids)
				end := func() {
					defer close(done)
					_, _ = killer.Exec(context.Background(), "SELECT pg_terminate_backend(pid, 5000) FROM unnest($1::int[]) pid", pids)
				}
				if later {
					go end()
					return
				}
				end()
			}
			store.CutAt(place, kill)
		}}
	}
	return []journaltest.Cut{
		cut("before the transaction", "before the transaction", journaltest.Before, false),
		cut("before the commit", "before the commit", journaltest.Before, false),
		cut("in the commit", "before the commit", journaltest.Inside, true),
		cut("behind the commit", "behind the commit", journaltest.After, false),
	}
}

// selectPids finds all connections of a schema's stores, whose name they have.
const selectPids = "SELECT coalesce(array_agg(pid), '{}') FROM pg_stat_activity WHERE application_name = $1"

// corrupt changes a byte of the row that has an event.
func corrupt(t *testing.T, s journal.Store, run string, seq int64) {
	t.Helper()
	conn := attach(t, s.(*postgres.Store).Schema())
	tag, err := conn.Exec(t.Context(), `UPDATE events SET data = set_byte(data, length(data) / 2, 255 - get_byte(data, length(data) / 2))
		WHERE run = (SELECT key FROM runs WHERE id = $1) AND seq <= $2 AND seq + n > $2`, []byte(run), seq)
	require.NoError(t, err)
	require.EqualValues(t, 1, tag.RowsAffected())
}

// newSchema is the name of a schema that is not there yet, and is dropped behind the test.
func newSchema(tb testing.TB) string {
	tb.Helper()
	dsn(tb)
	name := "t_" + strings.ToLower(rand.Text())
	tb.Cleanup(func() { exec1(tb, "public", "DROP SCHEMA IF EXISTS "+pgx.Identifier{name}.Sanitize()+" CASCADE") })
	return name
}

// used are schemas that tests have done with. To make one takes longer than most tests.
var used = make(chan string, 10)

// dropUsed drops them from a server that is not ours.
func dropUsed() {
	if theServer.own != nil || theServer.err != nil {
		return
	}
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, theServer.dsn)
	if err != nil {
		return
	}
	defer conn.Close(ctx)
	close(used)
	names := []string{"example"}
	for name := range used {
		names = append(names, name)
	}
	for _, name := range names {
		_, _ = conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{name}.Sanitize()+" CASCADE")
	}
}

// usedSchema is the name of a schema without runs.
func usedSchema(tb testing.TB) (name string) {
	tb.Helper()
	dsn(tb)
	select {
	case name = <-used:
		exec1(tb, name, "DELETE FROM runs; DELETE FROM events; DELETE FROM inbox; DELETE FROM workers")
	default:
		name = "t_" + strings.ToLower(rand.Text())
	}
	tb.Cleanup(func() {
		select {
		case used <- name:
		default:
		}
	})
	return name
}

func open(tb testing.TB, schema string, opts ...postgres.Option) *postgres.Store {
	tb.Helper()
	named := with(dsn(tb), map[string]string{"application_name": strings.ReplaceAll(schema, "'", "")})
	s, err := postgres.Open(tb.Context(), named, append([]postgres.Option{postgres.Schema(schema)}, opts...)...)
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

// payload is that of the measured layouts: 300 bytes of JSON.
func payload() []byte {
	b := []byte(`{"text":"`)
	for len(b) < 298 {
		b = append(b, 'x')
	}
	return append(b, `"}`...)
}

func stepOf(n int64) []journal.Event {
	return []journal.Event{{Kind: journal.StepDone, Name: "step", N: int(n), Time: time.Now(), Payload: payload()}}
}
