package worker_test

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

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/worker"
)

// ahead is a store whose clock is ahead of everybody's.
type ahead struct {
	*memory.Store

	by time.Duration
}

func (s *ahead) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	if !a.Due.IsZero() {
		a.Due = a.Due.Add(-s.by)
	}
	time.Sleep(2 * time.Millisecond)
	return s.Store.Append(ctx, l, a)
}

func TestAStoreWhoseClockIsAheadDoesNotMakeRunsSpin(t *testing.T) {
	for _, by := range []time.Duration{20 * time.Millisecond, 300 * time.Millisecond, 5 * time.Second, 10 * time.Minute} {
		for _, what := range []string{"sleep", "signal", "await", "graph"} {
			t.Run(fmt.Sprint(by, " ", what), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFixture(t)
					wf := durable.Workflow("double", func(ctx context.Context, n int) (int, error) {
						var err error
						switch what {
						case "sleep":
							err = durable.Sleep(ctx, time.Hour)
						case "signal":
							_, err = durable.WaitForSignal[int](ctx, "x", durable.WaitTimeout(time.Hour))
						case "await":
							err = durable.Await(ctx, func() bool { return false }, durable.WaitTimeout(time.Hour))
						}
						if late := (interface{ Timeout() bool })(nil); errors.As(err, &late) {
							err = nil
						}
						return 2 * n, err
					})
					r := runner(t, superstep.Config{})
					defer f.work(worker.Config{Store: &ahead{f.store.(*memory.Store), by}}, wf, r)()
					begun := time.Now()
					if what == "graph" {
						h, err := client.Start(t.Context(), f.c, r, state{}, client.ID("r0"))
						require.NoError(t, err)
						_, err = h.Result(t.Context())
						require.NoError(t, err)
					} else {
						f.await(f.startMany(1))
					}
					assert.GreaterOrEqual(t, time.Since(begun), time.Hour)
					assert.Less(t, time.Since(begun), time.Hour+time.Second)
					assert.Less(t, len(f.events("r0")), 12+int(by/time.Minute))
				})
			})
		}
	}
}

// A message wakes a run before its time, and its timer still fires in time.
func TestAMessageDoesNotPutOffATimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		nap := durable.Workflow("double", func(ctx context.Context, n int) (int, error) { return 2 * n, durable.Sleep(ctx, time.Hour) })
		defer f.work(worker.Config{}, nap)()
		begun := time.Now()
		h := f.startMany(1)[0]
		for range 5 {
			time.Sleep(10 * time.Minute)
			require.NoError(t, h.Signal(t.Context(), "nobody waits for", 1))
		}
		_, err := h.Result(t.Context())
		require.NoError(t, err)
		assert.Less(t, time.Since(begun), time.Hour+time.Second)
	})
}

// deafStore has queues, and cannot tell when messages have come.
type deafStore struct {
	journal.Store
	journal.Queue

	reads atomic.Int64
	hook  func(read int64)
}

func (s *deafStore) Inbox(ctx context.Context, run string, after int64) ([]journal.Message, error) {
	s.hook(s.reads.Add(1))
	return s.Store.Inbox(ctx, run, after)
}

func TestACancelThatComesBeforeAWaitIsNotSleptOver(t *testing.T) {
	for at := int64(1); at < 4; at++ {
		t.Run(fmt.Sprint("read ", at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				s := &deafStore{Store: f.store, Queue: f.store.(*memory.Store)}
				s.hook = func(read int64) {
					if read == at {
						assert.NoError(t, f.c.Cancel(t.Context(), "d", "enough"))
					}
				}
				wf := durable.Workflow("waiter", func(ctx context.Context, n int) (int, error) {
					if err := durable.Sleep(ctx, time.Millisecond); err != nil {
						return 0, err
					}
					_, err := durable.WaitForSignal[int](ctx, "a", durable.WaitTimeout(time.Second))
					if errors.As(err, new(*durable.SignalTimeoutError)) {
						_, err = durable.WaitForSignal[int](ctx, "b")
					}
					return n, err
				})
				defer f.work(worker.Config{Store: s}, wf)()
				_, err := client.Start(t.Context(), f.c, waiter, 1, client.ID("d"))
				require.NoError(t, err)
				time.Sleep(time.Minute)
				run, err := f.c.Get(t.Context(), "d")
				require.NoError(t, err)
				assert.Equal(t, journal.Cancelled, run.Status)
			})
		})
	}
}

// A key that was rotated in the clients first: the worker that has it goes on with the run.
func TestWhatWasSentUnderAKeyThatAWorkerHasNotIsLeftToOthers(t *testing.T) {
	for _, what := range []string{"signal", "answer"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := journal.Key{ID: "1", Secret: make([]byte, 32)}
				second := journal.Key{ID: "2", Secret: append(make([]byte, 31), 1)}
				old, err := journal.AESGCM(first)
				require.NoError(t, err)
				both, err := journal.AESGCM(second, first)
				require.NoError(t, err)
				f := newFixture(t)
				c, err := client.New(f.store, client.Config{Codec: old})
				require.NoError(t, err)
				wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
					if what == "answer" {
						return durable.Interrupt[int](ctx, "how many?")
					}
					return durable.WaitForSignal[int](ctx, "go")
				})
				stop := f.work(worker.Config{Codec: old}, wf)
				_, err = client.Start(t.Context(), c, wf, 1, client.ID("d"))
				require.NoError(t, err)
				time.Sleep(time.Minute)
				rotated, err := client.New(f.store, client.Config{Codec: both})
				require.NoError(t, err)
				if what == "answer" {
					require.NoError(t, rotated.Answer(t.Context(), "d", "ask1", 7))
				} else {
					require.NoError(t, rotated.Signal(t.Context(), "d", "go", 7))
				}
				time.Sleep(time.Minute)
				stop()
				defer f.work(worker.Config{Codec: both}, wf)()
				out, err := client.Attach(rotated, wf, "d").Result(t.Context())
				require.NoError(t, err)
				assert.Equal(t, 7, out)
				assert.Less(t, len(f.events("d")), 20)
			})
		})
	}
}
