package superstep_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/superstep"
)

// handled is a node that fails, with a handler: what both do is counted, and the handler's middle is fn.
func handled(tb testing.TB, c *meter, fn func(ctx context.Context) error) *graph.Graph[st, up] {
	tb.Helper()
	return build(tb, func(b *bld) {
		a := b.Node("a", counted(c, "a", fails(&codedError{Status: 503})), graph.Retry(policyNow(3)))
		b.Catch(a, func(ctx context.Context, _ st, failed error) (up, error) {
			c.hit("handler")
			var node *superstep.NodeError
			if !errors.As(failed, &node) || node.Attempts != 3 || !errors.As(failed, new(*codedError)) {
				return up{}, failed
			}
			word, err := durable.Step(ctx, "word", func(context.Context) (string, error) { c.hit("word"); return "handled", nil })
			if err == nil {
				err = fn(ctx)
			}
			return up{Log: []string{word}}, err
		})
		b.Start(a)
	})
}

// A run that stopped inside a Catch handler goes on at the handler, which sees the same typed error and finds its own steps recorded. The
// node, whose attempts are used up, is not called again.
func TestJournal_AStopInsideACatchHandlerGoesOnAtTheHandler(t *testing.T) {
	c, store := newMeter(), newStore()
	ctx, cancel := context.WithCancel(t.Context())
	g := handled(t, c, func(inner context.Context) error {
		cancel() // the first time
		return inner.Err()
	})
	_, err := runner(t, g, stored(store)).Run(ctx, st{}, in("r"))
	require.ErrorAs(t, err, new(*superstep.CancelledError))
	require.Equal(t, []journal.Kind{journal.RunStart, journal.StepError, journal.CatchStart, journal.StepDone}, kindsOf(t, store, "r"))
	res, err := runner(t, g, stored(store)).Run(t.Context(), st{}, in("r"))
	require.NoError(t, err)
	require.Equal(t, []string{"handled"}, res.State.Log)
	require.Equal(t, map[string]int{"a": 3, "handler": 2, "word": 1}, c.all())
	for range 2 { // a handler that has run is not run again
		again, err := runner(t, g, stored(store)).Resume(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, res, again)
	}
	require.Equal(t, 2, c.all()["handler"])
}

// So does one whose handler asks a person.
func TestJournal_ACatchHandlerMayAsk(t *testing.T) {
	c, store := newMeter(), newStore()
	g := handled(t, c, func(ctx context.Context) error {
		_, err := durable.Interrupt[string](ctx, "what now?")
		return err
	})
	r := runner(t, g, stored(store))
	_, err := r.Run(t.Context(), st{}, in("r"))
	require.NoError(t, r.Answer(t.Context(), "r", questionsOf(t, err)[0], "go on"))
	res, err := r.Resume(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, []string{"handled"}, res.State.Log)
	require.Equal(t, map[string]int{"a": 3, "handler": 2, "word": 1}, c.all())
}
