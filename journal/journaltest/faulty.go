package journaltest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// ErrInjected is what the errors of a Faulty store match that are its own. They are *journal.UnavailableError as well.
var ErrInjected = errors.New("failed by the test")

// Op is a kind of call.
type Op string

// The kinds of calls. The last four read; the others are writes.
const (
	OpCreate   Op = "create"
	OpAcquire  Op = "acquire"
	OpRenew    Op = "renew" // giving up a lease included
	OpAppend   Op = "append"
	OpSend     Op = "send"
	OpDelete   Op = "delete"
	OpPrune    Op = "prune"
	OpTake     Op = "take" // of stranded runs included
	OpAnnounce Op = "announce"
	OpLoad     Op = "load"
	OpEvents   Op = "events"
	OpInbox    Op = "inbox"
	OpList     Op = "list"
)

// When is a moment of a write.
type When string

// The moments of a write.
const (
	Before When = "before" // nothing is written yet
	Inside When = "inside" // some of it is written, but not so that it counts; a Faulty has no such moment
	After  When = "after"  // it is written, or refused, and the caller does not know yet
)

// Write is a write at one of its moments.
type Write struct {
	// N is the number of the write among all that have been tried, from 1.
	N    int
	When When
	Op   Op
	// Run is the id of the run; empty for a prune, a take and an announcement.
	Run string
	// Events are those of a create or an append. They must not be changed.
	Events []journal.Event
	// Err is what the store has answered; always nil Before.
	Err error
}

// Faulty is a store that passes all calls on to another one and fails them as it is told. It is safe for concurrent use.
//
// It has every ability that a store may have. Where the inner store lacks one, the calls of that ability fail with
// errors.ErrUnsupported, and nothing ever comes from the channels of Watch and WatchQueue.
type Faulty struct {
	inner journal.Store

	mu     sync.Mutex
	outage bool
	frozen bool
	writes int
	plans  []*plan
	hook   func(Write)
	calls  map[Op]int
	done   map[Op]int
}

var (
	_ journal.Store   = (*Faulty)(nil)
	_ journal.Lister  = (*Faulty)(nil)
	_ journal.Deleter = (*Faulty)(nil)
	_ journal.Watcher = (*Faulty)(nil)
	_ journal.Queue   = (*Faulty)(nil)
)

// plan is a write that is to fail.
type plan struct {
	left int
	when When
	ops  []Op
}

// NewFaulty returns a store that has no fault yet.
func NewFaulty(inner journal.Store) *Faulty {
	return &Faulty{inner: inner, calls: map[Op]int{}, done: map[Op]int{}}
}

// Outage begins or ends an outage: every call fails, with an *journal.UnavailableError, and nothing is written. Writes that
// the inner store is busy with when an outage begins are done and acknowledged.
func (f *Faulty) Outage(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.outage = on
}

// Freeze is the death of the process, as far as the store is concerned: from now on every call fails, for good, and nothing
// is written. Writes that the inner store is busy with may be done, and are not acknowledged. Open another Faulty on the
// same inner store to go on as the next process; leases stay as they are.
func (f *Faulty) Freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = true
}

// FailWrite makes the n-th write from now fail, with an *journal.UnavailableError; 1 is the next one. Before: it is not
// done. After: it is done but nobody is told, and the error's Unknown is true. With ops only writes of these kinds count.
// Each call of FailWrite counts for itself. Writes during an outage count.
func (f *Faulty) FailWrite(n int, when When, ops ...Op) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plans = append(f.plans, &plan{left: n, when: when, ops: ops})
}

// OnWrite sets the function that is called before and after every write, in place of the last one; nil for none. It is
// called in the goroutine of the write, by several at once if there are, and may call every method of f. What it asks for at
// Before holds for the write itself; a Freeze at After keeps the write from being acknowledged. A write that fails before
// it is done has no After, and one on a frozen store has neither.
func (f *Faulty) OnWrite(hook func(Write)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

// Calls returns how many calls of these kinds have been made, of all kinds if there are none.
func (f *Faulty) Calls(ops ...Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return sum(f.calls, ops)
}

// Done returns how many calls of these kinds, of all kinds if there are none, the inner store has carried out without an
// error, acknowledged or not.
func (f *Faulty) Done(ops ...Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return sum(f.done, ops)
}

// Writes returns how many writes have been tried: the N of the last one.
func (f *Faulty) Writes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes
}

func sum(counts map[Op]int, ops []Op) int {
	total := 0
	for op, n := range counts {
		if len(ops) == 0 || slices.Contains(ops, op) {
			total += n
		}
	}
	return total
}

// Create implements journal.Store.
func (f *Faulty) Create(ctx context.Context, n journal.NewRun) (journal.Lease, error) {
	w := Write{Op: OpCreate, Run: n.Run.ID, Events: n.Events}
	return write(ctx, f, w, func() (journal.Lease, error) { return f.inner.Create(ctx, n) })
}

// Load implements journal.Store.
func (f *Faulty) Load(ctx context.Context, run string) (journal.Run, error) {
	return read(ctx, f, OpLoad, run, func() (journal.Run, error) { return f.inner.Load(ctx, run) })
}

// Acquire implements journal.Store.
func (f *Faulty) Acquire(ctx context.Context, run string, c journal.Claim) (journal.Lease, error) {
	return write(ctx, f, Write{Op: OpAcquire, Run: run}, func() (journal.Lease, error) { return f.inner.Acquire(ctx, run, c) })
}

// Renew implements journal.Store.
func (f *Faulty) Renew(ctx context.Context, l journal.Lease, ttl time.Duration) (journal.Lease, error) {
	return write(ctx, f, Write{Op: OpRenew, Run: l.Run}, func() (journal.Lease, error) { return f.inner.Renew(ctx, l, ttl) })
}

// Append implements journal.Store.
func (f *Faulty) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	_, err := write(ctx, f, Write{Op: OpAppend, Run: l.Run, Events: a.Events}, func() (struct{}, error) {
		return struct{}{}, f.inner.Append(ctx, l, a)
	})
	return err
}

// Events implements journal.Store. A fault that comes while it is read cuts it short.
func (f *Faulty) Events(ctx context.Context, run string, after int64) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		if err := f.begin(ctx, OpEvents, run); err != nil {
			yield(journal.Event{}, err)
			return
		}
		for e, err := range f.inner.Events(ctx, run, after) {
			if fault := f.fault(OpEvents, run); fault != nil {
				e, err = journal.Event{}, fault
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
		f.finish(OpEvents)
	}
}

// Send implements journal.Store.
func (f *Faulty) Send(ctx context.Context, run string, m journal.Message) (journal.Message, error) {
	return write(ctx, f, Write{Op: OpSend, Run: run}, func() (journal.Message, error) { return f.inner.Send(ctx, run, m) })
}

// Inbox implements journal.Store.
func (f *Faulty) Inbox(ctx context.Context, run string, after int64) ([]journal.Message, error) {
	return read(ctx, f, OpInbox, run, func() ([]journal.Message, error) { return f.inner.Inbox(ctx, run, after) })
}

// List implements journal.Lister.
func (f *Faulty) List(ctx context.Context, q journal.Query) (journal.Page, error) {
	inner, ok := f.inner.(journal.Lister)
	if !ok {
		return journal.Page{}, unsupported(OpList)
	}
	return read(ctx, f, OpList, "", func() (journal.Page, error) { return inner.List(ctx, q) })
}

// Delete implements journal.Deleter.
func (f *Faulty) Delete(ctx context.Context, run string) error {
	inner, ok := f.inner.(journal.Deleter)
	if !ok {
		return unsupported(OpDelete)
	}
	_, err := write(ctx, f, Write{Op: OpDelete, Run: run}, func() (struct{}, error) { return struct{}{}, inner.Delete(ctx, run) })
	return err
}

// Prune implements journal.Deleter.
func (f *Faulty) Prune(ctx context.Context, before time.Time, statuses ...journal.Status) (int, error) {
	inner, ok := f.inner.(journal.Deleter)
	if !ok {
		return 0, unsupported(OpPrune)
	}
	return write(ctx, f, Write{Op: OpPrune}, func() (int, error) { return inner.Prune(ctx, before, statuses...) })
}

// Watch implements journal.Watcher. It has no faults.
func (f *Faulty) Watch(run string) (<-chan struct{}, func()) {
	if inner, ok := f.inner.(journal.Watcher); ok {
		return inner.Watch(run)
	}
	return nil, func() {}
}

// Take implements journal.Queue.
func (f *Faulty) Take(ctx context.Context, t journal.Take) ([]journal.Taken, error) {
	inner, ok := f.inner.(journal.Queue)
	if !ok {
		return nil, unsupported(OpTake)
	}
	return write(ctx, f, Write{Op: OpTake}, func() ([]journal.Taken, error) { return inner.Take(ctx, t) })
}

// TakeStranded implements journal.Queue.
func (f *Faulty) TakeStranded(ctx context.Context, t journal.Take, waited time.Duration) ([]journal.Taken, error) {
	inner, ok := f.inner.(journal.Queue)
	if !ok {
		return nil, unsupported(OpTake)
	}
	return write(ctx, f, Write{Op: OpTake}, func() ([]journal.Taken, error) { return inner.TakeStranded(ctx, t, waited) })
}

// Announce implements journal.Queue.
func (f *Faulty) Announce(ctx context.Context, queue string, programs []journal.Program) error {
	inner, ok := f.inner.(journal.Queue)
	if !ok {
		return unsupported(OpAnnounce)
	}
	_, err := write(ctx, f, Write{Op: OpAnnounce}, func() (struct{}, error) {
		return struct{}{}, inner.Announce(ctx, queue, programs)
	})
	return err
}

// WatchQueue implements journal.Queue. It has no faults.
func (f *Faulty) WatchQueue(queue string) (<-chan struct{}, func()) {
	if inner, ok := f.inner.(journal.Queue); ok {
		return inner.WatchQueue(queue)
	}
	return nil, func() {}
}

// read passes a call on that writes nothing.
func read[T any](ctx context.Context, f *Faulty, op Op, run string, call func() (T, error)) (T, error) {
	var none T
	if err := f.begin(ctx, op, run); err != nil {
		return none, err
	}
	result, err := call()
	if err != nil {
		return none, err
	}
	if err := f.fault(op, run); err != nil {
		return none, err
	}
	f.finish(op)
	return result, nil
}

// write passes a write on, with all that may happen to it.
func write[T any](ctx context.Context, f *Faulty, w Write, call func() (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	lost, err := f.beforeWrite(&w)
	if err != nil {
		return none, err
	}
	result, err := call()
	if err == nil {
		f.finish(w.Op)
	}
	if err := f.afterWrite(w, err, lost); err != nil {
		return none, err
	}
	return result, err
}

// beforeWrite counts a write, and reports whether its acknowledgement will be lost.
func (f *Faulty) beforeWrite(w *Write) (lost bool, err error) {
	f.mu.Lock()
	f.calls[w.Op]++
	frozen := f.frozen
	if !frozen {
		f.writes++
	}
	w.N, w.When = f.writes, Before
	hook := f.hook
	f.mu.Unlock()
	if frozen {
		return false, f.fault(w.Op, w.Run)
	}
	if hook != nil {
		hook(*w)
	}
	before, after := f.due(w.Op)
	if err := f.fault(w.Op, w.Run); err != nil {
		return false, err
	}
	if before {
		return false, unavailable(w.Op, w.Run, "not done", false)
	}
	return after, nil
}

// due counts a write on every plan, and says which moments of it are to fail.
func (f *Faulty) due(op Op) (before, after bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plans = slices.DeleteFunc(f.plans, func(p *plan) bool {
		if len(p.ops) > 0 && !slices.Contains(p.ops, op) {
			return false
		}
		p.left--
		if p.left > 0 {
			return false
		}
		before = before || p.when == Before
		after = after || p.when == After
		return true
	})
	return before, after
}

func (f *Faulty) afterWrite(w Write, err error, lost bool) error {
	f.mu.Lock()
	hook := f.hook
	f.mu.Unlock()
	w.When, w.Err = After, err
	if hook != nil {
		hook(w)
	}
	f.mu.Lock()
	frozen := f.frozen
	f.mu.Unlock()
	switch {
	case frozen:
		return unavailable(w.Op, w.Run, "the store is frozen", true)
	case lost:
		return unavailable(w.Op, w.Run, "the acknowledgement is lost", true)
	}
	return nil
}

// begin counts a read and says whether it may go on.
func (f *Faulty) begin(ctx context.Context, op Op, run string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	f.calls[op]++
	f.mu.Unlock()
	return f.fault(op, run)
}

func (f *Faulty) finish(op Op) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done[op]++
}

// fault says what keeps all calls from the inner store at the moment.
func (f *Faulty) fault(op Op, run string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.frozen:
		return unavailable(op, run, "the store is frozen", false)
	case f.outage:
		return unavailable(op, run, "an outage", false)
	}
	return nil
}

func unavailable(op Op, run, why string, unknown bool) error {
	what := string(op)
	if run != "" {
		what = fmt.Sprintf("%s of run %.100q", op, run)
	}
	return &journal.UnavailableError{Op: what, Unknown: unknown, Err: fmt.Errorf("%s: %w", why, ErrInjected)}
}

func unsupported(op Op) error {
	return fmt.Errorf("pawl: %s: the inner store cannot: %w", op, errors.ErrUnsupported)
}
