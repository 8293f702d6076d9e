package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/journal/memory"
	"github.com/pawl-go/pawl/worker"
)

func TestTheLossOfAnOwnerIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		var kill func()
		victim := durable.Workflow("double", func(ctx context.Context, n int) (int, error) {
			return durable.Step(ctx, "times two", func(context.Context) (int, error) {
				kill()
				return 0, nil
			})
		})
		kill, stop := f.mortal(worker.Config{LockTTL: time.Minute}, victim)
		defer stop()
		h, err := client.Start(t.Context(), f.c, double, 1, client.ID("d"))
		require.NoError(t, err)
		time.Sleep(time.Second)
		defer f.work(worker.Config{}, double)()
		out, err := h.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2, out)
		events := f.events("d")
		assert.Equal(t, []journal.Kind{
			journal.RunStart, journal.RunRequeued, journal.RunTaken, journal.StepDone, journal.RunComplete,
		}, kinds(events))
		assert.JSONEq(t, `{"reason":"owner_gone"}`, string(events[1].Meta))
	})
}

func TestARunThatKillsItsWorkersIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		killed := 0
		for range 6 {
			var kill func()
			victim := durable.Workflow("double", func(ctx context.Context, n int) (int, error) {
				return durable.Step(ctx, "times two", func(context.Context) (int, error) {
					killed++
					kill()
					return 0, nil
				})
			})
			var stop func()
			kill, stop = f.mortal(worker.Config{LockTTL: time.Minute}, victim)
			defer stop()
		}
		h, err := client.Start(t.Context(), f.c, double, 1, client.ID("d"))
		require.NoError(t, err)
		_, err = h.Result(t.Context())
		var failed *durable.RunFailedError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, durable.CodeMaxRetries, failed.Code)
		assert.Equal(t, 4, killed, "the first owner, and three retries")
		last := f.events("d")
		m, err := durable.FailureOf(last[len(last)-1])
		require.NoError(t, err)
		assert.Equal(t, map[string]string{"attempts": "4", "cause": "owner_gone"}, m.Detail)
	})
}

func lastFailure(t *testing.T, events []journal.Event) durable.FailureMeta {
	t.Helper()
	last := events[len(events)-1]
	require.Equal(t, journal.RunError, last.Kind)
	m, err := durable.FailureOf(last)
	require.NoError(t, err)
	return m
}

// reasons are those of the requeues among events.
func reasons(t *testing.T, events []journal.Event) []durable.RequeueReason {
	t.Helper()
	var all []durable.RequeueReason
	for _, e := range events {
		if e.Kind == journal.RunRequeued {
			var m struct {
				Reason durable.RequeueReason `json:"reason"`
			}
			require.NoError(t, json.Unmarshal(e.Meta, &m))
			all = append(all, m.Reason)
		}
	}
	return all
}

func TestProgressRefillsTheBudgetOfLostOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		const steps = 4
		killed := map[int]int{} // twice in each step
		for range 2*steps + 1 {
			var kill, stop func()
			victim := durable.Workflow("double", func(ctx context.Context, n int) (int, error) {
				for i := range steps {
					_, err := durable.Step(ctx, "step", func(context.Context) (int, error) {
						if killed[i] < 2 {
							killed[i]++
							kill()
						}
						return i, nil
					})
					if err != nil {
						return 0, err
					}
				}
				return n, nil
			})
			kill, stop = f.mortal(worker.Config{LockTTL: time.Minute}, victim)
			defer stop()
		}
		h, err := client.Start(t.Context(), f.c, double, 7, client.ID("d"))
		require.NoError(t, err)
		out, err := h.Result(t.Context())
		require.NoError(t, err, "eight owners were lost, but never more than two in a row")
		assert.Equal(t, 7, out)
		assert.Len(t, reasons(t, f.events("d")), 2*steps)
	})
}

// "If an outage outlasts the store's lock_ttl, the lock lapses and the orphan sweep requeues as owner_gone, spending max_retries."
// One that is over before requeues the run as store_unavailable.
func TestAnOutageRequeuesTheRunForWhatItHasOutlasted(t *testing.T) {
	for reason, lasts := range map[durable.RequeueReason]time.Duration{
		durable.RequeuedStore: 5 * time.Second,
		durable.RequeuedOwner: 5 * time.Minute,
	} {
		t.Run(string(reason), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				process := journaltest.NewFaulty(f.store)
				calls := 0
				wf := durable.Workflow("double", func(ctx context.Context, n int) (int, error) {
					return durable.Step(ctx, "step", func(context.Context) (int, error) {
						if calls++; calls == 1 {
							process.Outage(true)
							time.AfterFunc(lasts, func() { process.Outage(false) })
						}
						return 2 * n, nil
					})
				})
				defer f.work(worker.Config{Store: process}, wf)()
				h, err := client.Start(t.Context(), f.c, double, 4, client.ID("d"))
				require.NoError(t, err)
				out, err := h.Result(t.Context())
				require.NoError(t, err)
				assert.Equal(t, 8, out)
				assert.Equal(t, 2, calls, "a step whose outcome was not written is called again")
				assert.Equal(t, []durable.RequeueReason{reason}, reasons(t, f.events("d")))
			})
		})
	}
}

func TestOutagesSpendABudgetOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		process := journaltest.NewFaulty(f.store)
		calls := 0
		wf := durable.Workflow("double", func(ctx context.Context, n int) (int, error) {
			return durable.Step(ctx, "step", func(context.Context) (int, error) {
				calls++
				process.FailWrite(1, journaltest.Before, journaltest.OpAppend)
				return 0, nil
			})
		})
		defer f.work(worker.Config{Store: process}, wf)()
		h, err := client.Start(t.Context(), f.c, double, 4, client.ID("d"))
		require.NoError(t, err)
		_, err = h.Result(t.Context())
		var failed *durable.RunFailedError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, durable.CodeStoreDown, failed.Code)
		assert.Equal(t, 21, calls, "max_store_requeues is 20")
		assert.Equal(t, "21", lastFailure(t, f.events("d")).Detail["attempts"])
	})
}

// What is recorded and the code do not go together: 3 retries within an hour, then a terminal run:error.
func TestAReplayThatFailsSpendsThePoisonBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		began := durable.Workflow("double", func(ctx context.Context, n int) (int, error) {
			if _, err := durable.Step(ctx, "a", func(context.Context) (int, error) { return n, nil }); err != nil {
				return 0, err
			}
			return durable.WaitForSignal[int](ctx, "go")
		})
		h, err := client.Start(t.Context(), f.c, double, 4, client.ID("d"))
		require.NoError(t, err)
		stop := f.work(worker.Config{}, began)
		synctest.Wait()
		time.Sleep(time.Second)
		stop()
		require.NoError(t, h.Signal(t.Context(), "go", 1))
		calls := 0
		changed := durable.Workflow("double", func(ctx context.Context, n int) (int, error) {
			calls++
			return durable.Step(ctx, "b", func(context.Context) (int, error) { return n, nil })
		})
		defer f.work(worker.Config{}, changed)()
		_, err = h.Result(t.Context())
		var failed *durable.RunFailedError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, durable.CodeReplayFailed, failed.Code)
		assert.Equal(t, "4", lastFailure(t, f.events("d")).Detail["attempts"])
		assert.Equal(t, 4, calls)
		assert.Equal(t, []durable.RequeueReason{durable.RequeuedReplay, durable.RequeuedReplay, durable.RequeuedReplay}, reasons(t, f.events("d")))
	})
}

func TestCodeThatIgnoresTheEndOfItsContextSpendsThePoisonBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		free := make(chan struct{})
		wf := durable.Workflow("double", func(ctx context.Context, n int) (int, error) {
			return durable.Step(ctx, "deaf", func(context.Context) (int, error) {
				<-free
				return 0, nil
			}, durable.Timeout(time.Second))
		})
		w, err := worker.New(worker.Config{Store: f.store, LockTTL: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		require.NoError(t, w.Register(wf))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		begun := time.Now()
		h, err := client.Start(t.Context(), f.c, double, 4, client.ID("d"))
		require.NoError(t, err)
		_, err = h.Result(t.Context())
		var failed *durable.RunFailedError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, durable.CodeMaxRetries, failed.Code)
		m := lastFailure(t, f.events("d"))
		assert.Equal(t, "EventLoopBlocked", m.Type)
		assert.Equal(t, map[string]string{"attempts": "4", "cause": "loop_blocked"}, m.Detail)
		assert.InDelta(t, 4*30, time.Since(begun).Seconds(), 10, "each attempt had max(3 x LockTTL, timeout)")
		cancel()
		var left *worker.LeftBehindError
		require.ErrorAs(t, <-done, &left)
		assert.Equal(t, 4, left.Calls)
		close(free)
	})
}

// A store that refuses an event of a live run: run:error with the store's reason, not retried.
func TestARefusedEventEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		store := &refusing{Store: f.store.(*memory.Store)}
		calls := 0
		wf := durable.Workflow("double", func(ctx context.Context, n int) (int, error) {
			return durable.Step(ctx, "step", func(context.Context) (int, error) {
				calls++
				store.refuse.Store(true)
				return 2 * n, nil
			})
		})
		defer f.work(worker.Config{Store: store}, wf)()
		h, err := client.Start(t.Context(), f.c, double, 4, client.ID("d"))
		require.NoError(t, err)
		_, err = h.Result(t.Context())
		var failed *durable.RunFailedError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, durable.CodeEventRefused, failed.Code)
		assert.Equal(t, 1, calls)
		assert.Equal(t, "not now", lastFailure(t, f.events("d")).Detail["detail"])
	})
}

// refusing refuses one append.
type refusing struct {
	*memory.Store

	refuse atomic.Bool
}

func (s *refusing) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	if s.refuse.CompareAndSwap(true, false) {
		return &journal.RefusedError{Run: l.Run, Reason: journal.ErrConflict, Detail: "not now"}
	}
	return s.Store.Append(ctx, l, a)
}

// "the workflow isn't registered on this worker": a run that has come to code of another name is left to others, until the
// budget is spent.
func TestARunThatIsNotRegisteredSpendsThePoisonBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		_, err := client.Start(t.Context(), f.c, double, 4, client.ID("d"))
		require.NoError(t, err)
		other := durable.Workflow("other", func(context.Context, int) (int, error) { panic("it is not called") })
		for attempt := 1; attempt <= 4; attempt++ {
			taken, err := f.store.(journal.Queue).Take(t.Context(), journal.Take{
				Claim: journal.Claim{Owner: "w", TTL: time.Minute}, Queue: journal.DefaultQueue,
				Programs: []journal.Program{double.Program()}, Limit: 1,
			})
			require.NoError(t, err)
			require.Len(t, taken, 1)
			a := &durable.Assignment{Taken: taken[0], Settings: durable.Settings{Store: f.store}}
			err = durable.Attend(t.Context(), other, a, time.Second)
			var failed *durable.RunFailedError
			assert.Equal(t, attempt == 4, errors.As(err, &failed), "%d: %v", attempt, err)
			time.Sleep(time.Minute) // each attempt has others wait a little longer
		}
		assert.Equal(t, durable.CodeReplayFailed, lastFailure(t, f.events("d")).Code)
	})
}

func TestAttemptsThatBrokeLongAgoDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		broken := true
		changing := durable.Workflow("double", func(ctx context.Context, n int) (int, error) {
			if _, err := durable.WaitForSignal[int](ctx, "go"); err != nil {
				return 0, err
			}
			name := "a"
			if broken {
				name = fmt.Sprint("b", time.Now()) // another one each time
			}
			if _, err := durable.Step(ctx, name, func(context.Context) (int, error) { return n, nil }); err != nil {
				return 0, err
			}
			return durable.WaitForSignal[int](ctx, "again")
		})
		defer f.work(worker.Config{Budgets: durable.Budgets{PoisonTTL: 50 * time.Millisecond}}, changing)()
		h, err := client.Start(t.Context(), f.c, double, 4, client.ID("d"))
		require.NoError(t, err)
		require.NoError(t, h.Signal(t.Context(), "go", 1))
		time.Sleep(time.Second) // it has taken the first way
		require.NoError(t, h.Signal(t.Context(), "wake", 1))
		time.Sleep(5 * time.Second)
		run, err := h.Get(t.Context())
		require.NoError(t, err)
		assert.False(t, run.Status.Terminal(), run.Status)
		assert.Greater(t, len(reasons(t, f.events("d"))), 4)
	})
}
