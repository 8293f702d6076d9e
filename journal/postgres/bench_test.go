package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/postgres"
)

// floor is what the driver does by itself with the same rows: one a commit.
type floor struct {
	conn *pgx.Conn
	row  []byte
	seq  int64
}

func newFloor(b *testing.B, schema string) *floor {
	b.Helper()
	f := &floor{conn: attach(b, schema), row: journal.EncodeRow("run-0", 1, stepOf(1))}
	_, err := f.conn.Exec(context.Background(),
		"CREATE TABLE raw (run bigint NOT NULL, seq bigint NOT NULL, n integer NOT NULL, data bytea NOT NULL, PRIMARY KEY (run, seq))")
	require.NoError(b, err)
	return f
}

func (f *floor) single(b *testing.B) {
	b.Helper()
	f.seq++
	_, err := f.conn.Exec(context.Background(), "INSERT INTO raw (run, seq, n, data) VALUES ($1, $2, 1, $3)", int64(1), f.seq, f.row)
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkAppend appends to many runs at once, an event at a time, each acknowledged before its run's next. In between it
// lets the driver insert and commit the same rows by itself, one at a time, so that both meet the same disk: "x-single" says how
// much faster the store is.
func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct{ runs, each, committers int }{{1, 50, 1}, {100, 20, 1}, {1000, 5, 1}, {1000, 5, 2}} {
		b.Run(fmt.Sprintf("runs=%d/committers=%d", c.runs, c.committers), func(b *testing.B) {
			durable(b)
			schema := newSchema(b)
			w := newWriters(b, open(b, schema, postgres.Committers(c.committers)), c.runs)
			f := newFloor(b, schema)
			const singles = 50
			var store, single time.Duration
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				w.turn(b, c.each)
				store += time.Since(start)
				b.StopTimer()
				start = time.Now()
				for range singles {
					f.single(b)
				}
				single += time.Since(start)
				b.StartTimer()
			}
			rate := float64(b.N*c.runs*c.each) / store.Seconds()
			b.ReportMetric(rate, "appends/s")
			b.ReportMetric(float64(b.N*singles)/single.Seconds(), "single/s")
			b.ReportMetric(rate*single.Seconds()/float64(b.N*singles), "x-single")
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
	w := &writers{store: s, heads: make([]int64, runs), leases: make([]journal.Lease, runs)}
	var all sync.WaitGroup
	for i := range runs {
		all.Go(func() {
			n := newRun(fmt.Sprintf("run-%d", i))
			n.Claim = journal.Claim{Owner: "bench", TTL: time.Hour}
			var err error
			if w.leases[i], err = s.Create(b.Context(), n); err != nil {
				b.Error(err)
			}
			w.heads[i] = 1
		})
	}
	all.Wait()
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
