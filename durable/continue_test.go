package durable_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/journal/memory"
)

type pollState struct {
	Round int
	Seen  []string
}

// poller collects a signal in each round, and begins as new after it, until it has seen three.
func poller(c *counter) *durable.Definition[pollState, []string] {
	return durable.Workflow("poll", func(ctx context.Context, s pollState) ([]string, error) {
		if _, err := counted(ctx, c, "round", s.Round); err != nil {
			return nil, err
		}
		v, err := durable.WaitForSignal[string](ctx, "s")
		if err != nil {
			return nil, err
		}
		s.Seen = append(s.Seen, v)
		if s.Round++; s.Round == 3 {
			return s.Seen, nil
		}
		_ = durable.ContinueAsNew(ctx, s) // swallowed, it continues all the same
		return nil, nil
	})
}

func TestARunContinuesAsNew(t *testing.T) {
	store, c := memory.New(), &counter{}
	wf := poller(c)
	_, err := durable.Run(t.Context(), store, wf, "r", pollState{})
	asError[*durable.SuspendedError](t, err)
	for _, v := range []string{"a", "b"} { // both before the first round is over: what is not consumed goes along
		require.NoError(t, durable.Signal(t.Context(), store, "r", "s", v))
	}
	_, err = durable.Run(t.Context(), store, wf, "r", pollState{})
	assert.Equal(t, "r~3", asError[*durable.SuspendedError](t, err).RunID)
	require.NoError(t, durable.Signal(t.Context(), store, "r", "s", "c"), "signals to the first run reach the last")
	for range 2 {
		out, err := durable.Run(t.Context(), store, wf, "r", pollState{})
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "b", "c"}, out)
	}
	assert.Equal(t, 3, c.of("round"))
	assert.Equal(t, journal.Continued, status(t, store, "r"))
	assert.Equal(t, journal.Completed, status(t, store, "r~3"))
	assert.Equal(t, []string{
		"run:start", "step:done round", "signal:wait s", "run:suspended", "signal:received s", "run:continued",
	}, kinds(t, store, "r"))
	run, err := store.Load(t.Context(), "r~3")
	require.NoError(t, err)
	assert.Equal(t, journal.Link{Kind: journal.Continuation, Run: "r~2"}, run.Link)
}

func TestCancellingTheFirstRunOfAChainCancelsTheLast(t *testing.T) {
	store := memory.New()
	_, err := durable.Run(t.Context(), store, poller(&counter{}), "r", pollState{})
	asError[*durable.SuspendedError](t, err)
	require.NoError(t, durable.Signal(t.Context(), store, "r", "s", "a"))
	_, err = durable.Run(t.Context(), store, poller(&counter{}), "r", pollState{})
	asError[*durable.SuspendedError](t, err)
	require.NoError(t, durable.Cancel(t.Context(), store, "r", "enough"))
	assert.Equal(t, journal.Cancelled, status(t, store, "r~2"))
	_, err = durable.Run(t.Context(), store, poller(&counter{}), "r", pollState{})
	asError[*durable.RunCancelledError](t, err)
}

func TestAChainThatCannotBeFollowed(t *testing.T) {
	begin := func(t *testing.T) *memory.Store {
		t.Helper()
		store := memory.New()
		_, err := durable.Run(t.Context(), store, poller(&counter{}), "r", pollState{})
		asError[*durable.SuspendedError](t, err)
		require.NoError(t, durable.Signal(t.Context(), store, "r", "s", "a"))
		return store
	}
	follow := func(store journal.Store) durable.ChainReason {
		_, err := durable.Run(t.Context(), store, poller(&counter{}), "r", pollState{})
		return asError[*durable.ContinuationChainError](t, err).Reason
	}
	t.Run("missing", func(t *testing.T) {
		store := begin(t)
		_, err := durable.Run(t.Context(), store, poller(&counter{}), "r", pollState{})
		asError[*durable.SuspendedError](t, err)
		require.NoError(t, store.Delete(t.Context(), "r~2"))
		assert.Equal(t, durable.ChainMissing, follow(store))
		asError[*durable.ContinuationChainError](t, durable.Signal(t.Context(), store, "r", "s", "b"))
		asError[*durable.ContinuationChainError](t, durable.Cancel(t.Context(), store, "r", ""))
		_, err = durable.Run(t.Context(), store, listener, "r~2", 1)
		asError[*durable.SuspendedError](t, err)
		assert.Equal(t, durable.ChainForeign, follow(store))
	})
	t.Run("taken", func(t *testing.T) {
		store := begin(t)
		_, err := durable.Run(t.Context(), store, listener, "r~2", 1)
		asError[*durable.SuspendedError](t, err)
		assert.Equal(t, durable.ChainForeign, follow(store))
		assert.Equal(t, journal.Failed, status(t, store, "r"))
	})
	t.Run("cycle", func(t *testing.T) {
		store := memory.New()
		for id, next := range map[string]string{"r": "r~2", "r~2": "r"} {
			_, err := store.Create(t.Context(), journal.NewRun{
				Run: journal.Run{
					ID: id, Kind: journal.WorkflowRun, Name: "poll", Link: journal.Link{Kind: journal.Continuation, Run: next},
				},
				Events: []journal.Event{
					{Kind: journal.RunStart, Payload: mustJSON(pollState{})},
					{Kind: journal.RunContinued, Meta: mustJSON(map[string]string{"next": next})},
				},
			})
			require.NoError(t, err)
		}
		assert.Equal(t, durable.ChainCycle, follow(store))
	})
}

func TestContinueAsNewIsForBodiesOnly(t *testing.T) {
	require.ErrorContains(t, durable.ContinueAsNew(t.Context(), 1), "needs a journal")
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		return 0, durable.Branch(ctx, "b", func(ctx context.Context) error { return durable.ContinueAsNew(ctx, 1) })
	})
	_, err := durable.Run(t.Context(), memory.New(), wf, "r", 0)
	assert.Equal(t, "ContinueAsNew", asError[*durable.PlacementError](t, err).Call)

	for name, in := range map[string]any{"another type": "text", "no JSON": make(chan int)} {
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) { return 0, durable.ContinueAsNew(ctx, in) })
		store := memory.New()
		_, err := durable.Run(t.Context(), store, wf, "r", 0)
		asError[*durable.RunFailedError](t, err)
		assert.Equal(t, journal.Failed, status(t, store, "r"), name)
	}
}

// Wherever the process dies between making the next run and ending this one, the chain is whole in the end.
func TestACrashWhileContinuing(t *testing.T) {
	for cut := 1; ; cut++ {
		for _, when := range []journaltest.When{journaltest.Before, journaltest.After} {
			inner, c := memory.New(), &counter{}
			store := journaltest.NewFaulty(inner)
			reached := false
			store.OnWrite(func(w journaltest.Write) {
				if w.N == cut && w.When == when {
					reached = true
					store.Freeze()
				}
			})
			wf := durable.Workflow("count", func(ctx context.Context, n int) (int, error) {
				if _, err := counted(ctx, c, "s", n); err != nil {
					return 0, err
				}
				if n < 3 {
					return 0, durable.ContinueAsNew(ctx, n+1)
				}
				return n, nil
			})
			_, err := durable.Run(t.Context(), store, wf, "r", 1)
			if !reached {
				require.NoError(t, err)
				return
			}
			out, err := durable.Run(t.Context(), reborn(t, inner), wf, "r", 1)
			require.NoError(t, err, "cut %d %s", cut, when)
			assert.Equal(t, 3, out)
			assert.LessOrEqual(t, c.of("s"), 4)
		}
	}
}

func TestARetryOfAChainRetriesItsLastRun(t *testing.T) {
	store, c := memory.New(), &counter{}
	wf := durable.Workflow("count", func(ctx context.Context, n int) (int, error) {
		_, err := durable.Step(ctx, "s", func(context.Context) (int, error) {
			if n == 2 && c.add("second") == 1 {
				return 0, errBoom
			}
			return 0, nil
		})
		if err != nil {
			return 0, err
		}
		if n < 3 {
			return 0, durable.ContinueAsNew(ctx, n+1)
		}
		return n, nil
	})
	parent := durable.Workflow("parent", func(ctx context.Context, n int) (int, error) { return durable.RunChild(ctx, wf, n) })
	_, err := durable.Run(t.Context(), store, parent, "p", 1)
	assert.Equal(t, "p-count#1~2", asError[*durable.ChildWorkflowError](t, err).RunID)
	again, err := durable.PrepareRetry(t.Context(), store, "p-count#1", "by hand")
	require.NoError(t, err)
	assert.Equal(t, journal.Link{Kind: journal.RetryOf, Run: "p-count#1~2"}, again.Link)
	out, err := durable.Resume(t.Context(), store, wf, "by hand")
	require.NoError(t, err)
	assert.Equal(t, 3, out)
	assert.Equal(t, journal.Completed, status(t, store, "by hand~2"))

	_, err = durable.PrepareRetry(t.Context(), store, "p", "p2")
	require.NoError(t, err)
	out, err = durable.Resume(t.Context(), store, parent, "p2")
	require.NoError(t, err)
	assert.Equal(t, 3, out)
}
