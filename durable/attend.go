package durable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/task"
)

// Attend has a run executed, on a goroutine of its own, and does not let it hold its worker up: code that ignores the end of
// its context loses the run, and is left behind. When the run's own context ends, since it is cancelled, lost or out of
// time, or when a step is past its timeout, the code has thrice the lease's TTL, or the timeout if that is longer; then the
// attempt counts against the budget of broken ones, as the reason loop_blocked. When ctx ends, the worker goes: the code has
// leave, and the run is free for others at once. The error is that of Execute, or a *BlockedError.
//
// An Execute that panics, ends its goroutine, or returns without the run's having come to anything is a broken attempt, too. A
// run that somebody else may go on with at once, since its runner was stopped say, is kept for a second, or it would be taken
// again and again.
func Attend(ctx context.Context, e Executable, a *Assignment, leave time.Duration) error {
	done := make(chan error, 1)
	go func() {
		var err error
		returned := false
		defer func() {
			if !returned && err == nil {
				err = errGoexit
			}
			done <- err
		}()
		defer task.Recover("executable", &err)
		err = e.Execute(ctx, a)
		returned = true
	}()
	patience := max(blockedTTLs*a.Settings.withDefaults().LeaseTTL, leave)
	look := time.NewTicker(max(a.Settings.withDefaults().LeaseTTL/ticksInTTL, time.Millisecond))
	defer look.Stop()
	left := make(chan struct{}) // closed when the worker has gone for long enough
	goes := context.AfterFunc(ctx, func() { time.AfterFunc(leave, func() { close(left) }) })
	defer goes()
	for {
		select {
		case err := <-done:
			return a.settle(ctx, err)
		case <-left:
			return a.abandon(ctx, e, false)
		case <-look.C:
			if a.blockedFor(patience) {
				return a.abandon(ctx, e, true)
			}
		}
	}
}

const (
	// blockedTTLs is after how many TTLs of its lease an attempt whose code blocks is given up (Pyrula, "When the attempt
	// itself breaks").
	blockedTTLs = 3
	ticksInTTL  = 10
	never       = 1<<63 - 1
)

var errGoexit = errors.New("pawl: the code has ended its goroutine")

// BlockedError says that code was left behind, since it had ignored the end of its context. Its run is free for others.
type BlockedError struct {
	RunID string
	// Counted is true if that counts against the run's budget.
	Counted bool
}

// Error names the run.
func (e *BlockedError) Error() string {
	return fmt.Sprintf("pawl: run %q: its code has ignored the end of its context, and was left behind: give it calls that heed "+
		"their context", e.RunID)
}

// Unretryable is true.
func (e *BlockedError) Unretryable() bool { return true }

// abandon takes the run from its code, and with it the children that the code runs.
func (a *Assignment) abandon(ctx context.Context, e Executable, count bool) error {
	id := a.Taken.Lease.Run
	if !a.opened() {
		a.release(ctx)
	}
	away := a.busy.Load() > 0
	for _, x := range a.executions() {
		x.abandon(ctx, count && x.id == id)
	}
	if away {
		return &StoreUnavailableError{RunID: id, Err: &journal.UnavailableError{Op: "execute", Err: errNoAnswer}}
	}
	a.Settings.withDefaults().Logger.Warn("pawl: code that ignores the end of its context was left behind",
		"run", id, "program", e.Program().Name)
	return &BlockedError{RunID: id, Counted: count}
}

// errNoAnswer is why code has not ended that is not to blame for that.
var errNoAnswer = errors.New("the store has not answered")

// blockedFor reports whether the code, or that of a child, has been told for so long to end and has not. While it waits for
// the store, it cannot.
func (a *Assignment) blockedFor(patience time.Duration) bool {
	if a.busy.Load() > 0 {
		patience = never
	}
	return slices.ContainsFunc(a.executions(), func(x *Execution) bool { return x.blockedFor(patience) })
}

// release gives up a lease that nobody has used.
func (a *Assignment) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storePatience)
	defer cancel()
	s := a.Settings.withDefaults()
	_, err := s.Store.Renew(ctx, a.Taken.Lease, 0)
	if err != nil && !errors.Is(err, journal.ErrFenced) && !errors.Is(err, journal.ErrEnded) {
		s.Logger.Warn("pawl: a lease could not be given up; it ends by itself", "run", a.Taken.Lease.Run, "error", err)
	}
}

// timed is that of the step's run, if it belongs to one.
func (in *inStep) timed(d time.Duration) (done func()) {
	if in.scope == nil {
		return func() {}
	}
	return in.scope.x.timed(d)
}

// timed notes that a call of the user's code is to be done within d, until done is called.
func (x *Execution) timed(d time.Duration) (done func()) {
	if x.settings.assigned == nil || d <= 0 {
		return func() {}
	}
	t := &timing{begun: time.Now(), limit: d}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.timings == nil {
		x.timings = map[*timing]struct{}{}
	}
	x.timings[t] = struct{}{}
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.timings, t)
	}
}

// timing is a call of the user's code with a timeout.
type timing struct {
	begun time.Time
	limit time.Duration
}

// blockedFor reports whether the code has been told for so long to end and has not.
func (x *Execution) blockedFor(patience time.Duration) bool {
	now := time.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ctx.Err() != nil {
		if x.told.IsZero() || patience == never {
			x.told = now
		}
		if now.Sub(x.told) > patience {
			return true
		}
	}
	for t := range x.timings {
		if now.Sub(t.begun) > max(patience, t.limit) {
			return true
		}
	}
	return false
}

// abandon ends the execution under its code, whose further calls return an *AbandonedError.
func (x *Execution) abandon(ctx context.Context, count bool) {
	if !count { // the worker goes, and does not wait for a store
		x.mu.Lock()
		x.patience = time.Now()
		x.mu.Unlock()
	}
	ctx, cancel := x.ending(ctx)
	defer cancel()
	flushing := false
	select {
	case x.flushing <- struct{}{}:
		flushing = true
		defer func() { <-x.flushing }()
	case <-ctx.Done(): // the store is out of reach, and its lease ends by itself
	}
	x.mu.Lock()
	lease, broken := x.lease, x.broken
	a := journal.Append{After: x.head, Events: x.held, Seen: x.seen()}
	x.held = nil
	if broken == nil {
		x.broken = &AbandonedError{RunID: x.id}
	}
	x.mu.Unlock()
	x.cancel(&AbandonedError{RunID: x.id})
	defer x.close(ctx, true)
	if broken != nil || !count || lease.Token == 0 || !flushing {
		return
	}
	attempts := x.record.requeues.since(x.settings.budgets().PoisonTTL) + 1
	last := requeue(RequeuedBlocked)
	if attempts > x.settings.budgets().PoisonRetries {
		last = x.settings.exhausted(&ExhaustedError{RunID: x.id, Reason: RequeuedBlocked, Attempts: attempts})
	}
	last.Took = x.worked()
	a.Events, a.Due = append(a.Events, last), x.later(attempts)
	a.Outbox = x.outbox(a.Events)
	if err := x.settings.Store.Append(ctx, lease, a); err != nil {
		x.settings.Logger.Warn("pawl: the end of an execution could not be recorded", "run", x.id, "error", err)
	}
}
