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

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/journal/memory"
)

// shop adds up what updates bring, and fails behind them.
func shop(c *counter, broke *bool) *durable.Definition[int, []string] {
	return durable.Workflow("shop", func(ctx context.Context, _ int) ([]string, error) {
		var items []string
		if err := register(ctx, c, &items); err != nil {
			return nil, err
		}
		if err := durable.Await(ctx, func() bool { return len(items) > 1 }); err != nil {
			return nil, err
		}
		return durable.Step(ctx, "sell", func(context.Context) ([]string, error) {
			c.add(fmt.Sprint("sell ", len(items)))
			if *broke {
				return nil, errBoom
			}
			return items, nil
		})
	})
}

func retry(t *testing.T, store journal.Store, id, as string) {
	t.Helper()
	_, err := durable.PrepareRetry(t.Context(), store, id, as)
	require.NoError(t, err)
}

func TestARetryServesTheUpdatesThatTheFailedRunHasHandled(t *testing.T) {
	store, c, broke := memory.New(), &counter{}, true
	waits(t, store, shop(c, &broke), "r", 0)
	for _, item := range []string{"broken", "tea"} {
		add(t, store, "r", item)
	}
	_, err := durable.Run(t.Context(), store, shop(c, &broke), "r", 0)
	asError[*durable.RunFailedError](t, err)
	retry(t, store, "r", "r2")
	_, err = durable.Run(t.Context(), store, shop(c, &broke), "r2", 0)
	asError[*durable.RunFailedError](t, err)
	broke = false
	retry(t, store, "r2", "r3")
	assert.Equal(t, []string{"broken 6", "tea 3"}, ends(t, store, shop(c, &broke), "r3", 0))
	assert.Equal(t, 1, c.of("price tea"))
	assert.Equal(t, 3, c.of("sell 2"))
}

// The numbers of messages begin at 1 in each run.
func TestUpdatesOfARetryAreNotThoseOfTheFailedRun(t *testing.T) {
	store, c, broke := memory.New(), &counter{}, true
	wf := durable.Workflow("w", func(ctx context.Context, _ int) ([]string, error) {
		var items []string
		if err := register(ctx, c, &items); err != nil {
			return nil, err
		}
		if err := durable.Await(ctx, func() bool { return len(items) > 0 }); err != nil {
			return nil, err
		}
		_, err := durable.Step(ctx, "s", func(context.Context) (int, error) {
			if broke {
				return 0, errBoom
			}
			return 1, nil
		})
		if err != nil {
			return nil, err
		}
		err = durable.Await(ctx, func() bool { return len(items) > 1 })
		return items, err
	})
	waits(t, store, wf, "r", 0)
	add(t, store, "r", "tea")
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.RunFailedError](t, err)
	retry(t, store, "r", "r2")
	broke = false
	waits(t, store, wf, "r2", 0)
	add(t, store, "r2", "milk")
	for range 2 {
		assert.Equal(t, []string{"tea 3", "milk 4"}, ends(t, store, wf, "r2", 0))
	}
	done := of(t, store, "r2", journal.UpdateDone)
	require.Len(t, done, 2)
	assert.Equal(t, "update[1]", done[0].Scope)
	assert.Equal(t, "update[2]", done[1].Scope)
	assert.Equal(t, 1, c.of("price milk"))
}

// The run fails with a step, has handled an update behind that, and takes another way when it is retried.
func TestAnUpdateBehindAFailureThatIsReopenedIsHandledWhereTheRetryGoesOn(t *testing.T) {
	store, c, broke := memory.New(), &counter{}, true
	wf := durable.Workflow("w", func(ctx context.Context, _ int) ([]string, error) {
		var items []string
		if err := register(ctx, c, &items); err != nil {
			return nil, err
		}
		_, failure := durable.Step(ctx, "s", func(context.Context) (int, error) {
			c.add(fmt.Sprint("s with ", len(items)))
			if broke {
				return 0, errBoom
			}
			return 1, nil
		})
		if failure != nil {
			err := durable.Await(ctx, func() bool { return len(items) > 0 }) // a last word before it gives up
			return nil, errors.Join(failure, err)
		}
		if _, err := counted(ctx, c, fmt.Sprint("way with ", len(items)), 1); err != nil {
			return nil, err
		}
		err := durable.Await(ctx, func() bool { return len(items) > 1 })
		return items, err
	})
	waits(t, store, wf, "r", 0)
	add(t, store, "r", "tea")
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.RunFailedError](t, err)
	retry(t, store, "r", "r2")
	broke = false
	waits(t, store, wf, "r2", 0)
	again := of(t, store, "r2", journal.UpdateDone)
	require.Len(t, again, 2)
	assert.JSONEq(t, `{"before": {"name": "s", "n": 1}, "again": true}`, string(again[1].Meta))
	assert.Equal(t, again[0].Payload, again[1].Payload)
	add(t, store, "r2", "milk")
	assert.Equal(t, []string{"tea 3", "milk 4"}, ends(t, store, wf, "r2", 0))
	assert.Equal(t, 1, c.of("s with 1"), "it was there before the step that is made again")
	assert.Equal(t, 1, c.of("way with 1"))
	assert.Equal(t, 1, c.of("price tea"))
}

// What is not handled when a run fails was refused, so its retry has nothing to do with it.
func TestARetryTakesOverNoUpdateThatWasRefused(t *testing.T) {
	store := memory.New()
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		err := durable.HandleUpdate(ctx, "u", func(context.Context, int) (int, error) { panic("handler") })
		if err != nil {
			return 0, err
		}
		return 0, suspend(ctx)
	})
	waits(t, store, wf, "r", 0)
	post(t, store, "r", journal.UpdateMessage, "u", 1)
	require.NoError(t, durable.Pause(t.Context(), store, "r", ""))
	require.NoError(t, durable.Unpause(t.Context(), store, "r"))
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.RunFailedError](t, err)
	retry(t, store, "r", "r2")
	inbox, err := store.Inbox(t.Context(), "r2", 0)
	require.NoError(t, err)
	assert.Empty(t, inbox)
	waits(t, store, wf, "r2", 0)
}

// An error of a handler's step is what the run fails with.
func TestAFailureInAHandlerThatTheRunFailsWithIsMadeAgain(t *testing.T) {
	store, c, broke := memory.New(), &counter{}, true
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		var failure error
		handled := false
		err := durable.HandleUpdate(ctx, "u", func(ctx context.Context, by int) (int, error) {
			handled = true
			_, failure = durable.Step(ctx, "inner", func(context.Context) (int, error) {
				c.add("inner")
				if broke {
					return 0, errBoom
				}
				return 1, nil
			})
			return by, nil
		})
		if err != nil {
			return 0, err
		}
		if err := durable.Await(ctx, func() bool { return handled }); err != nil {
			return 0, err
		}
		if _, err := counted(ctx, c, fmt.Sprint("behind ", failure == nil), 1); err != nil {
			return 0, err
		}
		return 7, failure
	})
	waits(t, store, wf, "r", 0)
	post(t, store, "r", journal.UpdateMessage, "u", 1)
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.RunFailedError](t, err)
	retry(t, store, "r", "r2")
	broke = false
	assert.Equal(t, 7, ends(t, store, wf, "r2", 0))
	assert.Equal(t, 2, c.of("inner"))
	assert.Equal(t, 1, c.of("behind true"), "what was behind it is made again")
}

// The process dies behind an update that came when the body had gone on from a failure.
func TestABodyThatComesToAnUpdateHasHandledTheFailureBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, c := memory.New(), &counter{}
		store := journaltest.NewFaulty(inner)
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
			n := 0
			err := durable.HandleUpdate(ctx, "u", func(_ context.Context, by int) (int, error) { n += by; return n, nil })
			if err != nil {
				return 0, err
			}
			_, err = durable.Step(ctx, "fails", func(context.Context) (int, error) {
				if c.add("fails") == 1 {
					post(t, inner, "r", journal.UpdateMessage, "u", 5) //nolint:contextcheck // it is the test's
					time.Sleep(time.Minute)                            // until the owner has heard of it
				}
				return 0, errBoom
			})
			if err == nil || err.Error() != errBoom.Error() {
				return 0, err
			}
			return durable.Step(ctx, "s", func(context.Context) (int, error) {
				if c.add("s") == 1 {
					store.Freeze()
				}
				return n, nil
			})
		})
		_, err := durable.Run(t.Context(), store, wf, "r", 0)
		asError[*durable.StoreUnavailableError](t, err)
		assert.Equal(t, 5, ends(t, reborn(t, inner), wf, "r", 0))
		assert.Equal(t, 1, c.of("fails"))
		assert.Equal(t, 2, c.of("s"))
	})
}

func TestAHandlerThatReturnsHasHandledTheFailuresOfItsBranches(t *testing.T) {
	store, c := memory.New(), &counter{}
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		n := 0
		err := durable.HandleUpdate(ctx, "u", func(ctx context.Context, by int) (int, error) {
			n += by
			_ = durable.Branch(ctx, "b", func(ctx context.Context) error {
				_, err := durable.Step(ctx, "fails", func(context.Context) (int, error) { c.add("fails"); return 0, errBoom })
				return err
			})
			return n, nil
		})
		if err != nil {
			return 0, err
		}
		err = suspend(ctx)
		return n, err
	})
	waits(t, store, wf, "r", 0)
	post(t, store, "r", journal.UpdateMessage, "u", 1)
	waits(t, store, wf, "r", 0)
	release(t, store, "r")
	assert.Equal(t, 1, ends(t, store, wf, "r", 0))
	assert.Equal(t, 1, c.of("fails"))
}
