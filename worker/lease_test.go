package worker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/worker"
)

// lines is a log.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Two workers believe that they own a run: only one can write, and what the other has finished is discarded without harm.
func TestSplitBrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		asleep := journaltest.NewFaulty(f.store) // a process that is stopped past its lease, and wakes
		wake := make(chan struct{})
		var outcome error
		var ended error
		first := durable.Workflow("double", func(ctx context.Context, n int) (int, error) {
			v, err := durable.Step(ctx, "step", func(ctx context.Context) (int, error) {
				asleep.Outage(true)
				<-wake
				return 100, nil
			})
			outcome, ended = err, context.Cause(ctx)
			return v, err
		})
		var log lines
		stop := f.work(worker.Config{Store: asleep, LockTTL: 10 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))}, first)
		h, err := client.Start(t.Context(), f.c, double, 4, client.ID("d"))
		require.NoError(t, err)
		time.Sleep(11 * time.Second)
		defer f.work(worker.Config{}, double)()
		out, err := h.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 8, out)
		before := f.events("d")

		asleep.Outage(false)
		close(wake)
		time.Sleep(time.Second)
		stop()
		require.Error(t, outcome)
		assert.ErrorIs(t, outcome, context.Canceled)
		var lost *durable.RunLostError
		assert.True(t, errors.As(outcome, &lost) || errors.As(ended, &lost), "%v, %v", outcome, ended)
		assert.Equal(t, before, f.events("d"), "the second outcome is not written")
		assert.Contains(t, log.String(), "stands down")
	})
}

func TestALeaseIsRenewedForAsLongAsTheRunTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		calls := 0
		slow := durable.Workflow("double", func(ctx context.Context, n int) (int, error) {
			return durable.Step(ctx, "step", func(ctx context.Context) (int, error) {
				calls++
				select {
				case <-time.After(time.Hour):
				case <-ctx.Done():
				}
				return 2 * n, ctx.Err()
			})
		})
		defer f.work(worker.Config{LockTTL: 10 * time.Second}, slow)()
		defer f.work(worker.Config{LockTTL: 10 * time.Second}, slow)()
		h, err := client.Start(t.Context(), f.c, double, 4, client.ID("d"))
		require.NoError(t, err)
		_, err = h.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, calls)
		assert.Empty(t, reasons(t, f.events("d")))
	})
}

// "a silent stand-down where the store shows the run ended".
func TestARunThatWasCancelledUnderItsWorkerIsCancelledOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		slow := durable.Workflow("double", func(ctx context.Context, n int) (int, error) {
			return durable.Step(ctx, "step", func(ctx context.Context) (int, error) {
				<-ctx.Done()
				return 0, ctx.Err()
			})
		})
		defer f.work(worker.Config{}, slow)()
		h, err := client.Start(t.Context(), f.c, double, 4, client.ID("d"))
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, h.Cancel(t.Context(), "enough"))
		_, err = h.Result(t.Context())
		var cancelled *durable.RunCancelledError
		require.ErrorAs(t, err, &cancelled)
		assert.Equal(t, "enough", cancelled.Reason)
		assert.Equal(t, []journal.Kind{journal.RunStart, journal.RunCancelled}, kinds(f.events("d")))
	})
}
