package durable_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
)

// The seed's client.retry: every recorded step is served, the failed one and what follows run live.
func TestARetryServesWhatIsRecordedAndRunsTheFailedStepOnward(t *testing.T) {
	store, c := memory.New(), &counter{}
	broken := true
	wf := durable.Workflow("w", func(ctx context.Context, _ string) (string, error) {
		if _, err := counted(ctx, c, "a", 1); err != nil {
			return "", err
		}
		_, handled := durable.Step(ctx, "handled", func(context.Context) (int, error) { c.add("handled"); return 0, errBoom })
		if handled == nil {
			return "", errors.New("another way")
		}
		answer, err := durable.Interrupt[string](ctx, "name?")
		if err != nil {
			return "", err
		}
		v, err := durable.Step(ctx, "fails", func(context.Context) (string, error) {
			if c.add("fails"); broken {
				return "", errBoom
			}
			return "hello " + answer, nil
		})
		if err != nil {
			return "", fmt.Errorf("wrapped: %w", err)
		}
		sig, err := durable.WaitForSignal[string](ctx, "s")
		return v + sig, err
	})
	run := func() error {
		_, err := durable.Run(t.Context(), store, wf, "r", "in")
		return err
	}
	asError[*durable.SuspendedError](t, run())
	require.NoError(t, durable.Signal(t.Context(), store, "r", "s", "!"))
	require.NoError(t, durable.Answer(t.Context(), store, "r", "ask1", "ada"))
	asError[*durable.RunFailedError](t, run())
	m, err := durable.FailureOf(events(t, store, "r")[len(events(t, store, "r"))-1])
	require.NoError(t, err)
	assert.Equal(t, []durable.FailedCall{{Name: "fails", N: 1}}, m.Failed)

	broken = false
	for range 2 { // made once
		again, err := durable.PrepareRetry(t.Context(), store, "r", "r2")
		require.NoError(t, err)
		assert.Equal(t, journal.Pending, again.Status)
		assert.Equal(t, journal.Link{Kind: journal.RetryOf, Run: "r"}, again.Link)
	}
	require.NoError(t, store.Delete(t.Context(), "r")) // the new run is complete in itself
	out, err := durable.Run(t.Context(), store, wf, "r2", "in")
	require.NoError(t, err)
	assert.Equal(t, "hello ada!", out, "answers and signals are kept")
	assert.Equal(t, 1, c.of("a"))
	assert.Equal(t, 1, c.of("handled"))
	assert.Equal(t, 2, c.of("fails"))
}

func TestARetryOfARetry(t *testing.T) {
	store, c := memory.New(), &counter{}
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
		v, err := durable.WaitForSignal[string](ctx, "s")
		if err != nil {
			return "", err
		}
		for i := range 3 {
			_, err := durable.Step(ctx, "s"+fmt.Sprint(i), func(context.Context) (int, error) {
				if c.add(fmt.Sprint(i)) == 1 {
					return 0, errBoom
				}
				return 0, nil
			})
			if err != nil {
				return "", err
			}
		}
		w, err := durable.WaitForSignal[string](ctx, "s")
		return v + w, err
	})
	_, err := durable.Run(t.Context(), store, wf, "r0", 0)
	asError[*durable.SuspendedError](t, err)
	require.NoError(t, durable.Signal(t.Context(), store, "r0", "s", "a"))
	require.NoError(t, durable.Signal(t.Context(), store, "r0", "s", "b"))
	_, err = durable.Resume(t.Context(), store, wf, "r0")
	asError[*durable.RunFailedError](t, err)
	for i := range 3 {
		id := fmt.Sprint("r", i+1)
		_, err := durable.PrepareRetry(t.Context(), store, fmt.Sprint("r", i), id)
		require.NoError(t, err)
		out, err := durable.Resume(t.Context(), store, wf, id)
		if i < 2 {
			asError[*durable.RunFailedError](t, err)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, "ab", out, "a signal is delivered once, however often the run is retried")
	}
}

func TestOnlyFailedRunsAreRetried(t *testing.T) {
	store := memory.New()
	code := func(id string) durable.RetryCode {
		_, err := durable.PrepareRetry(t.Context(), store, id, "new")
		return asError[*durable.RetryError](t, err).Code
	}
	_, err := durable.PrepareRetry(t.Context(), store, "none", "new")
	require.ErrorIs(t, err, journal.ErrNotFound)
	_, err = durable.Run(t.Context(), store, listener, "r", 1)
	asError[*durable.SuspendedError](t, err)
	assert.Equal(t, durable.RetryNotFailed, code("r"))
	require.NoError(t, durable.Cancel(t.Context(), store, "r", ""))
	assert.Equal(t, durable.RetryCancelled, code("r"))
	assert.EqualValues(t, "retry_cancelled", durable.RetryCancelled)

	fails := durable.Workflow("f", func(context.Context, int) (int, error) { return 0, errBoom })
	_, err = durable.Run(t.Context(), store, fails, "f", 1)
	asError[*durable.RunFailedError](t, err)
	_, err = durable.PrepareRetry(t.Context(), store, "f", "r")
	assert.Equal(t, "origin", asError[*durable.RunConflictError](t, err).What)
}

// Branches beside the failed call, whatever stands where in the journal, are served; the failed one runs again.
func TestARetryAfterCallsThatOverlapped(t *testing.T) {
	store, c := memory.New(), &counter{}
	broken := true
	failed := make(chan struct{})
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		call := func(name string, fn func() error) error {
			return durable.Branch(ctx, name, func(ctx context.Context) error {
				_, err := durable.Step(ctx, name, func(context.Context) (int, error) { c.add(name); return 0, fn() })
				return err
			})
		}
		var g errgroup.Group
		slowIn := make(chan struct{})
		g.Go(func() error {
			return call("slow", func() error {
				close(slowIn)
				<-failed // it ends behind the failure, and says nothing about it
				return nil
			})
		})
		g.Go(func() error {
			if broken {
				<-slowIn
				defer close(failed)
			}
			return call("fails", func() error {
				if broken {
					return errBoom
				}
				return nil
			})
		})
		if err := g.Wait(); err != nil {
			return 0, errors.New("unhandled") // not even the error tells
		}
		return 1, nil
	})
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.RunFailedError](t, err)
	broken = false
	_, err = durable.PrepareRetry(t.Context(), store, "r", "r2")
	require.NoError(t, err)
	out, err := durable.Resume(t.Context(), store, wf, "r2")
	require.NoError(t, err)
	assert.Equal(t, 1, out)
	assert.Equal(t, 1, c.of("slow"))
	assert.Equal(t, 2, c.of("fails"))
}

// A branch that begins behind another one's failure seems to handle it; the run's own failure tells that nobody has.
func TestARetryAfterABranchThatBeganLate(t *testing.T) {
	store, c := memory.New(), &counter{}
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		branch := func(name string, fn func() error) error {
			return durable.Branch(ctx, name, func(ctx context.Context) error {
				_, err := durable.Step(ctx, "s", func(context.Context) (int, error) { return 0, fn() })
				return err
			})
		}
		first := branch("first", func() error {
			if c.add("first") == 1 {
				return errBoom
			}
			return nil
		})
		if err := branch("second", func() error { c.add("second"); return nil }); err != nil {
			return 0, err
		}
		return 5, first
	})
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.RunFailedError](t, err)
	_, err = durable.PrepareRetry(t.Context(), store, "r", "r2")
	require.NoError(t, err)
	out, err := durable.Resume(t.Context(), store, wf, "r2")
	require.NoError(t, err)
	assert.Equal(t, 5, out)
	assert.Equal(t, 2, c.of("first"))
	assert.Equal(t, 1, c.of("second"))
}

// Code that cleans up behind a failure and returns it is retried where it failed, not where it cleaned up.
func TestARetryOfAFailureWithSomethingBehindIt(t *testing.T) {
	store, c := memory.New(), &counter{}
	broken := true
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
		_, err := durable.Step(ctx, "work", func(context.Context) (int, error) {
			if c.add("work"); broken {
				return 0, errBoom
			}
			return 0, nil
		})
		text := "done"
		if err != nil {
			text = "failed"
			if _, err := durable.Once(ctx, "refund", func(context.Context) (int, error) { c.add("refund"); return 0, nil }); err != nil {
				return "", err
			}
		}
		sent, serr := durable.Step(ctx, "notify", func(context.Context) (string, error) { c.add(text); return text, nil })
		if serr != nil {
			return "", serr
		}
		sig, serr := durable.WaitForSignal[string](ctx, "s")
		if serr != nil {
			return "", serr
		}
		return sent + sig, err
	})
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.SuspendedError](t, err)
	require.NoError(t, durable.Signal(t.Context(), store, "r", "s", "!"))
	_, err = durable.Resume(t.Context(), store, wf, "r")
	asError[*durable.RunFailedError](t, err)
	assert.Equal(t, 1, c.of("work"), "the failure was handled in this run")

	_, err = durable.PrepareRetry(t.Context(), store, "r", "fails again")
	require.NoError(t, err)
	_, err = durable.Resume(t.Context(), store, wf, "fails again")
	asError[*durable.RunFailedError](t, err)
	assert.Equal(t, 2, c.of("work"))
	assert.Equal(t, 2, c.of("failed"), "notified again")
	assert.Equal(t, 1, c.of("refund"), "once is once")

	broken = false
	_, err = durable.PrepareRetry(t.Context(), store, "fails again", "r3")
	require.NoError(t, err)
	out, err := durable.Resume(t.Context(), store, wf, "r3")
	require.NoError(t, err)
	assert.Equal(t, "done!", out, "the signal is kept")
}

// What the code around a failed branch has gone on to belongs to the way that the retry may not take again; what it had begun
// before is served.
func TestARetryOfABranchLeavesWhatCameBehindIt(t *testing.T) {
	store, c := memory.New(), &counter{}
	broken := true
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
		if _, err := counted(ctx, c, "before", 1); err != nil {
			return "", err
		}
		err := durable.Branch(ctx, "b", func(ctx context.Context) error {
			_, err := durable.Step(ctx, "s", func(context.Context) (int, error) {
				if broken {
					return 0, errBoom
				}
				return 0, nil
			})
			return err
		})
		if err != nil {
			if _, cerr := counted(ctx, c, "clean up", 1); cerr != nil {
				return "", cerr
			}
			return "", err
		}
		return counted(ctx, c, "after", "done")
	})
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.RunFailedError](t, err)
	broken = false
	_, err = durable.PrepareRetry(t.Context(), store, "r", "r2")
	require.NoError(t, err)
	out, err := durable.Resume(t.Context(), store, wf, "r2")
	require.NoError(t, err)
	assert.Equal(t, "done", out)
	assert.Equal(t, 1, c.of("before"))
	assert.Equal(t, 1, c.of("clean up"))
}

// A signal of the wrong type, or one that did not come in time, fails a run like a failed step: a retry waits anew.
func TestARetryWaitsAnewForTheSignalThatARunHasFailedWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
			v, err := durable.WaitForSignal[int](ctx, "s", durable.WaitTimeout(time.Minute))
			if err != nil {
				return 0, fmt.Errorf("no number: %w", err)
			}
			return v, nil
		})
		resume := func(id string) (int, error) { return durable.Resume(t.Context(), store, wf, id) }
		_, err := durable.Run(t.Context(), store, wf, "r", 0)
		asError[*durable.SuspendedError](t, err)
		time.Sleep(time.Minute)
		_, err = resume("r")
		asError[*durable.SignalTimeoutError](t, err)

		_, err = durable.PrepareRetry(t.Context(), store, "r", "r2")
		require.NoError(t, err)
		require.NoError(t, durable.Signal(t.Context(), store, "r2", "s", "five"))
		_, err = resume("r2")
		asError[*durable.SignalTypeError](t, err)

		_, err = durable.PrepareRetry(t.Context(), store, "r2", "r3")
		require.NoError(t, err)
		_, err = resume("r3")
		asError[*durable.SuspendedError](t, err)
		require.NoError(t, durable.Signal(t.Context(), store, "r3", "s", 5))
		out, err := resume("r3")
		require.NoError(t, err)
		assert.Equal(t, 5, out)
	})
}
