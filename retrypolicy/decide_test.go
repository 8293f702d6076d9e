package retrypolicy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/task"
	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
)

// unretryable is an error such as a suspension.
type unretryable struct {
	error
	no bool
}

func (u unretryable) Unretryable() bool { return u.no }
func (u unretryable) Unwrap() error     { return u.error }

type panickyUnretryable struct{ error }

func (panickyUnretryable) Unretryable() bool { panic("Unretryable") }

// eager is a loop that would retry everything that may be retried at all.
func eager() *retrypolicy.Loop {
	p := policy(3)
	p.Retryable = retrypolicy.AnyError
	return &retrypolicy.Loop{Policy: p, Classifier: optimist}
}

func TestRule1EndedRunIsNeverRetried(t *testing.T) {
	for name, err := range map[string]error{
		"plain": errX, "transient": classifier.Transient(A(503)), "permanent": A(404), "panic": &task.PanicError{}, "canceled": context.Canceled,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			_, got := retrypolicy.Do(ctx, eager(), func(context.Context, int) (int, error) {
				calls++
				cancel()
				return 0, err
			})
			e := asAttempts(t, got)
			require.Equal(t, 1, calls)
			require.Equal(t, retrypolicy.ReasonRunEnded, e.Reason)
			require.Equal(t, classifier.Canceled, e.Class)
			require.ErrorIs(t, got, context.Canceled)
			require.Equal(t, err, e.Err)
			require.Zero(t, e.Status)
		})
	}
}

func TestRule2UnretryableErrorsAreNeverRetried(t *testing.T) {
	inner := &retrypolicy.AttemptsError{MaxAttempts: 3, Attempts: 3, Reason: retrypolicy.ReasonAttemptsUsedUp, Err: A(503)}
	for name, err := range map[string]error{
		"suspension":    unretryable{errX, true},
		"panic":         &task.PanicError{Whose: "tool"},
		"inner loop":    inner,
		"wrapped":       fmt.Errorf("x: %w", unretryable{errX, true}),
		"behind a no":   unretryable{unretryable{errX, true}, false},
		"joined":        errors.Join(A(503), unretryable{errX, false}, inner),
		"marked":        classifier.Transient(&task.PanicError{}),
		"and permanent": errors.Join(A(404), unretryable{errX, true}),
	} {
		t.Run(name, func(t *testing.T) {
			calls, e := run(t, eager(), err)
			require.Equal(t, 1, calls)
			require.Equal(t, retrypolicy.ReasonUnretryable, e.Reason)
		})
	}
	for name, err := range map[string]error{
		"says it can be":      unretryable{errX, false},
		"its method panics":   panickyUnretryable{errX},
		"nil pointer":         fmt.Errorf("x: %w", (*task.PanicError)(nil)),
		"loop of one attempt": &retrypolicy.AttemptsError{MaxAttempts: 1, Attempts: 1, Err: A(503)},
		"loop that was stopped": &retrypolicy.AttemptsError{
			MaxAttempts: 3, Attempts: 1, Reason: retrypolicy.ReasonRunEnded, Err: A(503),
		},
	} {
		t.Run(name, func(t *testing.T) {
			calls, _ := run(t, eager(), err)
			require.Equal(t, 3, calls)
		})
	}
}

func TestRule3PermanentStatusIsNeverRetried(t *testing.T) {
	for name, err := range map[string]error{
		"400": A(400), "401": A(401), "403": A(403), "404": A(404), "422": A(422),
		"wrapped":       fmt.Errorf("5xx: %w", A(400)),
		"joined":        errors.Join(errX, A(404)),
		"joined with":   errors.Join(A(503), A(404)),
		"marked":        classifier.Transient(A(404)),
		"marked poison": classifier.Poison(A(404)),
		"refused":       refused{A(404)},
		"text":          errors.New("upstream failed: status code: 400, message: bad id"),
		"RequestError":  &openai.RequestError{HTTPStatusCode: 400, Body: []byte(`{"message":"x"}`)},
		"quota as 402":  A(402),
	} {
		t.Run(name, func(t *testing.T) {
			calls, e := run(t, eager(), err)
			require.Equal(t, 1, calls)
			require.Equal(t, retrypolicy.ReasonPermanentStatus, e.Reason)
			require.Contains(t, e.Error(), fmt.Sprintf("permanent status %d: ", e.Status))
			require.ErrorIs(t, e, err)
		})
	}
	for _, err := range []error{A(408), A(429), A(500), A(503), errors.New("port 4000"), classifier.Transient(errors.New("HTTP 503"))} {
		calls, _ := run(t, eager(), err)
		require.Equal(t, 3, calls, err)
	}
}

func TestRule4MarksOverrideRefusalPredicateAndClass(t *testing.T) {
	no := func(error) bool { return false }
	reluctant := &retrypolicy.Loop{Policy: policy(3)}
	reluctant.Policy.Retryable = no
	calls, e := run(t, reluctant, classifier.Transient(refused{errX}))
	require.Equal(t, 3, calls)
	require.Equal(t, retrypolicy.ReasonAttemptsUsedUp, e.Reason)
	require.Equal(t, classifier.Unknown, e.Class)

	calls, e = run(t, eager(), classifier.Poison(A(503)))
	require.Equal(t, 1, calls)
	require.Equal(t, retrypolicy.ReasonPoison, e.Reason)

	calls, e = run(t, eager(), fmt.Errorf("x: %w", classifier.Fatal(A(503), classifier.Code("bad code"))))
	require.Equal(t, 1, calls, "a bad code still marks")
	require.Equal(t, retrypolicy.ReasonFatal, e.Reason)

	calls, _ = run(t, eager(), errors.Join(classifier.Transient(errX), classifier.Poison(errX)))
	require.Equal(t, 1, calls, "over branches poison beats transient")
}

func TestRule5RefusalOverridesPredicateAndClass(t *testing.T) {
	calls, e := run(t, eager(), refused{A(503)})
	require.Equal(t, 1, calls)
	require.Equal(t, retrypolicy.ReasonRefused, e.Reason)
}

func TestRule6PredicateOverridesClass(t *testing.T) {
	l := &retrypolicy.Loop{Policy: policy(3)}
	l.Policy.Retryable = func(err error) bool { return errors.Is(err, errX) }
	calls, _ := run(t, l, errX)
	require.Equal(t, 3, calls, "the class is unknown")

	calls, e := run(t, l, A(503))
	require.Equal(t, 1, calls, "the class is transient")
	require.Equal(t, retrypolicy.ReasonNotRetryable, e.Reason)

	l.Policy.Retryable = retrypolicy.AnyError
	calls, _ = run(t, l, context.Canceled)
	require.Equal(t, 3, calls, "a cancel while nobody cancelled is a failure like any other")
}

func TestRule7ClassDecides(t *testing.T) {
	for _, tc := range []struct {
		name  string
		err   error
		class classifier.RunErrorClass
		calls int
	}{
		{"503", A(503), classifier.ProviderError, 3},
		{"refused connection", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, classifier.ProviderError, 3},
		{"overloaded", &openai.APIError{Type: "overloaded_error", Message: "Overloaded"}, classifier.ProviderError, 3},
		{"cut stream", io.ErrUnexpectedEOF, classifier.ProviderError, 3},
		{"empty messages", openai.ErrTooManyEmptyStreamMessages, classifier.ProviderError, 3},
		{"524 with a page", &openai.RequestError{HTTPStatusCode: 524, Body: []byte("<html>")}, classifier.ProviderError, 3},
		{"429", A(429), classifier.RateLimited, 3},
		{"408", A(408), classifier.Timeout, 3},
		{"deadline", context.DeadlineExceeded, classifier.Timeout, 3},
		{"quota", &openai.APIError{HTTPStatusCode: 429, Code: "insufficient_quota"}, classifier.QuotaExceeded, 1},
		{"spend limit", &openai.APIError{HTTPStatusCode: 429, Code: "project_spend_limit_exceeded"}, classifier.QuotaExceeded, 1},
		{
			"too large",
			&openai.APIError{HTTPStatusCode: 429, Code: "rate_limit_exceeded", Message: "Request too large: Limit 30000, Requested 30182"},
			classifier.InvalidRequest, 1,
		},
		{"unknown", errX, classifier.Unknown, 1},
		{"canceled", context.Canceled, classifier.Canceled, 1},
		{"canceled and transient", errors.Join(A(503), context.Canceled), classifier.Canceled, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			calls, e := run(t, &retrypolicy.Loop{Policy: policy(3)}, tc.err)
			require.Equal(t, tc.calls, calls)
			require.Equal(t, tc.class, e.Class)
			if calls == 1 {
				require.Equal(t, retrypolicy.ReasonNotTransient, e.Reason)
			} else {
				require.Equal(t, retrypolicy.ReasonAttemptsUsedUp, e.Reason)
			}
		})
	}
}

func TestCustomClassifierDecides(t *testing.T) {
	l := &retrypolicy.Loop{Policy: policy(2), Classifier: classifier.Chain(classifier.Func(func(err error) classifier.Classification {
		if errors.Is(err, errX) {
			return classifier.Classification{Class: classifier.RateLimited}
		}
		return classifier.Classification{Class: "made up"}
	}), classifier.Default())}
	calls, _ := run(t, l, errX)
	require.Equal(t, 2, calls)
	calls, _ = run(t, l, A(503))
	require.Equal(t, 2, calls, "a class that is none leaves it to the default")

	l.Classifier = classifier.Func(func(error) classifier.Classification { return classifier.Classification{Class: "made up"} })
	calls, e := run(t, l, A(503))
	require.Equal(t, 1, calls)
	require.Equal(t, classifier.Unknown, e.Class)
}

func TestOneLayerRetries(t *testing.T) {
	for _, tc := range []struct {
		inner, outer, calls int
	}{{3, 3, 3}, {1, 3, 3}, {3, 1, 3}, {1, 1, 1}, {2, 5, 2}} {
		synctest.Test(t, func(t *testing.T) {
			inner := retrypolicy.Loop{Policy: retrypolicy.Standard()}
			inner.Policy.MaxAttempts = tc.inner
			outer := retrypolicy.Loop{Policy: policy(tc.outer)}
			calls := 0
			_, err := retrypolicy.Do(t.Context(), &outer, func(ctx context.Context, _ int) (string, error) {
				return retrypolicy.Do(ctx, &inner, always(A(503), &calls))
			})
			require.Equal(t, tc.calls, calls, "%+v", tc)
			require.Equal(t, classifier.ProviderError, asAttempts(t, err).Class)
		})
	}
}

func TestAnInnerLoopThatWasCutByTheAttemptIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &retrypolicy.Loop{Policy: retrypolicy.Standard()}
		outer := &retrypolicy.Loop{Policy: policy(2), Timeout: time.Second}
		calls := 0
		_, err := retrypolicy.Do(t.Context(), outer, func(ctx context.Context, _ int) (string, error) {
			return retrypolicy.Do(ctx, inner, func(ctx context.Context, _ int) (string, error) {
				calls++
				<-ctx.Done()
				return "", ctx.Err()
			})
		})
		require.Equal(t, 2, calls)
		require.Equal(t, classifier.Timeout, asAttempts(t, err).Class)
	})
}
