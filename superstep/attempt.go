package superstep

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/task"
)

// attempt is the context of one attempt, and what package task reads from it.
type attempt struct {
	context.Context //nolint:containedctx // it is one

	*place
	at     spot
	strand *strand // the goroutine that makes the call
	over   atomic.Bool
	usage  *task.Usage // nil if there is none; guarded by the run's mu
	// journal is what its durable calls go by; nil in a run without a journal.
	journal *attemptJournal
}

// Value answers for packages task and durable, and passes every other question on.
func (a *attempt) Value(key any) any {
	switch key.(type) {
	case task.Key:
		return a
	case durable.Key:
		if a.journal == nil {
			return nil // what calls the graph may be durable, its nodes are not
		}
		return a.journal.scopeOf(a)
	}
	return a.Context.Value(key)
}

// Task implements task.Runtime.
func (a *attempt) Task() task.Task {
	return task.Task{
		RunID: a.run.id, Scope: a.scope, Node: a.pathOf(a.at.node.Name), SuperStep: a.at.step,
		Index: a.at.index, Attempt: a.at.attempt, SuperStepsLeft: a.limit - a.at.step,
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

// attempt makes one attempt, here, or elsewhere if its time is limited: then it may have to be left behind while its
// task goes on.
func (c *call[S, U]) attempt(ctx context.Context) error {
	a := c.begin(ctx, false)
	if c.node.Timeout > 0 {
		if c.s.stopped() {
			return c.d.run.ended(ctx)
		}
		return c.detached(a)
	}
	c.s.whose = c.prog.whose
	if !c.s.enter() {
		return c.d.run.ended(ctx)
	}
	err := c.invoke(a, &c.d.m.view)
	if !c.s.leave() {
		return errLost
	}
	return c.end(a, err)
}

// errLost stands in for the outcome of an abandoned call. Nobody sees it.
var errLost = errors.New("pawl: abandoned")

// fresh returns a new attempt. They are made a few at a time, the more the longer the run: one that user code still holds
// keeps its neighbours, which is no matter if they are few.
func (c *call[S, U]) fresh() *attempt {
	if len(c.made) == 0 {
		c.made = make([]attempt, min(1+c.used/4, maxMade))
	}
	a := &c.made[0]
	c.made = c.made[1:]
	c.used++
	return a
}

// maxMade is how many attempts fill a size class of the allocator.
const maxMade = 11

// begin starts an attempt.
func (c *call[S, U]) begin(ctx context.Context, handler bool) *attempt {
	at := c.s.at()
	a := c.fresh()
	a.Context, a.place, a.at, a.strand = ctx, &c.d.place, at.spot, c.s
	if c.d.ledger != nil {
		c.last, c.failure, a.journal = a, nil, &attemptJournal{x: c.d.ledger.x, path: c.scope}
		if handler {
			a.journal.path += "/catch"
		}
	}
	if c.d.run.events != nil {
		at.running = a
		c.d.run.report(&task.AttemptStarted{Handler: handler}, at)
	}
	return a
}

// end closes an attempt that has returned. A Goto that names what it must not has failed.
func (c *call[S, U]) end(a *attempt, err error) error {
	a.over.Store(true)
	err = a.outcome(err)
	c.failure = err
	if c.node.Kind == graph.KindGoto && err == nil {
		err = c.d.m.allowed(c.node.Name, c.node.Targets, &c.next)
	}
	return err
}

// invoke calls the node's function and keeps what it returns.
func (c *call[S, U]) invoke(a *attempt, s *S) (err error) {
	if c.d.run.cfg.CheckMutation {
		return c.invokeChecked(a, *s)
	}
	defer task.Recover(c.prog.whose, &err)
	c.u, err = c.node.Call(a, *s, c.t.Items, c.t.Item, &c.next)
	return err
}

// invokeChecked is invoke with CheckMutation.
func (c *call[S, U]) invokeChecked(a *attempt, s S) (err error) {
	before := takePicture(s)
	defer before.check(a, s, &err)
	defer task.Recover(c.prog.whose, &err)
	c.u, err = c.node.Call(a, s, c.t.Items, c.t.Item, &c.next)
	return err
}

// detached makes an attempt on a goroutine of its own, and leaves it behind if it outlasts the end of its context by
// Grace.
func (c *call[S, U]) detached(a *attempt) error {
	var (
		left, t = *c, *c.t // the call may still use them when c has gone on to other tasks
		state   = c.d.m.State()
		came    = make(chan error, 1)
		s       = &strand{}
	)
	left.t, a.strand = &t, s
	s.enter()
	go func() {
		err := error(&task.PanicError{Whose: left.prog.whose, Value: task.ErrGoexit}) // unless the call returns
		defer func() {
			if s.finish() {
				came <- err
			} else {
				left.d.run.stuck.Add(-1)
			}
		}()
		err = left.invoke(a, &state)
	}()
	err, ok := awaitCall(a, came, s, c.d.run.cfg.Grace)
	if !ok {
		if c.d.run.abandon(s) {
			c.d.run.emit(&task.TaskAbandoned{}, a.header())
			return a.Err()
		}
		err = <-came
	}
	c.u, c.next = left.u, left.next
	return c.end(a, err)
}

// awaitCall waits for the outcome of a call that s makes, but not longer than grace after the end of its context. The
// time in which the call waits for a consumer of events does not count.
func awaitCall[T any](ctx context.Context, came <-chan T, s *strand, grace time.Duration) (out T, ok bool) {
	select {
	case out = <-came:
		return out, true
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for {
		select {
		case out = <-came:
			return out, true
		case <-timer.C:
			if !s.excuse() {
				return out, false
			}
			timer.Reset(grace)
		}
	}
}
