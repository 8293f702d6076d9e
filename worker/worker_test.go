package worker_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/journal/memory"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a store with a client, and workers that end with the test.
type fixture struct {
	t     *testing.T
	store journal.Store
	c     *client.Client
}

func newFixture(t *testing.T) *fixture {
	store := memory.New()
	c, err := client.New(store, client.Config{})
	require.NoError(t, err)
	return &fixture{t: t, store: store, c: c}
}

// work starts a worker. Stop ends it and waits.
func (f *fixture) work(cfg worker.Config, code ...durable.Executable) (stop func()) {
	f.t.Helper()
	if cfg.Store == nil {
		cfg.Store = f.store
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	w, err := worker.New(cfg)
	require.NoError(f.t, err)
	require.NoError(f.t, w.Register(code...))
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() {
		cancel()
		assert.NoError(f.t, <-done)
	}
}

func (f *fixture) events(id string) []journal.Event {
	f.t.Helper()
	var all []journal.Event
	for e, err := range f.store.Events(f.t.Context(), id, 0) {
		require.NoError(f.t, err)
		all = append(all, e)
	}
	return all
}

func kinds(events []journal.Event) []journal.Kind {
	var all []journal.Kind
	for _, e := range events {
		all = append(all, e.Kind)
	}
	return all
}

var double = durable.Workflow("double", func(ctx context.Context, n int) (int, error) {
	return durable.Step(ctx, "times two", func(context.Context) (int, error) { return 2 * n, nil })
})

func TestAWorkerRunsWhatAClientHasStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.work(worker.Config{}, double)()
		h, err := client.Start(t.Context(), f.c, double, 21, client.ID("d"))
		require.NoError(t, err)
		out, err := h.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 42, out)
	})
}

type state struct{ Notes []string }

type update struct {
	Notes []string `merge:"append"`
}

func runner(t *testing.T, cfg superstep.Config) *superstep.Runner[state, update] {
	b := graph.New("notes", graph.Fields[state, update]())
	first := b.Node("first", func(context.Context, state) (update, error) { return update{Notes: []string{"a"}}, nil })
	second := b.Node("second", func(ctx context.Context, _ state) (update, error) {
		if err := durable.Sleep(ctx, time.Hour); err != nil {
			return update{}, err
		}
		return update{Notes: []string{"b"}}, nil
	})
	b.Start(first)
	b.Edge(first, second)
	g, err := b.Compile()
	require.NoError(t, err)
	r, err := superstep.NewRunner(g, cfg)
	require.NoError(t, err)
	return r
}

func TestAGraphSuspendsWhileANodeSleepsAndGoesOnInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		r := runner(t, superstep.Config{})
		defer f.work(worker.Config{}, r)()
		begun := time.Now()
		h, err := client.Start(t.Context(), f.c, r, state{}, client.ID("g"))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		run, err := h.Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, journal.Suspended, run.Status)
		assert.Empty(t, run.Owner, "a suspended run holds nothing")
		out, err := h.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "b"}, out.Notes)
		assert.Less(t, time.Since(begun)-time.Hour, time.Second, "timers fire within a second")
	})
}

// mortal is a worker whose process a test can kill.
func (f *fixture) mortal(cfg worker.Config, code ...durable.Executable) (kill func(), stop func()) {
	process := journaltest.NewFaulty(f.store)
	cfg.Store = process
	stop = f.work(cfg, code...)
	return process.Freeze, stop
}

func TestTheLossOfAnOwnerIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		var kill func()
		victim := durable.Workflow("double", func(ctx context.Context, n int) (int, error) {
			return durable.Step(ctx, "times two", func(context.Context) (int, error) {
				kill()
				return 0, nil
			})
		})
		kill, stop := f.mortal(worker.Config{LockTTL: time.Minute}, victim)
		defer stop()
		h, err := client.Start(t.Context(), f.c, double, 1, client.ID("d"))
		require.NoError(t, err)
		time.Sleep(time.Second)
		defer f.work(worker.Config{}, double)()
		out, err := h.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2, out)
		events := f.events("d")
		assert.Equal(t, []journal.Kind{
			journal.RunStart, journal.RunRequeued, journal.RunTaken, journal.StepDone, journal.RunComplete,
		}, kinds(events))
		assert.JSONEq(t, `{"reason":"owner_gone"}`, string(events[1].Meta))
	})
}

func TestARunThatKillsItsWorkersIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		killed := 0
		for range 6 {
			var kill func()
			victim := durable.Workflow("double", func(ctx context.Context, n int) (int, error) {
				return durable.Step(ctx, "times two", func(context.Context) (int, error) {
					killed++
					kill()
					return 0, nil
				})
			})
			var stop func()
			kill, stop = f.mortal(worker.Config{LockTTL: time.Minute}, victim)
			defer stop()
		}
		h, err := client.Start(t.Context(), f.c, double, 1, client.ID("d"))
		require.NoError(t, err)
		_, err = h.Result(t.Context())
		var failed *durable.RunFailedError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, durable.CodeMaxRetries, failed.Code)
		assert.Equal(t, 4, killed, "the first owner, and three retries")
		last := f.events("d")
		m, err := durable.FailureOf(last[len(last)-1])
		require.NoError(t, err)
		assert.Equal(t, map[string]string{"attempts": "4", "cause": "owner_gone"}, m.Detail)
	})
}
