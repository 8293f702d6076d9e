package task

import (
	"strconv"
	"time"
)

// Kind names a kind of event. The strings are stable.
type Kind string

// The kinds of events, in the order in which a run can first show them.
const (
	KindRunStarted         Kind = "run_started"
	KindSuperStepStarted   Kind = "super_step_started"
	KindTaskStarted        Kind = "task_started"
	KindAttemptStarted     Kind = "attempt_started"
	KindTokenDelta         Kind = "token_delta"
	KindCustom             Kind = "custom"
	KindAttemptFailed      Kind = "attempt_failed"
	KindAttemptDiscarded   Kind = "attempt_discarded"
	KindTaskCompleted      Kind = "task_completed"
	KindTaskSuspended      Kind = "task_suspended"
	KindTaskAbandoned      Kind = "task_abandoned"
	KindTaskFailed         Kind = "task_failed"
	KindSuperStepCompleted Kind = "super_step_completed"
	KindJoinUnfired        Kind = "join_unfired"
	KindRunCompleted       Kind = "run_completed"
	KindRunSuspended       Kind = "run_suspended"
	KindRunFailed          Kind = "run_failed"
	KindRunCancelled       Kind = "run_cancelled"
)

// Event is something that happened in a run: a pointer to one of this package's event types. Events of one run come one
// at a time, in an order that does not change between observers and stream. An event must not be modified.
type Event interface {
	// Head returns what all events share.
	Head() *Header
	kind() Kind
}

// Header is what all events share. The executor fills it.
type Header struct {
	Kind  Kind      `json:"kind"`
	RunID string    `json:"run_id"`
	Time  time.Time `json:"time"`
	// Scope names the subgraph instance the event belongs to, as Task.Scope does; empty in the run's own graph.
	Scope string `json:"scope,omitempty"`
	// Node is the path of the node, empty for events of the whole run. For a super-step event it is the path of the
	// subgraph's task, empty in the run's own graph.
	Node      string `json:"node,omitempty"`
	SuperStep int    `json:"super_step,omitempty"` // from 1; 0 for events of the whole run
	Index     int    `json:"index,omitempty"`      // place in the fan-out
	FannedOut bool   `json:"fanned_out,omitempty"` // whether the node is fanned out, so that Index 0 means the first
	Attempt   int    `json:"attempt,omitempty"`    // from 1; 0 where no attempt is meant
}

// Task names the task in one word: "draft", or "search[3]" for one of a fan-out. It is empty for events of the whole run.
func (h *Header) Task() string {
	if !h.FannedOut {
		return h.Node
	}
	return h.Node + "[" + strconv.Itoa(h.Index) + "]"
}

// Head returns the header itself, so that every type that embeds a Header has the method.
func (h *Header) Head() *Header { return h }

// Stamp is for executors: it fills the header of an event, its kind included.
func Stamp(ev Event, h Header) {
	h.Kind = ev.kind()
	*ev.Head() = h
}

// RunStarted is the first event of a run.
type RunStarted struct {
	Header
	Graph       string `json:"graph"`
	Resumed     bool   `json:"resumed,omitempty"` // it had been begun before
	Fingerprint string `json:"fingerprint"`
}

// RunCompleted is the last event of a run that succeeded.
type RunCompleted[S any] struct {
	Header
	Totals
	State   S         `json:"state"`
	Unfired []Unfired `json:"unfired,omitempty"`
}

// Totals is what a run has come to, however it ended.
type Totals struct {
	// SuperSteps is how many super-steps are part of the state.
	SuperSteps int `json:"super_steps"`
	// Usage is what the run's model calls used, those of failed attempts included.
	Usage Usage `json:"usage"`
	// Abandoned is how many calls ignored the end of their context and were left behind.
	Abandoned int `json:"abandoned,omitempty"`
}

// RunFailed is the last event of a run that failed.
type RunFailed struct {
	Header
	Totals
	Failure
}

// RunCancelled is the last event of a run that was stopped from outside. It says nothing of the work itself.
type RunCancelled struct {
	Header
	Totals
	Failure
}

// RunSuspended is the last event of a run that waits and has let go of everything meanwhile. It goes on under the same id.
type RunSuspended struct {
	Header
	Totals
	// Questions are the ids of the questions that wait for an answer, Signals the names of the signals that are waited for.
	Questions []string `json:"questions,omitempty"`
	Signals   []string `json:"signals,omitempty"`
	// Due is when the run can go on by itself; zero if it cannot.
	Due time.Time `json:"due,omitzero"`
}

// Failure is what an event says of an error.
type Failure struct {
	Class string `json:"class"` // a classifier.RunErrorClass
	Text  string `json:"error"`
	Err   error  `json:"-"`
}

// SuperStepStarted comes before the first task of a super-step.
type SuperStepStarted struct {
	Header
	Tasks int `json:"tasks"`
}

// SuperStepCompleted comes when the updates of a super-step are part of the state. A super-step that fails has none.
type SuperStepCompleted struct {
	Header
}

// TaskStarted comes before the first attempt of a task. Each has one TaskCompleted, TaskFailed or TaskSuspended.
type TaskStarted struct {
	Header
}

// TaskCompleted says that a task's update was accepted. The header's Attempt is the one that gave it.
type TaskCompleted struct {
	Header
	// Usage is what that attempt used.
	Usage Usage `json:"usage"`
}

// TaskFailed says that a task has failed for good, or was stopped with its run. The header's Attempt is the last one.
type TaskFailed struct {
	Header
	Failure
}

// TaskSuspended says that a task waits for an answer, a signal or a time. Its node runs again from the top once that is
// there, so what its attempt streamed must be forgotten. Other tasks of its super-step go on.
type TaskSuspended struct {
	Header
}

// TaskAbandoned says that an attempt ignored the end of its context past the grace period. It may still be running;
// whatever it does is ignored.
type TaskAbandoned struct {
	Header
}

// AttemptStarted comes before each attempt.
type AttemptStarted struct {
	Header
	// Handler is true for the call of a Catch handler.
	Handler bool `json:"handler,omitempty"`
}

// AttemptFailed says why an attempt failed and what follows.
type AttemptFailed struct {
	Header
	Failure
	// Delay is the wait before the next attempt; it means nothing if Final.
	Delay time.Duration `json:"delay_ns"`
	// Hint is the least wait the server asked for; 0 if it asked for none.
	Hint time.Duration `json:"hint_ns,omitempty"`
	// Final is true if no further attempt follows.
	Final bool `json:"final"`
	// Reason says why no further attempt follows.
	Reason string `json:"reason,omitempty"`
	// Usage is what the attempt used.
	Usage Usage `json:"usage"`
}

// AttemptDiscarded says that whatever an attempt streamed must be forgotten. It comes after each failed attempt, before
// the next one starts.
type AttemptDiscarded struct {
	Header
}

// TokenDelta is a piece of a model's answer.
type TokenDelta struct {
	Header
	// Text is what the answer grew by.
	Text string `json:"text"`
	// Choice is the index of the answer, for requests that ask for several.
	Choice int `json:"choice,omitempty"`
	// Provider names who gave it, if known.
	Provider string `json:"provider,omitempty"`
}

// Custom carries a value of the user's own, sent with Emit.
type Custom struct {
	Header
	Value any `json:"value"`
}

// JoinUnfired comes at the end of a run for each join that did not fire, or that held arrivals when the run ended.
type JoinUnfired struct {
	Header
	Unfired
}

// Unfired is a join that did not fire, or a node that was never reached.
type Unfired struct {
	// Target is the join's target, or the node.
	Target string `json:"target"`
	// Join is true for a join.
	Join bool `json:"join,omitempty"`
	// Arrived and Missing split the sources of a join.
	Arrived []string `json:"arrived,omitempty"`
	Missing []string `json:"missing,omitempty"`
}

func (*RunStarted) kind() Kind         { return KindRunStarted }
func (*RunCompleted[S]) kind() Kind    { return KindRunCompleted }
func (*RunFailed) kind() Kind          { return KindRunFailed }
func (*RunCancelled) kind() Kind       { return KindRunCancelled }
func (*SuperStepStarted) kind() Kind   { return KindSuperStepStarted }
func (*SuperStepCompleted) kind() Kind { return KindSuperStepCompleted }
func (*TaskStarted) kind() Kind        { return KindTaskStarted }
func (*TaskCompleted) kind() Kind      { return KindTaskCompleted }
func (*TaskFailed) kind() Kind         { return KindTaskFailed }
func (*TaskSuspended) kind() Kind      { return KindTaskSuspended }
func (*RunSuspended) kind() Kind       { return KindRunSuspended }
func (*TaskAbandoned) kind() Kind      { return KindTaskAbandoned }
func (*AttemptStarted) kind() Kind     { return KindAttemptStarted }
func (*AttemptFailed) kind() Kind      { return KindAttemptFailed }
func (*AttemptDiscarded) kind() Kind   { return KindAttemptDiscarded }
func (*TokenDelta) kind() Kind         { return KindTokenDelta }
func (*Custom) kind() Kind             { return KindCustom }
func (*JoinUnfired) kind() Kind        { return KindJoinUnfired }
