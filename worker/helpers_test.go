package worker_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/journal/memory"
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
	t.Helper()
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

// mortal is a worker whose process a test can kill.
func (f *fixture) mortal(cfg worker.Config, code ...durable.Executable) (kill func(), stop func()) {
	process := journaltest.NewFaulty(f.store)
	cfg.Store = process
	stop = f.work(cfg, code...)
	return process.Freeze, stop
}
