package crashtest_test

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/sqlite"
)

// write makes the run with its first n events, in the appends that it was written in.
func (f finished) write(tb testing.TB, store journal.Store, n int) {
	tb.Helper()
	ctx := tb.Context()
	for _, l := range f.cut(n, true) {
		if l.run.ID != "r" {
			l.put(tb, store)
			continue
		}
		after := f.ends[0]
		lease, err := store.Create(ctx, journal.NewRun{
			Run: l.run, Events: l.events[:after], Messages: l.inbox, Claim: journal.Claim{Owner: "test", TTL: 1 << 40},
		})
		require.NoError(tb, err)
		for _, end := range f.ends[1:] {
			end = min(end, n)
			if end == after {
				break
			}
			require.NoError(tb, store.Append(ctx, lease, journal.Append{After: int64(after), Events: l.events[after:end]}))
			after = end
		}
		if !l.events[len(l.events)-1].Kind.Terminal() {
			_, err = store.Renew(ctx, lease, 0)
			require.NoError(tb, err)
		}
	}
}

// file keeps the run with its first n events in a file that nobody has open.
func (f finished) file(tb testing.TB, n int) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "journal.db")
	db, err := sqlite.Open(path)
	require.NoError(tb, err)
	f.write(tb, db, n)
	require.NoError(tb, db.Close())
	require.NoFileExists(tb, path+"-wal")
	return path
}

// copyOf is a copy of a file that nobody has open.
func copyOf(tb testing.TB, path string) string {
	tb.Helper()
	data, err := os.ReadFile(path)
	require.NoError(tb, err)
	to := filepath.Join(tb.TempDir(), "copy.db")
	require.NoError(tb, os.WriteFile(to, data, 0o600))
	return to
}

// change executes SQL on a file, past the store.
func change(tb testing.TB, path, query string, args ...any) {
	tb.Helper()
	raw := openRaw(tb, path)
	_, err := raw.ExecContext(tb.Context(), query, args...)
	require.NoError(tb, err)
	require.NoError(tb, raw.Close())
}

func openRaw(tb testing.TB, path string) *sql.DB {
	tb.Helper()
	raw, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path)+"?_pragma=synchronous(OFF)&_busy_timeout=5000")
	require.NoError(tb, err)
	raw.SetMaxOpenConns(1)
	return raw
}

// row is a row of events.
type row struct {
	key, seq, n int64
	data        []byte
}

func rowsOf(tb testing.TB, raw *sql.DB) (all []row) {
	tb.Helper()
	rows, err := raw.QueryContext(tb.Context(), "SELECT rowid, seq, n, row FROM events WHERE run = (SELECT key FROM runs WHERE id = 'r') ORDER BY seq")
	require.NoError(tb, err)
	defer rows.Close()
	for rows.Next() {
		var r row
		require.NoError(tb, rows.Scan(&r.key, &r.seq, &r.n, &r.data))
		all = append(all, r)
	}
	require.NoError(tb, rows.Err())
	return all
}

// resume goes on with the run that a store keeps.
func (f finished) resume(tb testing.TB, store journal.Store) (*local, result, error) {
	tb.Helper()
	desk := newLocal()
	r, err := newRunner(f.shape, desk, store)
	require.NoError(tb, err)
	res, err := r.Resume(tb.Context(), "r")
	return desk, resultOf(res), err
}

// driveOn gives the run what it waits for.
func (f finished) driveOn(tb testing.TB, desk *local, store journal.Store) (result, error) {
	tb.Helper()
	r, err := newRunner(f.shape, desk, store)
	require.NoError(tb, err)
	res, err := drive(tb.Context(), r, store, "r")
	if err != nil {
		return result{}, err
	}
	return resultOf(res), nil
}

// requireCorrupt holds that an error names the run and the row.
func requireCorrupt(tb testing.TB, err error, r row) {
	tb.Helper()
	var corrupt *journal.CorruptError
	require.ErrorAs(tb, err, &corrupt)
	require.Equal(tb, "r", corrupt.Run)
	require.GreaterOrEqual(tb, corrupt.Seq, r.seq)
	require.Less(tb, corrupt.Seq, r.seq+r.n)
	require.Contains(tb, err.Error(), `"r"`)
	require.Contains(tb, err.Error(), fmt.Sprint(corrupt.Seq))
}

// Whatever byte of a row is another, whoever reads the row is told which event cannot be read. What stands before it can.
func TestDamage_EachByteOfEachRow(t *testing.T) {
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			f := finish(t, s.name)
			path := f.file(t, len(f.runs[0].events))
			db, err := sqlite.Open(path)
			require.NoError(t, err)
			defer db.Close()
			raw := openRaw(t, path)
			defer raw.Close()
			flips := 0
			for _, r := range rowsOf(t, raw) {
				damaged := append([]byte(nil), r.data...)
				for at := 0; at < len(damaged); at += strideAt(at, len(damaged)) {
					flips++
					damaged[at] ^= 1 << (at % 8)
					_, err := raw.ExecContext(t.Context(), "UPDATE events SET row = ? WHERE rowid = ?", damaged, r.key)
					require.NoError(t, err)

					requireCorrupt(t, firstError(t, db, r.seq-1), r)
					if flips%8 == 0 {
						f.requireRefused(t, db, r)
					}
					damaged[at] = r.data[at]
				}
				_, err = raw.ExecContext(t.Context(), "UPDATE events SET row = ? WHERE rowid = ?", r.data, r.key)
				require.NoError(t, err)
			}
			_, got, err := f.resume(t, db)
			require.NoError(t, err)
			require.Equal(t, f.result, got)
			t.Logf("%d bytes changed", flips)
		})
	}
}

// firstError reads the events behind a number, of which the first cannot be read.
func firstError(tb testing.TB, store journal.Store, after int64) error {
	tb.Helper()
	for e, err := range store.Events(tb.Context(), "r", after) {
		require.Error(tb, err, "event %d", e.Seq)
		return err
	}
	require.Fail(tb, "there are no events")
	return nil
}

// requireRefused holds that a damaged row keeps the run from going on, unless it stands before the last checkpoint: then it
// is not read. Nothing is called.
func (f finished) requireRefused(tb testing.TB, store journal.Store, r row) {
	tb.Helper()
	read := int64(0)
	for e, err := range store.Events(tb.Context(), "r", 0) {
		if err == nil {
			read = e.Seq
		}
	}
	require.Equal(tb, r.seq-1, read, "what stands before the row can be read")
	desk, got, err := f.resume(tb, store)
	if err == nil && 1 < r.seq && r.seq < f.runs[0].run.Checkpoint {
		require.Equal(tb, f.result, got)
	} else {
		requireCorrupt(tb, err, r)
	}
	require.Empty(tb, desk.ledger.by(1))
}

// strideAt is how far the next byte is that is changed: in a row of padding not each one is.
func strideAt(at, size int) int {
	const edge = 300
	if at < edge || size-at < edge {
		return rowStride
	}
	return 997
}

// Going on with a run whose journal is damaged is refused in the same way, and spends its budget of such attempts. After that it
// has failed for good, and still nothing was called.
func TestDamage_ARunUnderWay(t *testing.T) {
	f := finish(t, "everything")
	path := f.file(t, len(f.runs[0].events)*2/3)
	raw := openRaw(t, path)
	rows := rowsOf(t, raw)
	require.NoError(t, raw.Close())
	for _, r := range rows {
		t.Run(fmt.Sprint("event ", r.seq), func(t *testing.T) {
			damaged := append([]byte(nil), r.data...)
			damaged[len(damaged)/2] ^= 0x10
			path := copyOf(t, path)
			change(t, path, "UPDATE events SET row = ? WHERE rowid = ?", damaged, r.key)
			db, err := sqlite.Open(path)
			require.NoError(t, err)
			defer db.Close()
			desk, _, err := f.resume(t, db)
			requireCorrupt(t, err, r)
			require.Empty(t, desk.ledger.by(1))
		})
	}
}

// What stands in the other columns, or which rows there are, may be wrong as well.
func TestDamage_OtherColumns(t *testing.T) {
	const of = " WHERE run = (SELECT key FROM runs WHERE id = 'r')"
	type damage struct {
		query string
		// open says that a run under way may go on from it: what is left is a journal like any other.
		open bool
	}
	var all []damage
	for _, seq := range []int{1, 5, 20} { // each begins a row
		at := fmt.Sprintf("%s AND seq = (SELECT max(seq) FROM events%s AND seq <= %d)", of, of, seq)
		all = append(all,
			damage{query: "DELETE FROM events" + at},
			damage{query: "UPDATE events SET seq = 1000" + at},
			damage{query: "UPDATE events SET seq = -seq" + at},
			damage{query: "UPDATE events SET n = n + 1" + at},
			damage{query: "UPDATE events SET n = n - 1" + at},
			damage{query: "UPDATE events SET n = 1 << 62" + at},
			damage{query: "UPDATE events SET run = run + 1000" + at},
			damage{query: "UPDATE events SET row = x''" + at},
			damage{query: "UPDATE events SET row = substr(row, 1, length(row) / 2)" + at},
			damage{query: "UPDATE events SET row = 'text'" + at},
			damage{query: "UPDATE events SET row = (SELECT row FROM events" + of + " AND seq > 5 ORDER BY seq LIMIT 1)" + at},
		)
	}
	all = append(all,
		damage{query: "DELETE FROM events"},
		damage{query: "DELETE FROM events" + of + " AND seq = (SELECT max(seq) FROM events" + of + ")", open: true},
		damage{query: "INSERT INTO events (run, seq, n, row) SELECT run, seq + n, (n), row FROM events" + of + " ORDER BY seq DESC LIMIT 1"},
		damage{query: "UPDATE inbox SET payload = x'22'"},
		damage{query: "UPDATE inbox SET payload = NULL"},
		damage{query: "UPDATE inbox SET name = name || 'x'"},
		damage{query: "UPDATE inbox SET kind = 'signal'"},
		damage{query: "UPDATE inbox SET seq = seq + 1000"},
		damage{query: "UPDATE inbox SET sum = sum + 1"},
		damage{query: "DELETE FROM inbox"},
		damage{query: "DELETE FROM runs"},
	)
	for _, column := range []string{"kind", "name", "version", "fingerprint", "thread", "link_kind", "link_run", "status", "owner", "holder"} {
		all = append(all, damage{query: "UPDATE runs SET " + column + " = 'nonsense' WHERE id = 'r'"})
	}
	for _, status := range []string{"pending", "running", "suspended", "completed", "failed", "cancelled", "continued", ""} {
		all = append(all, damage{query: "UPDATE runs SET status = '" + status + "' WHERE id = 'r'"})
	}
	for _, column := range []string{"checkpoint", "token", "link_step", "created", "updated", "due", "until"} {
		for _, value := range []string{"-1", "1", "3", "1000", "1 << 62"} {
			all = append(all, damage{query: "UPDATE runs SET " + column + " = " + value + " WHERE id = 'r'"})
		}
	}
	f := finish(t, "everything")
	events := len(f.runs[0].events)
	whole, cut := f.file(t, events), f.file(t, events*2/3)
	for i := 0; i < len(all); i += columnStride {
		d := all[i]
		for name, path := range map[string]string{"ended": whole, "under way": cut} {
			t.Run(name+" "+d.query, func(t *testing.T) {
				path := copyOf(t, path)
				change(t, path, d.query)
				db, err := sqlite.Open(path)
				require.NoError(t, err)
				defer db.Close()
				desk, got, err := f.resume(t, db)
				if errors.As(err, new(*durable.SuspendedError)) {
					got, err = f.driveOn(t, desk, db)
				}
				if err != nil {
					t.Log(err)
					requirePlain(t, err)
				} else {
					assert.Equal(t, f.result, got)
				}
				if d.open && name == "under way" {
					return
				}
				for about := range desk.ledger.by(1) {
					assert.NotEqual(t, recorded, outcomeIn(f.cut(events*2/3, true)[0].events, about, false), "%s was repeated", about)
				}
			})
		}
	}
}

// requirePlain holds that an error is one of ours that a reader can do something with.
func requirePlain(tb testing.TB, err error) {
	tb.Helper()
	require.True(tb, strings.HasPrefix(err.Error(), "pawl: "), err.Error())
	require.Contains(tb, err.Error(), `"r"`)
	require.NotContains(tb, err.Error(), "panic")
	require.NotContains(tb, err.Error(), "internal")
}

// damageFile changes bytes of a file, and holds that who goes on with its run hears of it or notices nothing.
func (f finished) damageFile(tb testing.TB, path string, flips func(data []byte)) error {
	tb.Helper()
	data, err := os.ReadFile(path)
	require.NoError(tb, err)
	flips(data)
	to := filepath.Join(tb.TempDir(), "damaged.db")
	require.NoError(tb, os.WriteFile(to, data, 0o600))
	db, err := sqlite.Open(to)
	if err != nil {
		require.ErrorContains(tb, err, "pawl: ")
		require.ErrorContains(tb, err, "open journal "+to)
		return err
	}
	defer db.Close()
	desk, got, err := f.resume(tb, db)
	if err != nil {
		require.ErrorContains(tb, err, "pawl: ")
		return err
	}
	require.Equal(tb, f.result, got)
	require.Empty(tb, desk.ledger.by(1))
	return nil
}

// Bytes of the file itself are changed: of pages, headers and indexes.
func TestDamage_BytesOfTheFile(t *testing.T) {
	f := finish(t, "everything")
	path := f.file(t, len(f.runs[0].events))
	random := rand.New(rand.NewPCG(3, 4))
	said := map[string]int{}
	for range fileFlips {
		var at int
		var mask byte
		err := f.damageFile(t, path, func(data []byte) {
			at, mask = random.IntN(len(data)), 1<<random.IntN(8)
			data[at] ^= mask
		})
		if t.Failed() {
			t.Fatalf("byte %d, mask %#x", at, mask)
		}
		switch {
		case err == nil:
			said["nothing, and rightly"]++
		case errors.Is(err, journal.ErrCorrupt):
			said["that it is damaged"]++
		default:
			said["something else"]++
			t.Logf("byte %d: %v", at, err)
		}
	}
	t.Log(said)
}

func FuzzDamagedFile(f *testing.F) {
	done := finish(f, "everything")
	path := done.file(f, len(done.runs[0].events))
	for _, at := range []uint32{0, 16, 24, 60, 100, 4096, 8192, 20000} {
		f.Add(at, byte(1), uint32(0), byte(0))
		f.Add(at, byte(0xff), at+4, byte(0xff))
	}
	f.Fuzz(func(t *testing.T, at uint32, mask byte, and uint32, andMask byte) {
		_ = done.damageFile(t, path, func(data []byte) {
			data[int(at)%len(data)] ^= mask
			data[int(and)%len(data)] ^= andMask
		})
	})
}
