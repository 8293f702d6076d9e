package durable_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal/memory"
)

// Code that runs again from its top finds each answer by the position of its question, and its steps recorded.
func TestAnswersAreFoundByThePositionOfTheirQuestions(t *testing.T) {
	store, c := memory.New(), &counter{}
	wf := durable.Workflow("w", func(ctx context.Context, _ int) ([]string, error) {
		var out []string
		for i := range 3 {
			word, err := durable.Interrupt[string](ctx, "the same question")
			if err != nil {
				return nil, err
			}
			if _, err := counted(ctx, c, "s", i); err != nil {
				return nil, err
			}
			out = append(out, word)
		}
		return out, nil
	})
	for i, word := range []string{"one", "two", "three"} {
		_, err := durable.Run(t.Context(), store, wf, "r", 0)
		ids := asError[*durable.SuspendedError](t, err).Questions()
		require.Equal(t, []string{[]string{"ask1", "ask2", "ask3"}[i]}, ids)
		assert.Equal(t, i, c.of("s"))
		require.NoError(t, durable.Answer(t.Context(), store, "r", ids[0], word))
	}
	out, err := durable.Run(t.Context(), store, wf, "r", 0)
	require.NoError(t, err)
	assert.Equal(t, []string{"one", "two", "three"}, out)
	assert.Equal(t, 3, c.of("s"))
}

// A context of another run, whose code has returned, is of no use in this one, and neither journal hears of the call.
func TestADurableCallOnTheContextOfAnotherRun(t *testing.T) {
	store := memory.New()
	var left context.Context
	leaks := durable.Workflow("leaks", func(ctx context.Context, _ int) (int, error) {
		left = ctx //nolint:fatcontext // it is kept to be misused
		return 0, suspend(ctx)
	})
	_, err := durable.Run(t.Context(), store, leaks, "leaks", 0)
	asError[*durable.SuspendedError](t, err)
	before := kinds(t, store, "leaks")
	wf := durable.Workflow("w", func(context.Context, int) (int, error) {
		_, err := durable.Step(left, "s", func(context.Context) (int, error) { panic("called") })
		return 0, err
	})
	_, err = durable.Run(t.Context(), store, wf, "r", 0)
	assert.Equal(t, "leaks", asError[*durable.ScopeEndedError](t, err).RunID)
	assert.Equal(t, []string{"run:start", "run:error"}, kinds(t, store, "r"))
	assert.Equal(t, before, kinds(t, store, "leaks"))
}
