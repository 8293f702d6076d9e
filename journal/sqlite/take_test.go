package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/sqlite"
)

// inQueue is a run of a queue.
func inQueue(id string) journal.NewRun {
	n := newRun(id)
	n.Run.Queue = "q"
	return n
}

func takeUpTo(limit int) journal.Take {
	programs := []journal.Program{{Kind: journal.GraphRun, Name: "another"}, newRun("").Run.Program()}
	return journal.Take{Claim: journal.Claim{Owner: "worker", TTL: time.Hour}, Queue: "q", Programs: programs, Limit: limit}
}

func take(tb testing.TB, s journal.Queue, t journal.Take) []journal.Taken {
	tb.Helper()
	taken, err := s.Take(tb.Context(), t)
	require.NoError(tb, err)
	return taken
}

// fill makes rows of suspended runs, every other one of which waits for a time that does not come.
func fill(tb testing.TB, db *sql.DB, rows int) {
	tb.Helper()
	_, err := db.ExecContext(tb.Context(), `
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
		INSERT INTO runs (id, kind, name, version, fingerprint, thread, link_kind, link_run, link_step, created, status, updated, due,
			checkpoint, token, owner, holder, until, queue, dedup, program, ready)
		SELECT 'row-' || i, kind, name, version, fingerprint, thread, link_kind, link_run, link_step, created, 'suspended', updated,
			iif(i % 2, ?2, NULL), checkpoint, token, owner, holder, until, queue, iif(i % 3, '', 'key-' || i), program, iif(i % 2, ?2, NULL)
		FROM n, runs WHERE id = 'r'`, rows, time.Now().Add(24*time.Hour).UnixMicro())
	require.NoError(tb, err)
	_, err = db.ExecContext(tb.Context(), "PRAGMA wal_checkpoint(TRUNCATE)")
	require.NoError(tb, err)
}

// What is asked about queues is found through its index, already sorted, whatever SQLite has counted.
func TestPlansOfQueues(t *testing.T) {
	s := open(t, file(t))
	_, err := s.Create(t.Context(), inQueue("r"))
	require.NoError(t, err)
	db := attach(t, s.Path())
	look := func(state string) {
		for query, index := range sqlite.QueueQueries() {
			plan := explain(t, db, query)
			assert.Contains(t, plan, "SEARCH runs USING ", "%s\n%s", state, query)
			assert.Contains(t, plan, "INDEX "+index+" (", "%s\n%s", state, query)
			assert.NotContains(t, plan, "TEMP B-TREE", "%s\n%s", state, query)
		}
	}
	look("empty")
	fill(t, db, 20000)
	look("filled")
	_, err = db.Exec("ANALYZE")
	require.NoError(t, err)
	look("analyzed")
}

func explain(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	args := make([]any, strings.Count(query, "?"))
	rows, err := db.Query("EXPLAIN QUERY PLAN "+query, args...)
	require.NoError(t, err)
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var detail string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
		plan.WriteString(detail + "\n")
	}
	require.NoError(t, rows.Err())
	return plan.String()
}

// The index has what can become ready, and nothing else.
func TestOnlyWhatCanBecomeReadyIsIndexed(t *testing.T) {
	s := open(t, file(t))
	db := attach(t, s.Path())
	ready := func() (n int) {
		require.NoError(t, db.QueryRow("SELECT count(*) FROM runs WHERE ready IS NOT NULL").Scan(&n))
		return n
	}
	held(t, s, "of no queue")
	require.Zero(t, ready())
	_, err := s.Create(t.Context(), inQueue("r"))
	require.NoError(t, err)
	require.Equal(t, 1, ready())
	l := take(t, s, takeUpTo(1))[0].Lease
	require.Equal(t, 1, ready(), "from the end of its lease on")
	appendKind := func(after int64, kind journal.Kind) {
		a := journal.Append{After: after, Events: []journal.Event{{Kind: kind}}}
		require.NoError(t, s.Append(t.Context(), l, a))
	}
	appendKind(1, journal.RunSuspended)
	require.Zero(t, ready(), "it waits for a message")
	_, err = s.Send(t.Context(), "r", journal.Message{})
	require.NoError(t, err)
	require.Equal(t, 1, ready())
	appendKind(2, journal.RunComplete)
	require.Zero(t, ready())
}

// A worker that asks again and again keeps nobody from writing.
func TestATakeThatFindsNothingWritesNothing(t *testing.T) {
	s := open(t, file(t))
	n := inQueue("later")
	n.Due = time.Now().Add(time.Hour)
	_, err := s.Create(t.Context(), n)
	require.NoError(t, err)
	held(t, s, "of no queue")
	n = inQueue("held")
	n.Claim = journal.Claim{Owner: "me", TTL: time.Hour}
	_, err = s.Create(t.Context(), n)
	require.NoError(t, err)

	tx, err := attach(t, s.Path()).Begin()
	require.NoError(t, err)
	ask := takeUpTo(5)
	ask.Orphans, ask.Held = true, 3
	require.Empty(t, take(t, s, ask), "the file is locked")
	require.NoError(t, tx.Rollback())
}

// What a worker that was killed had is told apart from what others have, and taken at once.
func TestKillFreesWhatWasTaken(t *testing.T) {
	path := file(t)
	s := open(t, path)
	for _, id := range []string{"a", "b", "mine"} {
		_, err := s.Create(t.Context(), inQueue(id))
		require.NoError(t, err)
	}
	c := start(t, path, "take")
	c.says(t, "took 2 <nil>")
	ask := takeUpTo(5)
	ask.Orphans = true
	taken := take(t, s, ask)
	require.Len(t, taken, 1, "the worker lives")
	require.Equal(t, "mine", taken[0].Run.ID)
	limited := ask
	limited.Held = 3
	require.Empty(t, take(t, s, limited))

	c.kill(t)
	require.Empty(t, take(t, s, takeUpTo(5)), "nobody has asked for orphans")
	limited.Limit = 1
	first := take(t, s, limited)
	second := take(t, s, limited)
	require.Empty(t, take(t, s, limited))
	for i, got := range [][]journal.Taken{first, second} {
		require.Len(t, got, 1)
		require.Equal(t, []string{"a", "b"}[i], got[0].Run.ID)
		require.Equal(t, journal.Running, got[0].Was)
		require.NoError(t, add(t, s, got[0].Lease, 1))
	}
}

// What another process makes ready wakes who watches the queue.
func TestWatchQueueSeesOtherProcesses(t *testing.T) {
	path := file(t)
	s := open(t, path, sqlite.WatchEvery(5*time.Millisecond))
	_, err := s.Create(t.Context(), inQueue("before"))
	require.NoError(t, err)
	changed, stop := s.WatchQueue("q")
	defer stop()
	others, stopOthers := s.WatchQueue("another")
	defer stopOthers()
	time.Sleep(30 * time.Millisecond)
	require.Empty(t, changed, "what was there before is not new")

	start(t, path, "enqueue").says(t, "made <nil>")
	<-changed
	require.Len(t, take(t, s, takeUpTo(5)), 2)

	_, err = s.Create(t.Context(), inQueue("mine"))
	require.NoError(t, err)
	require.Len(t, changed, 1, "told before the run was acknowledged")
	<-changed
	time.Sleep(30 * time.Millisecond)
	require.Empty(t, changed, "and not told again")
	require.Empty(t, others)
}

// A take whose caller has gone holds nothing that this store could not have again.
func TestATakeThatNobodyWaitsFor(t *testing.T) {
	s := open(t, file(t))
	_, err := s.Create(t.Context(), inQueue("r"))
	require.NoError(t, err)
	token := int64(0)
	taking := func() error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s.At("before the commit", func() error { cancel(); return nil })
		taken, err := s.Take(ctx, takeUpTo(1))
		s.At("nowhere", nil)
		if err == nil { // the commit was faster than the news of the end
			_, release := s.Renew(t.Context(), taken[0].Lease, 0)
			require.NoError(t, release)
			token = taken[0].Lease.Token + 1
		}
		return err
	}
	for err == nil {
		err = taking()
	}
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, journal.ErrUnavailable)
	l, err := s.Acquire(t.Context(), "r", journal.Claim{Owner: "another", TTL: time.Hour})
	require.NoError(t, err)
	require.Equal(t, token+2, l.Token, "it was taken")
}

// BenchmarkTake takes a run from a queue and gives it up, while so many others are suspended. In between it does the same
// beside a thousand, so that both meet the same disk: "x-1000" says how much longer it takes.
func BenchmarkTake(b *testing.B) {
	for _, rows := range []int{1_000, 1_000_000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			if rows > 1_000 && testing.Short() {
				b.Skip("a million rows take a while to make")
			}
			s, few := filled(b, rows), filled(b, 1_000)
			var many, thousand time.Duration
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				takeAndRelease(b, s)
				taken := time.Now()
				takeAndRelease(b, few)
				many += taken.Sub(start)
				thousand += time.Since(taken)
			}
			b.ReportMetric(float64(many.Microseconds())/float64(b.N), "us/take")
			b.ReportMetric(many.Seconds()/thousand.Seconds(), "x-1000")
		})
	}
}

// filled is a store with a run that is ready, and rows of others.
func filled(b *testing.B, rows int) *sqlite.Store {
	b.Helper()
	s := open(b, filepath.Join(b.TempDir(), "runs.db"))
	_, err := s.Create(b.Context(), inQueue("r"))
	require.NoError(b, err)
	fill(b, attach(b, s.Path()), rows)
	return s
}

func takeAndRelease(b *testing.B, s *sqlite.Store) {
	b.Helper()
	taken, err := s.Take(context.Background(), takeUpTo(1))
	if err != nil || len(taken) != 1 {
		b.Fatal(len(taken), err)
	}
	if _, err := s.Renew(context.Background(), taken[0].Lease, 0); err != nil {
		b.Fatal(err)
	}
}
