package superstep

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
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
	u    U                // what the last attempt returned
	next graph.Next       // what it named, if the node is a Goto
	held [2]chan struct{} // slots to give back
	// Of a run with a journal:
	scope string    // the task's
	begun time.Time // when it began
	last  *attempt  // the last that was made
	// failure is what it has failed with.
	failure error
	made    []attempt // to be used
	used    int       // attempts used so far
}

// runTask runs the i-th task, whatever attempts that takes, and completes it in the machine. The error is a failure for
// good, or the end of ctx. Then the task must be closed; unless s was lost on the way: then nothing more may be touched,
// and the result means nothing.
func (d *driver[S, U]) runTask(ctx context.Context, c *call[S, U], s *strand, i int) error {
	c.d, c.s, c.t = d, s, &d.m.Tasks()[i]
	c.node, c.prog = &d.prog.plan.Nodes[c.t.Node], &d.prog.nodes[c.t.Node]
	s.push(&d.place, spot{node: &c.node.NodeConfig, step: d.m.SuperStep(), index: c.t.Index})
	if d.run.events != nil {
		d.run.report(&task.TaskStarted{}, s.at())
	}
	if d.ledger != nil {
		c.scope, c.begun, c.last = d.scopeOf(i), time.Now(), nil
	}
	var err error
	switch {
	case c.node.MaxConcurrency > 0 || d.run.slots != nil:
		err = c.limited(ctx)
	case c.prog.child != nil:
		err = c.subgraph(ctx)
	default:
		err = c.function(ctx)
	}
	if s.lost() {
		return err
	}
	switch {
	case err != nil:
	case d.ledger != nil:
		err = d.ledger.outcome(ctx, i, c)
	default:
		err = d.m.complete(i, &c.u, &c.next)
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
	case isSuspended(err):
		r.report(&task.TaskSuspended{}, at)
	case err != nil:
		if at.running != nil { // it did its work, and the journal did not take it, or has stopped it
			c.discard(&task.AttemptFailed{Failure: r.failure(err), Final: true, Reason: "its outcome does not count"})
		}
		r.report(&task.TaskFailed{Failure: r.failure(err)}, at)
	default:
		r.report(&task.TaskCompleted{Usage: at.used()}, at)
	}
	c.s.open = c.s.open[:len(c.s.open)-1]
	if c.held != [2]chan struct{}{} {
		c.release()
	}
}

// failed says that the task has failed for good.
func (c *call[S, U]) failed(err error) *NodeError {
	return nodeError(c.s.at(), c.d.run.classify(err), err)
}

// limited runs the task when the limits on concurrency allow it. A subgraph takes no slot of the run's: its nodes do. The
// slots are kept until release: if the task has failed, its siblings must hear of it before one of them gets its place.
func (c *call[S, U]) limited(ctx context.Context) error {
	slots := [2]chan struct{}{c.d.run.slotsOf(c.prog, c.node.MaxConcurrency)}
	if c.prog.child == nil {
		slots[1] = c.d.run.slots
	}
	for i, s := range slots {
		if !acquire(ctx, s) {
			return c.d.run.ended(ctx)
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
func (c *call[S, U]) function(ctx context.Context) error {
	if c.d.ledger != nil && c.node.Catch != nil {
		if failed, err := c.d.ledger.caught(c); err != nil {
			return err
		} else if failed != nil {
			return c.handle(ctx, failed)
		}
	}
	err := c.attempts(ctx)
	if err != nil && c.doubtful(ctx, err) {
		if err = c.d.ledger.x.Reopen(ctx, c.scope, c.failure); err == nil {
			err = c.attempts(ctx)
		}
	}
	switch {
	case err == nil || over(ctx) || c.s.lost() || isVerdict(err):
		return err
	case isUnkept(err):
		return c.failed(err)
	}
	catch := c.node.Catch != nil && catchable(err)
	if c.d.ledger != nil {
		var journaled error
		if err, journaled = c.d.ledger.failure(ctx, c, err, catch); journaled != nil {
			return journaled
		}
	}
	failed := c.failed(err)
	if !catch {
		return failed
	}
	return c.handle(ctx, failed)
}

// attempts calls the node under its retry policy. A first attempt without a time limit is made here, since the loop has nothing
// to add to one that succeeds.
func (c *call[S, U]) attempts(ctx context.Context) error {
	if c.prog.loop.Timeout > 0 || ctx.Err() != nil {
		_, err := retrypolicy.Do(ctx, c.loop(), c.again)
		return verdictOr(err)
	}
	c.s.at().attempt = 1
	err := c.attempt(ctx)
	if err == nil || isVerdict(err) {
		return err
	}
	_, err = retrypolicy.After(ctx, c.loop(), err, c.again)
	return verdictOr(err)
}

// doubtful reports whether the task has failed with what it only met again after a crash, and what nobody may have handled
// before: then that is to be called again, and the attempts so far do not count.
func (c *call[S, U]) doubtful(ctx context.Context, err error) bool {
	return c.d.ledger != nil && !over(ctx) && !c.s.lost() && !isVerdict(err) && c.d.ledger.x.Doubtful(c.scope, c.failure)
}

// again makes one of the loop's attempts.
//
//nolint:unparam // it is what retrypolicy.Do calls
func (c *call[S, U]) again(ctx context.Context, number int) (struct{}, error) {
	if c.d.ledger != nil && number > 1 {
		// What the attempt before has failed with is not handled, whatever has gone on beside it.
		if err := c.d.ledger.x.Reopen(ctx, c.scope, c.failure); err != nil {
			return struct{}{}, err
		}
	}
	c.s.at().attempt = number
	return struct{}{}, c.attempt(ctx)
}

// isSuspended reports whether a task has not failed but waits for something.
func isSuspended(err error) bool {
	_, is := err.(*durable.SuspendedError) //nolint:errorlint // the verdict itself
	return is
}

// isVerdict reports whether an error is no failure of the task, but what its journal has to say: it waits, or the run
// cannot go on here. Neither a retry policy nor a Catch handler is asked.
func isVerdict(err error) bool {
	switch err.(type) { //nolint:errorlint // as it is: attempt.outcome hides what another run met
	case *durable.SuspendedError, *durable.NonDeterminismError, *durable.ReplayError, *durable.RunCancelledError,
		*durable.StoreUnavailableError, *durable.StoreError, *durable.RunLostError:
		return true
	}
	return false
}

// isUnkept reports whether a task has failed since a result of it cannot be recorded, which ends the run.
func isUnkept(err error) bool {
	switch err.(type) { //nolint:errorlint // see isVerdict
	case *journal.NotSerializableError, *journal.PayloadTooLargeError:
		return true
	}
	return false
}

// verdictOr returns what has ended a retry loop that is not for it to judge, or the loop's error.
func verdictOr(err error) error {
	//nolint:errorlint // what Do returns
	if gaveUp, is := err.(*retrypolicy.AttemptsError); is && (isVerdict(gaveUp.Err) || isUnkept(gaveUp.Err)) {
		return gaveUp.Err
	}
	return err
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

// handle calls the Catch handler of a node that has failed for good.
func (c *call[S, U]) handle(ctx context.Context, failed *NodeError) error {
	c.s.at().attempt++
	c.next = graph.Next{} // what the node named goes with it
	a := c.begin(ctx, true)
	c.s.whose, c.s.caught = "Catch handler of "+c.prog.whose, failed
	var err error
	if c.s.enter() {
		err = c.invokeHandler(a, failed)
		if !c.s.leave() {
			return errLost
		}
	} else {
		err = c.d.run.ended(ctx)
	}
	a.over.Store(true)
	c.s.caught = nil
	if err = a.outcome(err); err == nil || isVerdict(err) {
		return err
	}
	if c.d.run.events != nil {
		c.discard(&task.AttemptFailed{Failure: c.d.run.failure(err), Final: true, Reason: "a Catch handler is not retried"})
	}
	class, unkept := c.d.run.classify(err), isUnkept(err) // the first failure was dealt with
	err = &CatchError{Handler: err, First: failed}
	if c.d.ledger != nil && !over(ctx) && !unkept {
		var journaled error
		if err, journaled = c.d.ledger.failure(ctx, c, err, false); journaled != nil {
			return journaled
		}
	}
	return nodeError(c.s.at(), class, err)
}

func (c *call[S, U]) invokeHandler(a *attempt, failed *NodeError) (err error) {
	s := c.d.m.State()
	if c.d.run.cfg.CheckMutation {
		before := takePicture(s)
		defer before.check(a, s, &err)
	}
	defer task.Recover(c.s.whose, &err)
	c.u, err = c.node.Catch(a, s, c.t.Items, c.t.Item, failed)
	return err
}

// loop is the node's. Where somebody listens it is a copy that reports failed attempts as events.
func (c *call[S, U]) loop() *retrypolicy.Loop {
	if c.d.run.events == nil {
		return &c.prog.loop
	}
	l := c.prog.loop
	l.Observe = func(_ context.Context, at retrypolicy.Attempt) {
		if !c.s.lost() && !isVerdict(at.Err) {
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
	c.d.run.report(failed, at)
	c.d.run.report(&task.AttemptDiscarded{}, at)
}
