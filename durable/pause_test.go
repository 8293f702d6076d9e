package durable_test

import (
	"context"
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

func pause(tb testing.TB, store journal.Store) {
	tb.Helper()
	require.NoError(tb, durable.Pause(tb.Context(), store, "r", "lunch"))
}

func unpause(tb testing.TB, store journal.Store) {
	tb.Helper()
	require.NoError(tb, durable.Unpause(tb.Context(), store, "r"))
}

func TestAPausedRunRestsFromItsNextDurableCallOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := memory.New(), &counter{}
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
			c.add("body")
			if _, err := durable.Step(ctx, "a", func(context.Context) (int, error) {
				c.add("a")
				pause(t, store) //nolint:contextcheck // it is the test's
				synctest.Wait() // until the owner has heard of it
				return 0, errBoom
			}); err == nil || err.Error() != errBoom.Error() {
				return 0, err
			}
			return counted(ctx, c, "b", 7)
		})
		suspended := waits(t, store, wf, "r", 0)
		assert.Equal(t, []durable.Wait{{Paused: true}}, suspended.Waits)
		assert.ErrorContains(t, suspended, "it waits for durable.Unpause, since it is paused")
		waits(t, store, wf, "r", 0)
		assert.Equal(t, 1, c.of("body"), "whoever takes it again does not call its code")
		unpause(t, store)
		assert.Equal(t, 7, ends(t, store, wf, "r", 0))
		assert.Equal(t, 1, c.of("a"), "the code has gone on behind its failure")
		assert.Equal(t, []string{
			"run:start", "step:error a", "step:handled", "run:suspended", "run:suspended", "step:done b", "run:complete",
		}, kinds(t, store, "r"))
	})
}

func TestARunThatIsPausedBeforeItBeginsDoesNotBegin(t *testing.T) {
	store, c := memory.New(), &counter{}
	_, err := store.Create(t.Context(), journal.NewRun{
		Run:    journal.Run{ID: "r", Kind: journal.WorkflowRun, Name: "w"},
		Events: []journal.Event{{Kind: journal.RunStart, Payload: []byte("0")}},
	})
	require.NoError(t, err)
	pause(t, store)
	wf := durable.Workflow("w", func(context.Context, int) (int, error) { return c.add("body"), nil })
	waits(t, store, wf, "r", 0)
	assert.Zero(t, c.of("body"))
	unpause(t, store)
	assert.Equal(t, 1, ends(t, store, wf, "r", 0))
}

func TestNoTimerWakesAPausedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := memory.New(), &counter{}
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
			c.add("body")
			return durable.WaitForSignal[int](ctx, "s", durable.WaitTimeout(time.Minute))
		})
		waits(t, store, wf, "r", 0)
		pause(t, store)
		time.Sleep(time.Hour)
		suspended := waits(t, store, wf, "r", 0)
		assert.Zero(t, suspended.Due)
		run, err := store.Load(t.Context(), "r")
		require.NoError(t, err)
		assert.Zero(t, run.Due)
		assert.Equal(t, []string{"s"}, suspended.Signals(), "it still says what else it waits for")
		require.Len(t, suspended.Waits, 2)
		assert.True(t, suspended.Waits[0].Paused)
		assert.Equal(t, 1, c.of("body"))
		unpause(t, store)
		_, err = durable.Run(t.Context(), store, wf, "r", 0)
		asError[*durable.SignalTimeoutError](t, err)
	})
}

func TestTheLastOfPauseAndUnpauseCounts(t *testing.T) {
	store := memory.New()
	wf := durable.Workflow("w", func(context.Context, int) (int, error) { return 1, nil })
	_, err := store.Create(t.Context(), journal.NewRun{
		Run:    journal.Run{ID: "r", Kind: journal.WorkflowRun, Name: "w"},
		Events: []journal.Event{{Kind: journal.RunStart, Payload: []byte("0")}},
	})
	require.NoError(t, err)
	pause(t, store)
	pause(t, store)
	unpause(t, store)
	pause(t, store)
	waits(t, store, wf, "r", 0)
	unpause(t, store)
	ends(t, store, wf, "r", 0)
	require.ErrorIs(t, durable.Pause(t.Context(), store, "r", ""), journal.ErrEnded)
	require.ErrorIs(t, durable.Unpause(t.Context(), store, "r"), journal.ErrEnded)
	require.ErrorIs(t, durable.Pause(t.Context(), store, "nobody", ""), journal.ErrNotFound)
}

func TestUpdatesAndQueriesOfAPausedRunWaitForUnpause(t *testing.T) {
	store, c := memory.New(), &counter{}
	waits(t, store, cart(c), "r", 0)
	pause(t, store)
	add(t, store, "r", "tea")
	post(t, store, "r", journal.QueryMessage, "size", 1)
	waits(t, store, cart(c), "r", 0)
	assert.Equal(t, []string{"run:start", "step:done first", "signal:wait done", "run:suspended", "run:suspended"}, kinds(t, store, "r"))
	unpause(t, store)
	waits(t, store, cart(c), "r", 0)
	assert.Len(t, of(t, store, "r", journal.UpdateDone), 1)
	assert.Len(t, of(t, store, "r", journal.QueryAnswered), 1)
	done(t, store)
	assert.Equal(t, []string{"tea 3"}, ends(t, store, cart(c), "r", 0))
}

func TestAPausedRunCanBeCancelled(t *testing.T) {
	store, c := memory.New(), &counter{}
	waits(t, store, cart(c), "r", 0)
	pause(t, store)
	waits(t, store, cart(c), "r", 0)
	require.NoError(t, durable.Cancel(t.Context(), store, "r", "enough"))
	assert.Equal(t, journal.Cancelled, status(t, store, "r"))
}

func TestBranchesOfAPausedRunRestToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := memory.New(), &counter{}
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
			var g errgroup.Group
			for _, name := range []string{"x", "y"} {
				g.Go(func() error {
					return durable.Branch(ctx, name, func(ctx context.Context) error {
						for i := range 3 {
							if _, err := counted(ctx, c, "s", i); err != nil {
								return err
							}
							time.Sleep(time.Second) // until the other one is as far
							if i == 0 && name == "x" && c.add("pause") == 1 {
								pause(t, store) //nolint:contextcheck // it is the test's
							}
							time.Sleep(time.Second) // until the owner has heard of it
						}
						return nil
					})
				})
			}
			return 0, g.Wait()
		})
		suspended := waits(t, store, wf, "r", 0)
		assert.Len(t, suspended.Waits, 2)
		assert.Equal(t, 2, c.of("s"))
		unpause(t, store)
		ends(t, store, wf, "r", 0)
		assert.Equal(t, 6, c.of("s"))
	})
}

// What its handler does belongs to an update: it is not torn apart.
func TestAPauseLetsAHandlerFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := memory.New(), &counter{}
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
			n := 0
			err := durable.HandleUpdate(ctx, "u", func(ctx context.Context, by int) (int, error) {
				pause(t, store) //nolint:contextcheck // it is the test's
				synctest.Wait() // until the owner has heard of it
				v, err := counted(ctx, c, "s", by)
				n += v
				return n, err
			})
			if err != nil {
				return 0, err
			}
			err = durable.Await(ctx, func() bool { return n > 0 })
			return n, err
		})
		waits(t, store, wf, "r", 0)
		post(t, store, "r", journal.UpdateMessage, "u", 1)
		post(t, store, "r", journal.UpdateMessage, "u", 2)
		assert.Equal(t, 1, ends(t, store, wf, "r", 0), "the second one would have to wait")
		assert.Len(t, of(t, store, "r", journal.UpdateDone), 1)
		assert.Len(t, of(t, store, "r", journal.UpdateRejected), 1, "and the run has ended")
	})
}

func TestAPauseGoesAlongWhenARunContinuesAsNew(t *testing.T) {
	for name, tt := range map[string]struct {
		sent   []journal.MessageKind
		paused bool
	}{
		"paused":           {[]journal.MessageKind{journal.PauseMessage}, true},
		"paused twice":     {[]journal.MessageKind{journal.PauseMessage, journal.ResumeMessage, journal.PauseMessage}, true},
		"paused no longer": {[]journal.MessageKind{journal.PauseMessage, journal.ResumeMessage}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.New()
			wf := durable.Workflow("w", func(ctx context.Context, n int) (int, error) {
				if n > 0 {
					return n, nil
				}
				for _, kind := range tt.sent { // too late for this run
					post(t, store, "r", kind, "", "") //nolint:contextcheck // it is the test's
				}
				return 0, durable.ContinueAsNew(ctx, 1)
			})
			_, err := durable.Run(t.Context(), store, wf, "r", 0)
			if !tt.paused {
				require.NoError(t, err, name)
				return
			}
			assert.Equal(t, "r~2", asError[*durable.SuspendedError](t, err).RunID, name)
			unpause(t, store)
			assert.Equal(t, 1, ends(t, store, wf, "r", 0))
		})
	}
}
