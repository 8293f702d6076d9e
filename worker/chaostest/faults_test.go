package chaostest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fault is something that goes wrong, and is over when it returns. It hurts a worker, or something that all of them share.
type fault struct {
	name string
	// of is what it needs for itself; nil: a worker.
	of func(f *field) *sync.Mutex
	// rest is how long it is not made again.
	rest time.Duration
	do   func(f *field, r *rand.Rand, w *slot)
}

func theServer(f *field) *sync.Mutex { return &f.database }
func theProxy(f *field) *sync.Mutex  { return &f.wire }

var faults = []fault{
	{name: "a worker is killed", do: func(f *field, _ *rand.Rand, w *slot) {
		w.process.kill()
		w.process = f.spawn(w.number)
	}},
	{name: "a worker is stopped past its lease", do: func(_ *field, _ *rand.Rand, w *slot) {
		w.process.signal(syscall.SIGSTOP)
		time.Sleep(lockTTL + 500*time.Millisecond)
		w.process.signal(syscall.SIGCONT)
	}},
	{name: "a worker is drained", do: func(f *field, _ *rand.Rand, w *slot) {
		w.process.signal(syscall.SIGTERM)
		_ = w.process.cmd.Wait()
		w.process = f.spawn(w.number)
	}},
	{name: "the clock of a worker's leases jumps", do: func(f *field, _ *rand.Rand, w *slot) {
		f.admin(`UPDATE runs SET until = until - interval '1 hour', ready = ready - interval '1 hour'
			WHERE status = 'running' AND convert_from(owner, 'UTF8') LIKE $1`, w.process.name()+"/%")
	}},
	{name: "the database is killed", of: theServer, rest: 8 * time.Second, do: func(f *field, _ *rand.Rand, _ *slot) {
		assert.NoError(f.t, f.server.Kill())
		assert.NoError(f.t, f.server.Restart())
	}},
	{name: "the disk is full", of: theServer, do: func(f *field, _ *rand.Rand, _ *slot) {
		f.admin("UPDATE chaos_disk SET full_now = true")
		time.Sleep(400 * time.Millisecond)
		f.admin("UPDATE chaos_disk SET full_now = false")
	}},
	{name: "all connections are cut", of: theProxy, do: func(f *field, _ *rand.Rand, _ *slot) { f.proxy.cut() }},
	{name: "there is no way to the database", of: theProxy, do: func(f *field, r *rand.Rand, _ *slot) {
		f.proxy.set(true, 0)
		time.Sleep(time.Duration(r.IntN(700)) * time.Millisecond)
		f.proxy.set(false, 0)
	}},
	{name: "the way to the database is slow", of: theProxy, do: func(f *field, r *rand.Rand, _ *slot) {
		f.proxy.set(false, time.Duration(r.IntN(150))*time.Millisecond)
		time.Sleep(500 * time.Millisecond)
		f.proxy.set(false, 0)
	}},
}

// admin runs a statement beside the workers.
func (f *field) admin(sql string, args ...any) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 20*time.Second)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, f.adminDSN())
		if err == nil {
			_, err = conn.Exec(ctx, sql, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
			conn.Close(ctx)
		}
		if err == nil {
			return
		}
		var refused *pgconn.PgError
		require.False(f.t, errors.As(err, &refused) && refused.Code[:2] == "42", err) // a mistake in the statement
		if ctx.Err() != nil {
			require.NoError(f.t, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// adminDSN names the database and the schema of the store.
func (f *field) adminDSN() string { return f.server.DSN() + " options='-csearch_path=pawl'" }

// trouble makes a fault every few hundred milliseconds until done is closed, and returns how often which was made. Those that
// hurt different things overlap.
func (f *field) trouble(done <-chan struct{}, r *rand.Rand) map[string]int {
	counts, last := map[string]int{}, map[string]time.Time{}
	var all sync.WaitGroup
	defer all.Wait()
	for {
		select {
		case <-done:
			return counts
		case <-time.After(time.Duration(200+r.IntN(400)) * time.Millisecond):
		}
		order := r.Perm(len(faults)) // the rarest first
		slices.SortStableFunc(order, func(a, b int) int { return counts[faults[a].name] - counts[faults[b].name] })
		for _, i := range order {
			name := faults[i].name
			if time.Since(last[name]) < faults[i].rest {
				continue
			}
			if f.make(faults[i], rand.New(rand.NewPCG(r.Uint64(), 1)), &all) {
				counts[name]++
				last[name] = time.Now()
				break
			}
		}
	}
}

// make begins a fault, if what it hurts is not being hurt already.
func (f *field) make(fl fault, r *rand.Rand, all *sync.WaitGroup) bool {
	w := &f.slots[r.IntN(workers)]
	own := &w.mu
	if fl.of != nil {
		own, w = fl.of(f), nil
	}
	if !own.TryLock() {
		return false
	}
	all.Go(func() {
		defer own.Unlock()
		fl.do(f, r, w)
	})
	return true
}
