package superstep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/task"
)

// runTask runs the i-th task to its end, whatever attempts that takes, and completes it in the machine. The error is a
// failure for good, or the end of ctx. If s is lost on the way, it touches nothing more and the result means nothing.
func (d *driver[S, U]) runTask(ctx context.Context, c *call[S, U], s *strand, i int) error {
	c.d, c.s, c.t = d, s, d.m.Tasks()[i]
	c.name(graph.Next{})
	c.node, c.prog = &d.prog.plan.Nodes[c.t.Node], &d.prog.nodes[c.t.Node]
	s.open = append(s.open, openTask{node: d.pathOf(c.node.Name), step: d.m.SuperStep(), index: c.t.Index})
	if d.run.events != nil {
		d.run.emit(&task.TaskStarted{}, s.at().header())
	}
	var u U
	var err error
	if c.prog.child != nil {
		u, err = c.subgraph(ctx)
	} else {
		u, err = c.function(ctx)
	}
	if s.lost() {
		return err
	}
	if err == nil {
		err = d.m.Complete(i, u, c.next)
	}
	if err != nil && ctx.Err() != nil {
		err = d.run.ended(ctx)
	}
	if d.run.events != nil {
		d.reportEnd(s, err)
	}
	s.open = s.open[:len(s.open)-1]
	return err
}

func (d *driver[S, U]) reportEnd(s *strand, err error) {
	if err != nil {
		d.run.emit(&task.TaskFailed{Failure: d.run.failure(err)}, s.at().header())
		return
	}
	d.run.emit(&task.TaskCompleted{}, s.at().header())
}

// pathOf is the path of a node of this graph.
func (d *driver[S, U]) pathOf(name string) string {
	if d.path == "" {
		return name
	}
	return d.path + "/" + name
}

// call is what running one task needs at hand. A goroutine keeps one for all its tasks, so that a task allocates none.
type call[S, U any] struct {
	d    *driver[S, U]
	s    *strand
	t    Task
	node *graph.PlanNode[S, U]
	prog *nodeProgram
	next graph.Next // what the last attempt, a Goto, named
}

// name keeps what the attempt named, which is nothing unless the node is a Goto.
func (c *call[S, U]) name(next graph.Next) {
	if next.Len() > 0 || c.next.Len() > 0 {
		c.next = next
	}
}

// failed says that the task has failed for good.
func (c *call[S, U]) failed(err error) *NodeError {
	at := c.s.at()
	return &NodeError{Node: at.node, SuperStep: at.step, Task: at.index, Attempts: at.attempt, Class: c.d.run.classify(err), Err: err}
}

// function calls a function node under its retry policy, then its Catch handler if it failed for good.
func (c *call[S, U]) function(ctx context.Context) (U, error) {
	var zero U
	if !c.d.run.acquire(ctx) {
		return zero, c.d.run.ended(ctx)
	}
	defer c.d.run.release()
	loop := &c.prog.loop
	if c.d.run.events != nil {
		loop = c.observed(loop)
	}
	u, err := retrypolicy.Do(ctx, loop, func(ctx context.Context, number int) (U, error) {
		c.s.at().attempt = number
		return c.attempt(ctx)
	})
	if err == nil || ctx.Err() != nil || c.s.lost() {
		return u, err
	}
	failed := c.failed(err)
	if c.node.Catch == nil {
		return zero, failed
	}
	return c.handle(ctx, failed)
}

// attempt makes one attempt, here, or elsewhere if its time is limited: then it may have to be left behind while its
// task goes on.
func (c *call[S, U]) attempt(ctx context.Context) (U, error) {
	a := c.newAttempt(ctx, c.s)
	if c.d.run.events != nil {
		c.d.run.emit(&task.AttemptStarted{}, a.at.header())
	}
	if c.node.Timeout > 0 {
		return c.detached(a)
	}
	var zero U
	if !c.s.enter() {
		return zero, c.d.run.ended(ctx)
	}
	u, next, err := c.invoke(a, c.d.m.State())
	if !c.s.leave() {
		return zero, errLost
	}
	a.over.Store(true)
	c.name(next)
	return u, err
}

// errLost stands in for the outcome of an abandoned call. Nobody sees it.
var errLost = errors.New("pawl: abandoned")

func (c *call[S, U]) newAttempt(ctx context.Context, s *strand) *attempt {
	return &attempt{Context: ctx, place: &c.d.place, left: c.d.m.SuperStepsLeft(), at: *c.s.at(), strand: s}
}

// invoke calls the node's function.
func (c *call[S, U]) invoke(a *attempt, s S) (u U, next graph.Next, err error) {
	if c.d.run.cfg.CheckMutation {
		return c.invokeChecked(a, s)
	}
	defer task.Recover(c.prog.whose, &err)
	return c.node.Call(a, s, c.t.Items, c.t.Item)
}

// invokeChecked is invoke with CheckMutation.
func (c *call[S, U]) invokeChecked(a *attempt, s S) (u U, next graph.Next, err error) {
	before := takePicture(&s)
	defer func() {
		if path := before.difference(takePicture(&s)); path != "" {
			err = &MutationError{Node: a.at.node, Path: path}
		}
	}()
	defer task.Recover(c.prog.whose, &err)
	return c.node.Call(a, s, c.t.Items, c.t.Item)
}

// detached makes an attempt on a goroutine of its own, and leaves it behind if it outlasts the end of its context by Grace.
func (c *call[S, U]) detached(a *attempt) (U, error) {
	type outcome struct {
		u    U
		next graph.Next
		err  error
	}
	var (
		left  = *c // the call may still use it when c has gone on to the next task
		state = c.d.m.State()
		came  = make(chan outcome, 1)
		s     = &strand{}
	)
	a.strand = s
	s.enter()
	go func() {
		out := outcome{err: &task.PanicError{Whose: left.prog.whose, Value: task.ErrGoexit}}
		defer func() {
			if s.leave() {
				came <- out
			} else {
				left.d.run.stuck.Add(-1)
			}
		}()
		out.u, out.next, out.err = left.invoke(a, state)
	}()
	take := func(out outcome) (U, error) {
		a.over.Store(true)
		c.name(out.next)
		return out.u, out.err
	}
	select {
	case out := <-came:
		return take(out)
	case <-a.Done():
	}
	grace := time.NewTimer(c.d.run.cfg.Grace)
	defer grace.Stop()
	select {
	case out := <-came:
		return take(out)
	case <-grace.C:
	}
	if !s.abandon() {
		return take(<-came)
	}
	c.d.run.abandon(a.at.header())
	var zero U
	return zero, a.Err()
}

// observed returns a copy of the loop that reports failed attempts as events.
func (c *call[S, U]) observed(loop *retrypolicy.Loop) *retrypolicy.Loop {
	l := *loop
	l.Observe = func(_ context.Context, at retrypolicy.Attempt) {
		if c.s.lost() {
			return
		}
		c.discard(&task.AttemptFailed{
			Failure: failure(at.Err, at.Class),
			Delay:   at.Delay, Hint: at.Hint, Final: at.Final, Reason: string(at.Reason),
		}, at.Number)
	}
	return &l
}

// discard reports a failed attempt, and that what it streamed must be forgotten.
func (c *call[S, U]) discard(failed *task.AttemptFailed, number int) {
	h := c.s.at().header()
	h.Attempt = number
	c.d.run.emit(failed, h)
	c.d.run.emit(&task.AttemptDiscarded{}, h)
}

// handle calls the Catch handler of a node that has failed for good.
func (c *call[S, U]) handle(ctx context.Context, failed *NodeError) (U, error) {
	var zero U
	c.s.at().attempt++
	c.name(graph.Next{})
	a := c.newAttempt(ctx, c.s)
	if c.d.run.events != nil {
		c.d.run.emit(&task.AttemptStarted{Handler: true}, a.at.header())
	}
	if !c.s.enter() {
		return zero, c.d.run.ended(ctx)
	}
	u, err := c.invokeHandler(a, failed)
	if !c.s.leave() {
		return zero, errLost
	}
	a.over.Store(true)
	if err == nil {
		return u, nil
	}
	if c.d.run.events != nil {
		c.discard(&task.AttemptFailed{Failure: c.d.run.failure(err), Final: true, Reason: "a Catch handler is not retried"}, c.s.at().attempt)
	}
	both := c.failed(&CatchError{Handler: err, First: failed})
	both.Class = c.d.run.classify(err) // the first failure was dealt with; this one was not
	return zero, both
}

func (c *call[S, U]) invokeHandler(a *attempt, failed *NodeError) (u U, err error) {
	defer task.Recover("Catch handler of "+c.prog.whose, &err)
	return c.node.Catch(a, c.d.m.State(), c.t.Items, c.t.Item, failed)
}

// subgraph runs a graph as a node. The child's function nodes take slots and make attempts; the node itself does not.
func (c *call[S, U]) subgraph(ctx context.Context) (U, error) {
	c.s.at().attempt = 1
	var zero U
	in, err := c.in()
	if err != nil {
		return zero, c.failed(err)
	}
	path := c.s.at().node
	if c.node.Kind.FannedOut() {
		path = fmt.Sprintf("%s[%d]", path, c.t.Index)
	}
	child := &driver[any, any]{
		place: place{
			run: c.d.run, path: path,
			scope: fmt.Sprintf("%s%d/%s[%d]/", c.d.scope, c.d.m.SuperStep(), c.node.Name, c.t.Index),
		},
		prog: c.prog.child,
		m:    newMachine(c.prog.child.plan, in, c.prog.child.limit),
	}
	err = child.drive(ctx, c.s)
	if err == nil && !c.s.lost() {
		u, err := c.out(child.m.State())
		if err != nil {
			return zero, c.failed(err)
		}
		return u, nil
	}
	if inner := (*NodeError)(nil); errors.As(err, &inner) {
		return zero, err // it names the node that failed, by its whole path
	}
	return zero, c.failed(err)
}

func (c *call[S, U]) in() (in any, err error) {
	defer task.Recover("in function of "+c.prog.whose, &err)
	return c.node.Sub.In(c.d.m.State(), c.t.Items, c.t.Item), nil
}

func (c *call[S, U]) out(state any) (u U, err error) {
	defer task.Recover("out function of "+c.prog.whose, &err)
	return c.node.Sub.Out(state), nil
}
