package durable

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/journal"
)

// Budgets bound how often a run may be begun again before it fails. The defaults, and that the first two count since the run
// has last made progress (a new step:done, or an update that was handled), are Pyrula's ("Errors and retries").
type Budgets struct {
	// MaxRetries is how many owners a run may lose; one more fails it with CodeMaxRetries. 0 is 3, negative none.
	MaxRetries int
	// MaxStoreRequeues is how often a run may be requeued because of the store; once more fails it with CodeStoreDown. 0 is
	// 20, negative none.
	MaxStoreRequeues int
	// PoisonRetries is how many attempts within PoisonTTL may break before they can record anything: because the run cannot
	// be replayed, or is none of this program, or because its code ignored the end of its context. One more fails it, with
	// CodeReplayFailed or, in the last case, CodeMaxRetries. 0 is 3, negative none; a PoisonTTL of 0 is 1 hour.
	PoisonRetries int
	PoisonTTL     time.Duration
}

const (
	defaultMaxRetries       = 3
	defaultMaxStoreRequeues = 20
	defaultPoisonRetries    = 3
	defaultPoisonTTL        = time.Hour
)

// withDefaults fills in what zero means.
func (b Budgets) withDefaults() Budgets {
	return Budgets{
		MaxRetries:       max(cmp.Or(b.MaxRetries, defaultMaxRetries), 0),
		MaxStoreRequeues: max(cmp.Or(b.MaxStoreRequeues, defaultMaxStoreRequeues), 0),
		PoisonRetries:    max(cmp.Or(b.PoisonRetries, defaultPoisonRetries), 0),
		PoisonTTL:        cmp.Or(b.PoisonTTL, defaultPoisonTTL),
	}
}

// budgets are those of the worker; of a process without one, the default ones.
func (s Settings) budgets() Budgets {
	if s.assigned == nil {
		return Budgets{}.withDefaults()
	}
	return s.assigned.Budgets.withDefaults()
}

// RequeueReason says why an attempt at a run was given up. The strings are stable: they are stored.
type RequeueReason string

// The reasons of a RunRequeued.
const (
	RequeuedStore   RequeueReason = "store_unavailable" // the store went out of reach
	RequeuedOwner   RequeueReason = "owner_gone"        // its owner has gone without a word
	RequeuedReplay  RequeueReason = "replay_failed"     // what is recorded and the code do not go together
	RequeuedBlocked RequeueReason = "loop_blocked"      // its code has ignored the end of its context
	RequeuedKey     RequeueReason = "unknown_key"       // it was encrypted with a key that this worker has not
	RequeuedAgain   RequeueReason = "reopened"          // it has failed only with what it has met again
	RequeuedStopped RequeueReason = "stopped"           // its context has ended
)

// requeuedMeta is the Meta of a RunRequeued.
type requeuedMeta struct {
	Reason RequeueReason `json:"reason"`
}

// ReasonOf reads the Meta of a RunRequeued; empty if it cannot be read.
func ReasonOf(e journal.Event) RequeueReason {
	var m requeuedMeta
	if e.Kind != journal.RunRequeued || readMeta(e, &m) != nil {
		return ""
	}
	return m.Reason
}

// takenMeta is the Meta of a RunTaken.
type takenMeta struct {
	Owner string `json:"owner"`
}

// requeues are what a record says of the attempts that were given up.
type requeues struct {
	owners, outages int         // since the run has made progress
	keys            int         // in a row
	broken          []time.Time // when attempts broke
	unread          bool        // nothing can be said of them
}

// add counts an event.
func (r *requeues) add(e journal.Event) error {
	switch e.Kind {
	case journal.StepDone, journal.UpdateDone, journal.UpdateError:
		r.owners, r.outages, r.keys = 0, 0, 0
	case journal.RunRequeued:
		var m requeuedMeta
		if err := readMeta(e, &m); err != nil {
			return err
		}
		switch m.Reason {
		case RequeuedOwner:
			r.owners++
		case RequeuedStore:
			r.outages++
		case RequeuedKey:
			r.keys++
		case RequeuedReplay, RequeuedBlocked:
			r.broken = append(r.broken, e.Time)
		}
	}
	return nil
}

// since counts the broken attempts that are not older than ttl.
func (r *requeues) since(ttl time.Duration) int {
	recent := 0
	for _, at := range r.broken {
		if time.Since(at) < ttl {
			recent++
		}
	}
	return recent
}

// ExhaustedError says that a run was begun again too often without making progress.
type ExhaustedError struct {
	RunID string
	// Reason says what has kept it from coming further, Attempts how often.
	Reason   RequeueReason
	Attempts int
}

// Error names the run, the reason and the number.
func (e *ExhaustedError) Error() string {
	why := "its code ignored the end of its context: give it calls that heed their context"
	switch e.Reason {
	case RequeuedOwner:
		why = "its worker was lost: look at what the run does to its workers"
	case RequeuedStore:
		why = "the store went out of reach"
	}
	return fmt.Sprintf("pawl: run %q was given up after %d attempts without progress, since each time %s", e.RunID, e.Attempts, why)
}

// RunErrorClass returns timeout for code that has ignored the end of its context, else unknown.
func (e *ExhaustedError) RunErrorClass() classifier.RunErrorClass {
	if e.Reason == RequeuedBlocked {
		return classifier.Timeout
	}
	return classifier.Unknown
}

// Unretryable is true.
func (e *ExhaustedError) Unretryable() bool { return true }

// exhausted is the event of a run that has used up a budget.
func (s Settings) exhausted(err *ExhaustedError) journal.Event {
	code := CodeMaxRetries
	if err.Reason == RequeuedStore {
		code = CodeStoreDown
	}
	return detailed(s.failure(err, code), func(m *FailureMeta) {
		m.Detail = map[string]string{"attempts": strconv.Itoa(err.Attempts), "cause": string(err.Reason)}
		if err.Reason == RequeuedBlocked {
			m.Type = "EventLoopBlocked" // what Pyrula calls it
		}
	})
}

// requeue is the event of an attempt that is given up.
func requeue(reason RequeueReason) journal.Event {
	return journal.Event{Kind: journal.RunRequeued, Time: Now(), Meta: meta(requeuedMeta{Reason: reason})}
}

// Stopped is for executors: the event of an attempt whose context has ended.
func Stopped() journal.Event { return requeue(RequeuedStopped) }

// backoff is how long a worker's run waits after its n-th failed attempt, from 1.
func backoff(n int) time.Duration {
	const first, most = 100 * time.Millisecond, time.Minute
	return min(first<<max(min(n-1, 16), 0), most)
}

// later is the time from which an attempt may follow the n-th one that failed. In a process without a worker, its caller
// decides.
func (x *Execution) later(n int) time.Time {
	if x.settings.assigned == nil {
		return time.Time{}
	}
	return Now().Add(backoff(n))
}

// noteOwnerGone records that the owner before was lost. It is done before anything is read, since reading may be what its
// owner has died of.
func (x *Execution) noteOwnerGone(ctx context.Context) error {
	last := requeue(RequeuedOwner)
	taken := journal.Event{Kind: journal.RunTaken, Time: Now(), Meta: meta(takenMeta{Owner: x.owner})}
	if attempts := x.lostInARow(ctx); attempts > x.settings.budgets().MaxRetries {
		x.record = &record{}                                // of which nothing is needed
		x.parent, _ = parentOf(ctx, x.settings.Store, x.id) // who cannot be told will look
		x.Hold(last)
		return x.giveUp(ctx, RequeuedOwner, attempts)
	}
	_, err := x.write(ctx, []journal.Event{last, taken}, time.Time{})
	return err
}

// lostInARow counts the owners that were lost without having written anything, the one before this included.
func (x *Execution) lostInARow(ctx context.Context) int {
	most := x.settings.budgets().MaxRetries + 1
	const each = 2 // events that the loss of an owner writes
	n := 0
	for e, err := range x.settings.Store.Events(ctx, x.id, x.head-int64(each*most)) {
		var m requeuedMeta
		switch {
		case err != nil:
			return 1
		case e.Kind == journal.RunTaken:
		case e.Kind == journal.RunRequeued && readMeta(e, &m) == nil && m.Reason == RequeuedOwner:
			n++
		default:
			n = 0
		}
	}
	return n + 1
}

// checkOwners ends a run that has lost more owners than it may.
func (x *Execution) checkOwners(ctx context.Context) error {
	if lost := x.record.requeues.owners; lost > x.settings.budgets().MaxRetries && x.settings.assigned.Taken.Was == journal.Running {
		return x.giveUp(ctx, RequeuedOwner, lost)
	}
	return nil
}

// giveUp ends the run.
func (x *Execution) giveUp(ctx context.Context, reason RequeueReason, attempts int) error {
	e := x.settings.exhausted(&ExhaustedError{RunID: x.id, Reason: reason, Attempts: attempts})
	if err := x.Finish(ctx, e, time.Time{}); err != nil {
		return err
	}
	return x.FailureError(e)
}

// brokenReplay reports whether an error means that the recorded events and the code do not go together.
func brokenReplay(err error) bool {
	return has[*NonDeterminismError](err) || has[*ReplayError](err) || has[*journal.CorruptError](err)
}

// BrokenAttempt is for executors: it ends an execution that could not replay what is recorded. The run is to be taken up
// again, by code that may know better, but once too often within a time it fails with CodeReplayFailed; see Budgets. It
// returns err, then inside a *RunFailedError, or the error of Finish. Where only a key is missing no budget is spent.
func (x *Execution) BrokenAttempt(ctx context.Context, err error) error {
	for e := range classifier.Tree(err) {
		if e == journal.ErrUnknownKey { //nolint:errorlint // each error of the tree is looked at
			return x.withoutKey(ctx, err)
		}
	}
	return x.brokenAttempt(ctx, err, CodeReplayFailed)
}

// brokenAttempt counts an attempt, and fails the run with a code if it was one too many.
func (x *Execution) brokenAttempt(ctx context.Context, err error, code Code) error {
	b := x.settings.budgets()
	last, attempts := requeue(RequeuedReplay), x.record.requeues.since(b.PoisonTTL)+1
	if attempts > b.PoisonRetries {
		last = detailed(x.settings.failure(err, code), func(m *FailureMeta) {
			m.Detail = map[string]string{"attempts": strconv.Itoa(attempts)}
		})
	}
	if x.record.requeues.unread {
		attempts = x.unknownAttempts()
	}
	if ferr := x.Finish(ctx, last, x.later(attempts)); ferr != nil {
		return ferr
	}
	if last.Kind == journal.RunError {
		failed := x.FailureError(last)
		failed.Err = err
		return failed
	}
	return err
}

// withoutKey leaves a run to those who can read it. In a process without a worker nothing is recorded.
func (x *Execution) withoutKey(ctx context.Context, err error) error {
	if x.settings.assigned == nil {
		return err
	}
	const known = 4 // so that the first wait is one of a second or more
	return cmp.Or(x.Finish(ctx, requeue(RequeuedKey), x.later(known+x.record.requeues.keys)), err)
}

// brokenOpen is BrokenAttempt for a run whose journal cannot even be read. The caller holds the run.
func (x *Execution) brokenOpen(ctx context.Context, err error) error {
	x.record = &record{requeues: x.readableRequeues(ctx)}
	x.parent, _ = parentOf(ctx, x.settings.Store, x.id) // as above
	return x.BrokenAttempt(ctx, err)
}

// readableRequeues looks for attempts that were given up in what can be read of the journal.
func (x *Execution) readableRequeues(ctx context.Context) requeues {
	const maxGaps = 1000
	r := requeues{unread: true}
	after := int64(0)
	for gaps := 0; gaps < maxGaps && after < x.head && ctx.Err() == nil; gaps++ {
		for e, err := range x.settings.Store.Events(ctx, x.id, after) {
			if err != nil {
				break
			}
			after, r.unread = e.Seq, false
			_ = r.add(e) // what cannot be read does not count
		}
		after++ // the one behind could not be read
	}
	return r
}

// outageOver is the event of a run whose execution has met an outage of the store.
func (x *Execution) outageOver() (journal.Event, time.Time) {
	if x.record == nil {
		return requeue(RequeuedStore), x.later(x.unknownAttempts())
	}
	outages := 1 + x.record.requeues.outages
	if x.settings.assigned != nil && outages > x.settings.budgets().MaxStoreRequeues {
		return x.settings.exhausted(&ExhaustedError{RunID: x.id, Reason: RequeuedStore, Attempts: outages}), time.Time{}
	}
	return requeue(RequeuedStore), x.later(outages)
}

// unknownAttempts stands for the number of attempts where it cannot be read, so that they come at a slower and slower pace:
// each has left an event.
func (x *Execution) unknownAttempts() int {
	const most = 8
	return int(min(x.head, most))
}

// progressed notes that the run has made progress. The caller holds mu.
func (x *Execution) progressed(events []journal.Event) {
	if x.settings.assigned == nil || x.record == nil {
		return // nobody asks
	}
	for i := range events {
		if k := events[i].Kind; k == journal.StepDone || k == journal.UpdateDone || k == journal.UpdateError {
			_ = x.record.requeues.add(events[i]) // which reads nothing
		}
	}
}
