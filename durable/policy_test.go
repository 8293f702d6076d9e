package durable_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
	"github.com/pawl-go/pawl/retrypolicy"
)

// responseError holds what cannot be rebuilt.
type responseError struct {
	Code     int
	Response *http.Response
}

func (e *responseError) Error() string { return "response" }

// A recorded failure is given back: neither the policy nor the classifier is asked about it again, whether its type can be rebuilt or not.
func TestReplayDoesNotAskThePolicyAgain(t *testing.T) {
	for name, failure := range map[string]error{
		"plain":             errBoom,
		"cannot be rebuilt": &responseError{503, &http.Response{StatusCode: http.StatusServiceUnavailable}},
		"marked":            classifier.Transient(errBoom),
	} {
		t.Run(name, func(t *testing.T) {
			store, c := memory.New(), &counter{}
			asked := 0
			policy := retrypolicy.WorkflowNodeRetryPolicy{MaxAttempts: 3, Retryable: func(error) bool { asked++; return true }}
			classified := &classifying{}
			opt := durable.Using(durable.Settings{Classifier: classified})
			var seen []error
			wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
				_, err := durable.Step(ctx, "s", func(context.Context) (int, error) {
					c.add("s")
					return 0, failure
				}, durable.Retry(policy))
				seen = append(seen, err)
				return 0, suspend(ctx)
			})
			_, err := durable.Run(t.Context(), store, wf, "r", 0, opt)
			asError[*durable.SuspendedError](t, err)
			before, told := asked, classified.calls
			release(t, store, "r")
			_, err = durable.Run(t.Context(), store, wf, "r", 0, opt)
			require.NoError(t, err)
			assert.Equal(t, 3, c.of("s"))
			assert.Equal(t, before, asked, "the policy")
			assert.Equal(t, told, classified.calls, "the classifier")
			require.Len(t, seen, 2)
			for _, err := range seen {
				recorded := asError[*journal.RecordedError](t, err)
				assert.NotEmpty(t, recorded.TypePath)
				assert.Contains(t, recorded.Error(), failure.Error())
				if _, is := errors.AsType[*responseError](failure); is {
					odd := asError[*responseError](t, err)
					assert.Equal(t, 503, odd.Code)
					assert.Nil(t, odd.Response)
				}
			}
		})
	}
}

// classifying counts how often it is asked.
type classifying struct{ calls int }

func (c *classifying) Classify(err error) classifier.Classification {
	c.calls++
	return classifier.Default().Classify(err)
}
