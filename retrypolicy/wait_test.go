package retrypolicy_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/stretchr/testify/require"
)

func TestWaitsGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		_, err := retrypolicy.Do(t.Context(), &retrypolicy.Loop{Policy: policy(4)}, func(context.Context, int) (int, error) {
			at = append(at, time.Since(start))
			return 0, A(503)
		})
		require.Equal(t, []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second}, at)
		require.Equal(t, 7*time.Second, asAttempts(t, err).Waited)
	})
}

func TestJitterIsDrawnForEachWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		draws := []float64{0, 1, 0.5}
		l := &retrypolicy.Loop{Policy: policy(4), Rand: func() float64 {
			d := draws[0]
			draws = draws[1:]
			return d
		}}
		l.Policy.Jitter = 0.5
		calls := 0
		_, err := retrypolicy.Do(t.Context(), l, always(A(503), &calls))
		require.Equal(t, time.Second+time.Second+3*time.Second, asAttempts(t, err).Waited)
	})
	synctest.Test(t, func(t *testing.T) {
		l := &retrypolicy.Loop{Policy: policy(2)}
		l.Policy.Jitter = 1
		calls := 0
		_, err := retrypolicy.Do(t.Context(), l, always(A(503), &calls))
		require.Less(t, asAttempts(t, err).Waited, time.Second)
	})
}

func TestNoDelayIsNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &retrypolicy.Loop{Policy: retrypolicy.WorkflowNodeRetryPolicy{MaxAttempts: 100}}
		calls := 0
		_, err := retrypolicy.Do(t.Context(), l, always(A(503), &calls))
		require.Equal(t, 100, calls)
		require.Zero(t, asAttempts(t, err).Waited)
	})
}

func TestHintIsAFloorForTheWait(t *testing.T) {
	for _, tc := range []struct {
		name     string
		hint     time.Duration
		maxDelay time.Duration
		calls    int
		waited   time.Duration
	}{
		{"5 s with an InitialDelay of 1 s", 5 * time.Second, 0, 2, 5 * time.Second},
		{"3 s ahead", 3 * time.Second, 0, 2, 3 * time.Second},
		{"shorter than the delay", time.Millisecond, 0, 2, time.Second},
		{"as long as MaxDelay", 30 * time.Second, 30 * time.Second, 2, 30 * time.Second},
		{"longer than MaxDelay", 3600 * time.Second, 30 * time.Second, 1, 0},
		{"a little longer than MaxDelay", 30*time.Second + 1, 30 * time.Second, 1, 0},
		{"5 min with a MaxDelay of 0", 5 * time.Minute, 0, 2, 5 * time.Minute},
		{"more than 5 min with a MaxDelay of 0", 5*time.Minute + 1, 0, 1, 0},
		{"1382400 s with a MaxDelay of 0", 1382400 * time.Second, 0, 1, 0},
		{"86400 s with a MaxDelay of 2 days", 86400 * time.Second, 48 * time.Hour, 2, 86400 * time.Second},
		{"above the global cap", longest + 1, math.MaxInt64, 1, 0},
		{"negative", -time.Second, 0, 2, time.Second},
		{"overflow", math.MaxInt64, 0, 2, time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := &retrypolicy.Loop{Policy: policy(2)}
			l.Policy.MaxDelay = tc.maxDelay
			calls, e := run(t, l, hinted{A(429), tc.hint})
			require.Equal(t, tc.calls, calls)
			require.Equal(t, tc.waited, e.Waited)
			if tc.calls == 1 {
				require.Equal(t, retrypolicy.ReasonWaitTooLong, e.Reason)
				require.Equal(t, tc.hint, e.Hint, "the hint is in the error")
				require.Contains(t, e.Error(), "wait longer than allowed (the server asks for "+tc.hint.String()+")")
			}
		})
	}
}

func TestALongDelayOfThePolicyIsSlept(t *testing.T) {
	l := &retrypolicy.Loop{Policy: policy(2)}
	l.Policy.InitialDelay = time.Hour
	calls, e := run(t, l, hinted{A(429), time.Minute})
	require.Equal(t, 2, calls, "5 minutes limit a hint only")
	require.Equal(t, time.Hour, e.Waited)
}

func TestAWaitThatDoesNotFitTheDeadlineIsNotSlept(t *testing.T) {
	for _, tc := range []struct {
		name  string
		left  time.Duration
		calls int
	}{
		{"1 s left, 5 s to wait", time.Second, 1},
		{"as long as the wait", 5 * time.Second, 1},
		{"longer than the wait", 5*time.Second + 1, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tc.left)
				defer cancel()
				l := &retrypolicy.Loop{Policy: policy(2)}
				l.Policy.InitialDelay = 5 * time.Second
				calls, start := 0, time.Now()
				_, err := retrypolicy.Do(ctx, l, always(A(503), &calls))
				require.Equal(t, tc.calls, calls)
				e := asAttempts(t, err)
				require.Equal(t, classifier.ProviderError, e.Class, "the last provider error")
				require.ErrorIs(t, err, e.Err)
				if tc.calls == 1 {
					require.Zero(t, time.Since(start), "at once")
					require.Equal(t, retrypolicy.ReasonPastDeadline, e.Reason)
				}
			})
		})
	}
}

func TestCancelEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		l := &retrypolicy.Loop{Policy: policy(2)}
		l.Policy.InitialDelay = 60 * time.Second
		time.AfterFunc(10*time.Second, func() { cancel(A(404)) })
		calls, start := 0, time.Now()
		_, err := retrypolicy.Do(ctx, l, always(A(503), &calls))
		require.Equal(t, 10*time.Second, time.Since(start), "within no time")
		require.Equal(t, 1, calls, "no further attempt")
		e := asAttempts(t, err)
		require.Equal(t, retrypolicy.ReasonRunEnded, e.Reason)
		require.Equal(t, classifier.Canceled, e.Class)
		require.Equal(t, 10*time.Second, e.Waited)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, A(503), e.Err)
	})
}

func TestCancelInTheObserverEndsTheLoop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := &retrypolicy.Loop{
		Policy:  retrypolicy.WorkflowNodeRetryPolicy{MaxAttempts: 5},
		Observe: func(context.Context, retrypolicy.Attempt) { cancel() },
	}
	calls := 0
	_, err := retrypolicy.Do(ctx, l, always(A(503), &calls))
	require.Equal(t, 1, calls)
	require.Equal(t, retrypolicy.ReasonRunEnded, asAttempts(t, err).Reason)
}

func TestAnEndedRunStartsNoAttempt(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(A(404))
	calls := 0
	_, err := retrypolicy.Do(ctx, eager(), always(nil, &calls))
	require.Zero(t, calls)
	e := asAttempts(t, err)
	require.Equal(t, "pawl: failed after 0 attempts: canceled, run ended: context canceled", err.Error())
	require.Equal(t, context.Canceled, e.Err)
	require.ErrorIs(t, err, context.Canceled)

	ctx, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Hour))
	defer stop()
	_, err = retrypolicy.Do(ctx, eager(), always(nil, &calls))
	require.Zero(t, calls)
	require.Equal(t, classifier.Timeout, asAttempts(t, err).Class)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// early is a context whose deadline has passed before its timer has fired.
type early struct{ context.Context } //nolint:containedctx // it is one

func (early) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

func TestTheDeadlineCountsBeforeItsTimer(t *testing.T) {
	calls := 0
	_, err := retrypolicy.Do(early{t.Context()}, eager(), always(context.DeadlineExceeded, &calls))
	require.Equal(t, 1, calls)
	e := asAttempts(t, err)
	require.Equal(t, retrypolicy.ReasonRunEnded, e.Reason)
	require.Equal(t, classifier.Timeout, e.Class)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
