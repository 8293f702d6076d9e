package worker_test

import (
	"context"
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

var (
	waiter = durable.Workflow("waiter", func(ctx context.Context, n int) (int, error) {
		got, err := durable.WaitForSignal[int](ctx, "go")
		return got + n, err
	})
	parent = durable.Workflow("parent", func(ctx context.Context, n int) (int, error) {
		return durable.RunChild(ctx, waiter, n, durable.ChildID("c"))
	})
)

func TestAChildThatHasWaitedWakesItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.work(worker.Config{}, parent, waiter)()
		h, err := client.Start(t.Context(), f.c, parent, 1, client.ID("p"))
		require.NoError(t, err)
		time.Sleep(time.Hour)
		begun := time.Now()
		require.NoError(t, f.c.Signal(t.Context(), "c", "go", 41))
		out, err := h.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 42, out)
		assert.Less(t, time.Since(begun), time.Second, "nobody has waited for a timer")
	})
}

func TestAChildThatIsCancelledWakesItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.work(worker.Config{}, parent, waiter)()
		h, err := client.Start(t.Context(), f.c, parent, 1, client.ID("p"))
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.NoError(t, f.c.Cancel(t.Context(), "c", "enough"))
		_, err = h.Result(t.Context())
		var child *durable.RunFailedError
		require.ErrorAs(t, err, &child)
		assert.ErrorContains(t, err, `child run "c"`)
	})
}

func TestTheWorkflowOfAChildMustBeRegistered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.work(worker.Config{}, parent)()
		h, err := client.Start(t.Context(), f.c, parent, 1)
		require.NoError(t, err)
		_, err = h.Result(t.Context())
		assert.ErrorContains(t, err, "register it there")
	})
}

func TestAChildThatContinuesAsNewWakesItsParentInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		poll := durable.Workflow("poll", func(ctx context.Context, n int) (int, error) {
			if _, err := durable.WaitForSignal[int](ctx, "go"); err != nil {
				return 0, err
			}
			if n < 3 {
				return 0, durable.ContinueAsNew(ctx, n+1)
			}
			return n, nil
		})
		above := durable.Workflow("above", func(ctx context.Context, n int) (int, error) {
			return durable.RunChild(ctx, poll, n, durable.ChildID("c"))
		})
		defer f.work(worker.Config{}, poll, above)()
		h, err := client.Start(t.Context(), f.c, above, 1, client.ID("p"))
		require.NoError(t, err)
		for range 3 {
			time.Sleep(time.Minute)
			require.NoError(t, f.c.Signal(t.Context(), "c", "go", 1))
		}
		begun := time.Now()
		out, err := h.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 3, out)
		assert.Less(t, time.Since(begun), time.Second)
	})
}

// Signals that are sent while a run continues as new are neither lost nor doubled, and the next run begins once.
func TestAWorkflowThatContinuesAsNewLosesNoSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		const signals = 30
		type in struct{ Seen []int }
		poll := durable.Workflow("poll", func(ctx context.Context, i in) (in, error) {
			for range 2 {
				n, err := durable.WaitForSignal[int](ctx, "go")
				if err != nil {
					return i, err
				}
				i.Seen = append(i.Seen, n)
			}
			if len(i.Seen) == signals {
				return i, nil
			}
			return i, durable.ContinueAsNew(ctx, i)
		})
		for range 3 {
			defer f.work(worker.Config{}, poll)()
		}
		h, err := client.Start(t.Context(), f.c, poll, in{}, client.ID("p"))
		require.NoError(t, err)
		var want []int
		for n := range signals {
			require.NoError(t, h.Signal(t.Context(), "go", n))
			want = append(want, n)
		}
		out, err := h.Result(t.Context())
		require.NoError(t, err)
		assert.ElementsMatch(t, want, out.Seen)
		run, err := f.c.Get(t.Context(), "p~2")
		require.NoError(t, err)
		assert.Equal(t, journal.Continued, run.Status)
		assert.Equal(t, journal.DefaultQueue, run.Queue)
	})
}

func TestARetryGoesIntoTheQueueOfTheFailedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		broken := true
		calls := 0
		wf := durable.Workflow("double", func(ctx context.Context, n int) (int, error) {
			v, err := durable.Step(ctx, "paid", func(context.Context) (int, error) { calls++; return 2 * n, nil })
			if err != nil {
				return 0, err
			}
			return durable.Step(ctx, "step", func(context.Context) (int, error) {
				if broken {
					return 0, assert.AnError
				}
				return v, nil
			})
		})
		defer f.work(worker.Config{Queues: []worker.Queue{{Name: "mail"}}}, wf)()
		h, err := client.Start(t.Context(), f.c, double, 4, client.ID("d"), client.Queue("mail"))
		require.NoError(t, err)
		_, err = h.Result(t.Context())
		require.Error(t, err)
		broken = false
		again, err := h.Retry(t.Context(), "")
		require.NoError(t, err)
		out, err := again.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 8, out)
		assert.Equal(t, 1, calls)
	})
}

// The child is made by its parent, which runs it, and continues as new before it waits for the first time.
func TestAChildThatContinuesAsNewBeforeItWaitsWakesItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		kid := durable.Workflow("kid", func(ctx context.Context, n int) (int, error) {
			if n == 0 {
				return 0, durable.ContinueAsNew(ctx, 1)
			}
			return n, durable.Sleep(ctx, time.Minute)
		})
		above := durable.Workflow("above", func(ctx context.Context, n int) (int, error) { return durable.RunChild(ctx, kid, n) })
		defer f.work(worker.Config{}, kid, above)()
		h, err := client.Start(t.Context(), f.c, above, 0, client.ID("p"))
		require.NoError(t, err)
		begun := time.Now()
		out, err := h.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, out)
		assert.Less(t, time.Since(begun), time.Minute+2*time.Second)
	})
}

// A child that is given up before its journal is read still tells its parent.
func TestAChildThatHasLostTooManyOwnersWakesItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		var kill, stop func()
		kid := durable.Workflow("kid", func(ctx context.Context, n int) (int, error) {
			if err := durable.Sleep(ctx, time.Minute); err != nil {
				return 0, err
			}
			return durable.Step(ctx, "step", func(context.Context) (int, error) {
				kill()
				return 0, nil
			})
		})
		above := durable.Workflow("above", func(ctx context.Context, n int) (int, error) { return durable.RunChild(ctx, kid, n) })
		kill, stop = f.mortal(worker.Config{LockTTL: time.Minute}, kid, above)
		defer func() { stop() }()
		h, err := client.Start(t.Context(), f.c, above, 0, client.ID("p"))
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		defer f.work(worker.Config{Budgets: durable.Budgets{MaxRetries: -1}}, kid, above)()
		_, err = h.Result(t.Context())
		require.ErrorContains(t, err, "child run")
	})
}
