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

// call is what running one task needs at hand. A goroutine keeps one for all its tasks, so that a task allocates none.
type call[S, U any] struct {
	d    *driver[S, U]
	s    *strand
	t    *Activation
	node *graph.PlanNode[S, U]
	prog *nodeProgram
	next graph.Next       // what the last attempt, a Goto, named
	held [2]chan struct{} // slots to give back
}

// runTask runs the i-th task, whatever attempts that takes, and completes it in the machine. The error is a failure for
// good, or the end of ctx. Then the task must be closed; unless s was lost on the way: then nothing more may be touched,
// and the result means nothing.
func (d *driver[S, U]) runTask(ctx context.Context, c *call[S, U], s *strand, i int) error {
	c.d, c.s, c.t = d, s, &d.m.Tasks()[i]
	c.node, c.prog = &d.prog.plan.Nodes[c.t.Node], &d.prog.nodes[c.t.Node]
	s.open = append(s.open, openTask{place: &d.place, spot: spot{
		node: d.pathOf(c.node.Name), step: d.m.SuperStep(), index: c.t.Index, fannedOut: c.t.Items != nil,
	}})
	if d.run.events != nil {
		d.run.emit(&task.TaskStarted{}, s.at().header())
	}
	var u U
	var err error
	switch {
	case c.node.MaxConcurrency > 0 || d.run.slots != nil:
		u, err = c.limited(ctx)
	case c.prog.child != nil:
		u, err = c.subgraph(ctx)
	default:
		u, err = c.function(ctx)
	}
	if s.lost() {
		return err
	}
	if err == nil {
		err = d.m.Complete(i, u, c.next)
	}
	if c.node.Kind == graph.KindGoto {
		c.next = graph.Next{}
	}
	if err != nil && over(ctx) {
		err = d.run.ended(ctx)
	}
	return err
}

// close ends the task that runTask has run: the task's siblings have heard of a failure by now.
func (c *call[S, U]) close(err error) {
	at := c.s.at()
	switch r := c.d.run; {
	case r.events == nil:
	case err != nil:
		r.emit(&task.TaskFailed{Failure: r.failure(err)}, at.header())
	default:
		r.emit(&task.TaskCompleted{Usage: at.used()}, at.header())
	}
	c.s.open = c.s.open[:len(c.s.open)-1]
	c.release()
}

// pathOf is the path of a node of this graph.
func (d *driver[S, U]) pathOf(name string) string {
	if d.path == "" {
		return name
	}
	return d.path + "/" + name
}

// failed says that the task has failed for good.
func (c *call[S, U]) failed(err error) *NodeError {
	return nodeError(c.s.at(), c.d.run.classify(err), err)
}

// limited runs the task when the limits on concurrency allow it. A subgraph takes no slot of the run's: its nodes do. The
// slots are kept until release: if the task has failed, its siblings must hear of it before one of them gets its place.
func (c *call[S, U]) limited(ctx context.Context) (u U, err error) {
	slots := [2]chan struct{}{c.d.run.slotsOf(c.prog, c.node.MaxConcurrency)}
	if c.prog.child == nil {
		slots[1] = c.d.run.slots
	}
	for i, s := range slots {
		if !acquire(ctx, s) {
			return u, c.d.run.ended(ctx)
		}
		c.held[i] = s
	}
	if c.prog.child != nil {
		return c.subgraph(ctx)
	}
	return c.function(ctx)
}

// release gives the task's slots back.
func (c *call[S, U]) release() {
	for i, s := range c.held {
		if s != nil {
			<-s
			c.held[i] = nil
		}
	}
}

// function calls a function node under its retry policy, then its Catch handler if it failed for good.
func (c *call[S, U]) function(ctx context.Context) (U, error) {
	loop := &c.prog.loop
	if c.d.run.events != nil {
		loop = c.observed(loop)
	}
	u, err := retrypolicy.Do(ctx, loop, func(ctx context.Context, number int) (U, error) {
		c.s.at().attempt = number
		return c.attempt(ctx)
	})
	if err == nil || over(ctx) || c.s.lost() {
		return u, err
	}
	failed := c.failed(err)
	if c.node.Catch == nil || !catchable(err) {
		return u, failed
	}
	return c.handle(ctx, failed)
}

// catchable reports whether a Catch handler may be asked. It may not if the call has ended its goroutine: where that was
// ours there is nobody left to ask it. Nor if the node has changed the state it was given, which nothing mends.
func catchable(err error) bool {
	if gaveUp, is := err.(*retrypolicy.AttemptsError); is { //nolint:errorlint // what Do returns
		err = gaveUp.Err
	}
	switch e := err.(type) { //nolint:errorlint // only what this node did: it may return what another run met
	case *task.PanicError:
		return e.Value != any(task.ErrGoexit)
	case *MutationError:
		return false
	}
	return true
}

// attempt makes one attempt, here, or elsewhere if its time is limited: then it may have to be left behind while its
// task goes on.
func (c *call[S, U]) attempt(ctx context.Context) (u U, err error) {
	a := c.begin(ctx, false)
	if c.node.Timeout > 0 {
		if c.s.stopped() {
			return u, c.d.run.ended(ctx)
		}
		return c.detached(a)
	}
	c.s.whose = c.prog.whose
	if !c.s.enter() {
		return u, c.d.run.ended(ctx)
	}
	u, err = c.invoke(a, c.d.m.State())
	if !c.s.leave() {
		return u, errLost
	}
	return u, c.end(a, err)
}

// errLost stands in for the outcome of an abandoned call. Nobody sees it.
var errLost = errors.New("pawl: abandoned")

// begin starts an attempt.
func (c *call[S, U]) begin(ctx context.Context, handler bool) *attempt {
	at := c.s.at()
	a := &attempt{Context: ctx, place: &c.d.place, left: c.d.m.SuperStepsLeft(), at: at.spot, strand: c.s}
	if c.d.run.events != nil {
		at.running = a
		c.d.run.emit(&task.AttemptStarted{Handler: handler}, a.header())
	}
	return a
}

// end closes an attempt that has returned. A Goto that names what it must not has failed.
func (c *call[S, U]) end(a *attempt, err error) error {
	a.over.Store(true)
	if c.node.Kind == graph.KindGoto && err == nil {
		err = c.d.m.allowed(c.node.Name, c.node.Targets, c.next)
	}
	return err
}

// invoke calls the node's function.
func (c *call[S, U]) invoke(a *attempt, s S) (u U, err error) {
	if c.d.run.cfg.CheckMutation {
		before := takePicture(s)
		defer before.check(a, s, &err)
	}
	defer task.Recover(c.prog.whose, &err)
	return c.node.Call(a, s, c.t.Items, c.t.Item, &c.next)
}

// detached makes an attempt on a goroutine of its own, and leaves it behind if it outlasts the end of its context by
// Grace.
func (c *call[S, U]) detached(a *attempt) (U, error) {
	type outcome struct {
		u   U
		err error
	}
	var (
		left, t = *c, *c.t // the call may still use them when c has gone on to other tasks
		state   = c.d.m.State()
		came    = make(chan *outcome, 1) // a pointer: what a channel holds may not be large
		s       = &strand{}
	)
	left.t, a.strand = &t, s
	s.enter()
	go func() {
		out := &outcome{err: &task.PanicError{Whose: left.prog.whose, Value: task.ErrGoexit}}
		defer func() {
			if s.finish() {
				came <- out
			} else {
				left.d.run.stuck.Add(-1)
			}
		}()
		out.u, out.err = left.invoke(a, state)
	}()
	out, ok := awaitCall(a, came, s, c.d.run.cfg.Grace)
	if !ok {
		if c.d.run.abandon(s) {
			c.d.run.emit(&task.TaskAbandoned{}, a.header())
			var none U
			return none, a.Err()
		}
		out = <-came
	}
	c.next = left.next
	return out.u, c.end(a, out.err)
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

// observed returns a copy of the loop that reports failed attempts as events.
func (c *call[S, U]) observed(loop *retrypolicy.Loop) *retrypolicy.Loop {
	l := *loop
	l.Observe = func(_ context.Context, at retrypolicy.Attempt) {
		if !c.s.lost() {
			c.discard(&task.AttemptFailed{
				Failure: failure(at.Err, at.Class),
				Delay:   at.Delay, Hint: at.Hint, Final: at.Final, Reason: string(at.Reason),
			})
		}
	}
	return &l
}

// discard reports that the attempt has failed, and that what it streamed must be forgotten.
func (c *call[S, U]) discard(failed *task.AttemptFailed) {
	at := c.s.at()
	failed.Usage = at.used()
	at.running = nil
	c.d.run.emit(failed, at.header())
	c.d.run.emit(&task.AttemptDiscarded{}, at.header())
}

// handle calls the Catch handler of a node that has failed for good.
func (c *call[S, U]) handle(ctx context.Context, failed *NodeError) (U, error) {
	c.s.at().attempt++
	c.next = graph.Next{} // what the node named goes with it
	a := c.begin(ctx, true)
	c.s.whose, c.s.caught = "Catch handler of "+c.prog.whose, failed
	var u U
	var err error
	if c.s.enter() {
		u, err = c.invokeHandler(a, failed)
		if !c.s.leave() {
			return u, errLost
		}
	} else {
		err = c.d.run.ended(ctx)
	}
	a.over.Store(true)
	c.s.caught = nil
	if err == nil {
		return u, nil
	}
	if c.d.run.events != nil {
		c.discard(&task.AttemptFailed{Failure: c.d.run.failure(err), Final: true, Reason: "a Catch handler is not retried"})
	}
	// The first failure was dealt with, so the class is that of the second.
	return u, nodeError(c.s.at(), c.d.run.classify(err), &CatchError{Handler: err, First: failed})
}

func (c *call[S, U]) invokeHandler(a *attempt, failed *NodeError) (u U, err error) {
	s := c.d.m.State()
	if c.d.run.cfg.CheckMutation {
		before := takePicture(s)
		defer before.check(a, s, &err)
	}
	defer task.Recover(c.s.whose, &err)
	return c.node.Catch(a, s, c.t.Items, c.t.Item, failed)
}

// subgraph runs a graph as a node. The child's function nodes make attempts; the node itself counts as one.
func (c *call[S, U]) subgraph(ctx context.Context) (U, error) {
	var none U
	c.s.at().attempt = 1
	in, err := c.in()
	if err != nil {
		return none, c.failed(err)
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
	if err = child.drive(ctx, c.s); c.s.lost() {
		return none, err
	}
	if err != nil {
		if _, is := err.(*NodeError); is { //nolint:errorlint // a node's own
			return none, err // it names the node that failed, by its whole path
		}
		return none, c.failed(err)
	}
	u, err := c.out(child.m.State())
	if err != nil {
		return none, c.failed(err)
	}
	return u, nil
}

func (c *call[S, U]) in() (in any, err error) {
	c.s.whose = c.prog.whoseIn
	defer task.Recover(c.s.whose, &err)
	return c.node.Sub.In(c.d.m.State(), c.t.Items, c.t.Item), nil
}

func (c *call[S, U]) out(state any) (u U, err error) {
	c.s.whose = c.prog.whoseOut
	defer task.Recover(c.s.whose, &err)
	return c.node.Sub.Out(state), nil
}
