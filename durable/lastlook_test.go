package durable_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
)

// What comes while a run of a queue is about to be suspended must not be slept over: its code was past looking for it.
func TestAMessageThatComesBehindTheLastLookMakesTheRunDue(t *testing.T) {
	type message struct {
		kind journal.MessageKind
		name string
	}
	for name, tt := range map[string]struct {
		message message
		due     bool
	}{
		"nothing":            {message{}, false},
		"the signal":         {message{journal.SignalMessage, "release"}, true},
		"another signal":     {message{journal.SignalMessage, "other"}, false},
		"a known update":     {message{journal.UpdateMessage, "known"}, true},
		"an unknown update":  {message{journal.UpdateMessage, "unknown"}, false}, // is turned away at once
		"a query":            {message{journal.QueryMessage, "q"}, false},        // is answered at once
		"a cancelled child":  {message{journal.ChildMessage, "r-child#1"}, false},
		"a pause":            {message{journal.PauseMessage, ""}, false}, // that is how it is suspended
		"an answer":          {message{journal.AnswerMessage, "ask1"}, false},
		"an unpause of none": {message{journal.ResumeMessage, ""}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.New()
			wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
				err := durable.HandleUpdate(ctx, "known", func(context.Context, int) (int, error) { return 1, nil })
				if err != nil {
					return 0, err
				}
				err = suspend(ctx)
				if errors.As(err, new(*durable.SuspendedError)) && tt.message.kind != "" {
					post(t, store, "r", tt.message.kind, tt.message.name, 1) //nolint:contextcheck // it is the test's
					time.Sleep(time.Second)                                  // until the owner has heard of it
				}
				return 0, err
			})
			_, err := store.Create(t.Context(), journal.NewRun{
				Run:    journal.Run{ID: "r", Kind: journal.WorkflowRun, Name: "w", Queue: "q"},
				Events: []journal.Event{{Kind: journal.RunStart, Payload: []byte("0")}},
			})
			require.NoError(t, err)
			waits(t, store, wf, "r", 0)
			run, err := store.Load(t.Context(), "r")
			require.NoError(t, err)
			assert.Equal(t, tt.due, !run.Due.IsZero(), name)
		})
	}
}

// The same message is a reason to look once, not for ever.
func TestAMessageThatARunWithABranchDoesNotComeToIsLookedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := memory.New(), &counter{}
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
			err := durable.HandleUpdate(ctx, "known", func(context.Context, int) (int, error) { return 1, nil })
			if err != nil {
				return 0, err
			}
			err = durable.Branch(ctx, "b", suspend)
			if err != nil && c.add("suspended") == 1 {
				post(t, store, "r", journal.UpdateMessage, "known", 1) //nolint:contextcheck // it is the test's
				time.Sleep(time.Second)                                // until the owner has heard of it
			}
			return 0, err
		})
		_, err := store.Create(t.Context(), journal.NewRun{
			Run:    journal.Run{ID: "r", Kind: journal.WorkflowRun, Name: "w", Queue: "q"},
			Events: []journal.Event{{Kind: journal.RunStart, Payload: []byte("0")}},
		})
		require.NoError(t, err)
		for i, due := range []bool{true, false} {
			waits(t, store, wf, "r", 0)
			run, err := store.Load(t.Context(), "r")
			require.NoError(t, err)
			assert.Equal(t, due, !run.Due.IsZero(), "time %d", i+1)
		}
	})
}
