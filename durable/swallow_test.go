package durable_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
)

// Whatever a body makes of a suspension, the run is suspended: it stops at its next durable call, and what the body returns is not
// taken. Deferred code runs.
func TestNoSuspensionIsLostWhateverTheBodyMakesOfIt(t *testing.T) {
	child := durable.Workflow("child", func(ctx context.Context, _ int) (int, error) { return 0, suspend(ctx) })
	waits := map[string]func(ctx context.Context) error{
		"signal": suspend,
		"signal with a timeout": func(ctx context.Context) error {
			_, err := durable.WaitForSignal[int](ctx, "s", durable.WaitTimeout(time.Hour))
			return err
		},
		"question": func(ctx context.Context) error { _, err := durable.Interrupt[int](ctx, "?"); return err },
		"child":    func(ctx context.Context) error { _, err := durable.RunChild(ctx, child, 1); return err },
		"branch":   func(ctx context.Context) error { return durable.Branch(ctx, "b", suspend) },
	}
	bodies := map[string]func(ctx context.Context) (string, error){
		"returns a result": func(context.Context) (string, error) { return "swallowed", nil },
		"returns an error": func(context.Context) (string, error) { return "", errBoom },
		"panics":           func(context.Context) (string, error) { panic("ouch") },
		"goes on": func(ctx context.Context) (string, error) {
			_, err := durable.Step(ctx, "after", func(context.Context) (int, error) { panic("called") })
			return "", err
		},
		"waits for more": func(ctx context.Context) (string, error) {
			_, err := durable.Interrupt[int](ctx, "more?")
			return "", err
		},
		"continues": func(ctx context.Context) (string, error) { return "", durable.ContinueAsNew(ctx, 1) },
	}
	for wait, call := range waits {
		for name, body := range bodies {
			t.Run(wait+", "+name, func(t *testing.T) {
				store, c := memory.New(), &counter{}
				wf := durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
					defer c.add("deferred")
					if err := call(ctx); err == nil {
						c.add("no suspension")
					}
					return body(ctx)
				})
				_, err := durable.Run(t.Context(), store, wf, "r", 0)
				suspended := asError[*durable.SuspendedError](t, err)
				assert.Len(t, suspended.Waits, 1, "it asks for nothing more")
				assert.Equal(t, journal.Suspended, status(t, store, "r"))
				assert.Equal(t, map[string]int{"deferred": 1}, c.calls)
			})
		}
	}
}

// The suspension of another run, which a step meets, is nothing that another attempt of the step could help.
func TestASuspensionIsNoFailureToRetry(t *testing.T) {
	store, c := memory.New(), &counter{}
	inner := durable.Workflow("inner", func(ctx context.Context, _ int) (int, error) { return 0, suspend(ctx) })
	_, err := durable.Run(t.Context(), store, inner, "inner", 0)
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		return durable.Step(ctx, "s", func(context.Context) (int, error) { c.add("s"); return 0, err }, attempts(3))
	})
	_, err = durable.Run(t.Context(), store, wf, "r", 0)
	require.Error(t, err)
	assert.Equal(t, 1, c.of("s"))
}
