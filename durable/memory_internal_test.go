package durable

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
)

// A workflow holds nothing of what it has recorded or met again, so that it may make any number of calls.
func TestAWorkflowLetsGoOfWhatItHasRecorded(t *testing.T) {
	const calls = 50
	store := memory.New()
	boom := errors.New("boom")
	var x *Execution
	wf := Workflow("w", func(ctx context.Context, _ int) (int, error) {
		s, _ := scopeOf(ctx)
		x = s.x
		for i := range calls {
			_, err := Step(ctx, "fails", func(context.Context) (int, error) { return 0, boom })
			if err == nil {
				return 0, errors.New("another way")
			}
			err = Branch(ctx, fmt.Sprint(i), func(ctx context.Context) error {
				_, err := Step(ctx, "s", func(context.Context) (string, error) { return "large", nil })
				return err
			})
			if err != nil {
				return 0, err
			}
		}
		for _, e := range s.record {
			assert.True(t, !e.met || len(e.events) == 0)
		}
		assert.Empty(t, x.record.scopes)
		assert.Eventually(t, func() bool { // failures that nobody has any more
			runtime.GC()
			x.mu.Lock()
			defer x.mu.Unlock()
			return len(x.failures) < calls
		}, 10*time.Second, time.Millisecond)
		_, err := WaitForSignal[bool](ctx, "go on")
		return 0, err
	})
	_, err := Run(t.Context(), store, wf, "r", 0)
	var waits *SuspendedError
	require.ErrorAs(t, err, &waits)
	require.NoError(t, Signal(t.Context(), store, "r", "go on", true))
	_, err = Run(t.Context(), store, wf, "r", 0)
	require.NoError(t, err)
	run, err := store.Load(t.Context(), "r")
	require.NoError(t, err)
	assert.Equal(t, journal.Completed, run.Status)
}
