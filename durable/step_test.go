package durable_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/task"
)

func TestARecordedStepIsNotCalledAgain(t *testing.T) {
	store, c := memory.New(), &counter{}
	wf := durable.Workflow("sum", func(ctx context.Context, in int) (int, error) {
		a, err := counted(ctx, c, "a", in+1)
		if err != nil {
			return 0, err
		}
		if err := suspend(ctx); err != nil {
			return 0, err
		}
		b, err := counted(ctx, c, "b", a*10)
		return a + b, err
	})
	_, err := durable.Run(t.Context(), store, wf, "r", 1)
	asError[*durable.SuspendedError](t, err)
	release(t, store, "r")
	out, err := durable.Run(t.Context(), store, wf, "r", 1)
	require.NoError(t, err)
	assert.Equal(t, 22, out)
	assert.Equal(t, 1, c.of("a"))
	assert.Equal(t, []string{
		"run:start", "step:done a", "signal:wait release", "run:suspended", "signal:received release", "step:done b", "run:complete",
	}, kinds(t, store, "r"))

	out, err = durable.Run(t.Context(), store, wf, "r", 1) // a run that has ended returns what is recorded
	require.NoError(t, err)
	assert.Equal(t, 22, out)
	assert.Equal(t, 1, c.of("b"))
}

func TestARetriedStepRecordsOnlyItsFinalOutcome(t *testing.T) {
	store, c := memory.New(), &counter{}
	wf := durable.Workflow("retry", func(ctx context.Context, _ int) (string, error) {
		return durable.Step(ctx, "flaky", func(context.Context) (string, error) {
			if c.add("flaky") < 3 {
				return "", errBoom
			}
			return "done", nil
		}, attempts(3))
	})
	out, err := durable.Run(t.Context(), store, wf, "r", 0)
	require.NoError(t, err)
	assert.Equal(t, "done", out)
	all := events(t, store, "r")
	require.Len(t, all, 3)
	assert.Equal(t, journal.StepDone, all[1].Kind)
	assert.Equal(t, 3, all[1].Attempts)
}

func TestAFailingStepDoesNotRetryByDefault(t *testing.T) {
	c := &counter{}
	wf := durable.Workflow("once", func(ctx context.Context, _ int) (int, error) {
		return durable.Step(ctx, "s", func(context.Context) (int, error) {
			c.add("s")
			return 0, classifier.Transient(errBoom)
		})
	})
	_, err := durable.Run(t.Context(), memory.New(), wf, "r", 0)
	failed := asError[*durable.RunFailedError](t, err)
	assert.Equal(t, durable.CodeInternal, failed.Code)
	assert.Equal(t, 1, c.of("s"))
}

// The seed's table: what an error means, and how often it is called under a policy that would retry all.
func TestMarksOverrideThePolicy(t *testing.T) {
	for _, tt := range []struct {
		name  string
		err   error
		calls int
		code  durable.Code
		user  string
	}{
		{"transient", classifier.Transient(errBoom), 3, durable.CodeInternal, ""},
		{"poison", classifier.Poison(errBoom, classifier.Code("card.declined")), 1, durable.CodePoison, "card.declined"},
		{"fatal", classifier.Fatal(errBoom), 1, durable.CodeFatal, ""},
		{"anything else, per Retryable", errBoom, 3, durable.CodeInternal, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store, c := memory.New(), &counter{}
			wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
				return durable.Step(ctx, "s", func(context.Context) (int, error) {
					c.add("s")
					return 0, tt.err
				}, attempts(3))
			})
			for range 2 { // the second time it is the record that answers
				_, err := durable.Run(t.Context(), store, wf, "r", 0)
				failed := asError[*durable.RunFailedError](t, err)
				assert.Equal(t, tt.code, failed.Code)
				assert.Equal(t, tt.user, failed.UserCode)
				assert.Contains(t, err.Error(), "boom")
				assert.Equal(t, tt.calls, c.of("s"))
			}
			m, err := durable.FailureOf(events(t, store, "r")[2])
			require.NoError(t, err)
			assert.Equal(t, tt.user, m.UserCode)
			assert.NotEmpty(t, m.Fingerprint)
			assert.NotEmpty(t, m.Type)
		})
	}
}

func TestAHandledFailureIsAnOutcomeAndReplaysAsTheSameError(t *testing.T) {
	store, c := memory.New(), &counter{}
	var seen []error
	wf := durable.Workflow("sync", func(ctx context.Context, _ string) (string, error) {
		_, err := durable.Step(ctx, "pull", func(context.Context) (int, error) {
			c.add("pull")
			return 0, &net.OpError{Op: "dial", Net: "tcp", Err: fs.ErrNotExist}
		})
		seen = append(seen, err)
		var down *net.OpError
		if !errors.As(err, &down) || down.Op != "dial" || !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if err := suspend(ctx); err != nil {
			return "", err
		}
		return "skipped: upstream down", nil
	})
	_, err := durable.Run(t.Context(), store, wf, "r", "acme")
	asError[*durable.SuspendedError](t, err)
	release(t, store, "r")
	out, err := durable.Run(t.Context(), store, wf, "r", "acme")
	require.NoError(t, err)
	assert.Equal(t, "skipped: upstream down", out)
	assert.Equal(t, 1, c.of("pull"))
	require.Len(t, seen, 2)
	live, replayed := asError[*journal.RecordedError](t, seen[0]), asError[*journal.RecordedError](t, seen[1])
	assert.Equal(t, live.Error(), replayed.Error())
	assert.Equal(t, live.TypePath, replayed.TypePath)
	assert.Equal(t, live.Class, replayed.Class)
}

func TestAFailureThatNobodyHandledIsCalledAgain(t *testing.T) {
	store, c := memory.New(), &counter{}
	ctx, cancel := context.WithCancel(t.Context())
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
		v, err := durable.Step(ctx, "s", func(context.Context) (string, error) {
			if c.add("s") == 1 {
				return "", errBoom
			}
			return "second", nil
		})
		if err != nil {
			cancel() // the attempt is over before the run can fail
		}
		return v, err
	})
	_, err := durable.Run(ctx, store, wf, "r", 0)
	asError[*durable.RunStoppedError](t, err)
	assert.Equal(t, []string{"run:start", "step:error s"}, kinds(t, store, "r"))
	out, err := durable.Run(t.Context(), store, wf, "r", 0)
	require.NoError(t, err)
	assert.Equal(t, "second", out)
}

func TestLiveEqualsReplayed(t *testing.T) {
	type result struct {
		Shown  int
		Hidden int `json:"-"`
	}
	store := memory.New()
	wf := durable.Workflow("w", func(ctx context.Context, in result) (result, error) {
		if in.Hidden != 0 {
			return result{}, errors.New("the input did not go through JSON")
		}
		v, err := durable.Step(ctx, "s", func(context.Context) (result, error) { return result{Shown: 1, Hidden: 2}, nil })
		if err != nil || v.Hidden != 0 {
			return result{}, fmt.Errorf("the result did not go through JSON: %w", err)
		}
		return result{Shown: v.Shown, Hidden: 3}, nil
	})
	out, err := durable.Run(t.Context(), store, wf, "r", result{Hidden: 1})
	require.NoError(t, err)
	assert.Equal(t, result{Shown: 1}, out)
}

func TestAResultThatJSONCannotHoldEndsTheRun(t *testing.T) {
	type scores struct{ Scores []float64 }
	store, c := memory.New(), &counter{}
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		_, err := durable.Step(ctx, "s", func(context.Context) (scores, error) {
			c.add("s")
			return scores{[]float64{0, 1, 2, math.NaN()}}, nil
		}, attempts(3))
		if err == nil {
			return 0, errors.New("no error")
		}
		_, after := counted(ctx, c, "after", 1) // swallowing it changes nothing
		return 7, after
	})
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	failed := asError[*durable.RunFailedError](t, err)
	assert.Equal(t, durable.CodeNotSerializable, failed.Code)
	assert.Contains(t, err.Error(), "Result.Scores[3]: NaN (float64)")
	assert.Equal(t, 1, c.of("s"), "no retry")
	assert.Zero(t, c.of("after"))

	own := durable.Workflow("own", func(context.Context, int) (any, error) { return make(chan int), nil })
	_, err = durable.Run(t.Context(), store, own, "own", 0)
	assert.Equal(t, durable.CodeNotSerializable, asError[*durable.RunFailedError](t, err).Code)
	assert.Contains(t, err.Error(), "chan int")

	var big durable.RunOption = durable.Using(durable.Settings{PayloadLimit: 100})
	large := durable.Workflow("large", func(ctx context.Context, _ int) (string, error) {
		return durable.Step(ctx, "s", func(context.Context) (string, error) { return string(make([]byte, 101)), nil })
	})
	_, err = durable.Run(t.Context(), store, large, "large", 0, big)
	assert.Equal(t, durable.CodeNotSerializable, asError[*durable.RunFailedError](t, err).Code)
	assert.Contains(t, err.Error(), "limit is 100")

	type unreadable struct{ R io.Reader }
	odd := durable.Workflow("odd", func(ctx context.Context, _ int) (int, error) {
		_, err := durable.Step(ctx, "s", func(context.Context) (unreadable, error) { return unreadable{new(bytes.Buffer)}, nil })
		return 0, err
	})
	_, err = durable.Run(t.Context(), store, odd, "odd", 0)
	assert.Equal(t, durable.CodeNotSerializable, asError[*durable.RunFailedError](t, err).Code)
	assert.NotContains(t, kinds(t, store, "odd"), "step:done s", "what cannot be read is not recorded")
}

func TestAPanicOfAStepIsItsFailureAndIsNotRetried(t *testing.T) {
	store, c := memory.New(), &counter{}
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
		_, err := durable.Step(ctx, "s", func(context.Context) (int, error) {
			c.add("s")
			panic("ouch")
		}, attempts(3))
		var p *task.PanicError
		if !errors.As(err, &p) {
			return "", err
		}
		return p.Whose, nil
	})
	out, err := durable.Run(t.Context(), store, wf, "r", 0)
	require.NoError(t, err)
	assert.Equal(t, `step "s"`, out)
	assert.Equal(t, 1, c.of("s"))
}

func TestStepTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := memory.New(), &counter{}
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
			_, err := durable.Step(ctx, "s", func(ctx context.Context) (int, error) {
				c.add("s")
				<-ctx.Done()
				return 0, ctx.Err()
			}, attempts(2), durable.Timeout(time.Second))
			var late *retrypolicy.TimeoutError
			if !errors.As(err, &late) || !errors.Is(err, context.DeadlineExceeded) {
				return "", err
			}
			return late.After.String(), nil
		})
		out, err := durable.Run(t.Context(), store, wf, "r", 0)
		require.NoError(t, err)
		assert.Equal(t, "1s", out)
		assert.Equal(t, 2, c.of("s"), "per attempt")
		e := events(t, store, "r")[1]
		assert.Equal(t, journal.StepError, e.Kind)
		assert.Equal(t, 2*time.Second, e.Took)
		assert.Equal(t, 2, e.Attempts)
	})
}

func TestStepArgumentsAreChecked(t *testing.T) {
	bad := retrypolicy.WorkflowNodeRetryPolicy{MaxAttempts: 0, Jitter: 2}
	fn := func(context.Context) (int, error) { return 0, nil }
	for name, call := range map[string]func(ctx context.Context) error{
		"MaxAttempts": func(ctx context.Context) error { _, err := durable.Step(ctx, "s", fn, durable.Retry(bad)); return err },
		"Jitter":      func(ctx context.Context) error { _, err := durable.Once(ctx, "s", fn, durable.Retry(bad)); return err },
		"timeout 0s":  func(ctx context.Context) error { _, err := durable.Step(ctx, "s", fn, durable.Timeout(0)); return err },
		"name is empty": func(ctx context.Context) error {
			_, err := durable.Step(ctx, "", fn)
			return err
		},
		"function is nil": func(ctx context.Context) error { _, err := durable.Step[int](ctx, "s", nil); return err },
	} {
		t.Run(name, func(t *testing.T) {
			asError[*durable.OptionError](t, call(t.Context()))
			assert.ErrorContains(t, call(t.Context()), name)
			store := memory.New()
			wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) { return 0, call(ctx) })
			_, err := durable.Run(t.Context(), store, wf, "r", 0)
			assert.ErrorContains(t, err, name)
			assert.Equal(t, []string{"run:start", "run:error"}, kinds(t, store, "r"))
		})
	}
}

func TestCallRefusesTimeoutTogetherWithRetry(t *testing.T) {
	fn := func() (int, error) { return 1, nil }
	_, err := durable.Call(t.Context(), "c", fn, attempts(2), durable.Timeout(time.Second))
	asError[*durable.OptionError](t, err)
	assert.ErrorContains(t, err, "overlap")
	v, err := durable.Call(t.Context(), "c", fn, attempts(1), durable.Timeout(time.Second))
	require.NoError(t, err)
	assert.Equal(t, 1, v)
	v, err = durable.Call(t.Context(), "c", fn, attempts(2))
	require.NoError(t, err)
	assert.Equal(t, 1, v)
}

func TestACallIsLeftBehindWhenItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		blocked := make(chan struct{})
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
			return durable.Call(ctx, "c", func() (int, error) {
				<-blocked
				return 1, nil
			}, durable.Timeout(time.Second))
		})
		begun := time.Now()
		_, err := durable.Run(t.Context(), store, wf, "r", 0)
		asError[*retrypolicy.TimeoutError](t, err)
		assert.Equal(t, time.Second, time.Since(begun))
		close(blocked)
		synctest.Wait()
		assert.Equal(t, []string{"run:start", "step:error c", "run:error"}, kinds(t, store, "r"))
	})
}

func TestAPanicOfACallWithATimeout(t *testing.T) {
	_, err := durable.Call(t.Context(), "c", func() (int, error) { panic("ouch") }, durable.Timeout(time.Second))
	asError[*task.PanicError](t, err)
}

func TestInAPlainContextStepsJustRun(t *testing.T) {
	c := &counter{}
	v, err := counted(t.Context(), c, "s", 5, attempts(2))
	require.NoError(t, err)
	assert.Equal(t, 5, v)
	_, err = durable.Step(t.Context(), "s", func(context.Context) (int, error) { return 0, errBoom })
	assert.Same(t, errBoom, err, "the function's own error")
	_, err = durable.Step(t.Context(), "s", func(ctx context.Context) (int, error) {
		assert.Empty(t, durable.IdempotencyKey(ctx))
		c.add("retried")
		return 0, errBoom
	}, attempts(2))
	assert.Equal(t, 2, asError[*retrypolicy.AttemptsError](t, err).Attempts)
	assert.Equal(t, 2, c.of("retried"))
}

func TestAStepInsideAStepIsAPlainCallAndLeavesNoRecord(t *testing.T) {
	store, c := memory.New(), &counter{}
	keys := map[string]bool{}
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		return durable.Step(ctx, "outer", func(ctx context.Context) (int, error) {
			keys[durable.IdempotencyKey(ctx)] = true
			for range 2 {
				_, err := durable.Step(ctx, "inner", func(ctx context.Context) (int, error) {
					keys[durable.IdempotencyKey(ctx)] = true
					if c.add("inner") == 1 {
						return 0, errBoom
					}
					return 1, nil
				}, attempts(2))
				if err != nil {
					return 0, err
				}
			}
			err := durable.Branch(ctx, "b", func(ctx context.Context) error {
				_, err := counted(ctx, c, "branched", 1)
				return err
			})
			return 3, err
		})
	})
	out, err := durable.Run(t.Context(), store, wf, "r", 0)
	require.NoError(t, err)
	assert.Equal(t, 3, out)
	assert.Equal(t, 3, c.of("inner"))
	assert.Len(t, keys, 3, "each has a key of its own")
	assert.Equal(t, []string{"run:start", "step:done outer", "run:complete"}, kinds(t, store, "r"))
}

func TestWhatIsRefusedInsideAStep(t *testing.T) {
	other := durable.Workflow("other", func(context.Context, int) (int, error) { return 0, nil })
	fn := func(context.Context) (int, error) { return 0, nil }
	for name, call := range map[string]func(ctx context.Context) error{
		"Once":          func(ctx context.Context) error { _, err := durable.Once(ctx, "o", fn); return err },
		"Sleep":         func(ctx context.Context) error { return durable.Sleep(ctx, time.Second) },
		"WaitForSignal": func(ctx context.Context) error { _, err := durable.WaitForSignal[int](ctx, "s"); return err },
		"Interrupt":     func(ctx context.Context) error { _, err := durable.Interrupt[int](ctx, "?"); return err },
		"RunChild":      func(ctx context.Context) error { _, err := durable.RunChild(ctx, other, 1); return err },
		"ContinueAsNew": func(ctx context.Context) error { return durable.ContinueAsNew(ctx, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			store := memory.New()
			wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
				return durable.Step(ctx, "s", func(ctx context.Context) (int, error) { return 0, call(ctx) })
			})
			_, err := durable.Run(t.Context(), store, wf, "r", 0)
			placed := asError[*durable.PlacementError](t, err)
			assert.Equal(t, name, placed.Call)
			assert.ErrorContains(t, err, `inside step "s"`)
		})
	}
}

func TestTheIdempotencyKeyIsTheSameInEveryAttemptAndReplay(t *testing.T) {
	store := memory.New()
	var keys []string
	stop := true
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
		assert.Empty(t, durable.IdempotencyKey(ctx), "outside of steps there is none")
		for range 2 {
			_, err := durable.Step(ctx, "s", func(ctx context.Context) (int, error) {
				keys = append(keys, durable.IdempotencyKey(ctx))
				if len(keys) < 3 || stop {
					return 0, errBoom
				}
				return 0, nil
			}, attempts(2))
			if err != nil {
				return "", err
			}
		}
		return "", nil
	})
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	require.Error(t, err)
	stop = false
	_, err = durable.PrepareRetry(t.Context(), store, "r", "r2")
	require.NoError(t, err)
	_, err = durable.Resume(t.Context(), store, wf, "r2")
	require.NoError(t, err)
	require.Len(t, keys, 4)
	assert.Len(t, keys[0], 32)
	assert.Equal(t, keys[0], keys[1])
	assert.NotEqual(t, keys[1], keys[2], "of another run")
	assert.NotEqual(t, keys[2], keys[3], "of the second use of the name")
}

func TestTheContextEndsWhileAStepWorks(t *testing.T) {
	for _, succeed := range []bool{false, true} {
		t.Run(fmt.Sprintf("success %v", succeed), func(t *testing.T) {
			store, c := memory.New(), &counter{}
			ctx, cancel := context.WithCancel(t.Context())
			wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
				v, err := durable.Step(ctx, "s", func(ctx context.Context) (int, error) {
					if c.add("s") == 1 {
						cancel()
						<-ctx.Done()
						if !succeed {
							return 0, ctx.Err()
						}
					}
					return 4, nil
				}, attempts(3))
				if err != nil {
					return 0, err
				}
				w, err := counted(ctx, c, "next", 1)
				return v + w, err
			})
			_, err := durable.Run(ctx, store, wf, "r", 0)
			asError[*durable.RunStoppedError](t, err)
			require.ErrorIs(t, err, context.Canceled)
			if succeed {
				assert.Equal(t, []string{"run:start", "step:done s"}, kinds(t, store, "r"), "a success is still recorded")
			} else {
				assert.Equal(t, []string{"run:start"}, kinds(t, store, "r"), "a cancellation is no outcome")
			}
			assert.Equal(t, journal.Pending, status(t, store, "r"))
			out, err := durable.Run(t.Context(), store, wf, "r", 0)
			require.NoError(t, err)
			assert.Equal(t, 5, out)
		})
	}
}

func TestCanceledReturnedWhileNobodyCancelledIsAFailureLikeAnyOther(t *testing.T) {
	store := memory.New()
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		return durable.Step(ctx, "s", func(context.Context) (int, error) { return 0, context.Canceled })
	})
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.RunFailedError](t, err)
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, []string{"run:start", "step:error s", "run:error"}, kinds(t, store, "r"))

	body := durable.Workflow("body", func(context.Context, int) (int, error) { return 0, context.Canceled })
	_, err = durable.Run(t.Context(), store, body, "b", 0)
	asError[*durable.RunFailedError](t, err)
	assert.Equal(t, journal.Failed, status(t, store, "b"))
}

// A step that a context of the body's own has cut short is an outcome once the body goes on behind it.
func TestAStepCutShortByAContextOfTheBodysOwn(t *testing.T) {
	store, c := memory.New(), &counter{}
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
		own, cancel := context.WithCancel(ctx)
		_, err := durable.Step(own, "s", func(ctx context.Context) (int, error) {
			c.add("s")
			cancel()
			return 0, ctx.Err()
		})
		cancel()
		if !errors.Is(err, context.Canceled) {
			return "", fmt.Errorf("not cancelled: %w", err)
		}
		if _, err := durable.Step(own, "never", func(context.Context) (int, error) { c.add("never"); return 0, nil }); err == nil {
			return "", errors.New("a step began in a context that had ended")
		}
		if _, err := durable.Once(own, "once", func(context.Context) (int, error) { c.add("never"); return 0, nil }); err == nil {
			return "", errors.New("a Once began in a context that had ended")
		}
		if err := suspend(ctx); err != nil {
			return "", err
		}
		return "handled", nil
	})
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.SuspendedError](t, err)
	release(t, store, "r")
	out, err := durable.Run(t.Context(), store, wf, "r", 0)
	require.NoError(t, err)
	assert.Equal(t, "handled", out)
	assert.Equal(t, 1, c.of("s"))
	assert.Zero(t, c.of("never"))
}

func TestStandardAroundAnInnerLoopDoesNotMultiply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{}
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
			return durable.Step(ctx, "outer", func(ctx context.Context) (int, error) {
				return durable.Step(ctx, "inner", func(context.Context) (int, error) {
					c.add("inner")
					return 0, classifier.Transient(errBoom)
				}, durable.Retry(retrypolicy.Standard()))
			}, durable.Retry(retrypolicy.Standard()))
		})
		_, err := durable.Run(t.Context(), memory.New(), wf, "r", 0)
		require.Error(t, err)
		assert.Equal(t, 3, c.of("inner"))
	})
}
