package durable_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

func TestErrorsNameWhatAndWhere(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		err  error
		says []string
	}{
		{&durable.SuspendedError{RunID: "r", Waits: []durable.Wait{
			{Question: "ask1"}, {Signal: "s"}, {Child: "c"},
		}}, []string{`"r"`, `question "ask1"`, `signal "s"`, `child run "c"`}},
		{&durable.RunLockedError{RunID: "r", Owner: "o", Until: at}, []string{`"r"`, `"o"`, "2026-01-02T03:04:05Z"}},
		{&durable.RunConflictError{RunID: "r", What: "input", Detail: "d"}, []string{`"r"`, "another input", "d"}},
		{&durable.EndedError{Run: journal.Run{ID: "r", Status: journal.Failed}}, []string{`"r"`, "failed"}},
		{&durable.StoreUnavailableError{RunID: "r", Err: errBoom}, []string{`"r"`, "boom", "again"}},
		{&durable.StoreError{RunID: "r", Err: errBoom}, []string{`"r"`, "boom"}},
		{&durable.RunLostError{RunID: "r", Err: errBoom}, []string{`"r"`, "boom"}},
		{&durable.RunCancelledError{RunID: "r", Reason: "why"}, []string{`"r"`, "why"}},
		{&durable.NonDeterminismError{RunID: "r", Scope: "b#1", Seq: 4, Recorded: "X", Met: "Y"}, []string{`"r"`, `"b#1"`, "4", "X", "Y"}},
		{&durable.ReplayError{RunID: "r", Seq: 4, Err: errBoom}, []string{`"r"`, "event 4", "boom"}},
		{&durable.OverlapError{RunID: "r", Scope: "s", Name: "n", Other: "o"}, []string{`"r"`, `"s"`, `"n"`, `"o"`, "durable.Branch"}},
		{&durable.OverlapError{RunID: "r", Name: "n", Other: "n", Branches: true}, []string{`"r"`, `branches named "n"`, "a name of its own"}},
		{&durable.ScopeEndedError{RunID: "r", Scope: "s"}, []string{`"r"`, `"s"`}},
		{&durable.AbandonedError{RunID: "r", Scope: "s"}, []string{`"r"`, `"s"`}},
		{&durable.PlacementError{Call: "Once", Why: "why"}, []string{"durable.Once", "why"}},
		{&durable.OutcomeUnknownError{RunID: "r", Name: "n", Reason: "why"}, []string{`"r"`, `"n"`, "why"}},
		{&durable.OptionError{Call: "Step", Name: "n", Err: errBoom}, []string{"durable.Step", `"n"`, "boom"}},
		{&durable.SignalTimeoutError{RunID: "r", Name: "n", After: time.Second}, []string{`"r"`, `"n"`, "1s"}},
		{&durable.SignalTypeError{RunID: "r", Name: "n", Err: errBoom}, []string{`"r"`, `"n"`, "boom"}},
		{&durable.NoJournalError{Call: "Interrupt"}, []string{"durable.Interrupt", "Store"}},
		{&durable.AnswerError{RunID: "r", Question: "q", Reason: durable.NotAsked, Err: errBoom}, []string{`"r"`, `"q"`, "not asked", "boom", "Questions"}},
		{&durable.ChildWorkflowError{RunID: "r", Name: "n", Code: durable.CodePoison, Err: errBoom}, []string{`"r"`, `"n"`, "poison", "boom"}},
		{&durable.ContinuationChainError{RunID: "r", Next: "r~2", Reason: durable.ChainMissing}, []string{`"r"`, `"r~2"`, "missing"}},
		{&durable.RetryError{RunID: "r", Code: durable.RetryCancelled, Status: journal.Cancelled}, []string{`"r"`, "retry_cancelled"}},
		{&durable.RunStoppedError{RunID: "r", Cause: errBoom}, []string{`"r"`, "boom", "again"}},
		{&durable.RunFailedError{RunID: "r", Code: durable.CodeFatal, Err: errBoom}, []string{`"r"`, "fatal", "boom"}},
	} {
		t.Run(strings.TrimPrefix(fmt.Sprintf("%T", tt.err), "*durable."), func(t *testing.T) {
			assert.True(t, strings.HasPrefix(tt.err.Error(), "pawl: "), tt.err.Error())
			for _, part := range tt.says {
				assert.Contains(t, tt.err.Error(), part)
			}
		})
	}
}

// What an error is to a retry policy and to errors.Is.
func TestErrorsAreNotRetriedAndMatch(t *testing.T) {
	for _, err := range []interface {
		error
		Unretryable() bool
	}{
		&durable.SuspendedError{}, &durable.StoreUnavailableError{}, &durable.StoreError{}, &durable.RunLostError{},
		&durable.RunConflictError{}, &durable.RunLockedError{}, &durable.ScopeEndedError{}, &durable.EndedError{},
		&durable.RunStoppedError{}, &durable.RunCancelledError{}, &durable.NonDeterminismError{}, &durable.ReplayError{}, &durable.OverlapError{},
		&durable.AbandonedError{}, &durable.PlacementError{}, &durable.OutcomeUnknownError{}, &durable.OptionError{},
		&durable.SignalTimeoutError{}, &durable.SignalTypeError{}, &durable.NoJournalError{}, &durable.ChildWorkflowError{},
		&durable.ContinuationChainError{}, &durable.RunFailedError{},
	} {
		assert.True(t, err.Unretryable(), "%T", err)
	}
	for _, err := range []error{
		&durable.RunStoppedError{}, &durable.RunCancelledError{}, &durable.SuspendedError{},
	} {
		var classed classifier.Classed
		require.ErrorAs(t, err, &classed)
		assert.Equal(t, classifier.Canceled, classed.RunErrorClass(), "%T", err)
	}
	for err, target := range map[error]error{
		&durable.RunLostError{}:                                context.Canceled,
		&durable.RunCancelledError{}:                           context.Canceled,
		&durable.RunLockedError{}:                              journal.ErrLocked,
		&durable.EndedError{}:                                  journal.ErrEnded,
		&durable.ChildWorkflowError{Err: errBoom}:              errBoom,
		&durable.RunFailedError{Err: errBoom}:                  errBoom,
		&durable.SignalTypeError{Err: errBoom}:                 errBoom,
		&durable.AnswerError{Err: errBoom}:                     errBoom,
		&durable.StoreUnavailableError{Err: errBoom}:           errBoom,
		&durable.ReplayError{Err: errBoom}:                     errBoom,
		fmt.Errorf("x: %w", &durable.StoreError{Err: errBoom}): errBoom,
	} {
		assert.ErrorIs(t, err, target)
	}
	var timeout interface{ Timeout() bool }
	require.ErrorAs(t, &durable.SignalTimeoutError{}, &timeout)
	assert.True(t, timeout.Timeout())
	assert.NotErrorIs(t, &durable.RunStoppedError{Cause: errBoom}, errBoom)
	assert.NotErrorIs(t, &durable.RunLostError{}, errBoom)
}
