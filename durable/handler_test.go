package durable_test

import (
	"context"
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
	"github.com/pawl-go/pawl/task"
)

func TestAPanicOfAHandlerOrValidatorFailsTheRun(t *testing.T) {
	for name, opts := range map[string][]durable.UpdateOption[int]{
		"handler":   nil,
		"validator": {durable.Validator(func(int) error { panic("validator") })},
	} {
		t.Run(name, func(t *testing.T) {
			store := memory.New()
			wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
				err := durable.HandleUpdate(ctx, "u", func(context.Context, int) (int, error) { panic("handler") }, opts...)
				if err != nil {
					return 0, err
				}
				_ = suspend(ctx) // swallowed
				return 0, nil
			})
			waits(t, store, wf, "r", 0)
			post(t, store, "r", journal.UpdateMessage, "u", 1)
			for range 2 {
				_, err := durable.Run(t.Context(), store, wf, "r", 0)
				asError[*durable.RunFailedError](t, err)
				assert.Equal(t, name, asError[*task.PanicError](t, err).Value)
			}
			assert.Empty(t, of(t, store, "r", journal.UpdateDone))
		})
	}
}

func TestNothingWaitsInAHandler(t *testing.T) {
	store := memory.New()
	var errs []error
	child := durable.Workflow("child", func(context.Context, int) (int, error) { return 0, nil })
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		err := durable.HandleUpdate(ctx, "u", func(ctx context.Context, _ int) (int, error) {
			_, signal := durable.WaitForSignal[int](ctx, "s")
			_, question := durable.Interrupt[int](ctx, "q")
			_, kid := durable.RunChild(ctx, child, 1)
			inBranch := durable.Branch(ctx, "b", func(ctx context.Context) error { return durable.Sleep(ctx, time.Second) })
			errs = []error{
				durable.Sleep(ctx, time.Second), signal, question, kid, inBranch, durable.ContinueAsNew(ctx, 1),
				durable.Await(ctx, func() bool { return true }),
				durable.HandleUpdate(ctx, "v", func(context.Context, int) (int, error) { return 0, nil }),
			}
			return 7, nil
		})
		if err != nil {
			return 0, err
		}
		return 0, suspend(ctx)
	})
	waits(t, store, wf, "r", 0)
	post(t, store, "r", journal.UpdateMessage, "u", 1)
	waits(t, store, wf, "r", 0)
	require.Len(t, errs, 8)
	for i, err := range errs {
		asError[*durable.PlacementError](t, err)
		assert.NotEmpty(t, err.Error(), i)
	}
	assert.Len(t, of(t, store, "r", journal.UpdateDone), 1)
	release(t, store, "r")
	ends(t, store, wf, "r", 0)
}

func TestHandlersBelongToABody(t *testing.T) {
	update := func(ctx context.Context) error {
		return durable.HandleUpdate(ctx, "u", func(context.Context, int) (int, error) { return 0, nil })
	}
	query := func(ctx context.Context) error {
		return durable.HandleQuery(ctx, "q", func(int) (int, error) { return 0, nil })
	}
	await := func(ctx context.Context) error { return durable.Await(ctx, func() bool { return true }) }
	for name, call := range map[string]func(context.Context) error{"HandleUpdate": update, "HandleQuery": query, "Await": await} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, name, asError[*durable.NoJournalError](t, call(t.Context())).Call)
			var inStep, inBranch error
			wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
				_, err := durable.Step(ctx, "s", func(ctx context.Context) (int, error) { inStep = call(ctx); return 0, nil })
				if err != nil {
					return 0, err
				}
				err = durable.Branch(ctx, "b", func(ctx context.Context) error { inBranch = call(ctx); return nil })
				if err != nil {
					return 0, err
				}
				return 0, call(ctx)
			})
			ends(t, memory.New(), wf, "r", 0)
			assert.Equal(t, name, asError[*durable.PlacementError](t, inStep).Call)
			assert.Equal(t, name, asError[*durable.PlacementError](t, inBranch).Call)
		})
	}
}

func TestHandlersNeedANameAndAFunction(t *testing.T) {
	ctx := t.Context()
	for _, err := range []error{
		durable.HandleUpdate(ctx, "", func(context.Context, int) (int, error) { return 0, nil }),
		durable.HandleUpdate[int, int](ctx, "u", nil),
		durable.HandleQuery(ctx, "", func(int) (int, error) { return 0, nil }),
		durable.HandleQuery[int, int](ctx, "q", nil),
		durable.Await(ctx, nil),
		durable.Await(ctx, func() bool { return true }, durable.WaitTimeout(0)),
	} {
		asError[*durable.OptionError](t, err)
	}
}

func TestALaterHandlerTakesThePlaceOfTheFirst(t *testing.T) {
	store := memory.New()
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
		var by string
		for _, name := range []string{"first", "second"} {
			err := durable.HandleUpdate(ctx, "u", func(context.Context, int) (int, error) { by = name; return 0, nil })
			if err != nil {
				return "", err
			}
		}
		err := suspend(ctx)
		return by, err
	})
	waits(t, store, wf, "r", 0)
	post(t, store, "r", journal.UpdateMessage, "u", 1)
	release(t, store, "r")
	assert.Equal(t, "second", ends(t, store, wf, "r", 0))
}

func TestAHandlerThatUsesTheContextOfTheBodyOverlaps(t *testing.T) {
	store := memory.New()
	wf := durable.Workflow("w", func(body context.Context, _ int) (int, error) {
		err := durable.HandleUpdate(body, "u", func(context.Context, int) (int, error) {
			return durable.Step(body, "s", func(context.Context) (int, error) { return 1, nil })
		})
		if err != nil {
			return 0, err
		}
		return 0, suspend(body)
	})
	waits(t, store, wf, "r", 0)
	post(t, store, "r", journal.UpdateMessage, "u", 1)
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.OverlapError](t, err)
}

func TestAHandlerMayUseBranches(t *testing.T) {
	store, c := memory.New(), &counter{}
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		sum := 0
		err := durable.HandleUpdate(ctx, "u", func(ctx context.Context, n int) (int, error) {
			parts := make([]int, n)
			var g errgroup.Group
			for i := range n {
				g.Go(func() error {
					return durable.Branch(ctx, fmt.Sprint(i), func(ctx context.Context) (err error) {
						_, _ = durable.Step(ctx, "fails", func(context.Context) (int, error) { c.add("fails"); return 0, errBoom })
						parts[i], err = counted(ctx, c, "part", i)
						return err
					})
				})
			}
			err := g.Wait()
			for _, part := range parts {
				sum += part
			}
			return sum, err
		})
		if err != nil {
			return 0, err
		}
		err = suspend(ctx)
		return sum, err
	})
	waits(t, store, wf, "r", 0)
	post(t, store, "r", journal.UpdateMessage, "u", 4)
	waits(t, store, wf, "r", 0)
	release(t, store, "r")
	assert.Equal(t, 6, ends(t, store, wf, "r", 0))
	assert.Equal(t, 4, c.of("part"))
	assert.Equal(t, 4, c.of("fails"))
}

func TestAResultThatJSONCannotHoldIsAFailureOfTheUpdate(t *testing.T) {
	store := memory.New()
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (bool, error) {
		called := false
		err := durable.HandleUpdate(ctx, "u", func(context.Context, int) (chan int, error) { called = true; return make(chan int), nil })
		if err != nil {
			return false, err
		}
		err = suspend(ctx)
		return called, err
	})
	waits(t, store, wf, "r", 0)
	post(t, store, "r", journal.UpdateMessage, "u", 4)
	waits(t, store, wf, "r", 0)
	assert.Len(t, of(t, store, "r", journal.UpdateError), 1)
	release(t, store, "r")
	assert.True(t, ends(t, store, wf, "r", 0))
}

func TestARunWhoseCodeForgetsAnUpdateIsNotDeterministic(t *testing.T) {
	for name, change := range map[string]func(ctx context.Context, c *counter) error{
		"no handler": func(context.Context, *counter) error { return nil },
		"another step in the handler": func(ctx context.Context, c *counter) error {
			return durable.HandleUpdate(ctx, "add", func(ctx context.Context, _ string) (int, error) { return counted(ctx, c, "other", 1) })
		},
		"no step in the handler": func(ctx context.Context, _ *counter) error {
			return durable.HandleUpdate(ctx, "add", func(context.Context, string) (int, error) { return 0, nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, c := memory.New(), &counter{}
			waits(t, store, cart(c), "r", 0)
			add(t, store, "r", "tea")
			waits(t, store, cart(c), "r", 0)
			changed := durable.Workflow("cart", func(ctx context.Context, _ int) ([]string, error) {
				if err := change(ctx, c); err != nil {
					return nil, err
				}
				if _, err := counted(ctx, c, "first", 1); err != nil {
					return nil, err
				}
				_, err := durable.WaitForSignal[bool](ctx, "done")
				return nil, err
			})
			_, err := durable.Run(t.Context(), store, changed, "r", 0)
			asError[*durable.NonDeterminismError](t, err)
			done(t, store)
			assert.Equal(t, []string{"tea 3"}, ends(t, store, cart(c), "r", 0), "the old code goes on")
		})
	}
	t.Run("the place is gone", func(t *testing.T) {
		store, c := memory.New(), &counter{}
		waits(t, store, cart(c), "r", 0)
		add(t, store, "r", "tea")
		waits(t, store, cart(c), "r", 0)
		changed := durable.Workflow("cart", func(ctx context.Context, _ int) ([]string, error) {
			var items []string
			if err := register(ctx, c, &items); err != nil {
				return nil, err
			}
			_, err := counted(ctx, c, "first", 1)
			return items, err
		})
		_, err := durable.Run(t.Context(), store, changed, "r", 0)
		asError[*durable.NonDeterminismError](t, err)
	})
}

// The end of the run is no failure of an update.
func TestAnUpdateThatTheEndOfItsRunCutsShortIsNotHandled(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(t *testing.T, store journal.Store, stop context.CancelFunc)
		want func(t *testing.T, store *memory.Store, err error)
	}{
		"cancelled": {
			func(t *testing.T, store journal.Store, _ context.CancelFunc) {
				t.Helper()
				require.NoError(t, durable.Cancel(t.Context(), store, "r", "enough"))
			},
			func(t *testing.T, store *memory.Store, err error) {
				t.Helper()
				asError[*durable.RunCancelledError](t, err)
				assert.Len(t, of(t, store, "r", journal.UpdateRejected), 1)
			},
		},
		"stopped": {
			func(_ *testing.T, _ journal.Store, stop context.CancelFunc) { stop() },
			func(t *testing.T, _ *memory.Store, err error) {
				t.Helper()
				asError[*durable.RunStoppedError](t, err)
			},
		},
	} {
		for _, inStep := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				store, c := memory.New(), &counter{}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				wait := func(ctx context.Context) (int, error) {
					if c.add("call") == 1 {
						go tt.end(t, store, stop)
						<-ctx.Done()
						return 0, ctx.Err()
					}
					return 7, nil
				}
				wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
					n := 0
					err := durable.HandleUpdate(ctx, "u", func(ctx context.Context, _ int) (_ int, err error) {
						if inStep {
							n, err = durable.Step(ctx, "s", wait)
						} else {
							n, err = wait(ctx)
						}
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
				post(t, store, "r", journal.UpdateMessage, "unknown", 1)
				_, err := durable.Run(ctx, store, wf, "r", 0)
				assert.Empty(t, of(t, store, "r", journal.UpdateError), name)
				tt.want(t, store, err)
				if name == "stopped" {
					assert.Equal(t, 7, ends(t, store, wf, "r", 0), "it is handled when the run goes on")
				}
			})
		}
	}
}
