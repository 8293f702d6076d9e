package durable_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
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

// hooked is a store some of whose calls are replaced. It is a journal.Watcher.
type hooked struct {
	*memory.Store

	append func(ctx context.Context, l journal.Lease, a journal.Append) error
	create func(ctx context.Context, n journal.NewRun) (journal.Lease, error)
	inbox  func(ctx context.Context, run string, after int64) ([]journal.Message, error)
	load   func(ctx context.Context, run string) (journal.Run, error)
}

func (h *hooked) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	if h.append != nil {
		return h.append(ctx, l, a)
	}
	return h.Store.Append(ctx, l, a)
}

func (h *hooked) Create(ctx context.Context, n journal.NewRun) (journal.Lease, error) {
	if h.create != nil {
		return h.create(ctx, n)
	}
	return h.Store.Create(ctx, n)
}

func (h *hooked) Inbox(ctx context.Context, run string, after int64) ([]journal.Message, error) {
	if h.inbox != nil {
		return h.inbox(ctx, run, after)
	}
	return h.Store.Inbox(ctx, run, after)
}

func (h *hooked) Load(ctx context.Context, run string) (journal.Run, error) {
	if h.load != nil {
		return h.load(ctx, run)
	}
	return h.Store.Load(ctx, run)
}

// one is a workflow of one step.
func one(c *counter) *durable.Definition[int, int] {
	return durable.Workflow("one", func(ctx context.Context, _ int) (int, error) { return counted(ctx, c, "s", 7) })
}

// The time that we give a store is ours: when it is over the store is out of reach, and the run goes on later.
func TestTheEndOfOurOwnTimeForAWriteIsAnOutage(t *testing.T) {
	for name, ended := range map[string]func(ctx context.Context) error{
		"bare":    func(ctx context.Context) error { return ctx.Err() }, // as journal.Store says: nothing was begun
		"wrapped": func(ctx context.Context) error { return fmt.Errorf("append: %w", ctx.Err()) },
	} {
		synctest.Test(t, func(t *testing.T) {
			store, slow := &hooked{Store: memory.New()}, true
			store.append = func(ctx context.Context, l journal.Lease, a journal.Append) error {
				if slow {
					slow = false
					<-ctx.Done()
					return ended(ctx)
				}
				return store.Store.Append(ctx, l, a)
			}
			_, err := durable.Run(t.Context(), store, one(&counter{}), "r", 0)
			lost := asError[*durable.StoreUnavailableError](t, err)
			assert.Equal(t, name == "wrapped", asError[*journal.UnavailableError](t, lost).Unknown)
			assert.Equal(t, journal.Pending, status(t, store, "r"))
			out, err := durable.Run(t.Context(), store, one(&counter{}), "r", 0)
			require.NoError(t, err)
			assert.Equal(t, 7, out)
		})
	}
}

// A store that panics is out of reach, and nobody is told that something was written that was not.
func TestAStoreThatPanicsIsOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, calls := &hooked{Store: memory.New()}, 0
		store.append = func(ctx context.Context, l journal.Lease, a journal.Append) error {
			if calls++; calls == 2 { // the batch that has gathered meanwhile
				panic("a nil map")
			}
			time.Sleep(time.Second)
			return store.Store.Append(ctx, l, a)
		}
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
			var g errgroup.Group
			for i := range 5 {
				g.Go(func() error {
					return durable.Branch(ctx, fmt.Sprint(i), func(ctx context.Context) error {
						_, err := durable.Step(ctx, "s", func(context.Context) (int, error) { return 0, nil })
						return err
					})
				})
			}
			return 0, g.Wait()
		})
		_, err := durable.Run(t.Context(), store, wf, "r", 0)
		asError[*durable.StoreUnavailableError](t, err)
		assert.ErrorContains(t, err, "a nil map")
		assert.Equal(t, journal.Pending, status(t, store, "r"))
		_, err = durable.Run(t.Context(), store, wf, "r", 0)
		require.NoError(t, err)
	})
	store := &hooked{Store: memory.New()}
	store.load = func(context.Context, string) (journal.Run, error) { panic("a nil map") }
	require.ErrorIs(t, durable.Cancel(t.Context(), store, "r", ""), journal.ErrNotFound)
	store.inbox = func(context.Context, string, int64) ([]journal.Message, error) { panic("a nil map") }
	_, err := durable.Run(t.Context(), store, one(&counter{}), "r", 0)
	require.NoError(t, err, "which asks neither")
	_, err = durable.Run(t.Context(), store, one(&counter{}), "r", 0)
	asError[*durable.StoreUnavailableError](t, err)
}

// Goroutines that wait for a write wait as a test's clock can see.
func TestTheClockOfATestGoesOnWhileAStoreWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hooked{Store: memory.New()}
		store.append = func(ctx context.Context, l journal.Lease, a journal.Append) error {
			time.Sleep(time.Second)
			return store.Store.Append(ctx, l, a)
		}
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
			var g errgroup.Group
			for i := range 10 {
				g.Go(func() error {
					return durable.Branch(ctx, fmt.Sprint(i), func(ctx context.Context) error {
						for range 3 {
							if _, err := counted(ctx, &counter{}, "s", 1); err != nil {
								return err
							}
						}
						return nil
					})
				})
			}
			return 0, g.Wait()
		})
		begun := time.Now()
		_, err := durable.Run(t.Context(), store, wf, "r", 0)
		require.NoError(t, err)
		assert.Less(t, time.Since(begun), 10*time.Second, "writes gather")
	})
}

// A store that hangs holds a run back for one time, not for one each call.
func TestAStoreThatHangsHoldsARunBackForHalfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hooked{Store: memory.New()}
		hang := func(ctx context.Context) error {
			<-ctx.Done()
			return &journal.UnavailableError{Op: "x", Unknown: true, Err: ctx.Err()}
		}
		store.append = func(ctx context.Context, _ journal.Lease, _ journal.Append) error { return hang(ctx) }
		store.load = func(ctx context.Context, _ string) (journal.Run, error) { return journal.Run{}, hang(ctx) }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		_, err := durable.Run(ctx, store, one(&counter{}), "r", 0)
		asError[*durable.StoreUnavailableError](t, err)
		assert.LessOrEqual(t, time.Since(begun), 32*time.Second)
	})
}

// A notice of a cancel whose inbox could not be read is read again.
func TestACancelIsHeardAtTheNextRenewalAtTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hooked{Store: memory.New()}
		var down atomic.Bool
		store.inbox = func(ctx context.Context, run string, after int64) ([]journal.Message, error) {
			if down.Swap(false) {
				return nil, &journal.UnavailableError{Op: "inbox", Err: errBoom}
			}
			return store.Store.Inbox(ctx, run, after)
		}
		done := make(chan error, 1)
		go func() {
			_, err := durable.Run(t.Context(), store, sleeper, "r", time.Hour)
			done <- err
		}()
		synctest.Wait()
		begun := time.Now()
		down.Store(true)
		require.NoError(t, durable.Cancel(t.Context(), store, "r", "enough"))
		asError[*durable.RunCancelledError](t, <-done)
		assert.LessOrEqual(t, time.Since(begun), 10*time.Second)
	})
}

// A run that could not be cancelled is not held.
func TestACancelThatFailsLetsGoOfTheRun(t *testing.T) {
	store := &hooked{Store: memory.New()}
	_, err := durable.Run(t.Context(), store, listener, "r", 1)
	asError[*durable.SuspendedError](t, err)
	store.append = func(context.Context, journal.Lease, journal.Append) error {
		return &journal.UnavailableError{Op: "append", Err: errBoom}
	}
	require.ErrorIs(t, durable.Cancel(t.Context(), store, "r", ""), journal.ErrUnavailable)
	store.append = nil
	_, err = durable.Run(t.Context(), store, listener, "r", 1)
	asError[*durable.SuspendedError](t, err)
}

// A cancel that a run has accepted is not lost if the run continues as new meanwhile.
func TestACancelWhileARunContinuesAsNewReachesTheNextOne(t *testing.T) {
	store := &hooked{Store: memory.New()}
	store.create = func(ctx context.Context, n journal.NewRun) (journal.Lease, error) {
		l, err := store.Store.Create(ctx, n)
		if n.Run.ID == "poll~2" {
			require.NoError(t, durable.Cancel(ctx, store.Store, "poll", "enough"))
		}
		return l, err
	}
	parts := 0
	wf := durable.Workflow("poll", func(ctx context.Context, n int) (int, error) {
		if parts++; n < 3 {
			return 0, durable.ContinueAsNew(ctx, n+1)
		}
		return n, nil
	})
	_, err := durable.Run(t.Context(), store, wf, "poll", 0)
	assert.Equal(t, "enough", asError[*durable.RunCancelledError](t, err).Reason)
	assert.Equal(t, journal.Cancelled, status(t, store, "poll~2"))
	assert.LessOrEqual(t, parts, 2, "its first durable call is its last")
}

// Runs that have started each other are cancelled once.
func TestCancelOfChildrenThatFormACycle(t *testing.T) {
	store := memory.New()
	var a, b *durable.Definition[int, int]
	a = durable.Workflow("a", func(ctx context.Context, _ int) (int, error) {
		return durable.RunChild(ctx, b, 1, durable.ChildID("b"))
	})
	b = durable.Workflow("b", func(ctx context.Context, _ int) (int, error) {
		return durable.RunChild(ctx, a, 1, durable.ChildID("a"))
	})
	_, err := durable.Run(t.Context(), store, a, "a", 1)
	asError[*durable.SuspendedError](t, err)
	require.NoError(t, durable.Cancel(t.Context(), store, "a", ""))
	assert.Equal(t, journal.Cancelled, status(t, store, "a"))
	assert.Equal(t, journal.Cancelled, status(t, store, "b"))
}

// Whatever a store makes of the end of Run's context: it is not an outage.
func TestAContextThatEndsWhileTheRunIsTakenStopsIt(t *testing.T) {
	for _, wrap := range []func(err error) error{
		func(err error) error { return err },
		func(err error) error { return &journal.UnavailableError{Op: "create", Unknown: true, Err: err} },
	} {
		store := &hooked{Store: memory.New()}
		ctx, cancel := context.WithCancel(t.Context())
		store.create = func(ctx context.Context, _ journal.NewRun) (journal.Lease, error) {
			cancel()
			return journal.Lease{}, wrap(ctx.Err())
		}
		_, err := durable.Run(ctx, store, one(&counter{}), "r", 0)
		asError[*durable.RunStoppedError](t, err)
	}
}

// An outage while a chain is followed is told as any other.
func TestAnOutageBetweenTheRunsOfAChain(t *testing.T) {
	store := &hooked{Store: memory.New()}
	store.load = func(ctx context.Context, run string) (journal.Run, error) {
		if run == "w~2" {
			return journal.Run{}, &journal.UnavailableError{Op: "load", Err: errBoom}
		}
		return store.Store.Load(ctx, run)
	}
	wf := durable.Workflow("w", func(ctx context.Context, n int) (int, error) {
		if n < 1 {
			return 0, durable.ContinueAsNew(ctx, n+1)
		}
		return n, nil
	})
	_, err := durable.Run(t.Context(), store, wf, "w", 0)
	asError[*durable.StoreUnavailableError](t, err)
	store.load = nil
	out, err := durable.Run(t.Context(), store, wf, "w", 0)
	require.NoError(t, err)
	assert.Equal(t, 1, out)
}

// A run whose start cannot be read back costs an attempt like any other fault of its journal.
func TestAStartThatCannotBeReadSpendsTheBudget(t *testing.T) {
	inner := memory.New()
	using := durable.Using(durable.Settings{Codec: journal.Deflate()})
	_, err := durable.Run(t.Context(), inner, steps("a"), "r", 0, using)
	asError[*durable.SuspendedError](t, err)
	for range 3 {
		_, err := durable.Run(t.Context(), damaged{inner, 1, []byte("?")}, steps("a"), "r", 0, using)
		asError[*durable.ReplayError](t, err)
		assert.Equal(t, journal.Pending, status(t, inner, "r"))
	}
	_, err = durable.Run(t.Context(), damaged{inner, 1, []byte("?")}, steps("a"), "r", 0, using)
	assert.Equal(t, durable.CodeReplayFailed, asError[*durable.RunFailedError](t, err).Code)
}

func TestOptionsFromOutside(t *testing.T) {
	store := memory.New()
	_, err := durable.Run(t.Context(), store, durable.Workflow("v", wait1, durable.SetVersion("1")), "r", 0)
	asError[*durable.SuspendedError](t, err)
	v2 := durable.Workflow("v", wait1, durable.SetVersion("2"))
	for _, opts := range [][]durable.RunOption{
		{durable.AnyVersion(), durable.Using(durable.Settings{})}, {durable.Using(durable.Settings{}), durable.AnyVersion()},
	} {
		_, err = durable.Run(t.Context(), store, v2, "r", 0, opts...)
		asError[*durable.SuspendedError](t, err) // in either order
	}

	err = durable.Signal(t.Context(), store, "r", "s", 1, durable.SendKey("pawl:cancel"))
	asError[*durable.OptionError](t, err) // or it would take the place of a cancel
	require.NoError(t, durable.Cancel(t.Context(), store, "r", ""))
	assert.Equal(t, journal.Cancelled, status(t, store, "r"))

	for _, s := range []durable.Settings{{PayloadLimit: -1}, {LeaseTTL: -1}} {
		_, err = durable.Run(t.Context(), store, v2, "other", 0, durable.Using(s))
		asError[*durable.OptionError](t, err)
		asError[*durable.OptionError](t, durable.Cancel(t.Context(), store, "r", "", durable.Using(s)))
		_, err = durable.Questions(t.Context(), store, "r", durable.Using(s))
		asError[*durable.OptionError](t, err)
		asError[*durable.OptionError](t, durable.Answer(t.Context(), store, "r", "ask1", 1, durable.Using(s)))
	}
}

func wait1(ctx context.Context, _ int) (int, error) { return 0, suspend(ctx) }

// A signal that the run could not read is refused, not put into its inbox.
func TestASignalThatTheRunCouldNotReadIsRefused(t *testing.T) {
	sealed, err := journal.AESGCM(journal.Key{ID: "k", Secret: make([]byte, 32)})
	require.NoError(t, err)
	using := durable.Using(durable.Settings{Codec: sealed})
	store := memory.New()
	_, err = durable.Run(t.Context(), store, listener, "sealed", 1, using)
	asError[*durable.SuspendedError](t, err)
	_, err = durable.Run(t.Context(), store, listener, "plain", 1)
	asError[*durable.SuspendedError](t, err)
	asError[*durable.OptionError](t, durable.Signal(t.Context(), store, "sealed", "s", 1))
	asError[*durable.OptionError](t, durable.Signal(t.Context(), store, "plain", "s", 1, using))
	for _, id := range []string{"sealed", "plain"} {
		messages, err := store.Inbox(t.Context(), id, 0)
		require.NoError(t, err)
		assert.Empty(t, messages)
	}
	require.NoError(t, durable.Signal(t.Context(), store, "sealed", "s", 1, using))
}

// Replayed calls that a context has ended wait for that again, but not for long, however many they are.
func TestAReplayDoesNotWaitForEachContextThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		ended := true
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
			for range 100 {
				own, cancel := context.WithCancel(ctx)
				if ended {
					cancel()
				}
				_, err := durable.Step(own, "s", func(ctx context.Context) (int, error) { return 0, ctx.Err() })
				if !errors.Is(err, context.Canceled) {
					cancel()
					return 0, fmt.Errorf("another way: %w", err)
				}
				cancel()
			}
			return 0, suspend(ctx)
		})
		_, err := durable.Run(t.Context(), store, wf, "r", 0)
		asError[*durable.SuspendedError](t, err)
		ended = false
		begun := time.Now()
		_, err = durable.Run(t.Context(), store, wf, "r", 0)
		asError[*durable.SuspendedError](t, err)
		assert.LessOrEqual(t, time.Since(begun), time.Second)
	})
}

// A question keeps the id that was given out when the path to it has another name; a branch is no task, whatever its name.
func TestAQuestionOutlivesTheNameOfItsNode(t *testing.T) {
	store := memory.New()
	x := open(t, store)
	ask := func(x *durable.Execution, path string) (bool, error) {
		return durable.Interrupt[bool](x.Task(path, nil).Context(t.Context()), "ok?")
	}
	_, err := ask(x, "2/review[0]")
	asError[*durable.SuspendedError](t, err)
	last, due := x.Waits().Suspension()
	require.NoError(t, x.Finish(t.Context(), last, due))
	x.Close(t.Context())
	s := durable.Settings{Store: store, Rename: func(scope string) string {
		if scope == "2/review[0]" {
			return "2/check[0]"
		}
		return scope
	}}
	x, err = durable.Open(t.Context(), s, "g", nil)
	require.NoError(t, err)
	defer x.Close(t.Context())
	require.NotNil(t, x.Rest("2/check[0]"), "nothing has come")
	_, err = ask(x, "2/check[0]")
	assert.Equal(t, []string{"2/review[0]/ask1"}, asError[*durable.SuspendedError](t, err).Questions())
	require.NoError(t, durable.Answer(t.Context(), store, "g", "2/review[0]/ask1", true))
	ok, err := ask(x, "2/check[0]")
	require.NoError(t, err)
	assert.True(t, ok)

	_ = durable.Branch(x.Task("3/n[0]", nil).Context(t.Context()), "fetch[1]", func(ctx context.Context) error {
		assert.Equal(t, "3/n[0]/fetch%5B1%5D#1", durable.Info(ctx).Scope)
		return nil
	})
}

// What gathers for one append has a limit, since stores have.
func TestWritesGatherUpToALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, largest := &hooked{Store: memory.New()}, 0
		store.append = func(ctx context.Context, l journal.Lease, a journal.Append) error {
			time.Sleep(time.Second)
			size := 0
			for _, e := range a.Events {
				size += len(e.Payload)
			}
			largest = max(largest, size)
			return store.Store.Append(ctx, l, a)
		}
		large := string(make([]byte, 1<<20))
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
			var g errgroup.Group
			for i := range 20 {
				g.Go(func() error {
					return durable.Branch(ctx, fmt.Sprint(i), func(ctx context.Context) error {
						_, err := counted(ctx, &counter{}, "s", large)
						return err
					})
				})
			}
			return 0, g.Wait()
		})
		_, err := durable.Run(t.Context(), store, wf, "r", 0)
		require.NoError(t, err)
		assert.LessOrEqual(t, largest, 8<<20)
		assert.Len(t, events(t, store, "r"), 22)
	})
}
