package durable_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/journal/memory"
)

// everything is a workflow with all there is, and counts what it calls.
func everything(c *counter) *durable.Definition[int, []string] {
	child := durable.Workflow("child", func(ctx context.Context, in int) (string, error) {
		if _, err := counted(ctx, c, "in child", in); err != nil {
			return "", err
		}
		return durable.WaitForSignal[string](ctx, "go")
	})
	return durable.Workflow("everything", func(ctx context.Context, round int) ([]string, error) {
		var out []string
		v, err := counted(ctx, c, fmt.Sprint("first ", round), "first", attempts(2))
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		_, err = durable.Step(ctx, fmt.Sprint("handled ", round), func(context.Context) (int, error) {
			c.add(fmt.Sprint("handled ", round))
			return 0, errBoom
		})
		if err == nil || err.Error() != errBoom.Error() {
			return nil, fmt.Errorf("not the failure: %w", err)
		}
		if round > 1 {
			return append(out, "end"), nil
		}
		branched, err := branches(ctx, c)
		if err != nil {
			return nil, err
		}
		out = append(out, branched...)
		paid, err := durable.Once(ctx, "pay", func(context.Context) (string, error) { c.add("pay"); return "paid", nil })
		var unknown *durable.OutcomeUnknownError
		if err != nil && !errors.As(err, &unknown) {
			return nil, err
		}
		if unknown == nil && paid != "paid" {
			return nil, errors.New("not paid")
		}
		if err := durable.Sleep(ctx, 15*time.Second); err != nil {
			return nil, err
		}
		if fresh, err := durable.Gate(ctx, "change"); err != nil || !fresh {
			return nil, fmt.Errorf("the old way: %w", err)
		}
		name, err := durable.Interrupt[string](ctx, "name?")
		if err != nil {
			return nil, err
		}
		kid, err := durable.RunChild(ctx, child, 7)
		if err != nil {
			return nil, err
		}
		if c.add("result of round 1"); len(append(out, name, kid)) != 6 {
			return nil, fmt.Errorf("%q", append(out, name, kid))
		}
		return nil, durable.ContinueAsNew(ctx, round+1)
	})
}

// branches makes calls in three goroutines, one of which waits for a signal and one of which fails at first.
func branches(ctx context.Context, c *counter) ([]string, error) {
	var g errgroup.Group
	out := make([]string, 3)
	for i := range out {
		g.Go(func() error {
			return durable.Branch(ctx, fmt.Sprint("b", i), func(ctx context.Context) error {
				v, err := counted(ctx, c, fmt.Sprint("in branch ", i), fmt.Sprint("b", i))
				if err == nil && i == 1 {
					v, err = durable.WaitForSignal[string](ctx, "b")
				}
				if err == nil && i == 2 {
					if _, err := durable.Step(ctx, "fails", func(context.Context) (int, error) { c.add("fails"); return 0, errBoom }); err == nil {
						return errors.New("no failure")
					}
				}
				out[i] = v
				return err
			})
		})
	}
	return out, g.Wait()
}

// drive runs the workflow to its end, and gives it whatever it waits for.
func drive(t *testing.T, store journal.Store, c *counter) ([]string, error) {
	t.Helper()
	ctx := t.Context()
	for range 50 {
		out, err := durable.Run(ctx, store, everything(c), "r", 1)
		var suspended *durable.SuspendedError
		if !errors.As(err, &suspended) {
			return out, err
		}
		time.Sleep(time.Minute) // a lease may have to run out
		for _, w := range suspended.Waits {
			var err error
			switch {
			case w.Question != "":
				var refused *durable.AnswerError
				if err = durable.Answer(ctx, store, suspended.RunID, w.Question, "ada"); errors.As(err, &refused) {
					err = nil
				}
			case w.Signal != "":
				err = durable.Signal(ctx, store, suspended.RunID, w.Signal, "sig", durable.SendKey("once"))
			case w.Child != "":
				err = durable.Signal(ctx, store, w.Child, "go", "kid", durable.SendKey("once"))
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return nil, errors.New("it does not come to an end")
}

// recordedSteps are the steps whose outcomes are recorded for good.
func recordedSteps(t *testing.T, store *memory.Store) map[string]bool {
	t.Helper()
	steps := map[string]bool{}
	page, err := store.List(context.Background(), journal.Query{})
	require.NoError(t, err)
	for _, run := range page.Runs {
		last := map[string]string{} // the failure that a scope ends with does not count yet
		for _, e := range events(t, store, run.ID) {
			switch e.Kind {
			case journal.StepDone:
				steps[e.Name] = true
				delete(last, e.Scope)
			case journal.StepError:
				steps[e.Name] = true
				last[e.Scope] = e.Name
			case journal.RunSuspended, journal.RunRequeued:
			default:
				delete(last, e.Scope)
			}
		}
		if !run.Status.Terminal() {
			for _, name := range last {
				delete(steps, name)
			}
		}
	}
	return steps
}

// consistent reports what is recorded twice.
func consistent(t *testing.T, store *memory.Store) {
	t.Helper()
	page, err := store.List(context.Background(), journal.Query{})
	require.NoError(t, err)
	for _, run := range page.Runs {
		assert.True(t, run.Status.Terminal(), "%s is %s", run.ID, run.Status)
		done, terminals := map[string]int{}, 0
		for _, e := range events(t, store, run.ID) {
			if e.Kind == journal.StepDone || e.Kind == journal.StepIntent || e.Kind == journal.SignalReceived {
				done[fmt.Sprint(e.Kind, e.Scope, e.Name, e.N)]++
			}
			if e.Kind.Terminal() {
				terminals++
			}
		}
		assert.Equal(t, 1, terminals, "terminal events of %s", run.ID)
		for call, n := range done {
			assert.Equal(t, 1, n, "%s of %s", call, run.ID)
		}
	}
}

var wantEverything = []string{"first", "end"}

func undisturbed(t *testing.T) (writes int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		inner, c := memory.New(), &counter{}
		store := journaltest.NewFaulty(inner)
		out, err := drive(t, store, c)
		require.NoError(t, err)
		assert.Equal(t, wantEverything, out)
		for name, n := range c.calls {
			assert.Equal(t, 1, n, name)
		}
		consistent(t, inner)
		writes = store.Writes()
	})
	return writes
}

// The process dies before or after every single write, and the run goes on in another one: it ends as if nothing had happened, and nothing
// that was recorded is done again.
func TestACrashAtEveryWrite(t *testing.T) {
	writes := undisturbed(t)
	t.Logf("%d writes", writes)
	for n := 1; n <= writes; n++ {
		for _, when := range []journaltest.When{journaltest.Before, journaltest.After} {
			t.Run(fmt.Sprintf("%s write %d", when, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { crashAt(t, n, when) })
			})
		}
	}
}

func crashAt(t *testing.T, n int, when journaltest.When) {
	t.Helper()
	inner, before, after := memory.New(), &counter{}, &counter{}
	store := journaltest.NewFaulty(inner)
	store.OnWrite(func(w journaltest.Write) {
		if w.N == n && w.When == when {
			store.Freeze()
		}
	})
	out, err := drive(t, store, before)
	if err == nil { // the order of branches has made it one write less
		assert.Equal(t, wantEverything, out)
		return
	}
	inner = reborn(t, inner)
	recorded := recordedSteps(t, inner)
	out, err = drive(t, inner, after)
	require.NoError(t, err)
	assert.Equal(t, wantEverything, out)
	consistent(t, inner)
	for name := range recorded {
		assert.Zero(t, after.of(name), "%q is recorded and was called again", name)
	}
	assert.LessOrEqual(t, before.of("pay")+after.of("pay"), 1)
}

// The store is out of reach at every single write, or its acknowledgement is lost, and then it is back.
func TestAnOutageAtEveryWrite(t *testing.T) {
	writes := undisturbed(t)
	for n := 1; n <= writes; n++ {
		for _, when := range []journaltest.When{journaltest.Before, journaltest.After} {
			t.Run(fmt.Sprintf("%s write %d", when, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					inner, c := memory.New(), &counter{}
					store := journaltest.NewFaulty(inner)
					store.FailWrite(n, when)
					var out []string
					var err error
					for range 5 {
						recorded, before := recordedSteps(t, inner), snapshot(c)
						out, err = drive(t, store, c)
						for name := range recorded {
							assert.Equal(t, before[name], c.of(name), "%q is recorded and was called again", name)
						}
						if err == nil {
							break
						}
						if errors.As(err, new(*durable.RunLockedError)) {
							time.Sleep(time.Minute) // the lease could not be given up
							continue
						}
						require.ErrorIs(t, err, journal.ErrUnavailable)
					}
					require.NoError(t, err)
					assert.Equal(t, wantEverything, out)
					consistent(t, inner)
					assert.LessOrEqual(t, c.of("pay"), 1)
				})
			})
		}
	}
}

func snapshot(c *counter) map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.calls)
}

func TestAnOutageRequeuesTheRun(t *testing.T) {
	inner, c := memory.New(), &counter{}
	store := journaltest.NewFaulty(inner)
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		if _, err := counted(ctx, c, "a", 1); err != nil {
			return 0, err
		}
		store.FailWrite(1, journaltest.Before)
		_, err := counted(ctx, c, "b", 1)
		if err == nil {
			return 0, errors.New("no outage")
		}
		_, _ = counted(ctx, c, "c", 1) // swallowed
		return 0, nil
	})
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	down := asError[*durable.StoreUnavailableError](t, err)
	assert.Equal(t, "r", down.RunID)
	require.ErrorIs(t, err, journaltest.ErrInjected)
	assert.Zero(t, c.of("c"))
	all := events(t, inner, "r")
	assert.Equal(t, []string{"run:start", "step:done a", "run:requeued"}, kinds(t, inner, "r"))
	assert.JSONEq(t, `{"reason": "store_unavailable"}`, string(all[2].Meta))
	assert.Equal(t, journal.Pending, status(t, inner, "r"))
}

func TestAnyOtherFaultOfTheStoreEndsTheRun(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		code durable.Code
	}{
		"refused": {&journal.RefusedError{Run: "r", Reason: journal.ErrConflict, Detail: "why"}, durable.CodeEventRefused},
		"other":   {errors.New("disk on fire"), durable.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			inner := memory.New()
			store := &refusing{Store: inner, err: tt.err}
			c := &counter{}
			wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
				_, err := counted(ctx, c, "s", 1)
				return 0, err
			})
			for range 2 {
				_, err := durable.Run(t.Context(), store, wf, "r", 0)
				failed := asError[*durable.RunFailedError](t, err)
				assert.Equal(t, tt.code, failed.Code)
				assert.ErrorContains(t, err, tt.err.Error())
			}
			assert.Equal(t, 1, c.of("s"))
			assert.Equal(t, []string{"run:start", "run:error"}, kinds(t, inner, "r"))
			if tt.code == durable.CodeEventRefused {
				m, err := durable.FailureOf(events(t, inner, "r")[1])
				require.NoError(t, err)
				assert.Equal(t, "why", m.Detail["detail"], "the store's reason")
			}
		})
	}
}

// refusing is a store that does not take the first append.
type refusing struct {
	journal.Store
	err  error
	once sync.Once
}

func (s *refusing) Append(ctx context.Context, l journal.Lease, a journal.Append) (err error) {
	s.once.Do(func() { err = s.err })
	if err != nil {
		return err
	}
	return s.Store.Append(ctx, l, a)
}

// Attempts are counted within one execution: after a crash they start at 1.
func TestAfterACrashAttemptsStartAtOne(t *testing.T) {
	store, c := memory.New(), &counter{}
	ctx, cancel := context.WithCancel(t.Context())
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		return durable.Step(ctx, "s", func(ctx context.Context) (int, error) {
			if c.add("s") == 2 {
				cancel()
				return 0, ctx.Err()
			}
			return 0, errBoom
		}, attempts(3))
	})
	_, err := durable.Run(ctx, store, wf, "r", 0)
	asError[*durable.RunStoppedError](t, err)
	_, err = durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.RunFailedError](t, err)
	assert.Equal(t, 5, c.of("s"))
}

// A store that fails while a run is loaded makes Run fail; it is no reason to start afresh.
func TestAnOutageWhileARunIsLoaded(t *testing.T) {
	for name, fail := range map[string]func(f *journaltest.Faulty){
		"at once": func(f *journaltest.Faulty) { f.Outage(true) },
		"behind the lease": func(f *journaltest.Faulty) {
			f.OnWrite(func(w journaltest.Write) { f.Outage(w.Op == journaltest.OpAcquire && w.When == journaltest.After) })
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			inner, c := memory.New(), &counter{}
			wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
				if _, err := counted(ctx, c, "s", 1); err != nil {
					return 0, err
				}
				return 0, suspend(ctx)
			})
			_, err := durable.Run(t.Context(), inner, wf, "r", 0)
			asError[*durable.SuspendedError](t, err)
			store := journaltest.NewFaulty(inner)
			fail(store)
			_, err = durable.Run(t.Context(), store, wf, "r", 0)
			asError[*durable.StoreUnavailableError](t, err)
			time.Sleep(time.Minute)
			_, err = durable.Run(t.Context(), inner, wf, "r", 0)
			asError[*durable.SuspendedError](t, err)
			assert.Equal(t, 1, c.of("s"), name)
		})
	}
}
