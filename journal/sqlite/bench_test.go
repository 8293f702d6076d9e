package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	driver "modernc.org/sqlite"

	"github.com/pawl-go/pawl/journal"
)

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

// raw is the driver with the settings of the store, and a table of the same shape.
func raw(b *testing.B) *sql.Conn {
	b.Helper()
	path := filepath.Join(b.TempDir(), "raw.db")
	c, err := driver.NewConnector("file:" + path + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	require.NoError(b, err)
	db := sql.OpenDB(c)
	b.Cleanup(func() { db.Close() })
	conn, err := db.Conn(context.Background())
	require.NoError(b, err)
	b.Cleanup(func() { conn.Close() })
	_, err = conn.ExecContext(context.Background(),
		"CREATE TABLE events (run INTEGER NOT NULL, seq INTEGER NOT NULL, n INTEGER NOT NULL, row BLOB NOT NULL, UNIQUE (run, seq))")
	require.NoError(b, err)
	return conn
}

const insertRow = "INSERT INTO events (run, seq, n, row) VALUES (?, ?, 1, ?)"

// floor is what the driver does by itself with the same rows: one a commit, or 100.
type floor struct {
	conn *sql.Conn
	stmt *sql.Stmt
	row  []byte
	seq  int64
}

func newFloor(b *testing.B) *floor {
	b.Helper()
	f := &floor{conn: raw(b), row: journal.EncodeRow("run-0", 1, stepOf(1))}
	var err error
	f.stmt, err = f.conn.PrepareContext(context.Background(), insertRow)
	require.NoError(b, err)
	return f
}

func (f *floor) single(b *testing.B) {
	b.Helper()
	f.seq++
	if _, err := f.stmt.ExecContext(context.Background(), 1, f.seq, f.row); err != nil {
		b.Fatal(err)
	}
}

func (f *floor) hundred(b *testing.B) {
	b.Helper()
	tx, err := f.conn.BeginTx(context.Background(), nil)
	if err != nil {
		b.Fatal(err)
	}
	f.seq++
	for run := range 100 {
		if _, err := f.stmt.ExecContext(context.Background(), run, f.seq, f.row); err != nil {
			b.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkAppend appends to many runs at once, an event at a time, each acknowledged before its run's next. In between it
// lets the driver commit the same rows by itself, so that both meet the same disk: "x-single" and "x-batch" say how much
// faster the store is than one row a commit, and than 100.
func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct{ runs, each int }{{1, 1}, {100, 20}, {1000, 5}} {
		b.Run(fmt.Sprintf("runs=%d", c.runs), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "runs.db"))
			w := newWriters(b, s, c.runs)
			f := newFloor(b)
			singles, batches := max(1, c.runs*c.each/20), c.runs*c.each/100
			var store, single, batch time.Duration
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				w.turn(b, c.each)
				written := time.Now()
				for range singles {
					f.single(b)
				}
				committed := time.Now()
				for range batches {
					f.hundred(b)
				}
				store += written.Sub(start)
				single += committed.Sub(written)
				batch += time.Since(committed)
			}
			rate := float64(b.N*c.runs*c.each) / store.Seconds()
			b.ReportMetric(rate, "appends/s")
			b.ReportMetric(float64(b.N*singles)/single.Seconds(), "single/s")
			b.ReportMetric(rate*single.Seconds()/float64(b.N*singles), "x-single")
			if batches > 0 {
				b.ReportMetric(float64(100*b.N*batches)/batch.Seconds(), "batch/s")
				b.ReportMetric(rate*batch.Seconds()/float64(100*b.N*batches), "x-batch")
			}
		})
	}
}

// writers are the owners of runs.
type writers struct {
	store  journal.Store
	leases []journal.Lease
	heads  []int64
}

func newWriters(b *testing.B, s journal.Store, runs int) *writers {
	b.Helper()
	w := &writers{store: s, heads: make([]int64, runs)}
	for i := range runs {
		n := newRun(fmt.Sprintf("run-%d", i))
		n.Claim = journal.Claim{Owner: "bench", TTL: time.Hour}
		l, err := s.Create(b.Context(), n)
		require.NoError(b, err)
		w.leases = append(w.leases, l)
		w.heads[i] = 1
	}
	return w
}

// turn lets every owner append some events.
func (w *writers) turn(b *testing.B, each int) {
	b.Helper()
	if len(w.leases) == 1 {
		w.write(b, 0, each)
		return
	}
	var all sync.WaitGroup
	for i := range w.leases {
		all.Go(func() { w.write(b, i, each) })
	}
	all.Wait()
}

func (w *writers) write(b *testing.B, i, each int) {
	b.Helper()
	for range each {
		a := journal.Append{After: w.heads[i], Events: stepOf(w.heads[i])}
		if err := w.store.Append(context.Background(), w.leases[i], a); err != nil {
			b.Error(err)
			return
		}
		w.heads[i]++
	}
}
