package durable_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
	"github.com/pawl-go/pawl/task"
)

var echo = durable.Workflow("echo", func(_ context.Context, in map[string]int) (map[string]int, error) { return in, nil })

func TestSameIDWithAnotherInputOrNameIsRefused(t *testing.T) {
	store := memory.New()
	in := map[string]int{"a": 1, "b": 2}
	_, err := durable.Run(t.Context(), store, echo, "r", in)
	require.NoError(t, err)
	out, err := durable.Run(t.Context(), store, echo, "r", map[string]int{"b": 2, "a": 1})
	require.NoError(t, err)
	assert.Equal(t, in, out)
	_, err = durable.Run(t.Context(), store, echo, "r", map[string]int{"a": 1})
	assert.Equal(t, "input", asError[*durable.RunConflictError](t, err).What)
	other := durable.Workflow("other", func(_ context.Context, in map[string]int) (int, error) { return 0, nil })
	_, err = durable.Run(t.Context(), store, other, "r", in)
	assert.Equal(t, "name", asError[*durable.RunConflictError](t, err).What)
	_, err = store.Create(t.Context(), journal.NewRun{
		Run: journal.Run{ID: "g", Kind: journal.GraphRun, Name: "echo"}, Events: []journal.Event{{Kind: journal.RunStart}},
	})
	require.NoError(t, err)
	_, err = durable.Run(t.Context(), store, echo, "g", in)
	assert.Equal(t, "kind", asError[*durable.RunConflictError](t, err).What)
	assert.Equal(t, journal.Pending, status(t, store, "g"))
}

func TestARunThatAnotherProcessHoldsIsLocked(t *testing.T) {
	store := memory.New()
	_, err := durable.Run(t.Context(), store, listener, "r", 1)
	asError[*durable.SuspendedError](t, err)
	hold(t, store, "r")
	_, err = durable.Run(t.Context(), store, listener, "r", 1)
	locked := asError[*durable.RunLockedError](t, err)
	assert.Equal(t, "other", locked.Owner)
	require.ErrorIs(t, err, journal.ErrLocked)
}

func TestARecordedFailureIsReturnedAgain(t *testing.T) {
	store, c := memory.New(), &counter{}
	wf := durable.Workflow("w", func(context.Context, int) (int, error) {
		c.add("body")
		return 0, classifier.Fatal(errBoom, classifier.Code("cfg"))
	})
	var texts []string
	for range 2 {
		_, err := durable.Run(t.Context(), store, wf, "r", 0)
		failed := asError[*durable.RunFailedError](t, err)
		assert.Equal(t, durable.CodeFatal, failed.Code)
		assert.Equal(t, "cfg", failed.UserCode)
		assert.Equal(t, classifier.MarkFatal, classifier.MarkOf(err))
		texts = append(texts, err.Error())
	}
	assert.Equal(t, texts[0], texts[1])
	assert.Equal(t, 1, c.of("body"))
}

func TestAPanicOfTheBodyFailsTheRun(t *testing.T) {
	store := memory.New()
	wf := durable.Workflow("w", func(context.Context, int) (int, error) { panic("ouch") })
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	failed := asError[*durable.RunFailedError](t, err)
	assert.Equal(t, durable.CodeInternal, failed.Code)
	assert.Equal(t, classifier.Panic, failed.Class)
	assert.Equal(t, `workflow "w"`, asError[*task.PanicError](t, err).Whose)
}

func TestARunWithAnEndedContextStartsNothing(t *testing.T) {
	store, c := memory.New(), &counter{}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errBoom)
	wf := durable.Workflow("w", func(context.Context, int) (int, error) { c.add("body"); return 0, nil })
	_, err := durable.Run(ctx, store, wf, "r", 0)
	stopped := asError[*durable.RunStoppedError](t, err)
	assert.Same(t, errBoom, stopped.Cause)
	require.ErrorIs(t, err, context.Canceled)
	assert.NotErrorIs(t, err, errBoom, "the cause may be another call's failure")
	assert.Zero(t, c.of("body"))
	_, err = store.Load(t.Context(), "r")
	require.ErrorIs(t, err, journal.ErrNotFound)
}

// What a body returns behind the end of its context counts only if it has not been told at a durable call.
func TestABodyThatSwallowsTheEndOfItsContext(t *testing.T) {
	for _, told := range []bool{true, false} {
		store := memory.New()
		ctx, cancel := context.WithCancel(t.Context())
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
			cancel()
			if told {
				_, _ = counted(ctx, &counter{}, "s", 1)
			}
			return "done", nil
		})
		out, err := durable.Run(ctx, store, wf, "r", 0)
		if told {
			asError[*durable.RunStoppedError](t, err)
			assert.Equal(t, journal.Pending, status(t, store, "r"))
		} else {
			require.NoError(t, err)
			assert.Equal(t, "done", out)
			assert.Equal(t, journal.Completed, status(t, store, "r"))
		}
	}
}

func TestIDsAreData(t *testing.T) {
	store := memory.New()
	for _, id := range []string{"../../etc/passwd", "a\nb", "日本", "'; DROP TABLE runs; --", strings.Repeat("x", 10_000), "a~2", "a#1/b"} {
		out, err := durable.Run(t.Context(), store, echo, id, map[string]int{"a": 1})
		require.NoError(t, err)
		assert.Equal(t, map[string]int{"a": 1}, out)
	}
	_, err := durable.Run(t.Context(), store, echo, "", nil)
	require.ErrorContains(t, err, "id is empty")
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		return counted(ctx, &counter{}, strings.Repeat("n/#%\x00 ", 100), 5)
	})
	out, err := durable.Run(t.Context(), store, wf, "names", 0)
	require.NoError(t, err)
	assert.Equal(t, 5, out)
}

func TestWorkflowsThatCannotRun(t *testing.T) {
	_, err := durable.Run(t.Context(), memory.New(), durable.Workflow[int, int]("w", nil), "r", 0)
	asError[*durable.OptionError](t, err)
	_, err = durable.Run(t.Context(), memory.New(), durable.Workflow("", func(context.Context, int) (int, error) { return 0, nil }), "r", 0)
	asError[*durable.OptionError](t, err)
	_, err = durable.Run(t.Context(), memory.New(),
		durable.Workflow("w", func(context.Context, func()) (int, error) { return 0, nil }), "r", func() {})
	asError[*journal.NotSerializableError](t, err)
	_, err = durable.Resume(t.Context(), memory.New(), echo, "none")
	require.ErrorIs(t, err, journal.ErrNotFound)
}

func TestInfo(t *testing.T) {
	assert.Zero(t, durable.Info(t.Context()))
	store := memory.New()
	var infos []durable.RunInfo
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		infos = append(infos, durable.Info(ctx))
		_, err := durable.Step(ctx, "s", func(ctx context.Context) (int, error) {
			infos = append(infos, durable.Info(ctx))
			return 0, nil
		})
		if err != nil {
			return 0, err
		}
		infos = append(infos, durable.Info(ctx))
		return 0, durable.Branch(ctx, "b", func(ctx context.Context) error {
			infos = append(infos, durable.Info(ctx))
			return suspend(ctx)
		})
	}, durable.SetVersion("7"))
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.SuspendedError](t, err)
	base := durable.RunInfo{RunID: "r", Kind: journal.WorkflowRun, Name: "w", Version: "7"}
	inStep, inBranch, replaying := base, base, base
	inStep.Step, inBranch.Scope, replaying.Replaying = "s", "b#1", true
	assert.Equal(t, []durable.RunInfo{base, inStep, base, inBranch}, infos)
	infos = nil
	_, err = durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.SuspendedError](t, err)
	inBranch.Replaying = true
	assert.Equal(t, []durable.RunInfo{replaying, base, inBranch}, infos)
}

func TestCancel(t *testing.T) {
	store := memory.New()
	require.ErrorIs(t, durable.Cancel(t.Context(), store, "none", ""), journal.ErrNotFound)
	_, err := durable.Run(t.Context(), store, listener, "r", 1)
	asError[*durable.SuspendedError](t, err)
	require.NoError(t, durable.Cancel(t.Context(), store, "r", "enough"))
	require.NoError(t, durable.Cancel(t.Context(), store, "r", "again"))
	_, err = durable.Run(t.Context(), store, listener, "r", 1)
	assert.Equal(t, "enough", asError[*durable.RunCancelledError](t, err).Reason)
	assert.ErrorContains(t, err, "enough")
	_, err = durable.Run(t.Context(), store, sleeper, "done", 0)
	require.NoError(t, err)
	require.ErrorIs(t, durable.Cancel(t.Context(), store, "done", ""), journal.ErrEnded)
}

// Somebody else is at work: that owner is told, and cancels the run.
func TestCancelOfARunAtWork(t *testing.T) {
	for _, swallow := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store, c := memory.New(), &counter{}
			wf := durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
				v, err := durable.Step(ctx, "s", func(ctx context.Context) (string, error) {
					<-ctx.Done()
					return "", context.Cause(ctx)
				})
				if swallow {
					_, _ = counted(ctx, c, "after", 1)
					return "swallowed", nil
				}
				return v, err
			})
			time.AfterFunc(time.Second, func() { assert.NoError(t, durable.Cancel(context.Background(), store, "r", "enough")) })
			_, err := durable.Run(t.Context(), store, wf, "r", 0)
			assert.Equal(t, "enough", asError[*durable.RunCancelledError](t, err).Reason)
			assert.Equal(t, []string{"run:start", "run:cancelled"}, kinds(t, store, "r"))
			assert.Zero(t, c.of("after"))
		})
	}
}

// An owner that died in between finds the cancellation when it, or another, takes the run up.
func TestACancelThatWasSentToADeadOwner(t *testing.T) {
	store := memory.New()
	_, err := durable.Run(t.Context(), store, listener, "r", 1)
	asError[*durable.SuspendedError](t, err)
	hold(t, store, "r")
	require.NoError(t, durable.Cancel(t.Context(), store, "r", "enough"))
	assert.Equal(t, journal.Running, status(t, store, "r"))
	again := reborn(t, store)
	_, err = durable.Run(t.Context(), again, listener, "r", 1)
	asError[*durable.RunCancelledError](t, err)
	assert.Equal(t, journal.Cancelled, status(t, again, "r"))
}

// silent is a store that cannot say when messages come.
type silent struct{ journal.Store }

func TestAStoreThatIsNoWatcherIsAskedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := silent{memory.New()}
		time.AfterFunc(time.Minute, func() { assert.NoError(t, durable.Cancel(context.Background(), store, "r", "")) })
		begun := time.Now()
		_, err := durable.Run(t.Context(), store, sleeper, "r", time.Hour)
		require.EqualError(t, asError[*durable.RunCancelledError](t, err), `pawl: run "r" was cancelled`)
		assert.LessOrEqual(t, time.Since(begun), time.Minute+time.Second)
	})
}

func TestTheLeaseIsRenewedAndGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		time.AfterFunc(10*time.Minute, func() {
			_, err := store.Acquire(context.Background(), "r", journal.Claim{TTL: time.Minute})
			assert.ErrorIs(t, err, journal.ErrLocked)
		})
		_, err := durable.Run(t.Context(), store, sleeper, "r", time.Hour)
		require.NoError(t, err)
		_, err = durable.Run(t.Context(), store, listener, "s", 1)
		asError[*durable.SuspendedError](t, err)
		hold(t, store, "s")
	})
}

// An owner whose run was taken away writes nothing more.
func TestAnOwnerThatHasLostItsRunStandsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New()
		store := asleep{inner} // a process that hangs
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
			return durable.Step(ctx, "s", func(context.Context) (int, error) {
				time.Sleep(time.Hour)
				hold(t, inner, "r") //nolint:contextcheck // it is the test's
				return 1, nil
			})
		})
		_, err := durable.Run(t.Context(), store, wf, "r", 0)
		asError[*durable.RunLostError](t, err)
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, []string{"run:start"}, kinds(t, inner, "r"))
	})
}

// asleep is a store whose leases are not renewed.
type asleep struct{ journal.Store }

func (s asleep) Renew(ctx context.Context, l journal.Lease, ttl time.Duration) (journal.Lease, error) {
	if ttl > 0 {
		return l, nil
	}
	return s.Store.Renew(ctx, l, ttl)
}

// A codec sees all that the user's code gives and gets.
func TestACodecSeesAllPayloads(t *testing.T) {
	store := memory.New()
	opt := durable.Using(durable.Settings{Codec: rot{}})
	wf := durable.Workflow("w", func(ctx context.Context, secret string) (string, error) {
		v, err := durable.Step(ctx, "s", func(context.Context) (string, error) { return secret, nil })
		if err != nil {
			return "", err
		}
		_, err = durable.Step(ctx, "f", func(context.Context) (string, error) { return "", errors.New(secret) })
		if err == nil {
			return "", errBoom
		}
		sig, err := durable.WaitForSignal[string](ctx, "sig")
		if err != nil {
			return "", err
		}
		answer, err := durable.Interrupt[string](ctx, secret)
		return v + sig + answer, err
	})
	run := func() (string, error) { return durable.Run(t.Context(), store, wf, "r", "secret", opt) }
	_, err := run()
	asError[*durable.SuspendedError](t, err)
	require.NoError(t, durable.Signal(t.Context(), store, "r", "sig", "secret", opt))
	_, err = run()
	asError[*durable.SuspendedError](t, err)
	require.NoError(t, durable.Answer(t.Context(), store, "r", "ask1", "secret", opt))
	for range 2 {
		out, err := run()
		require.NoError(t, err)
		assert.Equal(t, "secretsecretsecret", out)
	}
	for _, e := range events(t, store, "r") {
		assert.NotContains(t, string(e.Payload), "secret", "%s", e.Kind)
		assert.NotContains(t, string(e.Meta), "secret", "%s", e.Kind)
	}
	_, err = durable.Run(t.Context(), store, wf, "r", "secret") // without the codec nothing can be compared
	require.Error(t, err)
}

// rot is a poor man's cipher.
type rot struct{}

func (rot) Encode(p []byte) ([]byte, error) { return (rot{}).Decode(p) }

func (rot) Decode(p []byte) ([]byte, error) {
	out := make([]byte, len(p))
	for i, b := range p {
		out[i] = b ^ 0x55
	}
	return out, nil
}

// A cyclic error of the user's, which errors.Is and errors.As would walk for ever.
type cyclic struct{ next error }

func (c *cyclic) Error() string { return "cyclic" }
func (c *cyclic) Unwrap() error { return c.next }

func TestErrorsWithCyclesAreRecorded(t *testing.T) {
	c := &cyclic{}
	c.next = c
	for name, body := range map[string]func(ctx context.Context) error{
		"body": func(context.Context) error { return c },
		"step": func(ctx context.Context) error {
			_, err := durable.Step(ctx, "s", func(context.Context) (int, error) { return 0, c }, attempts(2))
			return err
		},
		"once": func(ctx context.Context) error {
			_, err := durable.Once(ctx, "s", func(context.Context) (int, error) { return 0, c }, durable.Timeout(time.Minute))
			return err
		},
		"branch": func(ctx context.Context) error {
			return durable.Branch(ctx, "b", func(context.Context) error { return c })
		},
	} {
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) { return 0, body(ctx) })
		_, err := durable.Run(t.Context(), memory.New(), wf, "r", 0)
		asError[*durable.RunFailedError](t, err)
		assert.ErrorContains(t, err, "cyclic", name)
	}
}

// What another run has met is a failure of this one like any other.
func TestARunInsideAStepOfAnother(t *testing.T) {
	store := memory.New()
	_, err := durable.Run(t.Context(), store, steps("a"), "changed", 0)
	asError[*durable.SuspendedError](t, err)
	for id, inner := range map[string]*durable.Definition[int, int]{"waits": steps(), "changed": steps("b")} {
		wf := durable.Workflow("outer", func(ctx context.Context, _ int) (int, error) {
			return durable.Step(ctx, "s", func(ctx context.Context) (int, error) { return durable.Run(ctx, store, inner, id, 0) })
		})
		_, err := durable.Run(t.Context(), store, wf, "outer of "+id, 0)
		assert.Equal(t, durable.CodeInternal, asError[*durable.RunFailedError](t, err).Code)
		assert.Equal(t, journal.Failed, status(t, store, "outer of "+id))
		parent := durable.Workflow("parent", func(ctx context.Context, _ int) (int, error) { return durable.RunChild(ctx, wf, 0) })
		_, err = durable.Run(t.Context(), store, parent, "parent of "+id, 0)
		asError[*durable.ChildWorkflowError](t, err)
	}
}

// A run that was ended while its owner hung is not written any more.
func TestAnOwnerWhoseRunHasEndedStandsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New()
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
			return durable.Step(ctx, "s", func(ctx context.Context) (int, error) {
				time.Sleep(time.Hour)
				return 1, durable.Cancel(context.WithoutCancel(ctx), inner, "r", "enough")
			})
		})
		_, err := durable.Run(t.Context(), asleep{inner}, wf, "r", 0)
		asError[*durable.RunLostError](t, err)
		assert.Equal(t, []string{"run:start", "run:cancelled"}, kinds(t, inner, "r"))
	})
}

func TestOfTwoRunsOfOneIDAtTheSameTimeOneIsLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		done := make(chan error, 1)
		go func() {
			_, err := durable.Run(t.Context(), store, sleeper, "r", time.Minute)
			done <- err
		}()
		synctest.Wait()
		_, err := durable.Run(t.Context(), store, sleeper, "r", time.Minute)
		asError[*durable.RunLockedError](t, err)
		require.NoError(t, <-done)
		_, err = durable.Run(t.Context(), store, sleeper, "r", time.Minute)
		require.NoError(t, err)
	})
}
