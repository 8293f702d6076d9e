package durable_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
)

// open makes a graph's run and holds it.
func open(t *testing.T, store journal.Store) *durable.Execution {
	t.Helper()
	x, err := durable.Open(t.Context(), durable.Settings{Store: store}, "g", func() (journal.NewRun, error) {
		return journal.NewRun{
			Run: journal.Run{Kind: journal.GraphRun, Name: "g"}, Events: []journal.Event{{Kind: journal.RunStart, Time: durable.Now()}},
		}, nil
	})
	require.NoError(t, err)
	t.Cleanup(func() { x.Close(context.Background()) })
	return x
}

// Name counters restart with each attempt of a task, and an attempt meets what those before it have recorded.
func TestAttemptsOfATaskMeetWhatIsRecorded(t *testing.T) {
	store, c := memory.New(), &counter{}
	node := func(ctx context.Context) error {
		if _, err := counted(ctx, c, "a", 1); err != nil {
			return err
		}
		if _, err := counted(ctx, c, "a", 1); err != nil {
			return err
		}
		_, err := durable.Once(ctx, "once", func(context.Context) (int, error) { c.add("once"); return 0, errBoom })
		if err == nil {
			return errors.New("no error")
		}
		_, err = durable.Step(ctx, "fails", func(context.Context) (int, error) {
			if c.add("fails") < 3 {
				return 0, errBoom
			}
			return 0, nil
		})
		return err
	}
	x := open(t, store)
	for range 2 {
		s := x.Task("1/node", nil)
		require.ErrorContains(t, s.Outcome(node(s.Context(t.Context()))), "boom")
		s.Close(&durable.ScopeEndedError{})
	}
	x.Close(t.Context())
	x = open(t, store) // another process
	s := x.Task("1/node", nil)
	require.NoError(t, node(s.Context(t.Context())))
	assert.Equal(t, 2, c.of("a"))
	assert.Equal(t, 1, c.of("once"), "its error is final, to every attempt")
	assert.Equal(t, 3, c.of("fails"))
}

// A call cut short by a context of the node's own is an outcome only if the node goes on.
func TestATaskWithAContextOfItsOwn(t *testing.T) {
	store, c := memory.New(), &counter{}
	node := func(ctx context.Context, goOn bool) error {
		own, cancel := context.WithCancel(ctx)
		defer cancel()
		_, err := durable.Step(own, "cut", func(ctx context.Context) (int, error) {
			c.add("cut")
			cancel()
			return 0, ctx.Err()
		})
		if !goOn {
			return err
		}
		_, err = counted(ctx, c, "next", 1)
		return err
	}
	x := open(t, store)
	for i, goOn := range []bool{false, false, true, true} {
		s := x.Task("1/node", nil)
		s.Within(t.Context())
		err := node(context.WithValue(t.Context(), durable.Key{}, s), goOn)
		if goOn {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, context.Canceled)
		}
		assert.Equal(t, min(i+1, 3), c.of("cut"), "attempt %d", i+1)
	}
	assert.Equal(t, 1, c.of("next"))
}

func TestAnAbandonedTaskWritesNothing(t *testing.T) {
	store := memory.New()
	x := open(t, store)
	var gone error
	s := x.Task("1/node", func() error { return gone })
	ctx := s.Context(t.Context())
	_, err := durable.Step(ctx, "s", func(context.Context) (int, error) {
		gone = &durable.AbandonedError{RunID: "g", Scope: "1/node"}
		return 1, nil
	})
	asError[*durable.AbandonedError](t, err)
	_, err = durable.WaitForSignal[int](ctx, "s")
	asError[*durable.AbandonedError](t, err)
	asError[*durable.AbandonedError](t, durable.Branch(ctx, "b", func(context.Context) error { return nil }))
	asError[*durable.PlacementError](t, durable.ContinueAsNew(ctx, 1))
	assert.Len(t, events(t, store, "g"), 1)
	run, err := store.Load(t.Context(), "g")
	require.NoError(t, err)
	assert.NotEmpty(t, run.Owner)
}

// A signal that an attempt took and could not record any more is there for the next one.
func TestASignalTakenByAnAbandonedTaskIsGivenBack(t *testing.T) {
	store := memory.New()
	x := open(t, store)
	require.NoError(t, durable.Signal(t.Context(), store, "g", "s", 5))
	calls := 0
	s := x.Task("1/node", func() error {
		if calls++; calls > 1 {
			return &durable.AbandonedError{}
		}
		return nil
	})
	_, err := durable.WaitForSignal[int](s.Context(t.Context()), "s")
	asError[*durable.AbandonedError](t, err)
	s = x.Task("1/node", nil)
	v, err := durable.WaitForSignal[int](s.Context(t.Context()), "s")
	require.NoError(t, err)
	assert.Equal(t, 5, v)
}

// A function that ends its goroutine leaves nothing held.
func TestGoexitInAWorkflow(t *testing.T) {
	store := memory.New()
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		return durable.Step(ctx, "s", func(context.Context) (int, error) {
			runtime.Goexit()
			return 0, nil
		})
	})
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = durable.Run(t.Context(), store, wf, "r", 0) })
	wg.Wait()
	assert.Equal(t, journal.Pending, status(t, store, "r"))
	_, err := durable.Call(t.Context(), "c", func() (int, error) { runtime.Goexit(); return 0, nil }, durable.Timeout(time.Minute))
	require.ErrorContains(t, err, "Goexit")
}
