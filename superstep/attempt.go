package superstep

import (
	"context"
	"sync/atomic"

	"github.com/pawl-go/pawl/task"
)

// attempt is the context of one attempt, and what package task reads from it. It is one allocation, and the only one
// that running a node costs.
type attempt struct {
	context.Context //nolint:containedctx // it is one

	*place
	at     spot
	left   int     // super-steps
	strand *strand // the goroutine that makes the call
	over   atomic.Bool
	usage  *task.Usage // nil if there is none; guarded by the run's mu
}

// Value answers for package task and passes every other question on.
func (a *attempt) Value(key any) any {
	if _, ok := key.(task.Key); ok {
		return a
	}
	return a.Context.Value(key)
}

// Task implements task.Runtime.
func (a *attempt) Task() task.Task {
	return task.Task{
		RunID: a.run.id, Scope: a.scope, Node: a.at.node, SuperStep: a.at.step,
		Index: a.at.index, Attempt: a.at.attempt, SuperStepsLeft: a.left,
	}
}

// Emit implements task.Runtime.
func (a *attempt) Emit(ev task.Event) {
	if a.run.events != nil {
		a.strand.emitted.Add(1)
		a.strand.emitting.Add(1)
		defer a.strand.emitting.Add(-1)
		a.run.events.send(a.run, ev, a.header(), a)
	}
}

// AddUsage implements task.Runtime.
func (a *attempt) AddUsage(u task.Usage) {
	if a.isOver() {
		return
	}
	a.run.mu.Lock()
	defer a.run.mu.Unlock()
	if a.usage == nil {
		a.usage = &task.Usage{}
	}
	*a.usage, a.run.usage = a.usage.Plus(u), a.run.usage.Plus(u)
}

func (a *attempt) used() task.Usage {
	a.run.mu.Lock()
	defer a.run.mu.Unlock()
	if a.usage == nil {
		return task.Usage{}
	}
	return *a.usage
}

func (a *attempt) header() task.Header { return a.at.header(a.place) }

// isOver reports whether the attempt has returned or was abandoned.
func (a *attempt) isOver() bool { return a.over.Load() || a.strand.lost() }
