package journal

import (
	"encoding/json"
	"slices"
	"time"
)

// Event is one entry of a run's journal.
type Event struct {
	// Seq is the event's number in its run, from 1. Create and Append assign it.
	Seq  int64 `json:"seq"`
	Kind Kind  `json:"kind"`
	// Scope says where in the run the event belongs: empty for a workflow's body and a run's own graph, else a path such
	// as "3/search[2]" for a task.
	Scope string `json:"scope,omitempty"`
	// Name and N say which step of the scope it is: the N-th use of the name, from 1. For a superstep:done, N is the
	// number of the super-step. Empty and 0 where no step is meant.
	Name string `json:"name,omitempty"`
	N    int    `json:"n,omitempty"`
	// Time is when the owner wrote the event, to the microsecond, in UTC. Took is how long what it records took, and
	// Attempts how many attempts it was; 0 where that has no meaning.
	Time     time.Time     `json:"time"`
	Took     time.Duration `json:"took_ns,omitempty"`
	Attempts int           `json:"attempts,omitempty"`
	// Meta is what anybody may read of the event, as a JSON object; nil for none. It has no value of the user's.
	Meta json.RawMessage `json:"meta,omitempty"`
	// Payload is what the user's code gave or gets, as the owner's Codec has written it; nil for none.
	Payload []byte `json:"payload,omitempty"`
}

// Kind names a kind of event. The strings are stable: they are stored.
type Kind string

// The kinds of events. Those of a run, a step and a super-step have the names of Pyrula's journal.
const (
	RunStart     Kind = "run:start"     // the first event of every run
	RunSuspended Kind = "run:suspended" // the run waits for a message or a time
	RunRequeued  Kind = "run:requeued"  // the attempt was given up; another is to follow
	RunTaken     Kind = "run:taken"     // a worker goes on with a run whose owner was lost
	RunComplete  Kind = "run:complete"  // terminal: the result
	RunError     Kind = "run:error"     // terminal: the failure
	RunCancelled Kind = "run:cancelled" // terminal: cancelled by somebody
	RunContinued Kind = "run:continued" // terminal: goes on as a new run

	StepDone    Kind = "step:done"    // the result of a step or task
	StepError   Kind = "step:error"   // its failure, after all attempts
	StepHandled Kind = "step:handled" // the failure that its scope ends with was handled by the code around the scope
	// StepReopened says that an attempt has failed with this step's failure: it was not handled, whatever is behind it.
	StepReopened Kind = "step:reopened"
	StepIntent   Kind = "step:intent" // a step that is done at most once is about to start
	CatchStart   Kind = "catch:start" // a Catch handler takes over the failure before it

	SuperStepDone Kind = "superstep:done" // the barrier: which tasks are next
	Checkpoint    Kind = "checkpoint"     // the state whole, so that older events need not be read

	TimerSet         Kind = "timer:set"         // a sleep, and when it ends
	SignalWait       Kind = "signal:wait"       // somebody waits for a signal, and until when
	SignalReceived   Kind = "signal:received"   // a signal was consumed
	SignalTimeout    Kind = "signal:timeout"    // none came in time
	QuestionAsked    Kind = "question:asked"    // a person is asked
	QuestionAnswered Kind = "question:answered" // and the answer was consumed
	ChildStart       Kind = "child:start"       // another run was started
	GateSet          Kind = "gate:set"          // which way a version gate went
	UpdateDone       Kind = "update:done"       // the result of an update, which has changed the run
	UpdateError      Kind = "update:error"      // its handler has failed
	UpdateRejected   Kind = "update:rejected"   // its validator has refused it, or nothing takes it; the run is as it was
	QueryAnswered    Kind = "query:answered"    // the answer to a query, or the failure
)

// Terminal reports whether nothing may stand behind an event of this kind.
func (k Kind) Terminal() bool { return k.status().Terminal() }

// status is what a run is after an event of this kind; empty if that does not change.
func (k Kind) status() Status {
	switch k {
	case RunStart:
		return Pending
	case RunSuspended:
		return Suspended
	case RunRequeued:
		return Pending
	case RunTaken:
		return Running
	case RunComplete:
		return Completed
	case RunError:
		return Failed
	case RunCancelled:
		return Cancelled
	case RunContinued:
		return Continued
	}
	return ""
}

// StatusAfter is for stores: what a run is after these events; empty if they do not change it.
func StatusAfter(events []Event) Status {
	for i := range slices.Backward(events) {
		if s := events[i].Kind.status(); s != "" {
			return s
		}
	}
	return ""
}

// CheckpointIn is for stores: the index of the last checkpoint among events, -1 if there is none.
func CheckpointIn(events []Event) int {
	for i := range slices.Backward(events) {
		if events[i].Kind == Checkpoint {
			return i
		}
	}
	return -1
}
