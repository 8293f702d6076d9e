package main

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/task"
)

// item is one thing that has happened in a run. The strings of Kind and State are stable: scripts read them.
type item struct {
	// Seq is the number of the first event that tells of it.
	Seq   int64    `json:"seq"`
	Kind  itemKind `json:"kind"`
	Scope string   `json:"scope,omitempty"`
	Name  string   `json:"name,omitempty"`
	N     int      `json:"n,omitempty"`
	State string   `json:"state,omitempty"`
	// Begun is when it began, as far as that can be told; Took is how long it took, Attempts in how many attempts.
	Begun    time.Time     `json:"begun"`
	Took     time.Duration `json:"took_ns,omitempty"`
	Attempts int           `json:"attempts,omitempty"`
	// Fanned is true of a task of a fan-out: N is its index.
	Fanned bool `json:"fanned,omitempty"`
	// Copied is true of what happened in another run, and was copied from it.
	Copied bool `json:"copied,omitempty"`
	// Continued is true of what began before the run was suspended or requeued last.
	Continued bool `json:"continued,omitempty"`
	// Caught is true of a task whose Catch handler was called.
	Caught   bool      `json:"caught,omitempty"`
	Failures []failure `json:"failures,omitempty"`
	// Next are the tasks that follow on a super-step.
	Next []planned `json:"next,omitempty"`
	// Due is when a wait ends, Waits what a suspended run waits for.
	Due   time.Time      `json:"due,omitzero"`
	Waits []durable.Wait `json:"waits,omitempty"`
	// Question is the id of what is asked, Child that of a run that was started, Reason why a run was requeued or cancelled or an
	// update or query has no result, or by whom the run was taken.
	Question string `json:"question,omitempty"`
	Child    string `json:"child,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// Totals and Unfired are what the last event of a graph's run says of it.
	Totals  *task.Totals   `json:"totals,omitempty"`
	Unfired []task.Unfired `json:"unfired,omitempty"`
	Items   []*item        `json:"items,omitempty"`

	asked *question
	outer *item     // the one it stands in
	last  time.Time // when what is recorded of it and inside it was written last
}

// until makes an item, and those around it, last until t.
func (it *item) until(t time.Time) {
	for ; it != nil && it.last.Before(t); it = it.outer {
		it.last = t
	}
}

// since makes an item, and those around it, begin no later than t.
func (it *item) since(t time.Time) {
	for ; it != nil && t.Before(it.Begun); it = it.outer {
		it.Begun = t
	}
}

type itemKind string

// The kinds of items: of the run itself, of places in it, and of durable calls.
const (
	runItem       itemKind = "run"
	superStepItem itemKind = "super_step"
	taskItem      itemKind = "task"
	branchItem    itemKind = "branch"
	catchItem     itemKind = "catch"
	placeItem     itemKind = "place" // a scope of a form that is not known here
	stepItem      itemKind = "step"
	onceItem      itemKind = "once"
	sleepItem     itemKind = "sleep"
	signalItem    itemKind = "signal"
	questionItem  itemKind = "question"
	childItem     itemKind = "child"
	gateItem      itemKind = "gate"
	awaitItem     itemKind = "await"
	updateItem    itemKind = "update"
	queryItem     itemKind = "query"
)

// States of super-steps, tasks and calls.
const (
	done    = "done"
	failed  = "failed"
	begun   = "begun"
	waiting = "waiting"
)

// failure is an error that is recorded.
type failure struct {
	durable.FailureMeta

	// Mark is "transient", "poison", "fatal", or empty.
	Mark string `json:"mark,omitempty"`
	// Cause is the type of the error that ours wraps; empty if the error is not one of ours.
	Cause string `json:"cause_type,omitempty"`
	// Message is the error's text; Encoded says that it cannot be read, since a codec has encoded it.
	Message string `json:"message,omitempty"`
	Encoded bool   `json:"encoded,omitempty"`
}

// planned is a task, or a fan-out with its items.
type planned struct {
	Node  string `json:"node"`
	Items int    `json:"items,omitempty"`
}

// question is a question that a run has asked.
type question struct {
	ID string `json:"id"`
	// Question is what is asked, Schema the schema of the answer, and Wants the same in words.
	Question json.RawMessage `json:"question,omitempty"`
	Schema   json.RawMessage `json:"schema,omitempty"`
	Wants    string          `json:"wants,omitempty"`
	// Encoded says that question and schema cannot be read, since a codec has encoded them.
	Encoded bool `json:"encoded,omitempty"`
	// State is "open", "sent" if there is an answer that the run has not taken yet, or "answered".
	State string `json:"state"`
}

// States of questions.
const (
	open     = "open"
	sent     = "sent"
	consumed = "answered"
)

// place names a durable call.
type place struct {
	scope, name string
	n           int
}

// timeline puts the events of a run together to what has happened.
type timeline struct {
	top       []*item
	questions []*question

	// scopes and calls are the items of this stretch: from one event of the run itself to the next.
	scopes map[string]*item
	calls  map[place]*item
	// What holds for all stretches: kinds of calls, scopes that were met, those with an outcome, questions, and what was planned last.
	kinds  map[place]itemKind
	met    map[string]bool
	done   map[string]bool
	asked  map[place]*question
	fans   map[string]bool // nodes of super-steps that are fanned out: "2/search"
	plan   []planned
	planAt int // the super-step that was planned

	taken    *taken
	outlook  outlook
	requeues map[string]int  // by reason
	encoded  bool            // the payloads are
	waited   map[string]bool // the names of the signals that were waited for
}

func newTimeline() *timeline {
	t := &timeline{
		kinds: map[place]itemKind{}, met: map[string]bool{}, done: map[string]bool{}, asked: map[place]*question{}, fans: map[string]bool{},
		taken: newTaken(), waited: map[string]bool{}, requeues: map[string]int{},
	}
	t.stretch()
	return t
}

func (t *timeline) stretch() { t.scopes, t.calls = map[string]*item{}, map[place]*item{} }

// add adds an event. What it cannot read of one it leaves out: the events themselves can be printed.
func (t *timeline) add(e journal.Event) {
	if e.Seq == t.taken.copied+1 {
		t.stretch() // from here on it is this run's own doing
	}
	t.taken.add(e)
	t.outlook = outlook{}
	t.outlook.last(e)
	switch e.Kind {
	case journal.RunStart, journal.RunSuspended, journal.RunRequeued, journal.RunTaken,
		journal.RunComplete, journal.RunError, journal.RunCancelled, journal.RunContinued:
		t.ofRun(e)
	case journal.SuperStepDone:
		t.barrier(e)
	case journal.UpdateDone, journal.UpdateError, journal.UpdateRejected, journal.QueryAnswered:
		t.guest(e)
	case journal.Checkpoint, journal.StepHandled, journal.StepReopened:
	case journal.CatchStart:
		if it := t.at(e.Scope, e); it != nil {
			it.Caught = true
		}
	default:
		if e.Name == "" {
			t.outcome(t.at(e.Scope, e), e)
		} else {
			t.call(e)
		}
	}
	t.scopes[e.Scope].until(e.Time)
}

// ofRun adds an event of the run itself.
func (t *timeline) ofRun(e journal.Event) {
	it := t.item(e, runItem)
	_, it.State, _ = strings.Cut(string(e.Kind), ":")
	it.Begun, it.Took = e.Time, 0 // how long the run was active is another matter
	switch e.Kind {
	case journal.RunStart:
		t.encoded = isEncoded(e.Payload)
	case journal.RunSuspended:
		var m durable.SuspendedMeta
		readMeta(e, &m)
		it.Waits = m.Waits
	case journal.RunRequeued:
		it.Reason = requeueReason(e)
		t.requeues[it.Reason]++
	case journal.RunTaken:
		var m struct {
			Owner string `json:"owner"`
		}
		readMeta(e, &m)
		it.Reason = m.Owner
	case journal.RunError:
		it.Failures = append(it.Failures, failureOf(e))
	case journal.RunCancelled:
		if json.Unmarshal(e.Payload, &it.Reason) != nil && len(e.Payload) > 0 {
			it.Reason = encoded
		}
	case journal.RunContinued:
		var m struct {
			Next string `json:"next"`
		}
		readMeta(e, &m)
		it.Child = m.Next
	}
	if e.Kind.Terminal() {
		var m struct {
			*task.Totals

			Unfired []task.Unfired `json:"unfired"`
		}
		readMeta(e, &m)
		it.Totals, it.Unfired = m.Totals, m.Unfired
	}
	t.top = append(t.top, it)
	t.stretch()
}

// encoded stands for what a codec has encoded.
const encoded = "(encoded)"

// item is a new item that an event begins.
func (t *timeline) item(e journal.Event, kind itemKind) *item {
	return &item{Seq: e.Seq, Kind: kind, Begun: e.Time.Add(-e.Took), Copied: e.Seq > 1 && e.Seq <= t.taken.copied}
}

// barrier adds the end of a super-step.
func (t *timeline) barrier(e journal.Event) {
	scope := strings.TrimSuffix(e.Scope, "/")
	it := t.at(stepPath(scope, e.N), e)
	it.State = done
	it.Took = e.Time.Sub(it.Begun)
	if it.Copied {
		it.Took = max(0, it.last.Sub(it.Begun)) // a fork's last barrier has the time at which it was made
	}
	t.scopes[scope].until(e.Time)
	var m struct {
		Next []struct {
			Node  string            `json:"node"`
			Items []json.RawMessage `json:"items"`
		} `json:"next"`
	}
	readMeta(e, &m)
	for _, p := range m.Next {
		it.Next = append(it.Next, planned{Node: p.Node, Items: len(p.Items)})
		if len(p.Items) > 0 {
			t.fans[stepPath(scope, e.N+1)+"/"+p.Node] = true
		}
	}
	if scope == "" {
		t.plan, t.planAt = it.Next, e.N+1
	}
}

// outcome adds how a task has ended.
func (t *timeline) outcome(it *item, e journal.Event) {
	if it == nil {
		return
	}
	it.Attempts, it.Took = max(it.Attempts, e.Attempts), max(it.Took, e.Took)
	it.since(e.Time.Add(-e.Took))
	it.State = done
	if e.Kind == journal.StepError {
		it.State = failed
		it.Failures = append(it.Failures, failureOf(e))
	}
	t.done[it.Scope] = e.Kind == journal.StepDone
}

func failureOf(e journal.Event) failure {
	m, err := durable.FailureOf(e)
	if err != nil {
		m = durable.FailureMeta{Class: "unknown"}
	}
	f := failure{FailureMeta: m}
	var rec journal.ErrorRecord
	if json.Unmarshal(e.Payload, &rec) == nil {
		f.Message, f.Mark, f.Cause = rec.Text, rec.Mark, causeOf(&rec)
	} else {
		f.Encoded = len(e.Payload) > 0
	}
	return f
}

// causeOf is the type of the first error that is not one of ours.
func causeOf(rec *journal.ErrorRecord) string {
	const ours = "*github.com/pawl-go/pawl/"
	was := rec
	for strings.HasPrefix(rec.Type, ours) && len(rec.Causes) > 0 && rec.Causes[0] != nil {
		rec = rec.Causes[0]
	}
	if rec == was {
		return ""
	}
	return rec.Type
}

// readMeta reads what it can of an event's Meta.
func readMeta(e journal.Event, v any) {
	if len(e.Meta) > 0 {
		_ = json.Unmarshal(e.Meta, v) // what does not fit stays zero
	}
}
