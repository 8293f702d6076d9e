package worker_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/worker"
)

// gauge is a workflow that takes a second and knows how many there are at once.
type gauge struct{ now, most atomic.Int64 }

func (g *gauge) workflow() *durable.Definition[int, int] {
	return durable.Workflow("double", func(ctx context.Context, n int) (int, error) {
		now := g.now.Add(1)
		defer g.now.Add(-1)
		for most := g.most.Load(); now > most && !g.most.CompareAndSwap(most, now); most = g.most.Load() {
		}
		return durable.Step(ctx, "step", func(context.Context) (int, error) {
			time.Sleep(time.Second)
			return 2 * n, nil
		})
	})
}

func (f *fixture) startMany(n int, opts ...client.StartOption) []*client.Handle[int] {
	f.t.Helper()
	var all []*client.Handle[int]
	for i := range n {
		h, err := client.Start(f.t.Context(), f.c, double, i, append(opts, client.ID(fmt.Sprint("r", i)))...)
		require.NoError(f.t, err)
		all = append(all, h)
	}
	return all
}

func (f *fixture) await(all []*client.Handle[int]) {
	f.t.Helper()
	for i, h := range all {
		out, err := h.Result(f.t.Context())
		require.NoError(f.t, err)
		assert.Equal(f.t, 2*i, out)
	}
}

func TestLimitsOfConcurrency(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  worker.Config
		most int64 // of two workers
	}{
		"of a worker":              {worker.Config{Concurrency: 3}, 6},
		"of a worker for a queue":  {worker.Config{Queues: []worker.Queue{{Name: journal.DefaultQueue, Concurrency: 2}}}, 4},
		"of all workers":           {worker.Config{Queues: []worker.Queue{{Name: journal.DefaultQueue, Held: 5}}}, 5},
		"the least of them counts": {worker.Config{Concurrency: 2, Queues: []worker.Queue{{Name: journal.DefaultQueue, Concurrency: 9}}}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				var g gauge
				defer f.work(c.cfg, g.workflow())()
				defer f.work(c.cfg, g.workflow())()
				f.await(f.startMany(20))
				assert.Equal(t, c.most, g.most.Load())
			})
		})
	}
}

func TestAQueueIsServedByItsWorkersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.work(worker.Config{Queues: []worker.Queue{{Name: "mail"}, {Name: "bulk"}}}, double)()
		elsewhere, err := client.Start(t.Context(), f.c, double, 1, client.Queue("other"))
		require.NoError(t, err)
		f.await(f.startMany(3, client.Queue("mail")))
		run, err := elsewhere.Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, journal.Pending, run.Status)
	})
}

func TestADelayedRunNeverStartsEarlyAndACancelledOneNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.work(worker.Config{}, double)()
		begun := time.Now()
		late, err := client.Start(t.Context(), f.c, double, 1, client.Delay(time.Hour))
		require.NoError(t, err)
		never, err := client.Start(t.Context(), f.c, double, 1, client.ID("never"), client.Delay(time.Minute))
		require.NoError(t, err)
		require.NoError(t, never.Cancel(t.Context(), ""))
		_, err = late.Result(t.Context())
		require.NoError(t, err)
		assert.GreaterOrEqual(t, time.Since(begun), time.Hour)
		assert.Less(t, time.Since(begun), time.Hour+time.Second)
		assert.Equal(t, []journal.Kind{journal.RunStart, journal.RunCancelled}, kinds(f.events("never")))
	})
}

// "a run whose name, version or fingerprint no worker serves waits by default".
func TestRunsThatNobodyServesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		second := durable.Workflow("double", func(_ context.Context, n int) (int, error) { return -n, nil }, durable.SetVersion("2"))
		defer f.work(worker.Config{}, second)()
		h, err := client.Start(t.Context(), f.c, double, 4)
		require.NoError(t, err)
		time.Sleep(24 * time.Hour)
		run, err := h.Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, journal.Pending, run.Status)
		defer f.work(worker.Config{}, double)()
		out, err := h.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 8, out)
	})
}

func TestStrandedRunsFailIfTheyAreTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		second := durable.Workflow("double", func(_ context.Context, n int) (int, error) { return -n, nil }, durable.SetVersion("2"))
		fail := worker.Config{Stranded: worker.Fail, StrandedTimeout: 5 * time.Minute}
		begun := time.Now()
		stop := f.work(fail, second)
		defer func() { stop() }()
		h, err := client.Start(t.Context(), f.c, double, 4, client.ID("d"))
		require.NoError(t, err)
		_, err = h.Result(t.Context())
		var failed *durable.RunFailedError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, durable.CodeNoWorker, failed.Code)
		assert.GreaterOrEqual(t, time.Since(begun), 5*time.Minute)
		assert.Less(t, time.Since(begun), 6*time.Minute)
		assert.Equal(t, "double", lastFailure(t, f.events("d")).Detail["name"])
	})
}

// A run that is served and only waits for its turn is not stranded.
func TestABacklogIsNotStranded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		var g gauge
		defer f.work(worker.Config{Concurrency: 1, Stranded: worker.Fail, StrandedTimeout: 30 * time.Second, LockTTL: 10 * time.Second}, g.workflow())()
		f.await(f.startMany(100))
	})
}

func TestFurtherVersionsAreServedIfTheConfigSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		second := durable.Workflow("double", func(_ context.Context, n int) (int, error) { return -n, nil }, durable.SetVersion("2"))
		defer f.work(worker.Config{Versions: map[string][]string{"double": {"", "1"}}}, second)()
		h, err := client.Start(t.Context(), f.c, double, 4)
		require.NoError(t, err)
		out, err := h.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, -4, out)
	})
}

func TestADedupKeyIsFreedWhenItsRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		first, err := client.Start(t.Context(), f.c, double, 1, client.Dedup("k"))
		require.NoError(t, err)
		again, err := client.Start(t.Context(), f.c, double, 1, client.Dedup("k"))
		require.NoError(t, err)
		assert.Equal(t, first.ID(), again.ID())
		assert.True(t, again.Existing())
		defer f.work(worker.Config{}, double)()
		_, err = first.Result(t.Context())
		require.NoError(t, err)
		next, err := client.Start(t.Context(), f.c, double, 2, client.Dedup("k"))
		require.NoError(t, err)
		assert.NotEqual(t, first.ID(), next.ID())
	})
}

func TestSleepingRunsHoldNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		nap := durable.Workflow("double", func(ctx context.Context, n int) (int, error) {
			if err := durable.Sleep(ctx, time.Hour); err != nil {
				return 0, err
			}
			return 2 * n, nil
		})
		defer f.work(worker.Config{Concurrency: 1}, nap)()
		begun := time.Now()
		f.await(f.startMany(50))
		assert.Less(t, time.Since(begun), time.Hour+2*time.Second)
	})
}

// Where only so many may be held, the next one is taken when one has ended, not when the queue is looked at again.
func TestAHeldQueueGoesOnAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.work(worker.Config{Queues: []worker.Queue{{Name: journal.DefaultQueue, Held: 2}}, Poll: time.Hour}, double)()
		begun := time.Now()
		f.await(f.startMany(12))
		assert.Less(t, time.Since(begun), 10*time.Second)
	})
}
