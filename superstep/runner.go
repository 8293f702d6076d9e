package superstep

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/task"
)

// Runner runs a graph in this process. It is safe for concurrent use, and keeps no goroutine
// between runs.
type Runner[S, U any] struct {
	g     *graph.Graph[S, U]
	cfg   Config
	prog  *program[S, U]
	runs  chan struct{} // one for each run under way; nil if there is no limit
	stuck atomic.Int64
	// start is the Meta of a run:start, made when it is first needed.
	start     json.RawMessage
	startOnce sync.Once

	mu      sync.Mutex
	active  int           // runs
	stopped atomic.Bool   // Stop was called; changes under mu
	stop    chan struct{} // closed when it is
	idle    chan struct{} // closed when there is no run any more
}

// NewRunner returns a runner for a graph. It reports every bad field of cfg at once, and logs what is legal but seldom
// meant.
func NewRunner[S, U any](g *graph.Graph[S, U], cfg Config) (*Runner[S, U], error) {
	if g == nil {
		return nil, errors.New("pawl: superstep.NewRunner: the graph is nil: pass what Compile returned, and check its error")
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	r := &Runner[S, U]{g: g, cfg: cfg.withDefaults(), stop: make(chan struct{}), idle: make(chan struct{})}
	var err error
	if r.prog, err = newProgram(g.Plan(), r.cfg.MaxSuperSteps, &r.cfg, children{}); err != nil {
		return nil, err
	}
	if n := r.cfg.MaxConcurrentRuns; n > 0 {
		r.runs = make(chan struct{}, n)
	}
	for _, w := range append(g.Warnings(), r.cfg.Retry.Warnings()...) {
		r.cfg.Logger.Warn("pawl: "+w, "graph", g.Name())
	}
	return r, nil
}

// Result is what a run has come to.
type Result[S any] struct {
	// State is the state after the last super-step that was accepted: the final one if the run succeeded.
	State S
	RunID string
	task.Totals
	// Unfired lists the joins that never fired and the nodes that were never reached, if the run succeeded. Those of
	// subgraphs are reported as events only.
	Unfired []task.Unfired
}

// Run runs the graph from in until nothing is active, and returns the final state. On an error the result is not nil and
// holds the state after the last super-step that was accepted. The error is one of
//
//   - *NodeError: a node failed for good; a Goto that named what it must not has failed so, too
//   - *RouteError, *ReduceError, or a router's *task.PanicError: routing or merging failed
//   - *MaxSuperStepsError, *RunTimeoutError: a limit was reached
//   - *CancelledError: ctx ended, or Stop was called
//   - *task.PanicError of an observer, joined to the error of the run if that failed by itself
//
// With a Store, what fails a run is recorded, and the error is a *durable.RunFailedError, now and each time the run is asked
// for again; errors.As reaches what is listed above through it. Further errors are
//
//   - *durable.SuspendedError: the run waits for an answer, a signal or another run; it is not failed
//   - *durable.RunCancelledError: somebody has cancelled it
//   - *durable.RunLockedError, *durable.RunConflictError, *GraphChangedError: the run was not taken, and is as it was
//   - *durable.StoreUnavailableError, *durable.RunLostError: the run can be gone on with, here or by who has it now
//   - *durable.NonDeterminismError, *durable.ReplayError: what is recorded and the graph do not go together
//
// A run that is refused, for an empty RunID or after Stop, has no events. No goroutine outlives Run, except calls that
// ignored the end of their context for longer than Grace.
func (r *Runner[S, U]) Run(ctx context.Context, in S, opts ...RunOption) (*Result[S], error) {
	id, o, err := r.options(opts)
	if err != nil {
		return &Result[S]{State: in}, err
	}
	return r.execute(ctx, r.newTrunk(&in, id, r.newEvents()), o)
}

// newEvents returns nil if nobody listens.
func (r *Runner[S, U]) newEvents() *events {
	if len(r.cfg.Observers) == 0 {
		return nil
	}
	return newEvents(&r.cfg)
}

// Abandoned is how many calls have been abandoned and have not come back yet.
func (r *Runner[S, U]) Abandoned() int { return int(r.stuck.Load()) }

// Stop drains the runner: no further run and no further super-step starts. The super-steps under way may finish within
// Grace, then they are cancelled; calls that ignore that are left behind after another Grace. A run in its last super-step
// simply completes; the others return an error that is ErrStopped. Stop returns when no run is left, or with ctx's error.
// It may be called at any time, and again; but a run cannot end while one of its observers, or the consumer of its stream,
// waits for Stop.
func (r *Runner[S, U]) Stop(ctx context.Context) error {
	r.mu.Lock()
	if !r.stopped.Swap(true) {
		close(r.stop)
		r.closeIfIdle()
	}
	r.mu.Unlock()
	select {
	case <-r.idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("pawl: runs are still under way: call Stop again to wait for them: %w", ctx.Err())
	}
}

// closeIfIdle tells the Stops that wait. The caller holds mu.
func (r *Runner[S, U]) closeIfIdle() {
	if r.stopped.Load() && r.active == 0 {
		close(r.idle)
	}
}

// countIn counts a run in, unless the runner was stopped.
func (r *Runner[S, U]) countIn(x *run) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped.Load() {
		return x.stoppedError()
	}
	r.active++
	return nil
}

// waitForPlace waits for a place among the MaxConcurrentRuns.
func (r *Runner[S, U]) waitForPlace(ctx context.Context, x *run) error {
	if r.runs == nil {
		return nil
	}
	select {
	case r.runs <- struct{}{}: // a free place is taken whatever else is the case, so that a run always ends the same way
		return nil
	default:
	}
	select {
	case r.runs <- struct{}{}:
		return nil
	case <-ctx.Done():
		return x.ended(ctx)
	case <-r.stop:
		return x.stoppedError()
	case <-x.drained:
		return x.drainedError()
	}
}

func (r *Runner[S, U]) countOut() {
	r.mu.Lock()
	r.active--
	r.closeIfIdle()
	r.mu.Unlock()
}

func (r *Runner[S, U]) leavePlace() {
	if r.runs != nil {
		<-r.runs
	}
}

// execute runs the graph. A goroutine of its own drives it and calls the nodes; this one waits, so that it can walk away
// from a node that ignores the end of its context.
func (r *Runner[S, U]) execute(ctx context.Context, t *trunk[S, U], o *runOptions) (*Result[S], error) {
	x := &t.run
	if err := r.countIn(x); err != nil {
		return &Result[S]{State: t.driver.m.state, RunID: x.id}, err
	}
	defer r.countOut()
	if x.drained != nil { // a worker's run is held while it waits for a place, or others would take it meanwhile
		return r.executeHeld(ctx, t, o)
	}
	if err := r.waitForPlace(ctx, x); err != nil {
		return &Result[S]{State: t.driver.m.state, RunID: x.id}, err
	}
	defer r.leavePlace()
	limit := r.cfg.RunTimeout
	if r.cfg.Store != nil {
		var (
			release func()
			err     error
		)
		if ctx, release, err = r.hold(ctx, t, o); err != nil {
			return r.notHeld(ctx, t, o, err)
		}
		defer release()
		limit -= t.driver.ledger.x.Active() // time suspended does not count, nor does what is past
	}
	return r.begin(ctx, t, limit)
}

// executeHeld is execute for a run that a worker has taken. Nobody is told of its result.
func (r *Runner[S, U]) executeHeld(ctx context.Context, t *trunk[S, U], o *runOptions) (*Result[S], error) {
	res := &Result[S]{State: t.driver.m.state, RunID: t.run.id}
	ctx, release, err := r.hold(ctx, t, o)
	if err != nil {
		return res, err
	}
	defer release()
	x := t.driver.ledger.x
	if err := r.waitForPlace(ctx, &t.run); err != nil {
		return res, t.driver.ledger.conclude(ctx, res, err)
	}
	defer r.leavePlace()
	x.Begin()
	return r.begin(ctx, t, r.cfg.RunTimeout-x.Active())
}

// begin drives a run, which may take so long if the Runner has a RunTimeout.
func (r *Runner[S, U]) begin(ctx context.Context, t *trunk[S, U], limit time.Duration) (*Result[S], error) {
	x := &t.run
	if r.cfg.RunTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = x.limitTime(ctx, r.cfg.RunTimeout, limit)
		defer cancel()
	}
	ctx, x.cancel = context.WithCancelCause(ctx)
	defer x.cancel(nil)
	if x.events != nil {
		r.reportStart(t)
	}
	return t.driver.finish(ctx, r.await(ctx, t))
}

//go:noinline
func (r *Runner[S, U]) reportStart(t *trunk[S, U]) {
	l := t.driver.ledger
	t.driver.report(&task.RunStarted{
		Graph: r.g.Name(), Fingerprint: r.g.Fingerprint(), Resumed: l != nil && l.x.Replaying(),
	}, 0)
}

// await drives the run on another goroutine until it ends or that goroutine has to be abandoned.
func (r *Runner[S, U]) await(ctx context.Context, t *trunk[S, U]) error {
	go t.start(ctx)
	select {
	case err := <-t.done:
		return err
	case <-ctx.Done():
		return r.awaitEnd(ctx, t)
	case <-r.stop:
		return r.awaitStop(ctx, t)
	}
}

// awaitStop lets the super-step finish within Grace, then cancels it.
func (r *Runner[S, U]) awaitStop(ctx context.Context, t *trunk[S, U]) error {
	grace := time.AfterFunc(r.cfg.Grace, func() { t.run.cancel(t.run.stoppedError()) })
	defer grace.Stop()
	return r.awaitEnd(ctx, t)
}

// awaitEnd waits for a run that has been told to end, or is about to be.
func (r *Runner[S, U]) awaitEnd(ctx context.Context, t *trunk[S, U]) error {
	if err, ok := awaitCall(ctx, t.done, &t.strand, r.cfg.Grace); ok {
		return err
	}
	if t.run.abandonStrand(ctx, &t.strand) {
		return t.run.ended(ctx)
	}
	return <-t.done
}

// trunk is the goroutine that drives a run, and all that a run needs, in one allocation.
type trunk[S, U any] struct {
	strand strand
	run    run
	driver driver[S, U]
	done   chan error
}

// newTrunk is kept out of its caller, as driver.report is: a goroutine that only waits for its run is to keep a small stack.
//
//go:noinline
func (r *Runner[S, U]) newTrunk(in *S, id string, e *events) *trunk[S, U] {
	t := &trunk[S, U]{done: make(chan error, 1)}
	x, d := &t.run, &t.driver
	x.id, x.cfg, x.events, x.stopping, x.stuck = id, &r.cfg, e, &r.stopped, &r.stuck
	if n := r.cfg.MaxConcurrency; n > 0 {
		x.slots = make(chan struct{}, n)
	}
	d.place, d.prog = place{run: x, limit: r.prog.limit}, r.prog
	d.m.state = *in
	return t
}

// start is what the goroutine begins with, and small: its stack is moved under it.
func (t *trunk[S, U]) start(ctx context.Context) {
	growStack(1)
	t.work(ctx)
}

func (t *trunk[S, U]) work(ctx context.Context) {
	returned := false
	var err error
	defer func() {
		if !t.strand.finish() {
			t.run.stuck.Add(-1)
			return
		}
		if !returned { // a call has ended the goroutine under us
			err = t.run.goexit(ctx, &t.strand)
			t.run.closeTasks(&t.strand, err)
		}
		t.done <- err
	}()
	d := &t.driver
	d.m.init(d.prog.plan, d.prog.shape, d.m.state, d.prog.limit)
	err = t.driver.drive(ctx, &t.strand)
	returned = true
}

// finish makes the result and reports the end of the run.
func (d *driver[S, U]) finish(ctx context.Context, err error) (*Result[S], error) {
	x := d.run
	res := &Result[S]{State: d.m.State(), RunID: x.id}
	res.SuperSteps = d.m.SuperSteps()
	x.mu.Lock()
	res.Usage, res.Abandoned = x.usage, x.abandoned
	x.mu.Unlock()
	if err == nil {
		res.Unfired = d.m.Unfired()
	}
	if x.events != nil {
		err = x.withPanic(err)
	}
	if d.ledger != nil {
		if err = d.ledger.conclude(ctx, res, err); err != nil {
			res.Unfired = nil
		}
	}
	if x.events == nil {
		return res, err
	}
	sendLast(x, res, err)
	x.events.close()
	if err == nil {
		if err = x.withPanic(nil); err != nil { // of an observer that was told of the success
			res.Unfired = nil
		}
	}
	return res, err
}

// withPanic adds an observer's panic to a run's error. It takes the place of a success, and of the cancel that it caused.
func (r *run) withPanic(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, is := err.(*CancelledError); r.fatal == nil || err == nil || is && c == r.fatalCause { //nolint:errorlint // just that one
		return cmp.Or(r.fatal, err)
	}
	return errors.Join(err, r.fatal)
}

// sendLast reports the end of a run. With CaptureShapes only the stream, whose consumer is the run's caller, sees the state.
func sendLast[S any](x *run, res *Result[S], err error) {
	last := lastEvent(x, res, err)
	if completed, is := last.(*task.RunCompleted[S]); is && !x.events.capture.Full() {
		x.events.deliver(x, last, &task.RunCompleted[S]{Totals: completed.Totals, Unfired: completed.Unfired}, task.Header{}, nil)
		return
	}
	x.emit(last, task.Header{})
}

func lastEvent[S any](x *run, res *Result[S], err error) task.Event {
	if err == nil {
		return &task.RunCompleted[S]{Totals: res.Totals, State: res.State, Unfired: res.Unfired}
	}
	switch e := err.(type) { //nolint:errorlint // one that a node returned is inside a NodeError
	case *durable.SuspendedError:
		return &task.RunSuspended{Totals: res.Totals, Questions: e.Questions(), Signals: e.Signals(), Due: e.Due}
	case *CancelledError, *durable.RunCancelledError, *durable.RunLostError, *durable.StoreUnavailableError:
		return &task.RunCancelled{Totals: res.Totals, Failure: x.failure(err)}
	}
	return &task.RunFailed{Totals: res.Totals, Failure: x.failure(err)}
}
