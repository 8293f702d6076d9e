package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
	"github.com/pawl-go/pawl/worker"
)

var doubleOf2 = durable.Workflow("double", func(_ context.Context, n int) (int, error) { return -n, nil }, durable.SetVersion("2"))

// Each queue has its turn: none starves another.
func TestABacklogLeavesPlacesToOtherQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		var g gauge
		f.startMany(100, client.Queue("bulk"))
		one, err := client.Start(t.Context(), f.c, double, 1, client.Queue("mail"))
		require.NoError(t, err)
		begun := time.Now()
		defer f.work(worker.Config{Concurrency: 1, Grace: -1, Queues: []worker.Queue{{Name: "bulk"}, {Name: "mail"}}}, g.workflow())()
		_, err = one.Result(t.Context())
		require.NoError(t, err)
		assert.Less(t, time.Since(begun), 5*time.Second)
	})
}

func TestARunIsNotStrandedBecauseItsWorkersSayLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		var g gauge
		defer f.work(worker.Config{Concurrency: 1, LockTTL: time.Hour}, g.workflow())()
		defer f.work(worker.Config{Stranded: worker.Fail}, doubleOf2)()
		f.await(f.startMany(1000))
	})
}

func TestWorkersThatAreStartedTogetherHaveTheirChanceBeforeRunsAreStranded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		all := f.startMany(10)
		time.Sleep(time.Hour) // nobody is there
		defer f.work(worker.Config{Stranded: worker.Fail}, doubleOf2)()
		time.Sleep(time.Second)
		defer f.work(worker.Config{}, double)()
		f.await(all)
	})
}

// stubborn is a store that takes no event of one run.
type stubborn struct {
	*memory.Store

	id string
}

func (s *stubborn) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	if l.Run == s.id {
		return errors.New("not this one")
	}
	return s.Store.Append(ctx, l, a)
}

func TestAStrandedRunThatCannotBeEndedHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		all := f.startMany(100)
		defer f.work(worker.Config{Store: &stubborn{f.store.(*memory.Store), "r0"}, Stranded: worker.Fail}, doubleOf2)()
		time.Sleep(10 * time.Minute)
		for _, h := range all[1:] {
			run, err := h.Get(t.Context())
			require.NoError(t, err)
			assert.Equal(t, journal.Failed, run.Status)
		}
	})
}

func TestTimesThatCannotBeKeptAreRefused(t *testing.T) {
	for _, d := range []time.Duration{1, time.Microsecond, time.Millisecond, 49 * time.Millisecond} {
		_, err := worker.New(worker.Config{Store: memory.New(), LockTTL: d, StrandedTimeout: d})
		assert.ErrorContains(t, err, "LockTTL")
		assert.ErrorContains(t, err, "StrandedTimeout")
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		var g gauge
		for range 3 {
			defer f.work(worker.Config{LockTTL: 50 * time.Millisecond, Heartbeat: 49 * time.Millisecond, Concurrency: 2}, g.workflow())()
		}
		all := f.startMany(10)
		f.await(all)
		for _, h := range all {
			assert.Empty(t, reasons(t, f.events(h.ID())))
		}
	})
}

func TestCodeThatCannotBeRunIsNotRegistered(t *testing.T) {
	w, err := worker.New(worker.Config{
		Store: memory.New(), Versions: map[string][]string{"double": {"1"}, "tripel": {"1"}}, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	require.ErrorContains(t, w.Register(durable.Workflow[int, int]("nothing", nil)), "nothing")
	require.ErrorContains(t, w.Register(nil, (*durable.Definition[int, int])(nil)), "argument 2 is nil")
	first := durable.Workflow("double", func(_ context.Context, n int) (int, error) { return n, nil }, durable.SetVersion("1"))
	require.NoError(t, w.Register(doubleOf2))
	require.NoError(t, w.Register(first), "it is there for itself")
	require.Error(t, w.Register(first))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, w.Run(ctx), `"tripel"`)
}

// slowly is a store whose takes are done at once, and answered later.
type slowly struct{ *memory.Store }

func (s slowly) Take(ctx context.Context, t journal.Take) ([]journal.Taken, error) {
	taken, err := s.Store.Take(ctx, t)
	select {
	case <-time.After(500 * time.Millisecond):
		return taken, err
	case <-ctx.Done():
		return nil, &journal.UnavailableError{Op: "take", Unknown: true, Err: ctx.Err()}
	}
}

// A worker that ends hears of what it has taken, and frees it: a run is not to count as lost by its owner.
func TestAWorkerThatEndsFreesWhatItIsAboutToTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		h := f.startMany(1)[0]
		stop := f.work(worker.Config{Store: slowly{f.store.(*memory.Store)}}, double)
		time.Sleep(100 * time.Millisecond)
		stop()
		run, err := h.Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, journal.Pending, run.Status)
		assert.Empty(t, run.Owner)
	})
}
