package worker_test

import (
	"context"
	"log/slog"
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

// slow is a workflow of three steps that take so long each.
func slow(d time.Duration, calls *int) *durable.Definition[int, int] {
	return durable.Workflow("double", func(ctx context.Context, n int) (int, error) {
		for range 3 {
			_, err := durable.Step(ctx, "step", func(ctx context.Context) (int, error) {
				*calls++
				select {
				case <-time.After(d):
					return 0, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			})
			if err != nil {
				return 0, err
			}
		}
		return 2 * n, nil
	})
}

// The step under way finishes within Grace and is recorded; the next one is for another worker, at once.
func TestADrainedWorkerFinishesTheStepAndLetsTheRunGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		calls := 0
		stop := f.work(worker.Config{Grace: time.Minute}, slow(10*time.Second, &calls))
		h, err := client.Start(t.Context(), f.c, double, 4, client.ID("d"))
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		begun := time.Now()
		stop()
		assert.InDelta(t, 5, time.Since(begun).Seconds(), 0.5)
		assert.Equal(t, []journal.Kind{journal.RunStart, journal.StepDone}, kinds(f.events("d")))
		run, err := h.Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, journal.Pending, run.Status)
		assert.Empty(t, run.Owner)
		defer f.work(worker.Config{}, slow(10*time.Second, &calls))()
		_, err = h.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 3, calls)
		assert.Empty(t, reasons(t, f.events("d")), "a drain spends no budget")
	})
}

func TestWhatIsNotDoneWithinGraceIsReleasedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		calls := 0
		stop := f.work(worker.Config{Grace: 2 * time.Second}, slow(time.Hour, &calls))
		h, err := client.Start(t.Context(), f.c, double, 4, client.ID("d"))
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		begun := time.Now()
		stop()
		assert.InDelta(t, 2, time.Since(begun).Seconds(), 0.5)
		run, err := h.Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, journal.Pending, run.Status)
		assert.Empty(t, run.Owner)
	})
}

func TestCodeThatIgnoresTheDrainIsLeftBehindAndItsRunReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		free := make(chan struct{})
		deaf := durable.Workflow("double", func(ctx context.Context, n int) (int, error) {
			<-free
			_, err := durable.Step(ctx, "late", func(context.Context) (int, error) { return 0, nil })
			assert.Error(t, err, "what it still tries is refused")
			return 0, err
		})
		w, err := worker.New(worker.Config{Store: f.store, Logger: slog.New(slog.DiscardHandler), Grace: 2 * time.Second})
		require.NoError(t, err)
		require.NoError(t, w.Register(deaf))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		h, err := client.Start(t.Context(), f.c, double, 4, client.ID("d"))
		require.NoError(t, err)
		time.Sleep(time.Second)
		assert.Equal(t, 1, w.Active())
		cancel()
		var left *worker.LeftBehindError
		require.ErrorAs(t, <-done, &left)
		run, err := h.Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, journal.Pending, run.Status)
		assert.Empty(t, run.Owner)
		close(free)
		synctest.Wait()
		assert.Equal(t, []journal.Kind{journal.RunStart}, kinds(f.events("d")), "a drain spends no budget")
	})
}
