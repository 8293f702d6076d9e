package durable_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
)

// gated returns the code before a change, and behind it.
func gated(c *counter) (before, after *durable.Definition[int, string]) {
	tail := func(ctx context.Context, way string) (string, error) {
		if _, err := counted(ctx, c, way, 1); err != nil {
			return "", err
		}
		if err := suspend(ctx); err != nil {
			return "", err
		}
		_, err := counted(ctx, c, "end", 1)
		return way, err
	}
	before = durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
		if _, err := counted(ctx, c, "begin", 1); err != nil {
			return "", err
		}
		return tail(ctx, "mail")
	})
	after = durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
		if _, err := counted(ctx, c, "begin", 1); err != nil {
			return "", err
		}
		for range 2 { // the first answer holds
			fresh, err := durable.Gate(ctx, "queue")
			if err != nil {
				return "", err
			}
			if !fresh {
				return tail(ctx, "mail")
			}
		}
		return tail(ctx, "queue")
	})
	return before, after
}

func TestARunThatHasPassedAGateBeforeItWasThereGoesTheOldWay(t *testing.T) {
	store, c := memory.New(), &counter{}
	before, after := gated(c)
	_, err := durable.Run(t.Context(), store, before, "r", 0)
	asError[*durable.SuspendedError](t, err)
	_, err = durable.Run(t.Context(), store, after, "r", 0)
	asError[*durable.SuspendedError](t, err)
	release(t, store, "r")
	out, err := durable.Run(t.Context(), store, after, "r", 0)
	require.NoError(t, err)
	assert.Equal(t, "mail", out)
	assert.Equal(t, 1, c.of("mail"))
	assert.NotContains(t, kinds(t, store, "r"), "gate:set queue")
}

func TestARunThatReachesAGateFirstWithThisCodeGoesTheNewWay(t *testing.T) {
	store, c := memory.New(), &counter{}
	_, after := gated(c)
	_, err := durable.Run(t.Context(), store, after, "r", 0)
	asError[*durable.SuspendedError](t, err)
	release(t, store, "r")
	out, err := durable.Run(t.Context(), store, after, "r", 0)
	require.NoError(t, err)
	assert.Equal(t, "queue", out)
	assert.Equal(t, []string{"run:start", "step:done begin", "gate:set queue", "step:done queue"}, kinds(t, store, "r")[:4])
}

func TestAGateElsewhere(t *testing.T) {
	fresh, err := durable.Gate(t.Context(), "x")
	require.NoError(t, err)
	assert.True(t, fresh, "in a plain context")
	_, err = durable.Gate(t.Context(), "")
	asError[*durable.OptionError](t, err)
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (bool, error) {
		return durable.Step(ctx, "s", func(ctx context.Context) (bool, error) { return durable.Gate(ctx, "x") })
	})
	out, err := durable.Run(t.Context(), memory.New(), wf, "r", 0)
	require.NoError(t, err)
	assert.True(t, out, "inside a step")
}

func TestSetVersion(t *testing.T) {
	store := memory.New()
	wf := func(version string) *durable.Definition[int, string] {
		return durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
			return durable.Info(ctx).Version, suspend(ctx)
		}, durable.SetVersion(version))
	}
	_, err := durable.Run(t.Context(), store, wf("v1"), "r", 0)
	asError[*durable.SuspendedError](t, err)
	run, err := store.Load(t.Context(), "r")
	require.NoError(t, err)
	assert.Equal(t, "v1", run.Version)
	_, err = durable.Run(t.Context(), store, wf("v2"), "r", 0)
	assert.Equal(t, "version", asError[*durable.RunConflictError](t, err).What)
	assert.Equal(t, journal.Pending, status(t, store, "r"), "the run is left as it is")
	release(t, store, "r")
	out, err := durable.Run(t.Context(), store, wf("v2"), "r", 0, durable.AnyVersion())
	require.NoError(t, err)
	assert.Equal(t, "v1", out)
	_, err = durable.Run(t.Context(), store, wf("v3"), "r", 0)
	require.NoError(t, err, "a recorded result is anybody's")
	assert.Equal(t, "v3", wf("v3").Version())
}
