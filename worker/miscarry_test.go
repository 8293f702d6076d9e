package worker_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
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
	"github.com/pawl-go/pawl/task"
	"github.com/pawl-go/pawl/worker"
)

// As a panic does: it would end it again and again.
func TestCodeThatEndsItsGoroutineFailsItsRun(t *testing.T) {
	child := durable.Workflow("child", func(context.Context, int) (int, error) { runtime.Goexit(); return 0, nil })
	for name, body := range map[string]func(ctx context.Context) (int, error){
		"body":  func(context.Context) (int, error) { runtime.Goexit(); return 0, nil },
		"child": func(ctx context.Context) (int, error) { return durable.RunChild(ctx, child, 1) },
		"step": func(ctx context.Context) (int, error) {
			return durable.Step(ctx, "x", func(context.Context) (int, error) { runtime.Goexit(); return 0, nil })
		},
		"once": func(ctx context.Context) (int, error) {
			return durable.Once(ctx, "x", func(context.Context) (int, error) { runtime.Goexit(); return 0, nil })
		},
		"branch": func(ctx context.Context) (int, error) {
			return 0, durable.Branch(ctx, "x", func(context.Context) error { runtime.Goexit(); return nil })
		},
		"condition": func(ctx context.Context) (int, error) {
			return 0, durable.Await(ctx, func() bool { runtime.Goexit(); return false })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				calls := 0
				wf := durable.Workflow("double", func(ctx context.Context, _ int) (int, error) {
					calls++
					return body(ctx)
				})
				defer f.work(worker.Config{}, wf, child)()
				h, err := client.Start(t.Context(), f.c, double, 1, client.ID("d"))
				require.NoError(t, err)
				_, err = h.Result(t.Context())
				var failed *durable.RunFailedError
				require.ErrorAs(t, err, &failed)
				assert.Equal(t, durable.CodeInternal, failed.Code)
				assert.ErrorContains(t, err, task.ErrGoexit.Error())
				assert.Equal(t, 1, calls)
			})
		})
	}
}

// odd is code that does what it likes.
type odd struct {
	durable.Executable

	fn func(ctx context.Context, a *durable.Assignment) error
}

func (o odd) Execute(ctx context.Context, a *durable.Assignment) error { return o.fn(ctx, a) }

func TestExecutablesThatComeToNothingSpendTheBudgetOfBrokenAttempts(t *testing.T) {
	opened := func(end func() error) func(context.Context, *durable.Assignment) error {
		return func(ctx context.Context, a *durable.Assignment) error {
			x, err := a.Open(ctx, a.Settings)
			if err != nil {
				return err
			}
			defer x.Close(ctx)
			return end()
		}
	}
	for name, fn := range map[string]func(context.Context, *durable.Assignment) error{
		"panics":                func(context.Context, *durable.Assignment) error { panic("oops") },
		"does nothing":          func(context.Context, *durable.Assignment) error { return nil },
		"ends its goroutine":    func(context.Context, *durable.Assignment) error { runtime.Goexit(); return nil },
		"opens, and panics":     opened(func() error { panic("oops") }),
		"opens, and ends":       opened(func() error { runtime.Goexit(); return nil }),
		"opens, and leaves":     opened(func() error { return nil }),
		"opens, and fails":      opened(func() error { return assert.AnError }),
		"opens, and closes not": func(ctx context.Context, a *durable.Assignment) error { _, err := a.Open(ctx, a.Settings); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				var calls atomic.Int64
				defer f.work(worker.Config{}, odd{double, func(ctx context.Context, a *durable.Assignment) error {
					calls.Add(1)
					return fn(ctx, a)
				}})()
				h, err := client.Start(t.Context(), f.c, double, 1, client.ID("d"))
				require.NoError(t, err)
				_, err = h.Result(t.Context())
				var failed *durable.RunFailedError
				require.ErrorAs(t, err, &failed)
				assert.Equal(t, int64(4), calls.Load())
				assert.Len(t, reasons(t, f.events("d")), 3)
			})
		})
	}
}

// An executable that only leaves its run, again and again, does not spin.
func TestARunThatIsOnlyLeftIsNotTakenAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		var calls atomic.Int64
		defer f.work(worker.Config{}, odd{double, func(context.Context, *durable.Assignment) error {
			calls.Add(1)
			return context.Canceled
		}})()
		_, err := client.Start(t.Context(), f.c, double, 1, client.ID("d"))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, calls.Load(), int64(61))
		assert.Len(t, f.events("d"), 1)
	})
}

func TestCodeThatCameBackWasNotLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		deaf := durable.Workflow("double", func(ctx context.Context, n int) (int, error) {
			return durable.Step(ctx, "deaf", func(context.Context) (int, error) {
				time.Sleep(5 * time.Minute)
				return n, nil
			}, durable.Timeout(time.Second))
		})
		stop := f.work(worker.Config{LockTTL: 10 * time.Second}, deaf)
		f.startMany(1)
		time.Sleep(time.Hour)
		stop() // without a LeftBehindError
	})
}

// broken is a store of which one method fails some times.
type broken struct {
	*memory.Store

	op    string
	left  atomic.Int64
	calls atomic.Int64
	fault func() error
}

func (s *broken) fail(op string) error {
	if op != s.op {
		return nil
	}
	s.calls.Add(1)
	if s.left.Add(-1) < 0 {
		return nil
	}
	return s.fault()
}

func (s *broken) Take(ctx context.Context, t journal.Take) ([]journal.Taken, error) {
	if err := s.fail("take"); err != nil {
		return nil, err
	}
	return s.Store.Take(ctx, t)
}

func (s *broken) TakeStranded(ctx context.Context, t journal.Take, waited time.Duration) ([]journal.Taken, error) {
	if err := s.fail("take stranded"); err != nil {
		return nil, err
	}
	return s.Store.TakeStranded(ctx, t, waited)
}

func (s *broken) Announce(ctx context.Context, queue string, programs []journal.Program) error {
	if err := s.fail("announce"); err != nil {
		return err
	}
	return s.Store.Announce(ctx, queue, programs)
}

func (s *broken) WatchQueue(queue string) (changed <-chan struct{}, stop func()) {
	if s.fail("watch queue") != nil {
		return nil, func() {}
	}
	return s.Store.WatchQueue(queue)
}

func (s *broken) Renew(ctx context.Context, l journal.Lease, ttl time.Duration) (journal.Lease, error) {
	if err := s.fail("renew"); err != nil {
		return journal.Lease{}, err
	}
	return s.Store.Renew(ctx, l, ttl)
}

func (s *broken) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	if err := s.fail("append"); err != nil {
		return err
	}
	return s.Store.Append(ctx, l, a)
}

func (s *broken) Load(ctx context.Context, id string) (journal.Run, error) {
	if err := s.fail("load"); err != nil {
		return journal.Run{}, err
	}
	return s.Store.Load(ctx, id)
}

func (s *broken) Inbox(ctx context.Context, id string, after int64) ([]journal.Message, error) {
	if err := s.fail("inbox"); err != nil {
		return nil, err
	}
	return s.Store.Inbox(ctx, id, after)
}

func (s *broken) Events(ctx context.Context, id string, after int64) iter.Seq2[journal.Event, error] {
	if err := s.fail("events"); err != nil {
		return func(yield func(journal.Event, error) bool) { yield(journal.Event{}, err) }
	}
	return s.Store.Events(ctx, id, after)
}

func TestAStoreThatPanicsIsOutOfReach(t *testing.T) {
	for _, op := range []string{"append", "load", "inbox", "events", "renew", "take", "take stranded", "announce", "watch queue"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				s := &broken{Store: f.store.(*memory.Store), op: op, fault: func() error { panic("the store is broken") }}
				s.left.Store(5)
				defer f.work(worker.Config{Store: s, Stranded: worker.Fail}, double)()
				f.await(f.startMany(3))
			})
		})
	}
}

// Errors that are no outage end the attempt, and that again and again only with pauses.
func TestErrorsOfNoKindDoNotMakeRunsSpin(t *testing.T) {
	for _, op := range []string{"append", "load", "inbox", "events"} {
		for _, times := range []int64{1, 1 << 40} {
			t.Run(fmt.Sprint(op, times), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFixture(t)
					s := &broken{Store: f.store.(*memory.Store), op: op, fault: func() error { return errors.New("the disk is odd") }}
					s.left.Store(times)
					defer f.work(worker.Config{Store: s}, double)()
					h := f.startMany(1)[0]
					time.Sleep(time.Minute)
					assert.Less(t, s.calls.Load(), int64(300))
					assert.Less(t, len(f.events("r0")), 20)
					if times > 1 && (op == "append" || op == "events") {
						return // nobody can say how often that was
					}
					run, err := h.Get(t.Context())
					require.NoError(t, err)
					assert.True(t, run.Status.Terminal(), run.Status)
				})
			})
		}
	}
}
