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
)

// approval waits until somebody approves, and says how that went.
func approval(c *counter, opts ...durable.SignalOption) *durable.Definition[int, string] {
	return durable.Workflow("approval", func(ctx context.Context, _ int) (string, error) {
		by := ""
		err := durable.HandleUpdate(ctx, "approve", func(_ context.Context, who string) (bool, error) { by += who; return true, nil })
		if err != nil {
			return "", err
		}
		_, err = durable.Step(ctx, "fails", func(context.Context) (int, error) { c.add("fails"); return 0, errBoom })
		if err == nil || err.Error() != errBoom.Error() {
			return "", err
		}
		err = durable.Await(ctx, func() bool { return by != "" }, opts...)
		if late, is := errors.AsType[*durable.AwaitTimeoutError](err); is {
			by = late.Error()
		} else if err != nil {
			return "", err
		}
		return counted(ctx, c, "file", by)
	})
}

func TestAwaitSuspendsTheRunUntilAnUpdateMakesItsConditionTrue(t *testing.T) {
	store, c := memory.New(), &counter{}
	for range 2 {
		suspended := waits(t, store, approval(c), "r", 0)
		assert.Equal(t, []durable.Wait{{Await: true}}, suspended.Waits)
		assert.Zero(t, suspended.Due)
		assert.ErrorContains(t, suspended, "an update that makes its condition true")
	}
	post(t, store, "r", journal.UpdateMessage, "approve", "ada")
	post(t, store, "r", journal.UpdateMessage, "approve", "bob")
	assert.Equal(t, "adabob", ends(t, store, approval(c), "r", 0))
	assert.Equal(t, 1, c.of("fails"), "the code has gone on behind the failure")
	assert.Equal(t, []string{
		"run:start", "step:error fails", "step:handled", "run:suspended", "run:suspended",
		"update:done approve in update[1]", "update:done approve in update[2]", "step:done await", "step:done file", "run:complete",
	}, kinds(t, store, "r"))
}

func TestAConditionThatIsTrueDoesNotWait(t *testing.T) {
	store := memory.New()
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		return 1, durable.Await(ctx, func() bool { return true })
	})
	ends(t, store, wf, "r", 0)
	assert.Equal(t, []string{"run:start", "step:done await", "run:complete"}, kinds(t, store, "r"), "it costs no write of its own")
}

func TestAnAwaitThatHasPassedStaysPassed(t *testing.T) {
	store, c := memory.New(), &counter{}
	asked := 0
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		if err := durable.Await(ctx, func() bool { asked++; return asked == 1 }); err != nil {
			return 0, err
		}
		if _, err := counted(ctx, c, "a", 1); err != nil {
			return 0, err
		}
		return 0, suspend(ctx)
	})
	waits(t, store, wf, "r", 0)
	release(t, store, "r")
	ends(t, store, wf, "r", 0)
	assert.Equal(t, 1, asked, "its outcome is recorded")
}

func TestAwaitTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := memory.New(), &counter{}
		wf := approval(c, durable.WaitTimeout(time.Hour))
		begun := time.Now()
		for range 2 {
			assert.Equal(t, begun.Add(time.Hour), waits(t, store, wf, "r", 0).Due.Local(), "from when it began to wait")
			time.Sleep(time.Minute)
		}
		time.Sleep(time.Hour)
		want := `pawl: run "r": what durable.Await waits for has not come true within 1h0m0s`
		assert.Equal(t, want, ends(t, store, wf, "r", 0))
		assert.Equal(t, []string{
			"run:start", "step:error fails", "signal:wait await", "run:suspended", "run:suspended", "signal:timeout await",
			"step:done file", "run:complete",
		}, kinds(t, store, "r"))
		timeout := &durable.AwaitTimeoutError{}
		assert.True(t, timeout.Timeout())
		assert.True(t, timeout.Unretryable())
	})
}

func TestAnUpdateInTimeIsHeardOfBehindTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := memory.New(), &counter{}
		wf := approval(c, durable.WaitTimeout(time.Hour))
		waits(t, store, wf, "r", 0)
		post(t, store, "r", journal.UpdateMessage, "approve", "ada")
		time.Sleep(2 * time.Hour)
		assert.Equal(t, "ada", ends(t, store, wf, "r", 0))
	})
}

func TestARunThatFailsWithATimeoutOfAwaitWaitsAnewInItsRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
			by := ""
			err := durable.HandleUpdate(ctx, "approve", func(_ context.Context, who string) (bool, error) { by += who; return true, nil })
			if err != nil {
				return "", err
			}
			err = durable.Await(ctx, func() bool { return len(by) > 4 }, durable.WaitTimeout(time.Minute))
			return by, err
		})
		waits(t, store, wf, "r", 0)
		post(t, store, "r", journal.UpdateMessage, "approve", "ada")
		waits(t, store, wf, "r", 0)
		time.Sleep(time.Hour)
		_, err := durable.Run(t.Context(), store, wf, "r", 0)
		asError[*durable.RunFailedError](t, err)
		asError[*durable.AwaitTimeoutError](t, err)
		_, err = durable.PrepareRetry(t.Context(), store, "r", "r2")
		require.NoError(t, err)
		assert.Equal(t, time.Now().Add(time.Minute), waits(t, store, wf, "r2", 0).Due.Local())
		post(t, store, "r2", journal.UpdateMessage, "approve", "bob")
		assert.Equal(t, "adabob", ends(t, store, wf, "r2", 0), "what the failed run had handled counts")
		assert.Equal(t, []string{
			"run:start", "signal:wait await", "update:done approve in update[1]", "signal:timeout await", "step:reopened await",
			"signal:wait await", "run:suspended", "update:done approve in update[2]", "step:done await", "run:complete",
		}, kinds(t, store, "r2"))
	})
}

// The condition came true and the process died before that was recorded: it has not come true.
func TestWhatPassedInAProcessThatDiedIsAskedAgain(t *testing.T) {
	inner, c := memory.New(), &counter{}
	store := journaltest.NewFaulty(inner)
	waits(t, inner, approval(c), "r", 0)
	post(t, inner, "r", journal.UpdateMessage, "approve", "ada")
	store.FailWrite(3, journaltest.Before) // behind the lease and the update
	_, err := durable.Run(t.Context(), store, approval(c), "r", 0)
	require.ErrorIs(t, err, journal.ErrUnavailable)
	assert.NotContains(t, kinds(t, inner, "r"), "step:done await")
	assert.Equal(t, "ada", ends(t, reborn(t, inner), approval(c), "r", 0))
}

func TestAPanicOfAConditionIsOneOfTheBody(t *testing.T) {
	store := memory.New()
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		return 0, durable.Await(ctx, func() bool { panic("condition") })
	})
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	assert.ErrorContains(t, asError[*durable.RunFailedError](t, err), "condition")
}
