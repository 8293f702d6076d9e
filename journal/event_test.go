package journal_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

// statuses has all kinds of events, and what a run is after one.
var statuses = map[journal.Kind]journal.Status{
	journal.RunStart:     journal.Pending,
	journal.RunSuspended: journal.Suspended,
	journal.RunRequeued:  journal.Pending,
	journal.RunComplete:  journal.Completed,
	journal.RunError:     journal.Failed,
	journal.RunCancelled: journal.Cancelled,
	journal.RunContinued: journal.Continued,

	journal.StepDone: "", journal.StepError: "", journal.StepHandled: "", journal.StepReopened: "", journal.StepIntent: "", journal.CatchStart: "",
	journal.SuperStepDone: "", journal.Checkpoint: "", journal.TimerSet: "", journal.SignalWait: "", journal.SignalReceived: "",
	journal.SignalTimeout: "", journal.QuestionAsked: "", journal.QuestionAnswered: "", journal.ChildStart: "", journal.GateSet: "",
	"of another release": "",
}

func TestFourKindsOfEventsAreTerminal(t *testing.T) {
	terminal := 0
	for kind, status := range statuses {
		assert.Equal(t, status.Terminal(), kind.Terminal(), kind)
		if kind.Terminal() {
			terminal++
		}
	}
	assert.Equal(t, 4, terminal)
}

func TestTheLastEventOfARunTellsItsStatus(t *testing.T) {
	for kind, status := range statuses {
		assert.Equal(t, status, journal.StatusAfter([]journal.Event{{Kind: kind}}), kind)
		assert.Equal(t, status, journal.StatusAfter([]journal.Event{{Kind: kind}, {Kind: journal.StepDone}}), kind)
		if status != "" {
			assert.Equal(t, status, journal.StatusAfter([]journal.Event{{Kind: journal.RunStart}, {Kind: kind}}), kind)
		}
	}
	assert.Empty(t, journal.StatusAfter(nil))
}

func TestCheckpointInIsTheLastOne(t *testing.T) {
	step, point := journal.Event{Kind: journal.StepDone}, journal.Event{Kind: journal.Checkpoint}
	assert.Equal(t, -1, journal.CheckpointIn(nil))
	assert.Equal(t, -1, journal.CheckpointIn([]journal.Event{step, step}))
	assert.Equal(t, 0, journal.CheckpointIn([]journal.Event{point}))
	assert.Equal(t, 2, journal.CheckpointIn([]journal.Event{point, step, point, step}))
}

func TestAnEventsJSONIsStable(t *testing.T) {
	e := journal.Event{
		Seq: 7, Kind: journal.StepDone, Scope: "3/search[2]", Name: "pull", N: 2, Time: time.Date(2026, 6, 1, 12, 0, 0, 123456000, time.UTC),
		Took: time.Second, Attempts: 3, Meta: json.RawMessage(`{"class":"timeout"}`), Payload: []byte("x"),
	}
	row, err := json.Marshal(e)
	require.NoError(t, err)
	assert.JSONEq(t, `{"seq":7,"kind":"step:done","scope":"3/search[2]","name":"pull","n":2,"time":"2026-06-01T12:00:00.123456Z",`+
		`"took_ns":1000000000,"attempts":3,"meta":{"class":"timeout"},"payload":"eA=="}`, string(row))
	var back journal.Event
	require.NoError(t, json.Unmarshal(row, &back))
	assert.Equal(t, e, back)

	row, err = json.Marshal(journal.Event{Seq: 1, Kind: journal.RunStart})
	require.NoError(t, err)
	assert.JSONEq(t, `{"seq":1,"kind":"run:start","time":"0001-01-01T00:00:00Z"}`, string(row), "what has no meaning is left out")
}
