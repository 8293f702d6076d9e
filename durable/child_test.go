package durable_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
)

// family is a parent that runs one child twice.
func family(child *durable.Definition[int, int], opts ...durable.ChildOption) *durable.Definition[int, int] {
	return durable.Workflow("parent", func(ctx context.Context, in int) (int, error) {
		return durable.RunChild(ctx, child, in, opts...)
	})
}

func TestAChildIsARunOfItsOwn(t *testing.T) {
	store, c := memory.New(), &counter{}
	child := durable.Workflow("child", func(ctx context.Context, in int) (int, error) { return counted(ctx, c, "s", in*2) })
	parent := durable.Workflow("parent", func(ctx context.Context, in int) (int, error) {
		a, err := durable.RunChild(ctx, child, in)
		if err != nil {
			return 0, err
		}
		b, err := durable.RunChild(ctx, child, in+1)
		if err != nil {
			return 0, err
		}
		return a + b, suspend(ctx)
	})
	_, err := durable.Run(t.Context(), store, parent, "p", 1)
	asError[*durable.SuspendedError](t, err)
	release(t, store, "p")
	out, err := durable.Run(t.Context(), store, parent, "p", 1)
	require.NoError(t, err)
	assert.Equal(t, 6, out)
	assert.Equal(t, 2, c.of("s"))
	assert.Equal(t, []string{"child:start child", "step:done child", "child:start child", "step:done child"}, kinds(t, store, "p")[1:5])
	for _, id := range []string{"p-child#1", "p-child#2"} { // the default id
		run, err := store.Load(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, journal.Completed, run.Status)
		assert.Equal(t, journal.Link{Kind: journal.ChildOf, Run: "p"}, run.Link)
	}
}

func TestAFailingChildIsAnOutcome(t *testing.T) {
	store, c := memory.New(), &counter{}
	child := durable.Workflow("child", func(context.Context, int) (int, error) {
		c.add("child")
		return 0, classifier.Poison(errBoom, classifier.Code("bad.input"))
	})
	parent := durable.Workflow("parent", func(ctx context.Context, _ int) (string, error) {
		_, err := durable.RunChild(ctx, child, 1)
		var failed *durable.ChildWorkflowError
		if !errors.As(err, &failed) {
			return "", err
		}
		if err := suspend(ctx); err != nil {
			return "", err
		}
		return failed.RunID + " " + string(failed.Code) + " " + failed.UserCode + " " + failed.Name, nil
	})
	_, err := durable.Run(t.Context(), store, parent, "p", 1)
	asError[*durable.SuspendedError](t, err)
	release(t, store, "p")
	out, err := durable.Run(t.Context(), store, parent, "p", 1)
	require.NoError(t, err)
	assert.Equal(t, "p-child#1 poison bad.input child", out)
	assert.Equal(t, 1, c.of("child"))
}

func TestAChildThatWaitsSuspendsItsParent(t *testing.T) {
	store := memory.New()
	parent := family(durable.Workflow("child", func(ctx context.Context, _ int) (int, error) {
		return durable.Interrupt[int](ctx, "how many?")
	}), durable.ChildID("kid"))
	_, err := durable.Run(t.Context(), store, parent, "p", 1)
	suspended := asError[*durable.SuspendedError](t, err)
	assert.Equal(t, "p", suspended.RunID)
	assert.Equal(t, []durable.Wait{{Child: "kid"}}, suspended.Waits)
	assert.Equal(t, journal.Suspended, status(t, store, "p"))
	require.NoError(t, durable.Answer(t.Context(), store, "kid", "ask1", 3))
	out, err := durable.Run(t.Context(), store, parent, "p", 1)
	require.NoError(t, err)
	assert.Equal(t, 3, out)
	assert.Equal(t, []string{"run:start", "child:start child", "run:suspended", "step:done child", "run:complete"}, kinds(t, store, "p"))
}

func TestSameIDSameThingAttachesOtherThingConflicts(t *testing.T) {
	store, c := memory.New(), &counter{}
	child := durable.Workflow("child", func(ctx context.Context, in int) (int, error) { return counted(ctx, c, "s", in) })
	_, err := durable.Run(t.Context(), store, child, "kid", 1)
	require.NoError(t, err)
	out, err := durable.Run(t.Context(), store, family(child, durable.ChildID("kid")), "p", 1)
	require.NoError(t, err)
	assert.Equal(t, 1, out)
	assert.Equal(t, 1, c.of("s"))
	_, err = durable.Run(t.Context(), store, family(child, durable.ChildID("kid")), "p2", 2)
	assert.Equal(t, "input", asError[*durable.RunConflictError](t, err).What)
	_, err = durable.Run(t.Context(), store, family(child, durable.ChildID("p3")), "p3", 2)
	assert.Equal(t, "id", asError[*durable.RunConflictError](t, err).What)
}

func TestCancellingAParentCancelsItsChildrenUnlessTheyAreDetached(t *testing.T) {
	child := durable.Workflow("child", func(ctx context.Context, _ int) (int, error) { return 0, suspend(ctx) })
	for _, detached := range []bool{false, true} {
		var opts []durable.ChildOption
		want := journal.Cancelled
		if detached {
			opts, want = append(opts, durable.Detached()), journal.Suspended
		}
		t.Run("suspended", func(t *testing.T) {
			store := memory.New()
			_, err := durable.Run(t.Context(), store, family(child, opts...), "p", 1)
			asError[*durable.SuspendedError](t, err)
			require.NoError(t, durable.Cancel(t.Context(), store, "p", "enough"))
			assert.Equal(t, journal.Cancelled, status(t, store, "p"))
			assert.Equal(t, want, status(t, store, "p-child#1"))
			require.NoError(t, durable.Cancel(t.Context(), store, "p", "enough"), "twice is a success")
		})
	}
	t.Run("at work", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memory.New()
			sleepy := durable.Workflow("child", func(ctx context.Context, _ int) (int, error) { return 0, durable.Sleep(ctx, time.Hour) })
			time.AfterFunc(time.Second, func() { assert.NoError(t, durable.Cancel(context.Background(), store, "p", "enough")) })
			_, err := durable.Run(t.Context(), store, family(sleepy), "p", 1)
			asError[*durable.RunCancelledError](t, err)
			assert.Equal(t, journal.Cancelled, status(t, store, "p"))
			assert.Equal(t, journal.Cancelled, status(t, store, "p-child#1"))
		})
	})
	t.Run("the child", func(t *testing.T) {
		store := memory.New()
		_, err := durable.Run(t.Context(), store, family(child), "p", 1)
		asError[*durable.SuspendedError](t, err)
		require.NoError(t, durable.Cancel(t.Context(), store, "p-child#1", "enough"))
		_, err = durable.Run(t.Context(), store, family(child), "p", 1)
		assert.Equal(t, durable.CodeCancelled, asError[*durable.ChildWorkflowError](t, err).Code)
		assert.Equal(t, journal.Failed, status(t, store, "p"), "its parent fails, since nobody has cancelled it")
	})
}

func TestARetryOfTheParentRetriesTheFailedChild(t *testing.T) {
	store, c := memory.New(), &counter{}
	broken := true
	child := durable.Workflow("child", func(ctx context.Context, in int) (int, error) {
		a, err := counted(ctx, c, "a", in)
		if err != nil {
			return 0, err
		}
		return durable.Step(ctx, "b", func(context.Context) (int, error) {
			if c.add("b"); broken {
				return 0, errBoom
			}
			return a + 1, nil
		})
	})
	_, err := durable.Run(t.Context(), store, family(child), "p", 1)
	asError[*durable.ChildWorkflowError](t, err)
	broken = false
	for range 2 {
		_, err = durable.PrepareRetry(t.Context(), store, "p", "p2")
		require.NoError(t, err)
	}
	out, err := durable.Resume(t.Context(), store, family(child), "p2")
	require.NoError(t, err)
	assert.Equal(t, 2, out)
	assert.Equal(t, 1, c.of("a"), "what it had done is served")
	run, err := store.Load(t.Context(), "p2-child#1")
	require.NoError(t, err)
	assert.Equal(t, journal.Link{Kind: journal.RetryOf, Run: "p-child#1"}, run.Link)
}

func TestAChildInAPlainContextIsCalled(t *testing.T) {
	child := durable.Workflow("child", func(_ context.Context, in int) (int, error) { return in * 2, nil })
	out, err := durable.RunChild(t.Context(), child, 4)
	require.NoError(t, err)
	assert.Equal(t, 8, out)
	_, err = durable.RunChild(t.Context(), durable.Workflow[int, int]("", nil), 4)
	asError[*durable.OptionError](t, err)
}

func TestAChildThatSomebodyElseHoldsIsWaitedFor(t *testing.T) {
	store := memory.New()
	child := durable.Workflow("child", func(ctx context.Context, _ int) (int, error) { return 0, suspend(ctx) })
	_, err := durable.Run(t.Context(), store, family(child), "p", 1)
	asError[*durable.SuspendedError](t, err)
	lease := hold(t, store, "p-child#1")
	_, err = durable.Run(t.Context(), store, family(child), "p", 1)
	waits := asError[*durable.SuspendedError](t, err)
	assert.Equal(t, []durable.Wait{{Child: "p-child#1", Due: lease.Until}}, waits.Waits, "its owner may be dead by then")
	run, err := store.Load(t.Context(), "p")
	require.NoError(t, err)
	assert.Equal(t, lease.Until, run.Due)
}
