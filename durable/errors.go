package durable

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/journal"
)

var (
	errNoStart = errors.New("the first event is no run:start")
	errGap     = errors.New("an event is missing")
	// errNoCheckpoint is a fault of the run's record, or of the event that it points to.
	errNoCheckpoint = errors.New("the run's last checkpoint is not there")
)

// Wait is one thing that a suspended run waits for.
type Wait struct {
	// Scope says where: see journal.Event.
	Scope string `json:"scope,omitempty"`
	// Question is the id of a question that a person is to answer; Prompt is the question, as JSON.
	Question string `json:"question,omitempty"`
	Prompt   string `json:"-"`
	// Signal is the name of a signal.
	Signal string `json:"signal,omitempty"`
	// Child is the id of a run that is suspended itself.
	Child string `json:"child,omitempty"`
	// Await is true of a condition that Await waits for.
	Await bool `json:"await,omitempty"`
	// Paused is true of a run that Pause has stopped: it waits for Unpause, whatever else is there.
	Paused bool `json:"paused,omitempty"`
	// Due is when the wait ends whether anything has come or not; zero if it does not.
	Due time.Time `json:"due,omitzero"`
}

// SuspendedError says that a run waits and has let go of everything meanwhile: it goes on, under the same id, once what it
// waits for is there. Durable calls return it to the code that must stop, which returns it in turn. It is never retried.
type SuspendedError struct {
	RunID string
	// Waits are what the run waits for, in no particular order.
	Waits []Wait
	// Due is the earliest time at which the run can go on by itself; zero if it cannot.
	Due time.Time
}

// Error names what is waited for.
func (e *SuspendedError) Error() string {
	var parts []string
	for _, w := range e.Waits {
		switch {
		case w.Question != "":
			parts = append(parts, fmt.Sprintf("an answer to question %q", w.Question))
		case w.Signal != "":
			parts = append(parts, fmt.Sprintf("signal %q", w.Signal))
		case w.Paused:
			parts = append(parts, "durable.Unpause, since it is paused")
		case w.Await:
			parts = append(parts, "an update that makes its condition true")
		case w.Child != "":
			parts = append(parts, fmt.Sprintf("child run %q", w.Child))
		default:
			parts = append(parts, "its timer at "+w.Due.Format(time.RFC3339))
		}
	}
	return fmt.Sprintf("pawl: run %q is suspended; it waits for %s: run it again with the same id when that is there",
		e.RunID, strings.Join(parts, ", "))
}

// Unretryable is true: nothing has failed.
func (e *SuspendedError) Unretryable() bool { return true }

// RunErrorClass returns the class canceled: nothing has failed.
func (e *SuspendedError) RunErrorClass() classifier.RunErrorClass { return classifier.Canceled }

// Questions are the ids of the questions among the waits.
func (e *SuspendedError) Questions() []string {
	var ids []string
	for _, w := range e.Waits {
		if w.Question != "" {
			ids = append(ids, w.Question)
		}
	}
	return ids
}

// Signals are the names of the signals among the waits.
func (e *SuspendedError) Signals() []string {
	var names []string
	for _, w := range e.Waits {
		if w.Signal != "" {
			names = append(names, w.Signal)
		}
	}
	return names
}

// RunLockedError says that another owner is at work on a run.
type RunLockedError struct {
	RunID string
	Owner string
	Until time.Time // when its lease ends unless it is renewed
}

// Error names the run and its owner.
func (e *RunLockedError) Error() string {
	return fmt.Sprintf("pawl: run %q is held by %q until %s: wait for it, or run it again when that owner is gone",
		e.RunID, e.Owner, e.Until.Format(time.RFC3339))
}

// Unwrap returns journal.ErrLocked.
func (e *RunLockedError) Unwrap() error { return journal.ErrLocked }

// Unretryable is true: its owner may be at work for hours.
func (e *RunLockedError) Unretryable() bool { return true }

// RunConflictError says that a run of this id exists and is not the one that was meant.
type RunConflictError struct {
	RunID string
	// What differs: "name", "input", "graph", "version", "kind", "thread"; "origin", if the run was made from another one, or
	// "id", if a run was to be its own child.
	What string
	// Detail says more, for people.
	Detail string
}

// Error says what differs.
func (e *RunConflictError) Error() string {
	text := fmt.Sprintf("pawl: run %q exists with another %s: %s: use another id", e.RunID, e.What, e.Detail)
	switch e.What {
	case "id":
		return fmt.Sprintf("pawl: run %q is there already: %s: use another id", e.RunID, e.Detail)
	case "origin":
		return text
	}
	return text + ", or the " + e.What + " it was started with"
}

// Unretryable is true: the run stays what it is.
func (e *RunConflictError) Unretryable() bool { return true }

// EndedError is for executors: a run has ended already.
type EndedError struct {
	Run   journal.Run
	Start journal.Event
	Last  journal.Event
}

// Error says how.
func (e *EndedError) Error() string {
	return fmt.Sprintf("pawl: run %q has ended: it is %s", e.Run.ID, e.Run.Status)
}

// Unwrap returns journal.ErrEnded.
func (e *EndedError) Unwrap() error { return journal.ErrEnded }

// Unretryable is true.
func (e *EndedError) Unretryable() bool { return true }

// StoreUnavailableError says that the store went out of reach. What was acknowledged is kept; run it again with the same id
// and it goes on from there.
type StoreUnavailableError struct {
	RunID string
	Err   error // a *journal.UnavailableError
}

// Error names the run and the fault.
func (e *StoreUnavailableError) Error() string {
	return fmt.Sprintf("pawl: run %q: %v: run it again with the same id when the store is back", e.RunID, e.Err)
}

// Unwrap returns Err.
func (e *StoreUnavailableError) Unwrap() error { return e.Err }

// Unretryable is true: the run has to be taken up again, not the step.
func (e *StoreUnavailableError) Unretryable() bool { return true }

// StoreError says that the store has refused an event of a live run, or failed in a way that waiting does not mend. It ends
// the run.
type StoreError struct {
	RunID string
	Err   error
}

// Error names the run and the fault.
func (e *StoreError) Error() string {
	return fmt.Sprintf("pawl: run %q could not be recorded: %v", e.RunID, e.Err)
}

// Unwrap returns Err.
func (e *StoreError) Unwrap() error { return e.Err }

// Unretryable is true: the same events would be refused again.
func (e *StoreError) Unretryable() bool { return true }

func (e *StoreError) code() Code {
	if has[*journal.RefusedError](e.Err) {
		return CodeEventRefused
	}
	return CodeInternal
}

// RunLostError says that this process is no longer the owner of a run: another one has taken it, or it has ended. It stands
// down and writes nothing.
type RunLostError struct {
	RunID string
	Err   error // a *journal.RefusedError
}

// Error names the run and the reason.
func (e *RunLostError) Error() string {
	return fmt.Sprintf("pawl: run %q is no longer ours: %v", e.RunID, e.Err)
}

// Unwrap returns Err.
func (e *RunLostError) Unwrap() error { return e.Err }

// Unretryable is true.
func (e *RunLostError) Unretryable() bool { return true }

// Is makes errors.Is(err, context.Canceled) true: work on the run is to stop.
func (e *RunLostError) Is(target error) bool { return target == context.Canceled }

// RunCancelledError says that somebody has cancelled a run, for good.
type RunCancelledError struct {
	RunID  string
	Reason string // as it was given; may be empty
}

// Error names the run and the reason.
func (e *RunCancelledError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("pawl: run %q was cancelled", e.RunID)
	}
	return fmt.Sprintf("pawl: run %q was cancelled: %s", e.RunID, e.Reason)
}

// Is makes errors.Is(err, context.Canceled) true.
func (e *RunCancelledError) Is(target error) bool { return target == context.Canceled }

// RunErrorClass returns the class canceled.
func (e *RunCancelledError) RunErrorClass() classifier.RunErrorClass { return classifier.Canceled }

// Unretryable is true.
func (e *RunCancelledError) Unretryable() bool { return true }

// NonDeterminismError says that code took another way than the journal says it took before.
type NonDeterminismError struct {
	RunID string
	Scope string
	Seq   int64 // the event that does not fit
	// Recorded is what the journal has, Met what the code did instead.
	Recorded, Met string
	// Plan is true if it is the plan of a graph that differs: what its routers, reducers or Gotos made of the same updates.
	Plan bool
}

// Error names both.
func (e *NonDeterminismError) Error() string {
	where, remedy := "its body", "restore the old order, or put the change behind durable.Gate"
	if e.Scope != "" {
		where = fmt.Sprintf("%q", e.Scope)
	}
	if e.Plan {
		remedy = "routers and reducers must be pure: restore the old answer"
		if where = "its graph"; e.Scope != "" {
			where = fmt.Sprintf("subgraph %q", e.Scope)
		}
	}
	return fmt.Sprintf("pawl: run %q: %s is not deterministic: event %d records %s where the code now has %s: %s",
		e.RunID, where, e.Seq, e.Recorded, e.Met, remedy)
}

// Unretryable is true.
func (e *NonDeterminismError) Unretryable() bool { return true }

// ReplayError says that a recorded event could not be used.
type ReplayError struct {
	RunID string
	Seq   int64
	Err   error
}

// Error names the run and the event.
func (e *ReplayError) Error() string {
	return fmt.Sprintf("pawl: run %q: event %d cannot be replayed: %v", e.RunID, e.Seq, e.Err)
}

// Unwrap returns Err.
func (e *ReplayError) Unwrap() error { return e.Err }

// Unretryable is true.
func (e *ReplayError) Unretryable() bool { return true }

// OverlapError says that a durable call began while another one of its scope was under way. Calls of a scope have an order,
// by which they are found again; goroutines that make calls at the same time need a Branch each.
type OverlapError struct {
	RunID, Scope string
	// Name is the call that was refused, Other the one that was under way.
	Name, Other string
	// Branches is true if they are two branches, of the same name.
	Branches bool
}

// Error names the calls.
func (e *OverlapError) Error() string {
	if e.Branches {
		return fmt.Sprintf("pawl: run %q: two branches named %q overlap in scope %q: give each a name of its own",
			e.RunID, e.Name, e.Scope)
	}
	return fmt.Sprintf("pawl: run %q: call %q began while call %q of scope %q was under way: make them one after the other, "+
		"or give each goroutine its own durable.Branch", e.RunID, e.Name, e.Other, e.Scope)
}

// Unretryable is true.
func (e *OverlapError) Unretryable() bool { return true }

// ScopeEndedError says that a durable call was made with the context of code that has returned.
type ScopeEndedError struct {
	RunID, Scope string
}

// Error names the scope.
func (e *ScopeEndedError) Error() string {
	return fmt.Sprintf("pawl: run %q: a durable call came after its code had returned (scope %q): wait for every goroutine "+
		"that makes durable calls before returning", e.RunID, e.Scope)
}

// Unretryable is true.
func (e *ScopeEndedError) Unretryable() bool { return true }

// AbandonedError says that a durable call came from code that was left behind, since it had ignored the end of its context.
// It writes nothing.
type AbandonedError struct {
	RunID, Scope string
}

// Error names the scope.
func (e *AbandonedError) Error() string {
	return fmt.Sprintf("pawl: run %q: the code of scope %q was abandoned: it ignored the end of its context for too long",
		e.RunID, e.Scope)
}

// Unretryable is true.
func (e *AbandonedError) Unretryable() bool { return true }

// PlacementError says that a durable call is not allowed where it was made.
type PlacementError struct {
	Call string // "Interrupt", say
	Why  string
}

// Error says what and why.
func (e *PlacementError) Error() string { return fmt.Sprintf("pawl: durable.%s: %s", e.Call, e.Why) }

// Unretryable is true.
func (e *PlacementError) Unretryable() bool { return true }

// OutcomeUnknownError says that a call that must not be made twice was begun, and that what came of it is not known. It is
// final: look at what the call was to change.
type OutcomeUnknownError struct {
	RunID, Scope, Name string
	// Reason says why it is not known: a crash, or a timeout.
	Reason string
}

// Error names the call.
func (e *OutcomeUnknownError) Error() string {
	return fmt.Sprintf("pawl: run %q: the outcome of durable.Once(%q) is not known: %s: it is not called again; "+
		"find out what it has done, and handle this error", e.RunID, e.Name, e.Reason)
}

// Unretryable is true.
func (e *OutcomeUnknownError) Unretryable() bool { return true }
