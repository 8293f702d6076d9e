package chaostest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/postgres"
	"github.com/pawl-go/pawl/journal/postgres/postgrestest"
)

const (
	workers = 4
	// limit bounds the time that the runs may take.
	limit = 4 * time.Minute
)

// field is where it all happens.
type field struct {
	t            *testing.T
	ctx          context.Context //nolint:containedctx // of the whole test
	server       *postgrestest.Server
	proxy        *proxy
	folder, self string
	slots        [workers]slot
	incarnations atomic.Int64
	// database and wire are held by who hurts the database, and the way to it.
	database, wire sync.Mutex
	store          *postgres.Store
	client         *client.Client
	programs       *programs
}

func newField(t *testing.T) *field {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("processes cannot be stopped and woken here")
	}
	server, err := postgrestest.Start()
	if errors.Is(err, postgrestest.ErrNoPostgreSQL) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	self, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	f := &field{t: t, ctx: ctx, server: server, folder: t.TempDir(), self: self}
	f.proxy = newProxy(t, server.Socket())
	store, err := postgres.Open(t.Context(), server.DSN())
	require.NoError(t, err)
	t.Cleanup(func() { store.Close() })
	f.store = store
	f.client, err = client.New(store, client.Config{})
	require.NoError(t, err)
	f.programs, err = newPrograms(&calls{})
	require.NoError(t, err)
	f.spy()
	for n := range f.slots {
		f.slots[n].number, f.slots[n].process = n, f.spawn(n)
	}
	t.Cleanup(f.killAll)
	return f
}

func (f *field) killAll() {
	for n := range f.slots {
		f.slots[n].process.kill()
	}
}

// spy makes the database note who writes each event, and who had the run's lease then; and lets its disk be full.
func (f *field) spy() {
	f.admin(`CREATE TABLE chaos_disk (full_now boolean); INSERT INTO chaos_disk VALUES (false);
		CREATE TABLE chaos_writes (run bigint, seq bigint, by text, owner text);
		CREATE FUNCTION chaos_spy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF (SELECT full_now FROM chaos_disk) AND current_setting('application_name') LIKE 'w%' THEN
				RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100';
			END IF;
			INSERT INTO chaos_writes SELECT NEW.run, NEW.seq, current_setting('application_name'), convert_from(owner, 'UTF8') FROM runs WHERE key = NEW.run;
			RETURN NEW;
		END $$;
		CREATE TRIGGER chaos_spy AFTER INSERT ON events FOR EACH ROW EXECUTE FUNCTION chaos_spy()`)
}

// again repeats what has failed because the database was away: everything here has a key, or an id. When the time of the test
// is over it fails it, and ends the goroutine.
func again[T any](f *field, what string, try func(ctx context.Context) (T, error)) T {
	for {
		ctx, cancel := context.WithTimeout(f.ctx, 30*time.Second)
		v, err := try(ctx)
		cancel()
		passing := errors.Is(err, journal.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
		switch {
		case err == nil:
			return v
		case !passing || f.ctx.Err() != nil:
			assert.NoError(f.t, err, what)
			runtime.Goexit()
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func orderOf(i int) order { return order{ID: i, Signals: i % 3, Updates: i % 4} }

// drive is the life of one run, as its caller sees it.
func (f *field) drive(i int) {
	id := fmt.Sprint("r", i)
	if i%2 == 0 {
		h := again(f, "start "+id, func(ctx context.Context) (*client.Handle[state], error) {
			return client.Start(ctx, f.client, f.programs.graph, state{ID: i}, client.ID(id))
		})
		out := again(f, "result of "+id, h.Result)
		assert.Equal(f.t, undisturbedSum(i), out.Sum, id)
		assert.Len(f.t, out.Seen, 3*rounds, id)
		return
	}
	o := orderOf(i)
	h := again(f, "start "+id, func(ctx context.Context) (*client.Handle[receipt], error) {
		return client.Start(ctx, f.client, f.programs.order, o, client.ID(id))
	})
	var all sync.WaitGroup
	for n := range o.Signals {
		again(f, "signal "+id, func(ctx context.Context) (any, error) {
			return nil, h.Signal(ctx, "paid", n, durable.SendKey(fmt.Sprint("s", n)))
		})
	}
	for n := range o.Updates {
		all.Go(func() {
			again(f, "update "+id, func(ctx context.Context) (int, error) {
				return client.Update[int, int](ctx, h, "add", n, durable.SendKey(fmt.Sprint("u", n)))
			})
		})
	}
	all.Wait()
	assert.Equal(f.t, o.undisturbed(), again(f, "result of "+id, h.Result), id)
}

func TestChaos(t *testing.T) {
	runs := 500
	if testing.Short() || raced || testing.CoverMode() != "" { // the full number is for a plain run
		runs = 60
	}
	begun := time.Now()
	f := newField(t)
	done := make(chan struct{})
	var all sync.WaitGroup
	var ended atomic.Int64
	for i := range runs {
		all.Go(func() {
			time.Sleep(time.Duration(i) * 100 * time.Millisecond)
			f.drive(i)
			ended.Add(1)
		})
	}
	go func() {
		defer close(done)
		all.Wait()
	}()
	counts := f.trouble(done, rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano()))))
	f.killAll()
	total := 0
	for _, fl := range faults {
		t.Logf("%4d x %s", counts[fl.name], fl.name)
		total += counts[fl.name]
	}
	t.Logf("%d of %d runs have ended, %d faults, %v", ended.Load(), runs, total, time.Since(begun).Round(time.Second))
	if t.Failed() {
		f.showLogs()
	}
	f.check(runs)
}

// showLogs shows the end of what each worker has said.
func (f *field) showLogs() {
	const most = 2000
	files, err := filepath.Glob(filepath.Join(f.folder, "log-*"))
	require.NoError(f.t, err)
	for _, path := range files {
		text, err := os.ReadFile(path)
		require.NoError(f.t, err)
		f.t.Logf("%s: ...%s", filepath.Base(path), text[max(0, len(text)-most):])
	}
}

// check reads every journal.
func (f *field) check(runs int) {
	t, ctx := f.t, f.t.Context()
	onces := f.onces()
	requeues := map[durable.RequeueReason]int{}
	seen := 0
	for run, err := range f.client.Runs(ctx, journal.Query{}) {
		require.NoError(t, err)
		seen++
		if !assert.Equal(t, journal.Completed, run.Status, run.ID) {
			f.show(run) //nolint:contextcheck // it has the test's
		}
		assert.Empty(t, run.Owner, run.ID)
		terminal, consumed := 0, map[int64]int{}
		type step struct {
			scope, name string
			n           int
		}
		done := map[step]int{}
		var last journal.Event
		for e, err := range f.store.Events(ctx, run.ID, 0) {
			require.NoError(t, err)
			require.Equal(t, last.Seq+1, e.Seq, run.ID)
			last = e
			if e.Kind.Terminal() {
				terminal++
			}
			var m struct {
				Reason  durable.RequeueReason `json:"reason"`
				Message int64                 `json:"message"`
			}
			if len(e.Meta) > 0 {
				require.NoError(t, json.Unmarshal(e.Meta, &m))
			}
			switch e.Kind {
			case journal.StepDone:
				done[step{e.Scope, e.Name, e.N}]++
			case journal.RunRequeued:
				requeues[m.Reason]++
			case journal.SignalReceived, journal.UpdateDone:
				consumed[m.Message]++
			case journal.UpdateError, journal.UpdateRejected:
				assert.Failf(t, "an update was not done", "%s: %+v", run.ID, e)
			}
		}
		assert.Equal(t, 1, terminal, run.ID)
		assert.True(t, last.Kind.Terminal(), run.ID)
		for s, n := range done {
			assert.Equal(t, 1, n, "%s: %+v is recorded more than once", run.ID, s)
		}
		for m, n := range consumed {
			assert.Equal(t, 1, n, "%s: message %d was handled more than once", run.ID, m)
		}
		if run.Name == "order" {
			var i int
			_, err := fmt.Sscanf(run.ID, "r%d", &i)
			require.NoError(t, err)
			assert.Len(t, consumed, orderOf(i).Signals+orderOf(i).Updates, run.ID)
		}
	}
	assert.Equal(t, runs+runs/2, seen, "every order has a child")
	for call, n := range onces {
		assert.Equal(t, 1, n, "Once(%s) was called more than once", call)
	}
	foreign := f.foreign()
	assert.Empty(t, foreign, "events were written by others than the owner")
	t.Logf("requeues: %v; %d calls of Once", requeues, len(onces))
}

// show shows the journal of a run.
func (f *field) show(run journal.Run) {
	f.t.Logf("%+v", run)
	for e, err := range f.store.Events(f.t.Context(), run.ID, 0) {
		require.NoError(f.t, err)
		f.t.Logf("  %s %3d %s %s %s#%d %s", e.Time.Format("05.000"), e.Seq, e.Kind, e.Scope, e.Name, e.N, e.Meta)
	}
	inbox, err := f.store.Inbox(f.t.Context(), run.ID, 0)
	require.NoError(f.t, err)
	for _, m := range inbox {
		f.t.Logf("  %s message %d %s %s", m.Time.Format("05.000"), m.Seq, m.Kind, m.Name)
	}
}

// onces counts the calls of Once, by run and place.
func (f *field) onces() map[string]int {
	all := map[string]int{}
	files, err := filepath.Glob(filepath.Join(f.folder, "calls-*"))
	require.NoError(f.t, err)
	for _, path := range files {
		file, err := os.Open(path)
		require.NoError(f.t, err)
		for lines := bufio.NewScanner(file); lines.Scan(); {
			if call, is := strings.CutPrefix(lines.Text(), "once "); is {
				all[call]++
			}
		}
		require.NoError(f.t, file.Close())
	}
	return all
}

// foreign are the events that a worker has written while another one had the run's lease.
func (f *field) foreign() []string {
	conn, err := pgx.Connect(f.t.Context(), f.adminDSN())
	require.NoError(f.t, err)
	defer conn.Close(f.t.Context())
	rows, err := conn.Query(f.t.Context(), `SELECT format('run %s, event %s: written by %s, owned by %s', run, seq, by, owner)
		FROM chaos_writes WHERE by LIKE 'w%' AND owner <> '' AND split_part(owner, '/', 1) <> by LIMIT 10`)
	require.NoError(f.t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(f.t, err)
	return all
}
