package durable_test

import (
	"context"
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

// Updates, queries and pauses of runs that workers take.

// enqueue makes a run for workers.
func enqueue[I, O any](t *testing.T, store journal.Store, wf *durable.Definition[I, O], in I) {
	t.Helper()
	n, err := wf.NewRun(durable.Settings{Store: store}, in)
	require.NoError(t, err)
	n.Run.ID, n.Run.Queue = "r", "q"
	_, err = store.Create(t.Context(), n)
	require.NoError(t, err)
}

// takeUp does what a worker does once: it reports whether there was anything to do.
func takeUp(t *testing.T, store interface {
	journal.Store
	journal.Queue
}, code durable.Executable) bool {
	t.Helper()
	taken, err := store.Take(t.Context(), journal.Take{
		Claim: journal.Claim{Owner: "w", TTL: time.Minute}, Queue: "q", Programs: []journal.Program{code.Program()}, Limit: 1,
	})
	require.NoError(t, err)
	if len(taken) == 0 {
		return false
	}
	a := &durable.Assignment{Taken: taken[0], Settings: durable.Settings{Store: store}, Programs: []journal.Program{code.Program()}}
	_ = code.Execute(t.Context(), a)
	return true
}

func TestARunThatSleepsInAWorkerIsWokenByUpdatesAndSleepsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, begun := memory.New(), time.Now()
		wf := durable.Workflow("w", func(ctx context.Context, _ int) ([]string, error) {
			var items []string
			if err := register(ctx, &counter{}, &items); err != nil {
				return nil, err
			}
			err := durable.HandleQuery(ctx, "size", func(struct{}) (int, error) { return len(items), nil })
			if err != nil {
				return nil, err
			}
			if err := durable.Sleep(ctx, time.Hour); err != nil {
				return nil, err
			}
			return items, nil
		})
		enqueue(t, store, wf, 0)
		require.True(t, takeUp(t, store, wf))
		require.False(t, takeUp(t, store, wf))
		for range 2 {
			time.Sleep(time.Minute)
			add(t, store, "r", "tea")
			post(t, store, "r", journal.QueryMessage, "size", struct{}{})
			require.True(t, takeUp(t, store, wf))
			require.False(t, takeUp(t, store, wf))
			run, err := store.Load(t.Context(), "r")
			require.NoError(t, err)
			assert.Equal(t, begun.Add(time.Hour), run.Due.Local(), "it sleeps on")
		}
		time.Sleep(time.Hour)
		require.True(t, takeUp(t, store, wf))
		assert.Equal(t, []string{
			"run:start", "timer:set sleep", "run:suspended",
			"step:done price tea in update[1]", "update:done add in update[1]", "query:answered size", "run:suspended",
			"step:done price tea in update[3]", "update:done add in update[3]", "query:answered size", "run:suspended", "run:complete",
		}, kinds(t, store, "r"))
		assert.Equal(t, []string{"tea 3", "tea 3"}, ends(t, store, wf, "r", 0))
	})
}

// A sleep that is over belongs to the past, also where nothing is recorded behind it.
func TestAnUpdateComesBehindASleepThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
			at := ""
			now := "before the sleep"
			err := durable.HandleUpdate(ctx, "u", func(context.Context, int) (int, error) { at = now; return 0, nil })
			if err != nil {
				return "", err
			}
			if err := durable.Sleep(ctx, time.Hour); err != nil {
				return "", err
			}
			now = "behind the sleep"
			err = durable.Await(ctx, func() bool { return at != "" })
			return at, err
		})
		enqueue(t, store, wf, 0)
		require.True(t, takeUp(t, store, wf))
		time.Sleep(time.Hour)
		post(t, store, "r", journal.UpdateMessage, "u", 1)
		require.True(t, takeUp(t, store, wf))
		assert.Equal(t, "behind the sleep", ends(t, store, wf, "r", 0))
	})
}

func TestAPausedRunIsTakenByNobodyUntilUnpause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := memory.New(), &counter{}
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
			c.add("body")
			return 7, durable.Sleep(ctx, time.Hour)
		})
		enqueue(t, store, wf, 0)
		require.True(t, takeUp(t, store, wf))
		pause(t, store)
		require.True(t, takeUp(t, store, wf), "to let it rest")
		time.Sleep(2 * time.Hour)
		require.False(t, takeUp(t, store, wf), "no timer wakes it")
		post(t, store, "r", journal.UpdateMessage, "u", 1)
		require.True(t, takeUp(t, store, wf), "a message has somebody look")
		require.False(t, takeUp(t, store, wf), "once")
		assert.Equal(t, 1, c.of("body"))
		unpause(t, store)
		require.True(t, takeUp(t, store, wf))
		assert.Equal(t, journal.Completed, status(t, store, "r"))
		assert.Len(t, of(t, store, "r", journal.UpdateRejected), 1)
	})
}

// The next run of a chain is woken by a message, which is no word on a pause.
func TestAPauseReachesTheNextRunOfAChainInAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := memory.New(), &counter{}
		wf := durable.Workflow("w", func(ctx context.Context, n int) (int, error) {
			if n == 0 {
				pause(t, store) //nolint:contextcheck // it is the test's
				return 0, durable.ContinueAsNew(ctx, 1)
			}
			c.add("next")
			return n, nil
		})
		enqueue(t, store, wf, 0)
		require.True(t, takeUp(t, store, wf))
		assert.Equal(t, journal.Continued, status(t, store, "r"))
		require.True(t, takeUp(t, store, wf))
		assert.Equal(t, journal.Suspended, status(t, store, "r~2"))
		assert.Zero(t, c.of("next"))
		unpause(t, store)
		require.True(t, takeUp(t, store, wf))
		assert.Equal(t, journal.Completed, status(t, store, "r~2"))
	})
}

// It comes while the wait is being written.
func TestAnUpdateThatComesBehindTheConditionIsNotSleptOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New()
		store := journaltest.NewFaulty(inner)
		wf := approval(&counter{}, durable.WaitTimeout(time.Hour))
		enqueue(t, inner, wf, 0)
		sent := false
		store.OnWrite(func(w journaltest.Write) {
			if !sent && w.When == journaltest.After && len(w.Events) > 0 && w.Events[0].Kind == journal.SignalWait {
				sent = true
				post(t, inner, "r", journal.UpdateMessage, "approve", "ada")
				time.Sleep(time.Second) // until the owner has heard of it
			}
		})
		require.True(t, takeUp(t, store, wf))
		require.True(t, sent)
		require.True(t, takeUp(t, store, wf))
		assert.Equal(t, journal.Completed, status(t, inner, "r"))
		assert.Equal(t, "ada", ends(t, inner, wf, "r", 0))
	})
}
