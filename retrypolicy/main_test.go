package retrypolicy_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A is an APIError with a status.
func A(status int) error { return &openai.APIError{HTTPStatusCode: status, Message: "x"} }

// policy retries transient errors after 1 s, 2 s, 4 s...
func policy(attempts int) retrypolicy.WorkflowNodeRetryPolicy {
	p := retrypolicy.New()
	p.MaxAttempts = attempts
	return p
}

// hinted is an error with a hint.
type hinted struct {
	error
	wait time.Duration
}

func (h hinted) RetryHint() (time.Duration, bool) { return h.wait, true }
func (h hinted) Unwrap() error                    { return h.error }

// refused is an error whose server wants no retry.
type refused struct{ error }

func (refused) RetryRefused() bool { return true }
func (r refused) Unwrap() error    { return r.error }

// always fails every attempt with err and counts the calls.
func always(err error, calls *int) func(context.Context, int) (string, error) {
	return func(context.Context, int) (string, error) {
		*calls++
		return "dropped", err
	}
}

// run runs a loop whose attempts all fail with err, in a bubble of its own, and returns how often it was called.
func run(t *testing.T, l *retrypolicy.Loop, err error) (calls int, gaveUp *retrypolicy.AttemptsError) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v, got := retrypolicy.Do(t.Context(), l, always(err, &calls))
		require.Empty(t, v, "what a failed attempt returned is dropped")
		require.ErrorAs(t, got, &gaveUp)
		require.Equal(t, calls, gaveUp.Attempts)
	})
	return calls, gaveUp
}

func asAttempts(t *testing.T, err error) *retrypolicy.AttemptsError {
	t.Helper()
	var e *retrypolicy.AttemptsError
	require.ErrorAs(t, err, &e)
	return e
}

// calls everything transient.
var optimist = classifier.Func(func(error) classifier.Classification {
	return classifier.Classification{Class: classifier.ProviderError}
})

var errX = errors.New("x")
