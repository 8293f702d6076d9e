package durable_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/journal/memory"
)

// A run that has ended meanwhile is left as it is: the late owner writes nothing, not even that it could not.
func TestALateWriteToAnEndedRunWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New()
		store := asleep{inner} // a process that hangs
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
			_, err := durable.Step(ctx, "s", func(ctx context.Context) (int, error) {
				time.Sleep(time.Hour)
				lease := hold(t, inner, "r") //nolint:contextcheck // it is the test's
				return 1, inner.Append(ctx, lease, journal.Append{
					After: lease.Head, Events: []journal.Event{{Kind: journal.RunComplete, Payload: mustJSON(7)}},
				})
			})
			return 0, err
		})
		_, err := durable.Run(t.Context(), store, wf, "r", 0)
		asError[*durable.RunLostError](t, err)
		assert.Equal(t, []string{"run:start", "run:complete"}, kinds(t, inner, "r"))
		out, err := durable.Run(t.Context(), inner, wf, "r", 0)
		require.NoError(t, err)
		assert.Equal(t, 7, out, "the other owner's result stands")
	})
}

// Behind a write of unknown outcome nothing is sent again: the attempt writes, if anything, that the run is to be taken up again, and
// the next one reads what there is.
func TestBehindAWriteOfUnknownOutcomeNothingIsSentAgain(t *testing.T) {
	inner, c := memory.New(), &counter{}
	store := journaltest.NewFaulty(inner)
	var sent []string
	store.OnWrite(func(w journaltest.Write) {
		for _, e := range w.Events {
			if w.Op == journaltest.OpAppend && w.When == journaltest.Before {
				sent = append(sent, fmt.Sprint(e.Kind, " ", e.Name))
			}
		}
	})
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		for _, name := range []string{"a", "b", "c"} {
			if name == "b" && c.of("b") == 0 {
				store.FailWrite(1, journaltest.After, journaltest.OpAppend) // it is written, and nobody hears of that
			}
			if _, err := counted(ctx, c, name, 1); err != nil {
				_, _ = counted(ctx, c, "swallowed", 1)
				return 0, err
			}
		}
		return 5, nil
	})
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.StoreUnavailableError](t, err)
	out, err := durable.Run(t.Context(), store, wf, "r", 0)
	require.NoError(t, err)
	assert.Equal(t, 5, out)
	assert.Equal(t, []string{"step:done a", "step:done b", "run:requeued ", "step:done c", "run:complete "}, sent)
	assert.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1}, c.calls)
}
