package superstep

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/task"
)

// run is what a run and its subgraphs share.
type run struct {
	id     string
	cfg    *Config
	events *events       // nil if nobody listens
	slots  chan struct{} // one for each function node being called; nil if there is no limit
	cancel context.CancelCauseFunc
	// stopping is set when the Runner has been told to stop.
	stopping *atomic.Bool
	// draining is set when the worker of the run ends, and drained closed then; nil without a worker.
	draining *atomic.Bool
	drained  <-chan struct{}
	// timeout is the cause of the end of a run that is not done by its deadline; nil and zero if it may take any time.
	timeout  *RunTimeoutError
	deadline time.Time

	mu         sync.Mutex
	usage      task.Usage
	fatal      error           // a panic of an observer, which fails the run whatever its tasks do
	fatalCause *CancelledError // with which it has ended the run
	abandoned  int
	nodeSlots  map[*nodeProgram]chan struct{}
	// stuck counts the abandoned calls of the Runner that have not come back.
	stuck *atomic.Int64
}

// limitTime gives the run the time it may take, from now.
//
//go:noinline
func (r *run) limitTime(ctx context.Context, limit, left time.Duration) (context.Context, context.CancelFunc) {
	r.timeout, r.deadline = &RunTimeoutError{After: limit}, time.Now().Add(left)
	return context.WithDeadlineCause(ctx, r.deadline, r.timeout)
}

// over reports whether a context has ended. About its deadline the clock decides: a call that returns at the deadline
// returns before the context's own timer has run.
func over(ctx context.Context) bool {
	if ctx.Err() != nil {
		return true
	}
	deadline, ok := ctx.Deadline()
	return ok && !time.Now().Before(deadline)
}

// ended is the error of a run whose context is over.
func (r *run) ended(ctx context.Context) error {
	kind, cause := context.Canceled, context.Cause(ctx)
	switch ctx.Err() { // a context of somebody else's making may return anything
	case nil: // see over
		kind = context.DeadlineExceeded
		if deadline, _ := ctx.Deadline(); r.timeout != nil && deadline.Equal(r.deadline) {
			return r.timeout
		}
	case context.DeadlineExceeded:
		kind = context.DeadlineExceeded
	}
	switch c := cause.(type) { //nolint:errorlint // only the cause itself counts: what it wraps belongs to somebody else
	case *CancelledError:
		if c.RunID == r.id {
			return c
		}
	case *RunTimeoutError:
		if c == r.timeout {
			return c
		}
	case *durable.RunCancelledError:
		return &CancelledError{RunID: r.id, Reason: "somebody has cancelled it", Cause: c, kind: kind}
	case *durable.RunLostError, *durable.StoreUnavailableError, *durable.StoreError:
		return &CancelledError{RunID: r.id, Reason: "its journal cannot be written", Cause: c, kind: kind}
	}
	e := &CancelledError{RunID: r.id, Reason: "the context given to it ended: " + kind.Error(), kind: kind}
	switch cause {
	case context.Canceled, context.DeadlineExceeded: //nolint:errorlint // just these two say no more than the reason
	default:
		e.Cause = cause
	}
	return e
}

// cancelled is a cause of our own making.
func (r *run) cancelled(reason string) *CancelledError {
	return &CancelledError{RunID: r.id, Reason: reason, kind: context.Canceled}
}

// stopped is the error of a run that is to begin nothing more; nil while it may.
func (r *run) stopped() error {
	switch {
	case r.stopping.Load():
		return r.stoppedError()
	case r.draining != nil && r.draining.Load():
		return r.drainedError()
	}
	return nil
}

func (r *run) drainedError() *CancelledError { return r.cancelled("its worker ends") }

func (r *run) stoppedError() *CancelledError {
	e := r.cancelled("the runner was stopped")
	e.also = ErrStopped
	return e
}

// slotsOf returns the slots of a node that has a limit of its own, and nil for any other. They are the run's, so the limit
// holds over all instances of a subgraph.
func (r *run) slotsOf(n *nodeProgram, limit int) chan struct{} {
	if limit == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	slots := r.nodeSlots[n]
	if slots == nil {
		if r.nodeSlots == nil {
			r.nodeSlots = map[*nodeProgram]chan struct{}{}
		}
		slots = make(chan struct{}, limit)
		r.nodeSlots[n] = slots
	}
	return slots
}

// acquire takes a slot, if there are slots to take; it is false if ctx ends first.
func acquire(ctx context.Context, slots chan struct{}) bool {
	if slots == nil {
		return true
	}
	select {
	case slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// fail ends the run because an observer has panicked.
func (r *run) fail(panicked error) {
	r.mu.Lock()
	if r.fatal == nil {
		r.fatal, r.fatalCause = panicked, r.cancelled("an observer panicked")
	}
	r.mu.Unlock()
	r.cancel(r.fatalCause)
}

// abandon leaves a call behind that ignores the end of its context. It is false if the strand is in our own code, and so
// ends by itself.
func (r *run) abandon(s *strand) bool {
	r.stuck.Add(1) // first, since the call may come back at once
	if !s.abandon() {
		r.stuck.Add(-1)
		return false
	}
	r.mu.Lock()
	r.abandoned++
	r.mu.Unlock()
	return true
}

// abandonStrand abandons the goroutine of one or more tasks, and ends them for it.
func (r *run) abandonStrand(ctx context.Context, s *strand) bool {
	if !r.abandon(s) {
		return false
	}
	r.report(&task.TaskAbandoned{}, s.at())
	r.closeTasks(s, r.ended(ctx))
	return true
}

// goexit is the failure of a goroutine that a call has ended with runtime.Goexit. Its tasks are still open.
func (r *run) goexit(ctx context.Context, s *strand) error {
	if over(ctx) {
		return r.ended(ctx)
	}
	cause := error(&task.PanicError{Whose: s.whose, Value: task.ErrGoexit})
	err := cause
	if s.caught != nil {
		err = &CatchError{Handler: cause, First: s.caught}
	}
	if len(s.open) > 0 {
		err = nodeError(s.at(), classifier.Panic, err)
	}
	return err
}

// closeTasks ends the open tasks of a goroutine that cannot do so itself, the innermost first.
func (r *run) closeTasks(s *strand, err error) {
	for ; len(s.open) > 0; s.open = s.open[:len(s.open)-1] {
		at := s.at()
		if at.running != nil {
			failed := &task.AttemptFailed{Failure: r.failure(err), Final: true, Reason: "the call did not return", Usage: at.used()}
			r.report(failed, at)
			r.report(&task.AttemptDiscarded{}, at)
		}
		if r.events != nil {
			r.report(&task.TaskFailed{Failure: r.failure(err)}, at)
		}
	}
}

// nodeError says that a task has failed for good.
func nodeError(at *openTask, class classifier.RunErrorClass, err error) *NodeError {
	return &NodeError{
		Node: at.place.pathOf(at.node.Name), SuperStep: at.step, Task: at.index, Attempts: at.attempt, Class: class, Err: err,
		fannedOut: at.node.Kind.FannedOut(),
	}
}

// emit sends an event that does not come from user code. Callers on a hot path check r.events first.
func (r *run) emit(ev task.Event, h task.Header) {
	if r.events != nil {
		r.events.send(r, ev, h, nil)
	}
}

// report sends an event of an open task; see driver.report.
//
//go:noinline
func (r *run) report(ev task.Event, at *openTask) { r.emit(ev, at.header()) }

// failure is what events say of an error. Our own errors know their class; asking the classifier once more would call
// user code in places where nothing may fail.
func (r *run) failure(err error) task.Failure {
	switch e := err.(type) { //nolint:errorlint // the error itself
	case *NodeError:
		return failure(err, e.Class)
	case *CancelledError:
		return failure(err, classifier.Canceled)
	case *task.PanicError:
		return failure(err, classifier.Panic)
	}
	return failure(err, r.classify(err))
}

func failure(err error, class classifier.RunErrorClass) task.Failure {
	return task.Failure{Class: string(class), Text: classifier.Message(err), Err: err}
}

func (r *run) classify(err error) classifier.RunErrorClass {
	return r.cfg.Classifier.Classify(err).Class
}
