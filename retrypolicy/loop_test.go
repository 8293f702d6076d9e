package retrypolicy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/task"
	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
)

func TestSuccessIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var numbers []int
		got, err := retrypolicy.Do(t.Context(), &retrypolicy.Loop{Policy: policy(3)}, func(_ context.Context, attempt int) (string, error) {
			numbers = append(numbers, attempt)
			if attempt < 3 {
				return "dropped", A(503)
			}
			return "answer", nil
		})
		require.NoError(t, err)
		require.Equal(t, "answer", got)
		require.Equal(t, []int{1, 2, 3}, numbers)
	})
}

func TestMaxAttemptsCountsTheFirstTry(t *testing.T) {
	for attempts, want := range map[int]int{-1: 1, 0: 1, 1: 1, 2: 2, 3: 3, 7: 7} {
		calls, e := run(t, &retrypolicy.Loop{Policy: policy(attempts)}, A(503))
		require.Equal(t, want, calls)
		require.Equal(t, retrypolicy.ReasonAttemptsUsedUp, e.Reason)
		require.Equal(t, attempts, e.MaxAttempts)
	}
	calls := 0
	_, err := retrypolicy.Do(t.Context(), &retrypolicy.Loop{}, always(A(503), &calls))
	require.Error(t, err)
	require.Equal(t, 1, calls, "the zero Loop calls once")
}

func TestTheErrorSaysWhatHappened(t *testing.T) {
	_, e := run(t, &retrypolicy.Loop{Policy: policy(3)}, A(503))
	require.Equal(t, "pawl: failed after 3 attempts: provider_error, attempts used up: error, status code: 503, status: , message: x", e.Error())
	var api *openai.APIError
	require.ErrorAs(t, e, &api)
	require.Equal(t, 503, api.HTTPStatusCode)

	_, e = run(t, eager(), A(404))
	require.Equal(t, "pawl: failed after 1 attempt: provider_error, permanent status 404: error, status code: 404, status: , message: x", e.Error())

	page := &openai.RequestError{HTTPStatusCode: 524, Err: errX, Body: []byte("<html>" + strings.Repeat("x", 1000))}
	_, e = run(t, &retrypolicy.Loop{Policy: policy(2)}, page)
	require.NotContains(t, e.Error(), "html", "the page is not in the message")
	require.Equal(t, "pawl: failed after 2 attempts: provider_error, attempts used up", (&retrypolicy.AttemptsError{
		Attempts: 2, Class: classifier.ProviderError, Reason: retrypolicy.ReasonAttemptsUsedUp,
	}).Error())
}

func TestObserverSeesEveryFailedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []retrypolicy.Attempt
		start, at := time.Now(), []time.Duration{}
		l := &retrypolicy.Loop{Policy: policy(3), Observe: func(ctx context.Context, a retrypolicy.Attempt) {
			require.Equal(t, t.Context(), ctx)
			seen, at = append(seen, a), append(at, time.Since(start))
		}}
		errs := []error{A(503), hinted{A(429), 5 * time.Second}, A(404)}
		_, err := retrypolicy.Do(t.Context(), l, func(_ context.Context, attempt int) (int, error) { return 0, errs[attempt-1] })
		require.Error(t, err)
		require.Equal(t, []retrypolicy.Attempt{
			{Number: 1, Err: errs[0], Class: classifier.ProviderError, Delay: time.Second},
			{Number: 2, Err: errs[1], Class: classifier.RateLimited, Delay: 5 * time.Second, Hint: 5 * time.Second},
			{
				Number: 3, Err: errs[2], Class: classifier.InvalidRequest, Final: true,
				Reason: retrypolicy.ReasonPermanentStatus, Status: 404,
			},
		}, seen)
		require.Equal(t, []time.Duration{0, time.Second, 6 * time.Second}, at, "before the wait")
	})
}

func TestAttemptsDeadlineIsATimeoutAndRetried(t *testing.T) {
	for name, ret := range map[string]error{
		"its context's error": context.DeadlineExceeded,
		"success":             nil,
		"a permanent status":  A(404),
		"a cancel":            context.Canceled,
		"poison":              classifier.Poison(errX),
		"a status in a text":  errors.New("HTTP 404"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &retrypolicy.Loop{Policy: policy(2), Timeout: 3 * time.Second}
				calls := 0
				_, err := retrypolicy.Do(t.Context(), l, func(ctx context.Context, _ int) (string, error) {
					calls++
					<-ctx.Done()
					return "late", ret
				})
				require.Equal(t, 2, calls)
				e := asAttempts(t, err)
				require.Equal(t, classifier.Timeout, e.Class)
				require.Equal(t, retrypolicy.ReasonAttemptsUsedUp, e.Reason)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotErrorIs(t, err, context.Canceled)
				var timeout *retrypolicy.TimeoutError
				require.ErrorAs(t, err, &timeout)
				require.Equal(t, 3*time.Second, timeout.After)
				require.Equal(t, ret, timeout.Err)
				require.True(t, timeout.Timeout())
				require.Equal(t, "pawl: attempt timed out after 3s", timeout.Error())
				require.Equal(t, classifier.Timeout, classifier.Default().Classify(timeout).Class)
			})
		})
	}
}

func TestEachAttemptHasItsOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &retrypolicy.Loop{Policy: policy(2), Timeout: 3 * time.Second}
		got, err := retrypolicy.Do(t.Context(), l, func(ctx context.Context, attempt int) (int, error) {
			end, ok := ctx.Deadline()
			require.True(t, ok)
			require.Equal(t, 3*time.Second, time.Until(end))
			if attempt == 1 {
				<-ctx.Done()
				require.ErrorIs(t, context.Cause(ctx), context.DeadlineExceeded)
				return 0, context.Cause(ctx)
			}
			return attempt, nil
		})
		require.NoError(t, err)
		require.Equal(t, 2, got)
	})
}

func TestFailureWithinTheDeadlineIsNoTimeout(t *testing.T) {
	l := &retrypolicy.Loop{Policy: policy(1), Timeout: time.Hour}
	_, e := run(t, l, A(503))
	require.Equal(t, classifier.ProviderError, e.Class)
}

func TestAPanicStaysAPanicWhenItIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &retrypolicy.Loop{Policy: policy(3), Timeout: time.Second}
		calls := 0
		_, err := retrypolicy.Do(t.Context(), l, func(ctx context.Context, _ int) (string, error) {
			calls++
			<-ctx.Done()
			panic("late")
		})
		require.Equal(t, 1, calls)
		require.Equal(t, classifier.Panic, asAttempts(t, err).Class)
	})
}

func TestTheRunsDeadlineIsNotTheAttempts(t *testing.T) {
	for name, timeout := range map[string]time.Duration{
		"no timeout": 0, "run ends before the attempt": 5 * time.Second, "run ends with the attempt": 2 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				l := &retrypolicy.Loop{Policy: policy(3), Timeout: timeout}
				calls := 0
				_, err := retrypolicy.Do(ctx, l, func(ctx context.Context, _ int) (string, error) {
					calls++
					<-ctx.Done()
					return "", ctx.Err()
				})
				require.Equal(t, 1, calls, "no further attempt")
				e := asAttempts(t, err)
				require.Equal(t, retrypolicy.ReasonRunEnded, e.Reason)
				require.Equal(t, classifier.Timeout, e.Class)
				var own *retrypolicy.TimeoutError
				require.NotErrorAs(t, err, &own)
			})
		})
	}
}

func TestAnAttemptThatTheRunCutsShortHasNoDeadlineOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l := &retrypolicy.Loop{Policy: policy(3), Timeout: time.Second}
		got, err := retrypolicy.Do(ctx, l, func(ctx context.Context, _ int) (string, error) {
			<-ctx.Done()
			return "done", nil
		})
		require.NoError(t, err)
		require.Equal(t, "done", got)
	})
}

func TestASuccessAfterTheRunsEndIsTaken(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	got, err := retrypolicy.Do(ctx, eager(), func(context.Context, int) (string, error) {
		cancel()
		return "done", nil
	})
	require.NoError(t, err)
	require.Equal(t, "done", got)
}

func TestACauseThatWrapsAnAPIErrorIsACancelOnly(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := retrypolicy.Do(ctx, eager(), func(ctx context.Context, _ int) (string, error) {
		cancel(fmt.Errorf("sibling failed: %w", A(404)))
		<-ctx.Done()
		return "", context.Cause(ctx)
	})
	require.ErrorIs(t, err, context.Canceled)
	var api *openai.APIError
	require.NotErrorAs(t, err, &api)
	_, found := classifier.HTTPStatus(err)
	require.False(t, found, "not even by its text")
	require.Equal(t, classifier.Canceled, classifier.Default().Classify(err).Class)
	require.Contains(t, asAttempts(t, err).Err.Error(), "sibling failed")
}

func TestPanicsOfTheUsersCodeEndTheLoopAndAreNamed(t *testing.T) {
	fail := func(context.Context, int) (string, error) { return "", A(503) }
	boom := func(context.Context, int) (string, error) { panic("boom") }
	predicate := policy(3)
	predicate.Retryable = func(error) bool { panic("boom") }
	for whose, tc := range map[string]struct {
		loop *retrypolicy.Loop
		fn   func(context.Context, int) (string, error)
	}{
		`retried call`:             {&retrypolicy.Loop{Policy: policy(3)}, boom},
		"retry policy's Retryable": {&retrypolicy.Loop{Policy: predicate}, fail},
		"retry loop's Rand":        {&retrypolicy.Loop{Policy: policy(3), Rand: func() float64 { panic("boom") }}, fail},
		"retry loop's Observe": {&retrypolicy.Loop{
			Policy:  policy(3),
			Observe: func(context.Context, retrypolicy.Attempt) { panic("boom") },
		}, fail},
	} {
		t.Run(whose, func(t *testing.T) {
			_, err := retrypolicy.Do(t.Context(), tc.loop, tc.fn)
			e := asAttempts(t, err)
			require.Equal(t, 1, e.Attempts)
			require.Equal(t, classifier.Panic, e.Class)
			require.Equal(t, retrypolicy.ReasonUnretryable, e.Reason)
			var p *task.PanicError
			require.ErrorAs(t, err, &p)
			require.Equal(t, whose, p.Whose)
			require.Equal(t, "boom", p.Value)
			require.NotEmpty(t, p.Stack)
			if whose != "retried call" {
				var api *openai.APIError
				require.ErrorAs(t, err, &api, "the attempt's error is not lost")
			}
		})
	}
}

func TestAPanickingObserverOfAnEndedRunKeepsTheCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := eager()
	l.Observe = func(context.Context, retrypolicy.Attempt) { panic("boom") }
	_, err := retrypolicy.Do(ctx, l, func(context.Context, int) (int, error) {
		cancel()
		return 0, A(404)
	})
	e := asAttempts(t, err)
	require.Equal(t, retrypolicy.ReasonRunEnded, e.Reason)
	require.ErrorContains(t, e.Err, "retry loop's Observe")
	_, found := classifier.HTTPStatus(err)
	require.False(t, found)
}

func TestPanickingClassifierIsLoggedAndTheDefaultAnswers(t *testing.T) {
	var out bytes.Buffer
	l := &retrypolicy.Loop{
		Policy:     policy(2),
		Classifier: classifier.Func(func(error) classifier.Classification { panic("boom") }),
		Logger:     slog.New(slog.NewTextHandler(&out, nil)),
	}
	calls, e := run(t, l, A(503))
	require.Equal(t, 2, calls)
	require.Equal(t, classifier.ProviderError, e.Class)
	require.Contains(t, out.String(), "classifier panicked")
}

func TestALoopServesManyCallsAtOnce(t *testing.T) {
	l := &retrypolicy.Loop{Policy: retrypolicy.WorkflowNodeRetryPolicy{MaxAttempts: 3, Jitter: 1, InitialDelay: 1, BackoffMultiplier: 1}}
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			got, err := retrypolicy.Do(t.Context(), l, func(_ context.Context, attempt int) (int, error) {
				if attempt < 3 {
					return 0, A(503)
				}
				return i, nil
			})
			if err != nil || got != i {
				t.Error(got, err)
			}
		})
	}
	wg.Wait()
}

func TestTheHappyPathAllocatesNothing(t *testing.T) {
	ctx := t.Context()
	l := &retrypolicy.Loop{Policy: retrypolicy.Standard()}
	n := 0
	require.Zero(t, testing.AllocsPerRun(100, func() {
		got, _ := retrypolicy.Do(ctx, l, func(_ context.Context, attempt int) (int, error) {
			n++
			return attempt, nil
		})
		n += got
	}))
}

func TestAfterGoesOnBehindAFirstAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []int
		loop := &retrypolicy.Loop{Policy: policy(3), Observe: func(_ context.Context, a retrypolicy.Attempt) { seen = append(seen, a.Number) }}
		var calls []int
		fn := func(_ context.Context, attempt int) (string, error) {
			calls = append(calls, attempt)
			if attempt < 3 {
				return "", &openai.APIError{HTTPStatusCode: 503}
			}
			return "done", nil
		}
		begin := time.Now()
		got, err := retrypolicy.After(t.Context(), loop, &openai.APIError{HTTPStatusCode: 503}, fn)
		require.NoError(t, err)
		require.Equal(t, "done", got)
		require.Equal(t, []int{2, 3}, calls)
		require.Equal(t, []int{1, 2}, seen)
		require.Positive(t, time.Since(begin), "the wait before the second attempt is waited")

		calls = nil
		_, err = retrypolicy.After(t.Context(), loop, &openai.APIError{HTTPStatusCode: 404}, fn)
		require.Equal(t, retrypolicy.ReasonPermanentStatus, asAttempts(t, err).Reason)
		require.Equal(t, 1, asAttempts(t, err).Attempts)
		require.Empty(t, calls)
	})
}
