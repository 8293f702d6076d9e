package superstep

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl/classifier"
)

// ErrStopped is what errors.Is finds in the error of a run that Stop ended, or that was started after Stop.
var ErrStopped = errors.New("pawl: the runner was stopped: use a new Runner")

// NodeError says which task failed for good, and why. errors.Is and errors.As reach the cause.
type NodeError struct {
	// Node is the path of the node ("research/search[3]/fetch").
	Node string
	// SuperStep counts from 1 within the node's graph. Task is the task's place in its fan-out.
	SuperStep, Task int
	// Attempts is how many attempts were made, Class what kind of failure the last one was.
	Attempts int
	Class    classifier.RunErrorClass
	Err      error

	fannedOut bool
}

// Error names the task ("draft", or "search[3]" for one of a fan-out) and tells what its error says.
func (e *NodeError) Error() string {
	node := e.Node
	if e.fannedOut {
		node = fmt.Sprintf("%s[%d]", e.Node, e.Task)
	}
	return fmt.Sprintf("pawl: node %q, super-step %d: %s", node, e.SuperStep, plain(e.Err))
}

// plain is the text of an error inside another: without bodies, and without the prefix that stands in front already.
func plain(err error) string { return strings.TrimPrefix(classifier.Message(err), "pawl: ") }

// Unwrap returns the cause.
func (e *NodeError) Unwrap() error { return e.Err }

// RunErrorClass is the class of the failure.
func (e *NodeError) RunErrorClass() classifier.RunErrorClass { return e.Class }

// CatchError says that a node failed and its Catch handler failed as well. errors.Is and errors.As find both.
type CatchError struct {
	Handler error // why the handler failed
	First   error // what it was called for
}

// Error tells both failures.
func (e *CatchError) Error() string {
	return fmt.Sprintf("pawl: the Catch handler failed: %s (it was called for: %s)", plain(e.Handler), plain(e.First))
}

// Unwrap returns the handler's failure, then the first.
func (e *CatchError) Unwrap() []error { return []error{e.Handler, e.First} }

// MaxSuperStepsError says that a run needs more super-steps than it may take. The state holds what the allowed ones did.
type MaxSuperStepsError struct {
	Limit  int
	Active []string // the nodes that would have run next
}

// Error names the limit and the nodes still active.
func (e *MaxSuperStepsError) Error() string {
	return fmt.Sprintf("pawl: limit of %d super-steps reached with %q still active: raise MaxSuperSteps, or let a router end the loop",
		e.Limit, e.Active)
}

// RouteError says that a router or a Goto node named a target it has not declared.
type RouteError struct {
	SuperStep      int
	Source, Target string
	// Foreign is true if the target is no node of the graph at all.
	Foreign bool
}

// Error names source and target and the remedy.
func (e *RouteError) Error() string {
	if e.Foreign {
		return fmt.Sprintf("pawl: super-step %d: %q routes to %q, which is no node of this graph: return handles of its own builder",
			e.SuperStep, e.Source, e.Target)
	}
	return fmt.Sprintf("pawl: super-step %d: %q routes to %q, which is not among its targets: declare it with Route or Targets",
		e.SuperStep, e.Source, e.Target)
}

// Unretryable is true: the same code would route the same way.
func (e *RouteError) Unretryable() bool { return true }

// ReduceError says that the updates of a super-step could not be merged. Nothing of it is part of the state.
type ReduceError struct {
	SuperStep int
	Nodes     []string // whose updates were merged
	Err       error    // a *graph.ConflictError, a *task.PanicError, or what Merge's function returned
}

// Error names the super-step and the nodes.
func (e *ReduceError) Error() string {
	return fmt.Sprintf("pawl: super-step %d: merging the updates of %q: %s", e.SuperStep, e.Nodes, plain(e.Err))
}

// Unwrap returns the cause.
func (e *ReduceError) Unwrap() error { return e.Err }

// MutationError says that a node changed what it had been given. Config.CheckMutation finds it.
type MutationError struct {
	Node string
	Path string // what was changed, as a path into the state ("State.Scores[3]")
}

// Error names the node and what it changed.
func (e *MutationError) Error() string {
	return fmt.Sprintf("pawl: node %q changed %s of the state it was given: copy before changing, and return an update", e.Node, e.Path)
}

// Unretryable is true: the state is spoilt.
func (e *MutationError) Unretryable() bool { return true }

// RunTimeoutError says that a run took longer than Config.RunTimeout. It is a context.DeadlineExceeded to errors.Is.
type RunTimeoutError struct{ After time.Duration }

// Error tells the limit.
func (e *RunTimeoutError) Error() string {
	return fmt.Sprintf("pawl: the run took longer than its RunTimeout of %v: raise it, or bound slow nodes with graph.Timeout", e.After)
}

// Is makes the error a context.DeadlineExceeded.
func (e *RunTimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// Timeout tells net.Error's question.
func (e *RunTimeoutError) Timeout() bool { return true }

// RunErrorClass is timeout.
func (e *RunTimeoutError) RunErrorClass() classifier.RunErrorClass { return classifier.Timeout }

// CancelledError says that a run was ended from outside: by the context given to it, by leaving its stream, or by Stop.
// It is the error of that run, and also the cause (context.Cause) that its tasks and the siblings of a failed task see.
// To errors.Is it is context.Canceled or context.DeadlineExceeded, whichever the context says, and ErrStopped after Stop.
// It does not unwrap to what caused the end: a client that returns the cause must not make its call look like another
// call's failure.
type CancelledError struct {
	// RunID names the run.
	RunID string
	// Reason says who ended it.
	Reason string
	// Cause is what context.Cause said of the caller's context; nil if that says no more than the reason.
	Cause error
	kind  error // context.Canceled or context.DeadlineExceeded
	also  error // ErrStopped or nil
}

// Error tells the run and the reason.
func (e *CancelledError) Error() string {
	return fmt.Sprintf("pawl: run %s cancelled: %s", e.RunID, e.Reason)
}

// Is answers for the context's error, and for ErrStopped.
func (e *CancelledError) Is(target error) bool {
	return target == e.kind || (e.also != nil && target == e.also)
}

// Timeout reports whether a deadline ended the run.
func (e *CancelledError) Timeout() bool { return errors.Is(e.kind, context.DeadlineExceeded) }

// RunErrorClass is canceled.
func (e *CancelledError) RunErrorClass() classifier.RunErrorClass { return classifier.Canceled }
