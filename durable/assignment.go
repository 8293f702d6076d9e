package durable

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// Executable is code that a worker runs: a *Definition, or a *superstep.Runner.
type Executable interface {
	// Program names it. Its runs are those of this program.
	Program() journal.Program
	// Execute goes on with a run that was taken, until it ends or waits, or ctx ends, and gives up its lease. The error is
	// that of Run, and is for logs: what the run has come to is in its journal. Call it through Attend.
	Execute(ctx context.Context, a *Assignment) error
}

// Starter is code whose runs a client starts, and whose results it reads: a *Definition, or a *superstep.Runner.
type Starter[I, O any] interface {
	// Program names it.
	Program() journal.Program
	// NewRun describes a run that begins with in.
	NewRun(s Settings, in I) (journal.NewRun, error)
	// Result reads the RunComplete of a run.
	Result(s Settings, run string, last journal.Event) (O, error)
}

// Assignment is a run that a worker has taken, and how it is to be run. It is for one Attend.
type Assignment struct {
	// Taken is the run.
	Taken journal.Taken
	// Settings are the worker's. A *superstep.Runner has a Codec, a PayloadLimit and a Classifier of its own.
	Settings Settings
	// Programs are those that the worker runs. A workflow that RunChild starts must be among them.
	Programs []journal.Program
	// Budgets bound how often the run may be begun again.
	Budgets Budgets

	draining atomic.Bool
	busy     atomic.Int32 // calls of the store under way

	mu sync.Mutex
	// open are the execution of the run, and those of the children that its code runs. Begun is true once there was one, and
	// left is that of the run if it was closed without having been finished.
	open  map[*Execution]struct{}
	begun bool
	left  *Execution
	// drained is closed by Drain; nil if nobody waits for that.
	drained chan struct{}
}

// track notes an execution until done is called.
func (a *Assignment) track(x *Execution) (done func()) {
	if a == nil {
		return func() {}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == nil {
		a.open = map[*Execution]struct{}{}
	}
	a.open[x], a.begun = struct{}{}, true
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.open, x)
	}
}

// opened reports whether the run's lease has become an execution's.
func (a *Assignment) opened() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.begun
}

// executions are those that are open.
func (a *Assignment) executions() []*Execution {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.open))
}

// keep takes an execution that was closed and has not finished its run: what becomes of that, Attend decides.
func (a *Assignment) keep(x *Execution) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left = x
}

// unfinished is what keep was given.
func (a *Assignment) unfinished() *Execution {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.left
}

// own reports whether a run is the assignment's, not one that its code runs.
func (a *Assignment) own(id string) bool { return a != nil && a.Taken.Run.ID == id }

// Drain asks the run to stop at its next durable call or super-step. It is then free for others.
func (a *Assignment) Drain() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.draining.Swap(true) && a.drained != nil {
		close(a.drained)
	}
}

// Drained is for executors: it is closed once Drain was called.
func (a *Assignment) Drained() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.drained == nil {
		a.drained = make(chan struct{})
		if a.draining.Load() {
			close(a.drained)
		}
	}
	return a.drained
}

// Draining is for executors: it is set once Drain was called.
func (a *Assignment) Draining() *atomic.Bool { return &a.draining }

// stops reports whether a run is to stop: this worker's own, not what it has started.
func (a *Assignment) stops(x *Execution) bool { return a.own(x.id) && a.draining.Load() }

// Open is for executors: it takes over the run, with the settings that the executor has for what is recorded. If the run's
// owner was lost, that is recorded first. A run that has used up a budget is ended, and the error is its *RunFailedError; all
// other errors are those of the function Open.
func (a *Assignment) Open(ctx context.Context, s Settings) (*Execution, error) {
	own := a.Settings
	s.Store, s.LeaseTTL, s.Heartbeat, s.Owner, s.Logger = own.Store, own.LeaseTTL, own.Heartbeat, own.Owner, own.Logger
	if g, is := guard(s.Store).(guarded); is {
		s.Store = g.counted(&a.busy)
	}
	x := a.execution(ctx, s)
	return x.opened(ctx, x.adopt(ctx))
}

// execution is one of the run, under the lease that was taken.
func (a *Assignment) execution(ctx context.Context, s Settings) *Execution {
	s.assigned = a
	lease := a.Taken.Lease
	x := newExecution(ctx, s.withDefaults(), lease.Run)
	x.owner, x.lease, x.head = lease.Owner, lease, lease.Head
	return x
}

// Strand ends a run that no worker has served for so long, with CodeNoWorker.
func (a *Assignment) Strand(ctx context.Context, waited time.Duration) error {
	p := a.Taken.Run.Program()
	x := a.execution(ctx, a.Settings)
	defer x.close(ctx, true)
	defer x.unwatch()
	var err error
	if x.parent, err = parentOf(ctx, x.settings.Store, x.id); err != nil {
		return err
	}
	x.record = &record{run: a.Taken.Run}
	err = &NoWorkerError{RunID: x.id, Program: p, Waited: waited}
	e := detailed(x.settings.failure(err, CodeNoWorker), func(m *FailureMeta) {
		m.Detail = map[string]string{"name": p.Name, "version": p.Version, "fingerprint": p.Fingerprint, "queue": a.Taken.Run.Queue}
	})
	return x.Finish(ctx, e, time.Time{})
}

// NoWorkerError says that a run was failed since no worker of its queue has served its program for too long.
type NoWorkerError struct {
	RunID   string
	Program journal.Program
	Waited  time.Duration
}

// Error names the run, the program and the time.
func (e *NoWorkerError) Error() string {
	return fmt.Sprintf("pawl: run %q: no worker has served %s %q (version %q, fingerprint %q) for %v: register it with a worker of the "+
		"run's queue, and retry the run", e.RunID, e.Program.Kind, e.Program.Name, e.Program.Version, e.Program.Fingerprint, e.Waited)
}

// Unretryable is true.
func (e *NoWorkerError) Unretryable() bool { return true }

// adopt reads what an execution needs whose lease was taken by others.
func (x *Execution) adopt(ctx context.Context) error {
	if x.settings.assigned.Taken.Was == journal.Running {
		if err := x.noteOwnerGone(ctx); err != nil {
			return err
		}
	}
	if err := x.read(ctx); err != nil {
		return err
	}
	if err := x.checkLease(); err != nil {
		return err
	}
	if err := x.checkOwners(ctx); err != nil {
		return err
	}
	if run := x.Run(); run.Link.Kind == journal.Continuation && len(x.record.scopes) == 0 {
		// What was sent to the run before this one while it ended.
		if err := forward(ctx, x.settings, run.Link.Run, x.id); err != nil {
			return err
		}
		return x.refreshInbox(ctx)
	}
	return nil
}

// checkLease says whether the run was lost before it was opened, as far as its record shows: its code is not to be called then.
func (x *Execution) checkLease() error {
	run := x.Run()
	var reason error
	switch {
	case run.Status.Terminal():
		reason = journal.ErrEnded
	case run.Owner != "" && run.Owner != x.lease.Owner:
		reason = journal.ErrFenced
	default:
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.breakOff(&journal.RefusedError{Run: x.id, Reason: reason, Detail: fmt.Sprintf("it is %s, and its owner %q", run.Status, run.Owner)})
	return x.broken
}

// serves reports whether the worker runs a program. In a process without a worker everything is run.
func (a *Assignment) serves(p journal.Program) bool {
	return a == nil || slices.Contains(a.Programs, p)
}

// queue is where the runs go that a run starts.
func (s Settings) queue() string {
	if s.assigned == nil {
		return ""
	}
	return s.assigned.Taken.Run.Queue
}

// longestNap is how long a Sleep may be that a worker's run does not suspend for.
const longestNap = time.Second
