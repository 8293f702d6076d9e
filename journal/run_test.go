package journal_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

func TestFourStatusesAreTerminal(t *testing.T) {
	for status, terminal := range map[journal.Status]bool{
		journal.Pending: false, journal.Running: false, journal.Suspended: false, "": false, "of another release": false,
		journal.Completed: true, journal.Failed: true, journal.Cancelled: true, journal.Continued: true,
	} {
		assert.Equal(t, terminal, status.Terminal(), status)
	}
}

func TestTheWordsThatAreStoredAreStable(t *testing.T) {
	assert.Equal(t, []journal.Status{"pending", "running", "suspended", "completed", "failed", "cancelled", "continued"}, []journal.Status{
		journal.Pending, journal.Running, journal.Suspended, journal.Completed, journal.Failed, journal.Cancelled, journal.Continued,
	})
	assert.Equal(t, []journal.LinkKind{"retry", "fork", "turn", "child", "continued"}, []journal.LinkKind{
		journal.RetryOf, journal.ForkOf, journal.TurnAfter, journal.ChildOf, journal.Continuation,
	})
	assert.Equal(t, []journal.RunKind{"graph", "workflow"}, []journal.RunKind{journal.GraphRun, journal.WorkflowRun})
	assert.Equal(t, []journal.MessageKind{"signal", "answer", "cancel"}, []journal.MessageKind{
		journal.SignalMessage, journal.AnswerMessage, journal.CancelMessage,
	})
	assert.Equal(t, []journal.Kind{
		"run:start", "run:suspended", "run:requeued", "run:complete", "run:error", "run:cancelled", "run:continued",
		"step:done", "step:error", "step:handled", "step:reopened", "step:intent", "catch:start", "superstep:done", "checkpoint",
		"timer:set", "signal:wait", "signal:received", "signal:timeout", "question:asked", "question:answered", "child:start", "gate:set",
	}, []journal.Kind{
		journal.RunStart, journal.RunSuspended, journal.RunRequeued, journal.RunComplete, journal.RunError, journal.RunCancelled,
		journal.RunContinued, journal.StepDone, journal.StepError, journal.StepHandled, journal.StepReopened, journal.StepIntent,
		journal.CatchStart, journal.SuperStepDone, journal.Checkpoint, journal.TimerSet, journal.SignalWait, journal.SignalReceived,
		journal.SignalTimeout, journal.QuestionAsked, journal.QuestionAnswered, journal.ChildStart, journal.GateSet,
	})
}

func TestARecordsJSONLeavesOutWhatIsNotThere(t *testing.T) {
	at := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	least := journal.Run{ID: "r", Kind: journal.GraphRun, Name: "research", Status: journal.Pending, Created: at, Updated: at, Head: 1}
	row, err := json.Marshal(least)
	require.NoError(t, err)
	assert.JSONEq(t, `{"id":"r","kind":"graph","name":"research","status":"pending","created":"2026-06-01T12:00:00Z",`+
		`"updated":"2026-06-01T12:00:00Z","head":1}`, string(row))

	full := least
	full.Version, full.Fingerprint, full.Thread = "v", "f", "t"
	full.Link = journal.Link{Kind: journal.ForkOf, Run: "p", SuperStep: 3}
	full.Due, full.Until, full.Owner, full.Checkpoint = at, at, "o", 1
	row, err = json.Marshal(full)
	require.NoError(t, err)
	assert.Contains(t, string(row), `"link":{"kind":"fork","run":"p","super_step":3}`)
	var back journal.Run
	require.NoError(t, json.Unmarshal(row, &back))
	assert.Equal(t, full, back)
}
