package postgres_test

import (
	"context"
	"fmt"
	"slices"
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

// BenchmarkTake lets a worker take one run after the other, by turns from a table of a thousand runs and from one of a million.
// Nearly all of them wait for messages; of the rest, most are of programs that the worker does not have. "x-1000" says how much
// more the larger table costs.
func BenchmarkTake(b *testing.B) {
	if testing.Short() {
		b.Skip("it makes a million runs")
	}
	small, large := newBacklog(b, 1000), newBacklog(b, 1_000_000)
	for _, c := range []struct {
		name string
		take func(*journal.Take)
	}{
		{"ready", func(*journal.Take) {}},
		{"orphans", func(t *journal.Take) { t.Orphans = true }},
		{"held", func(t *journal.Take) { t.Held = 30 }},
		{"none", func(t *journal.Take) { t.Programs = []journal.Program{{Name: "of nobody"}} }},
		{"ten programs", func(t *journal.Take) {
			for n := range 9 {
				t.Programs = append(t.Programs, journal.Program{Name: fmt.Sprint("none ", n)})
			}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var times [2][]time.Duration
			for b.Loop() {
				for i, s := range []*backlog{small, large} {
					times[i] = append(times[i], s.turn(b, c.take))
				}
			}
			few, many := median(times[0]), median(times[1])
			b.ReportMetric(float64(few.Microseconds()), "us/take-1000")
			b.ReportMetric(float64(many.Microseconds()), "us/take-1000000")
			b.ReportMetric(float64(many)/float64(few), "x-1000")
		})
	}
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

// backlog is a store with many runs that nobody takes, and a few that somebody does.
type backlog struct{ store *postgres.Store }

func newBacklog(b *testing.B, runs int) *backlog {
	b.Helper()
	schema := newSchema(b)
	s := open(b, schema)
	fill(b, schema, runs)
	const ready = 50
	for n := range ready {
		r := newRun(fmt.Sprint("ready ", n))
		r.Run.Queue = "q"
		_, err := s.Create(b.Context(), r)
		require.NoError(b, err)
	}
	exec1(b, schema, "VACUUM (ANALYZE) runs")
	exec1(b, schema, "VACUUM (ANALYZE) events")
	return &backlog{store: s}
}

// fill makes runs of the queue "q": of 100, 88 wait for a message, 10 are pending, of programs that nobody has, and 2 sleep. A
// few are held by a session that is there.
func fill(tb testing.TB, schema string, runs int) {
	tb.Helper()
	conn := attach(tb, schema)
	ctx := context.Background()
	var holder int64
	require.NoError(tb, conn.QueryRow(ctx, "SELECT 1000 + pg_backend_pid()").Scan(&holder))
	_, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", holder)
	require.NoError(tb, err)
	_, err = conn.Exec(ctx, `INSERT INTO runs (key, id, kind, name, version, fingerprint, thread, link_kind, link_run, link_step, created,
			status, updated, due, checkpoint, token, owner, holder, until, queue, program, ready)
		SELECT n + 1e7, int8send(n + 10000000), 'graph', 'g', '', '', '', '', '', 0, now(),
			CASE WHEN held THEN 'running' WHEN of < 90 THEN 'suspended' ELSE 'pending' END, now(),
			CASE WHEN of >= 88 AND of < 90 AND NOT held THEN now() + interval '1 hour' END, 0, n, '',
			CASE WHEN held THEN $2::bigint END, CASE WHEN held THEN now() + interval '1 day' END,
			'q', substr(sha256(int8send(n % 7)), 1, 16),
			CASE WHEN held THEN now() + interval '1 day' WHEN of < 88 THEN NULL WHEN of < 90 THEN now() + interval '1 hour'
				ELSE now() - interval '1 hour' END
		FROM generate_series(1::bigint, $1) n, LATERAL (SELECT n % 100 AS of, n < 1000 AND n % 50 = 0 AS held) l`, runs, holder)
	require.NoError(tb, err)
	_, err = conn.Exec(ctx, "INSERT INTO events (run, seq, n, data) SELECT key, 1, 1, '' FROM runs")
	require.NoError(tb, err)
}

// turn takes a run, and puts it back when the clock has stopped.
func (s *backlog) turn(b *testing.B, change func(*journal.Take)) time.Duration {
	b.Helper()
	t := journal.Take{
		Claim: journal.Claim{Owner: "bench", TTL: time.Minute}, Queue: "q", Limit: 1, Programs: []journal.Program{newRun("").Run.Program()},
	}
	change(&t)
	start := time.Now()
	taken, err := s.store.Take(b.Context(), t)
	took := time.Since(start)
	require.NoError(b, err)
	b.StopTimer()
	for _, got := range taken {
		_, err := s.store.Renew(b.Context(), got.Lease, 0)
		require.NoError(b, err)
	}
	b.StartTimer()
	return took
}
