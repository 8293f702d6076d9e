package durable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/journal"
)

// ChildOption is an option of RunChild: ChildID or Detached.
type ChildOption interface{ applyChild(o *childOptions) }

type childOptions struct {
	id       string
	detached bool
}

type childOption func(o *childOptions)

func (f childOption) applyChild(o *childOptions) { f(o) }

// ChildID names the child's run. Without it the id is made of the parent's, the scope, the workflow's name, and how many of
// that name came before: "tides-42-fetch#1".
func ChildID(id string) ChildOption { return childOption(func(o *childOptions) { o.id = id }) }

// Detached makes a child that goes on living when its parent is cancelled.
func Detached() ChildOption { return childOption(func(o *childOptions) { o.detached = true }) }

// ChildWorkflowError says that a child has failed, or was cancelled.
type ChildWorkflowError struct {
	// RunID is the child's, Name its workflow's.
	RunID, Name string
	// Code, Class and UserCode are those of the child's run:error; of a child that was cancelled the code is "cancelled".
	Code     Code
	Class    classifier.RunErrorClass
	UserCode string
	// Err is what the child has failed with.
	Err error
}

// CodeCancelled is the Code of a *ChildWorkflowError whose child was cancelled.
const CodeCancelled Code = "cancelled"

// Error names the child and tells what it failed with.
func (e *ChildWorkflowError) Error() string {
	return fmt.Sprintf("pawl: child run %q of workflow %q failed (%s): %s", e.RunID, e.Name, e.Code, classifier.Message(e.Err))
}

// Unwrap returns Err.
func (e *ChildWorkflowError) Unwrap() error { return e.Err }

// RunErrorClass returns Class.
func (e *ChildWorkflowError) RunErrorClass() classifier.RunErrorClass { return e.Class }

// Unretryable is true: the child has ended.
func (e *ChildWorkflowError) Unretryable() bool { return true }

// RunChild runs another workflow as a run of its own, in the same store and with the same settings, and returns its result,
// which is recorded in the parent as that of a step is. The child runs on the caller's goroutine. After a restart it goes on
// where it was. A child that waits suspends its parent, too; whoever runs the parent again runs the child.
//
// A child that fails or is cancelled is a *ChildWorkflowError, an outcome like the failure of a step; with a retry of the
// parent a failed child is retried as well. If the parent is cancelled so are its children, unless they are Detached. A run
// of the child's id that is there with the same workflow and input is taken for the child; any other is a *RunConflictError.
//
// In a worker the child is a run of its parent's queue: where it has waited any worker goes on with it, and its end wakes the
// parent. So the workflow must be registered with the worker, too, else the error is an *OptionError.
//
// It cannot be inside a step: that is a *PlacementError. In a context that belongs to no run it just calls the workflow's
// function. All other errors are those of Step.
func RunChild[I, O any](ctx context.Context, wf *Definition[I, O], in I, opts ...ChildOption) (O, error) {
	var out, recorded, zero O
	var o childOptions
	for _, opt := range opts {
		if opt != nil {
			opt.applyChild(&o)
		}
	}
	s, inside := scopeOf(ctx)
	switch {
	case wf.fault != nil:
		return zero, wf.fault
	case inside != nil:
		return zero, insideStep(childCall, inside)
	case s == nil:
		return wf.fn(ctx, in)
	}
	w := spawn{
		options: o, program: wf.program(), input: func() any { return in },
		out: &out, result: func() any { return out }, into: &recorded,
	}
	if err := s.child(ctx, &w); err != nil {
		return zero, err
	}
	return recorded, nil
}

// awaitChild suspends the scope until the child is over, or can be gone on with. One that is in a queue goes on by itself, and
// its end wakes the parent. Any other that was attached to, another run's child or nobody's, tells this one nothing: it is
// looked at from time to time, the less often the longer it takes.
func (c *call) awaitChild(ctx context.Context, id string, due time.Time) error {
	if x := c.s.x; x.settings.assigned != nil {
		run, err := x.settings.Store.Load(ctx, id)
		if err != nil {
			return x.unread(ctx, err)
		}
		parent, err := parentOfRun(ctx, x.settings.Store, run)
		if err != nil {
			return x.unread(ctx, err)
		}
		if run.Queue != "" {
			due = time.Time{}
		}
		if look := Now().Add(c.patience()); (run.Queue == "" || parent != x.id) && (due.IsZero() || look.Before(due)) {
			due = look
		}
	}
	return c.s.suspend(Wait{Scope: c.s.path, Child: id, Due: due})
}

// patience is how long the call may wait until it looks again: a tenth of the time since it has begun.
func (c *call) patience() time.Duration {
	const part, least, most = 10, time.Second, 5 * time.Minute
	begun := c.begun
	if len(c.recorded) > 0 {
		begun = c.recorded[0].Time
	}
	return min(max(time.Since(begun)/part, least), most)
}

// childEnded is the message that wakes the parent of a run; none if it has no parent.
func childEnded(id, parent string) []journal.Letter {
	if parent == "" {
		return nil
	}
	return []journal.Letter{{Run: parent, Message: journal.Message{
		Kind: journal.ChildMessage, Name: id, Key: ownKeys + "child:" + id, Time: Now(),
	}}}
}

// spawn is a RunChild without its types.
type spawn struct {
	options childOptions
	program program
	input   func() any
	out     any        // a pointer to the child's result
	result  func() any // what out points to
	into    any        // a pointer to what is to be returned
}

func (s *Scope) child(ctx context.Context, w *spawn) error {
	c, err := s.enter(ctx, childCall, w.program.name)
	if err != nil {
		return err
	}
	defer c.exit()
	if e, ok := c.outcome(); ok {
		return c.replay(ctx, e, w.into)
	}
	if p := w.program.identity(); !s.x.settings.assigned.serves(p) {
		return s.broken(&OptionError{Call: string(childCall), Name: p.Name, Err: errUnregistered})
	}
	data, err := journal.Marshal("Input", w.input())
	if err != nil {
		return s.broken(err)
	}
	m, err := c.childRun(ctx, w.options)
	if err != nil {
		return err
	}
	if m.Retried {
		data = nil // its input is that of the run that failed, which may have been the last of a chain
	}
	r := inline{
		settings: s.x.settings, program: w.program, input: data,
		link: journal.Link{Kind: journal.ChildOf, Run: s.x.id},
	}
	err = r.run(ctx, m.Child, w.out)
	if _, lost := err.(*RunLostError); lost { //nolint:errorlint // just what run has returned
		err = r.run(ctx, m.Child, w.out) // who has taken it may have let go of it, or has a lease that ends
	}
	return c.concludeChild(ctx, w, m.Child, err)
}

// errUnregistered is a child that could not go on in any worker, once it has waited.
var errUnregistered = errors.New("its parent is run by a worker that has no such workflow: register it there, too, with this version")

// childRun says which run is the child, which is recorded before the child is begun.
func (c *call) childRun(ctx context.Context, o childOptions) (childMeta, error) {
	m := childMeta{Child: o.id, Detached: o.detached}
	if m.Child == "" {
		m.Child = c.childID()
	}
	if m.Child == c.s.x.id {
		return m, &RunConflictError{RunID: m.Child, What: "id", Detail: "it is the parent's own"}
	}
	if len(c.recorded) > 0 {
		return c.childAgain(ctx)
	}
	return m, c.startChild(ctx, m)
}

// childID is the default id of the call's child.
func (c *call) childID() string { return c.s.x.id + "-" + c.s.branchPath(c.name, c.n) }

func (c *call) startChild(ctx context.Context, m childMeta) error {
	return c.write(ctx, journal.Event{Kind: journal.ChildStart, Meta: meta(m)})
}

// childAgain is the child that was begun before. One that has failed before its parent was retried is retried, too.
func (c *call) childAgain(ctx context.Context) (childMeta, error) {
	x := c.s.x
	start := c.recorded[len(c.recorded)-1]
	var m childMeta
	if err := readMeta(start, &m); err != nil {
		return m, c.s.broken(x.replayError(start, err))
	}
	var own StartMeta
	if err := readMeta(x.record.start, &own); err != nil {
		return m, c.s.broken(x.replayError(x.record.start, err))
	}
	if start.Seq == 0 || start.Seq > own.Copied+1 {
		return m, nil
	}
	run, err := last(ctx, x.settings, m.Child)
	if err == nil && run.Status == journal.Failed {
		m.Child, m.Retried = c.childID(), true
		_, err = prepareRetry(ctx, x.settings.Store, run.ID, m.Child, x.id)
	}
	switch {
	case errors.Is(err, journal.ErrUnavailable):
		return m, x.unread(ctx, err)
	case err != nil && m.Retried:
		return m, c.s.broken(err)
	case !m.Retried:
		return m, nil // what is wrong with it, running it tells
	}
	return m, c.startChild(ctx, m)
}

// concludeChild records how a child has ended, if it has.
func (c *call) concludeChild(ctx context.Context, w *spawn, id string, err error) error {
	x := c.s.x
	switch e := err.(type) { //nolint:errorlint // what the child's run was ended with, not what it has failed with
	case nil:
		payload, err := x.roundTrip("Result", w.result(), w.into)
		if err != nil {
			return c.s.broken(err)
		}
		return c.write(ctx, journal.Event{Kind: journal.StepDone, Payload: payload, Took: time.Since(c.begun)})
	case *RunFailedError:
		return c.fail(ctx, &ChildWorkflowError{
			RunID: e.RunID, Name: w.program.name, Code: e.Code, Class: e.Class, UserCode: e.UserCode, Err: e.Err,
		}, 0)
	case *SuspendedError:
		return c.awaitChild(ctx, id, e.Due)
	case *RunLockedError: // somebody else is at it, who may be dead
		return c.awaitChild(ctx, id, e.Until)
	case *RunLostError:
		return c.s.suspend(Wait{Scope: c.s.path, Child: id, Due: Now()})
	case *RunConflictError, *ContinuationChainError:
		return c.fail(ctx, err, 0)
	case *RunStoppedError:
		return c.cut(ctx, err, cutMeta{})
	}
	if cancelled, is := find[*RunCancelledError](err); is {
		return c.fail(ctx, &ChildWorkflowError{
			RunID: id, Name: w.program.name, Code: CodeCancelled, Class: classifier.Canceled, Err: cancelled,
		}, 0)
	}
	if errors.Is(err, journal.ErrUnavailable) {
		return x.unread(ctx, err)
	}
	return c.s.broken(err)
}
