package durable_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/journal/memory"
	"github.com/pawl-go/pawl/task"
)

// onceWorkflow calls fn at most once, waits, and tells what it got.
func onceWorkflow(fn func(ctx context.Context) (string, error), opts ...durable.StepOption) *durable.Definition[int, string] {
	return durable.Workflow("once", func(ctx context.Context, _ int) (string, error) {
		v, err := durable.Once(ctx, "charge", fn, opts...)
		if err := suspend(ctx); err != nil {
			return "", err
		}
		if err != nil {
			return "error: " + err.Error(), nil //nolint:nilerr // told as a result
		}
		return v, nil
	})
}

// The run ends while the intent is being written: that it was not called is known, and it may be called.
func TestAOnceThatWasNotCalledInTheEndIsCalledLater(t *testing.T) {
	store, c := journaltest.NewFaulty(memory.New()), &counter{}
	wf := onceWorkflow(func(context.Context) (string, error) {
		c.add("charge")
		return "receipt", nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	store.OnWrite(func(w journaltest.Write) {
		if w.When == journaltest.After && len(w.Events) > 0 && w.Events[0].Kind == journal.StepIntent {
			cancel()
		}
	})
	_, err := durable.Run(ctx, store, wf, "r", 0)
	require.ErrorAs(t, err, new(*durable.RunStoppedError))
	assert.Zero(t, c.of("charge"))
	store.OnWrite(nil)
	for range 2 { // it waits in between
		_, err = durable.Run(t.Context(), store, wf, "r", 0)
		require.ErrorAs(t, err, new(*durable.SuspendedError))
		assert.Equal(t, 1, c.of("charge"))
	}
	assert.Equal(t, []string{
		"run:start", "step:intent charge", "step:reopened charge", "step:intent charge", "step:done charge",
	}, kinds(t, store, "r")[:5])
}

func TestTheIntentIsDurableBeforeOnceCallsItsFunction(t *testing.T) {
	store, c := memory.New(), &counter{}
	wf := onceWorkflow(func(context.Context) (string, error) {
		c.add("charge")
		assert.Equal(t, []string{"run:start", "step:intent charge"}, kinds(t, store, "r")) //nolint:contextcheck // it is the test's
		return "receipt", nil
	})
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.SuspendedError](t, err)
	release(t, store, "r")
	out, err := durable.Run(t.Context(), store, wf, "r", 0)
	require.NoError(t, err)
	assert.Equal(t, "receipt", out)
	assert.Equal(t, 1, c.of("charge"))
}

func TestAnIntentWithoutAnOutcomeIsNeverCalledAgain(t *testing.T) {
	inner, c := memory.New(), &counter{}
	store := journaltest.NewFaulty(inner)
	wf := onceWorkflow(func(context.Context) (string, error) {
		c.add("charge")
		store.Freeze() // the process dies while it charges
		return "receipt", nil
	})
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.StoreUnavailableError](t, err)
	inner = reborn(t, inner)

	for range 2 { // the same answer each time, and in the retried run
		_, err = durable.Run(t.Context(), inner, wf, "r", 0)
		asError[*durable.SuspendedError](t, err)
	}
	release(t, inner, "r")
	out, err := durable.Run(t.Context(), inner, wf, "r", 0)
	require.NoError(t, err)
	assert.Contains(t, out, `outcome of durable.Once("charge") is not known: the process ended`)
	assert.Equal(t, 1, c.of("charge"))
	assert.Equal(t, []string{
		"run:start", "step:intent charge", "step:error charge", "signal:wait release", "run:suspended", "run:suspended",
		"signal:received release", "run:complete",
	}, kinds(t, inner, "r"))
}

func TestAnErrorOfOnceIsFinalAndReplayed(t *testing.T) {
	store, c := memory.New(), &counter{}
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		return durable.Once(ctx, "charge", func(context.Context) (int, error) {
			c.add("charge")
			return 0, errBoom
		})
	})
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.RunFailedError](t, err)
	// Nobody has handled it, and still it is never called again, in a retried run either.
	_, err = durable.PrepareRetry(t.Context(), store, "r", "r2")
	require.NoError(t, err)
	_, err = durable.Resume(t.Context(), store, wf, "r2")
	failed := asError[*durable.RunFailedError](t, err)
	assert.Contains(t, failed.Error(), "boom")
	assert.Equal(t, 1, c.of("charge"))
}

func TestOnceRepeatsOnlyUnderItsOwnRetry(t *testing.T) {
	store, c := memory.New(), &counter{}
	wf := onceWorkflow(func(context.Context) (string, error) {
		if c.add("charge") < 3 {
			return "", errBoom
		}
		return "receipt", nil
	}, attempts(3))
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.SuspendedError](t, err)
	assert.Equal(t, 3, c.of("charge"))
	assert.Equal(t, []string{"step:intent charge", "step:done charge"}, kinds(t, store, "r")[1:3])
}

func TestATimeoutOfOnceIsAnUnknownOutcomeAndNotRetried(t *testing.T) {
	for name, late := range map[string]error{"error": errBoom, "success": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, c := memory.New(), &counter{}
				wf := onceWorkflow(func(ctx context.Context) (string, error) {
					c.add("charge")
					<-ctx.Done()
					return "receipt", late
				}, attempts(3), durable.Timeout(time.Second))
				_, err := durable.Run(t.Context(), store, wf, "r", 0)
				asError[*durable.SuspendedError](t, err)
				release(t, store, "r")
				out, err := durable.Run(t.Context(), store, wf, "r", 0)
				require.NoError(t, err)
				assert.Equal(t, 1, c.of("charge"))
				if late != nil {
					assert.Contains(t, out, "longer than its timeout of 1s")
				} else {
					assert.Equal(t, "receipt", out, "what is known to have been done is no unknown outcome")
				}
			})
		})
	}
}

func TestOnceIsCutShort(t *testing.T) {
	t.Run("by the end of the run's context", func(t *testing.T) {
		store, c := memory.New(), &counter{}
		ctx, cancel := context.WithCancel(t.Context())
		wf := onceWorkflow(func(ctx context.Context) (string, error) {
			c.add("charge")
			cancel()
			return "", ctx.Err()
		})
		_, err := durable.Run(ctx, store, wf, "r", 0)
		asError[*durable.RunStoppedError](t, err)
		_, err = durable.Run(t.Context(), store, wf, "r", 0)
		asError[*durable.SuspendedError](t, err)
		release(t, store, "r")
		out, err := durable.Run(t.Context(), store, wf, "r", 0)
		require.NoError(t, err)
		assert.Contains(t, out, "is not known")
		assert.Equal(t, 1, c.of("charge"))
	})
	t.Run("by a context of the body's own", func(t *testing.T) {
		store, c := memory.New(), &counter{}
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
			own, cancel := context.WithCancel(ctx)
			_, err := durable.Once(own, "charge", func(ctx context.Context) (string, error) {
				c.add("charge")
				cancel()
				return "", ctx.Err()
			})
			cancel()
			var unknown *durable.OutcomeUnknownError
			if !errors.As(err, &unknown) {
				return "", err
			}
			return unknown.Reason, nil
		})
		out, err := durable.Run(t.Context(), store, wf, "r", 0)
		require.NoError(t, err)
		assert.Contains(t, out, "its context ended")
	})
}

func TestAPanicOfOnceIsItsOutcome(t *testing.T) {
	wf := onceWorkflow(func(context.Context) (string, error) { panic("ouch") }, durable.Timeout(time.Minute))
	store := memory.New()
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.SuspendedError](t, err)
	release(t, store, "r")
	out, err := durable.Run(t.Context(), store, wf, "r", 0)
	require.NoError(t, err)
	assert.Contains(t, out, "ouch")
}

func TestOnceInAPlainContext(t *testing.T) {
	v, err := durable.Once(t.Context(), "o", func(context.Context) (int, error) { return 3, nil })
	require.NoError(t, err)
	assert.Equal(t, 3, v)
	_, err = durable.Once(t.Context(), "o", func(context.Context) (int, error) { panic("ouch") }, durable.Timeout(time.Second))
	asError[*task.PanicError](t, err)
}
