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
	"github.com/pawl-go/pawl/journal/memory"
)

var sleeper = durable.Workflow("sleeper", func(ctx context.Context, d time.Duration) (string, error) {
	if err := durable.Sleep(ctx, d); err != nil {
		return "", err
	}
	return "awake", nil
})

func TestRunInProcessASleepWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		out, err := durable.Run(t.Context(), memory.New(), sleeper, "r", time.Hour)
		require.NoError(t, err)
		assert.Equal(t, "awake", out)
		assert.Equal(t, time.Hour, time.Since(begun))
	})
}

func TestAReplayedSleepWaitsForTheRestOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
		defer cancel()
		begun := time.Now()
		_, err := durable.Run(ctx, store, sleeper, "r", time.Hour)
		asError[*durable.RunStoppedError](t, err)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 20*time.Minute, time.Since(begun))
		_, err = durable.Run(t.Context(), store, sleeper, "r", time.Hour)
		require.NoError(t, err)
		assert.Equal(t, time.Hour, time.Since(begun))
		assert.Equal(t, []string{"run:start", "timer:set sleep", "run:complete"}, kinds(t, store, "r"))
	})
}

func TestASleepOfNothingReturnsAtOnce(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Hour} {
		out, err := durable.Run(t.Context(), memory.New(), sleeper, "r", d)
		require.NoError(t, err)
		assert.Equal(t, "awake", out)
	}
}

func TestASleepEndsWhenTheRunIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		began := time.Now()
		time.AfterFunc(time.Second, func() { assert.NoError(t, durable.Cancel(context.Background(), store, "r", "enough")) })
		_, err := durable.Run(t.Context(), store, sleeper, "r", time.Hour)
		assert.Equal(t, "enough", asError[*durable.RunCancelledError](t, err).Reason)
		assert.Equal(t, time.Second, time.Since(began))
		assert.Equal(t, journal.Cancelled, status(t, store, "r"))
	})
}

func TestSleepInAPlainContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		require.NoError(t, durable.Sleep(t.Context(), time.Minute))
		assert.Equal(t, time.Minute, time.Since(begun))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, durable.Sleep(ctx, time.Minute), context.DeadlineExceeded)
	})
}

var listener = durable.Workflow("listener", func(ctx context.Context, n int) ([]string, error) {
	var got []string
	for range n {
		v, err := durable.WaitForSignal[string](ctx, "s")
		if err != nil {
			return nil, err
		}
		got = append(got, v)
	}
	return got, nil
})

func TestASignalThatIsNotThereSuspendsTheRun(t *testing.T) {
	store := memory.New()
	_, err := durable.Run(t.Context(), store, listener, "r", 1)
	suspended := asError[*durable.SuspendedError](t, err)
	assert.Equal(t, []durable.Wait{{Signal: "s"}}, suspended.Waits)
	assert.Equal(t, journal.Suspended, status(t, store, "r"))
	require.NoError(t, durable.Signal(t.Context(), store, "r", "s", "hello"))
	out, err := durable.Run(t.Context(), store, listener, "r", 1)
	require.NoError(t, err)
	assert.Equal(t, []string{"hello"}, out)
}

func TestSignalsAreDeliveredOnceInOrderAndKeptWhileNobodyWaits(t *testing.T) {
	store := memory.New()
	_, err := durable.Run(t.Context(), store, listener, "r", 3)
	asError[*durable.SuspendedError](t, err)
	for _, v := range []string{"a", "b"} {
		require.NoError(t, durable.Signal(t.Context(), store, "r", "s", v))
	}
	require.NoError(t, durable.Signal(t.Context(), store, "r", "other", "x"))
	_, err = durable.Run(t.Context(), store, listener, "r", 3)
	asError[*durable.SuspendedError](t, err)
	require.NoError(t, durable.Signal(t.Context(), store, "r", "s", "c"))
	out, err := durable.Run(t.Context(), store, listener, "r", 3)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "c"}, out)
}

func TestAKeyMakesSendingTwiceHarmless(t *testing.T) {
	store := memory.New()
	_, err := durable.Run(t.Context(), store, listener, "r", 2)
	asError[*durable.SuspendedError](t, err)
	for _, v := range []string{"a", "a again"} {
		require.NoError(t, durable.Signal(t.Context(), store, "r", "s", v, durable.SendKey("k")))
	}
	_, err = durable.Run(t.Context(), store, listener, "r", 2)
	asError[*durable.SuspendedError](t, err)
	require.NoError(t, durable.Signal(t.Context(), store, "r", "s", "a last time", durable.SendKey("k")))
	_, err = durable.Run(t.Context(), store, listener, "r", 2)
	asError[*durable.SuspendedError](t, err)
}

func TestASignalThatCameWhileTheRunWasAtWorkIsFound(t *testing.T) {
	store := memory.New()
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
		_, err := durable.Step(ctx, "s", func(ctx context.Context) (int, error) {
			return 0, durable.Signal(context.WithoutCancel(ctx), store, "r", "s", "early")
		})
		if err != nil {
			return "", err
		}
		return durable.WaitForSignal[string](ctx, "s")
	})
	out, err := durable.Run(t.Context(), store, wf, "r", 0)
	require.NoError(t, err)
	assert.Equal(t, "early", out)
}

var patient = durable.Workflow("patient", func(ctx context.Context, _ int) (string, error) {
	v, err := durable.WaitForSignal[string](ctx, "s", durable.WaitTimeout(time.Minute))
	if late, is := errors.AsType[*durable.SignalTimeoutError](err); is {
		v, err = "late: "+late.After.String(), nil
	}
	if err != nil {
		return "", err
	}
	if err := suspend(ctx); err != nil {
		return "", err
	}
	return v, nil
})

func TestAWaitForASignalCanTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		_, err := durable.Run(t.Context(), store, patient, "r", 0)
		due := asError[*durable.SuspendedError](t, err).Due
		assert.Equal(t, time.Minute, time.Until(due))
		run, err := store.Load(t.Context(), "r")
		require.NoError(t, err)
		assert.True(t, run.Due.Equal(due))
		time.Sleep(30 * time.Second)
		_, err = durable.Run(t.Context(), store, patient, "r", 0)
		assert.Equal(t, due, asError[*durable.SuspendedError](t, err).Due, "it is waited for from when it was first waited for")
		time.Sleep(30 * time.Second)
		_, err = durable.Run(t.Context(), store, patient, "r", 0)
		assert.Equal(t, "release", asError[*durable.SuspendedError](t, err).Waits[0].Signal)
		require.NoError(t, durable.Signal(t.Context(), store, "r", "s", "too late"))
		release(t, store, "r")
		out, err := durable.Run(t.Context(), store, patient, "r", 0)
		require.NoError(t, err)
		assert.Equal(t, "late: 1m0s", out, "a timeout is an outcome")
	})
}

func TestASignalThatIsThereBeatsTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		_, err := durable.Run(t.Context(), store, patient, "r", 0)
		asError[*durable.SuspendedError](t, err)
		require.NoError(t, durable.Signal(t.Context(), store, "r", "s", "in time"))
		time.Sleep(time.Hour)
		release(t, store, "r")
		out, err := durable.Run(t.Context(), store, patient, "r", 0)
		require.NoError(t, err)
		assert.Equal(t, "in time", out)
	})
}

func TestASignalOfAnotherTypeIsConsumedAndAnOutcome(t *testing.T) {
	store := memory.New()
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		_, err := durable.WaitForSignal[int](ctx, "s")
		if _, odd := errors.AsType[*durable.SignalTypeError](err); !odd {
			return 0, err
		}
		return durable.WaitForSignal[int](ctx, "s")
	})
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.SuspendedError](t, err)
	require.NoError(t, durable.Signal(t.Context(), store, "r", "s", "text"))
	_, err = durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.SuspendedError](t, err)
	require.NoError(t, durable.Signal(t.Context(), store, "r", "s", 42))
	out, err := durable.Run(t.Context(), store, wf, "r", 0)
	require.NoError(t, err)
	assert.Equal(t, 42, out)
}

func TestSignalsOutsideOfAJournalAndToNobody(t *testing.T) {
	_, err := durable.WaitForSignal[int](t.Context(), "s")
	assert.Equal(t, "WaitForSignal", asError[*durable.NoJournalError](t, err).Call)
	_, err = durable.WaitForSignal[int](t.Context(), "s", durable.WaitTimeout(0))
	asError[*durable.OptionError](t, err)
	store := memory.New()
	require.ErrorIs(t, durable.Signal(t.Context(), store, "none", "s", 1), journal.ErrNotFound)
	asError[*durable.OptionError](t, durable.Signal(t.Context(), store, "none", "", 1))
	asError[*journal.NotSerializableError](t, durable.Signal(t.Context(), store, "none", "s", make(chan int)))
	_, err = durable.Run(t.Context(), store, sleeper, "done", 0)
	require.NoError(t, err)
	require.ErrorIs(t, durable.Signal(t.Context(), store, "done", "s", 1), journal.ErrEnded)
}

// A body that swallows a suspension is stopped at its next durable call, and what it returns is not taken.
func TestASuspensionCannotBeSwallowed(t *testing.T) {
	for _, after := range []bool{false, true} {
		store, c := memory.New(), &counter{}
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
			_, _ = durable.WaitForSignal[int](ctx, "s")
			if after {
				if _, err := counted(ctx, c, "after", 1); err == nil {
					return "", errors.New("went on")
				}
			}
			return "swallowed", nil
		})
		_, err := durable.Run(t.Context(), store, wf, "r", 0)
		asError[*durable.SuspendedError](t, err)
		assert.Zero(t, c.of("after"))
		assert.Equal(t, journal.Suspended, status(t, store, "r"))
	}
}
