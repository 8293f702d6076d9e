package durable

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/pawl-go/pawl/journal"
)

// Execution is for executors: one go at a run by one owner, from taking its lease to giving it up. It holds what is
// recorded and writes what is new. It is safe for concurrent use. Close it.
type Execution struct {
	settings Settings
	id       string
	owner    string // names it in leases, and nothing else
	record   *record
	// ctx ends when the run is cancelled or lost, or Close is called.
	ctx    context.Context //nolint:containedctx // its end is a fact of the execution
	cancel context.CancelCauseFunc
	keeper sync.WaitGroup
	begun  time.Time
	// parent is the run that has started this one, by itself or by what it continues; empty if none has. Next is the run that
	// this one goes on as.
	parent, next string
	// changed says that messages may have come; nil if the store cannot say so. It is watched from before the run is taken.
	changed <-chan struct{}
	unwatch func()
	untrack func() // ends what the worker knows of it

	// flushing has a token while an append is under way.
	flushing chan struct{}

	mu      sync.Mutex
	lease   journal.Lease
	head    int64
	waiting *batch          // gathers while an append is under way
	held    []journal.Event // go along with the next append
	broken  error           // why nothing more is written
	// finished is true once the last event of the execution is written.
	finished bool
	waits    []Wait // what the run is suspended on, so far
	inbox    []journal.Message
	taken    map[int64]bool // messages that were consumed
	// known is the last message that was there when the run was taken. Those before sifted were looked at for what concerns the
	// run as a whole: whether it is paused, and who asks it something. Looked is what sifted was when the waits were collected.
	known          int64
	sifted, looked int
	paused         bool
	guests         []journal.Message // updates and queries that nobody has dealt with
	body           *Scope            // of a workflow
	// failures says which calls the errors come from that were returned and that somebody still has.
	failures map[weak.Pointer[journal.RecordedError]]FailedCall
	// doubts are failures that were met again and that perhaps nobody has handled.
	doubts map[FailedCall]bool
	// timings are the calls of the user's code under way that have a timeout. Told is when the end of the context was seen.
	timings map[*timing]struct{}
	told    time.Time
	// patience ends what is still tried of the store when the execution ends; zero while that has not begun.
	patience time.Time
}

// batch is what is written with one append.
type batch struct {
	events []journal.Event
	size   int   // of their payloads, in bytes
	first  int64 // the number of the first one, once it is written
	err    error
	done   chan struct{}
}

// maxBatchBytes bounds what is written together: stores have limits for a row.
const maxBatchBytes = 8 << 20

func sizeOf(events []journal.Event) int {
	size := 0
	for i := range events {
		size += len(events[i].Payload) + len(events[i].Meta)
	}
	return size
}

// Open takes a run that exists already, or creates the one that fresh describes; without fresh, a run that does not exist is
// a *journal.NotFoundError. A run that has ended is an *EndedError with its last event; one that another owner holds is a
// *RunLockedError; a store that is out of reach, a *StoreUnavailableError.
func Open(ctx context.Context, s Settings, id string, fresh func() (journal.NewRun, error)) (*Execution, error) {
	s = s.withDefaults()
	x := newExecution(ctx, s, id)
	err := x.acquire(ctx)
	if errors.Is(err, journal.ErrNotFound) && fresh != nil {
		if err = x.create(ctx, fresh); errors.Is(err, journal.ErrExists) {
			err = x.acquire(ctx) // somebody was faster
		}
	}
	return x.opened(ctx, err)
}

// Create makes a new run and holds it. A run of that id that exists already is a *journal.ExistsError.
func Create(ctx context.Context, s Settings, id string, fresh func() (journal.NewRun, error)) (*Execution, error) {
	x := newExecution(ctx, s.withDefaults(), id)
	return x.opened(ctx, x.create(ctx, fresh))
}

func newExecution(ctx context.Context, s Settings, id string) *Execution {
	x := &Execution{
		settings: s, id: id, owner: s.Owner + "/" + rand.Text()[:8], begun: time.Now(), unwatch: func() {},
		flushing: make(chan struct{}, 1), failures: map[weak.Pointer[journal.RecordedError]]FailedCall{},
		doubts: map[FailedCall]bool{},
	}
	x.ctx, x.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	x.changed, x.unwatch = watch(s.Store, id)
	x.untrack = s.assigned.track(x)
	return x
}

// opened starts the keeper of an execution that holds its run, or gives everything up.
func (x *Execution) opened(ctx context.Context, err error) (*Execution, error) {
	if err == nil {
		if n := len(x.inbox); n > 0 {
			x.known = x.inbox[n-1].Seq
		}
		x.keeper.Go(x.keep)
		x.heedCancel()
		return x, nil
	}
	x.unwatch()
	if x.settings.assigned != nil && errors.Is(err, journal.ErrUnavailable) {
		x.salvage(ctx, &StoreUnavailableError{RunID: x.id, Err: err})
	}
	if lost := (*journal.UnavailableError)(nil); errors.As(err, &lost) && lost.Unknown && x.lease.Token == 0 {
		x.reclaim(ctx)
	}
	if x.lease.Token != 0 && brokenReplay(err) {
		err = x.brokenOpen(ctx, err)
	}
	x.Close(ctx)
	if errors.Is(err, journal.ErrEnded) {
		err = x.ended(ctx)
	}
	return nil, storeError(x.id, err)
}

// claim names this execution, and no other.
func (x *Execution) claim() journal.Claim {
	return journal.Claim{Owner: x.owner, TTL: x.settings.LeaseTTL}
}

// reclaim gets hold of a lease whose acknowledgement was lost, so that Close can give it up.
func (x *Execution) reclaim(ctx context.Context) {
	ctx, cancel := x.ending(ctx)
	defer cancel()
	if lease, err := x.settings.Store.Acquire(ctx, x.id, x.claim()); err == nil {
		x.lease = lease
	}
}

func (x *Execution) acquire(ctx context.Context) (err error) {
	if x.lease, err = x.settings.Store.Acquire(ctx, x.id, x.claim()); err != nil {
		return err
	}
	x.head = x.lease.Head
	return x.read(ctx)
}

// read reads what is recorded of the run, which the caller holds, and what was sent to it.
func (x *Execution) read(ctx context.Context) (err error) {
	if x.record, err = readRecord(ctx, x.settings, x.id, false); err != nil {
		return err
	}
	if x.parent, err = x.record.parent(); err != nil {
		return err
	}
	x.taken = x.record.taken
	return x.refreshInbox(ctx)
}

func (x *Execution) create(ctx context.Context, fresh func() (journal.NewRun, error)) error {
	n, err := fresh()
	if err != nil {
		return err
	}
	n.Run.ID = x.id
	n.Claim = x.claim()
	if x.lease, err = x.settings.Store.Create(ctx, n); err != nil {
		return err
	}
	x.head = x.lease.Head
	for i := range n.Events {
		n.Events[i].Seq = int64(i + 1)
	}
	if x.record, err = newRecord(n.Run, n.Events, nil); err != nil {
		return err
	}
	if x.parent, err = x.record.parent(); err != nil {
		return err
	}
	for i := range n.Messages {
		n.Messages[i].Seq = int64(i + 1)
	}
	x.inbox, x.taken = n.Messages, x.record.taken
	return nil
}

// ended says how a run has ended that can no longer be taken.
func (x *Execution) ended(ctx context.Context) error {
	r, err := readRecord(ctx, x.settings, x.id, false)
	if err != nil {
		return err
	}
	return &EndedError{Run: r.run, Start: r.start, Last: r.last}
}

func storeError(id string, err error) error {
	var locked *journal.LockedError
	switch {
	case errors.As(err, &locked):
		return &RunLockedError{RunID: id, Owner: locked.Owner, Until: locked.Until}
	case errors.As(err, new(*StoreUnavailableError)):
	case errors.Is(err, journal.ErrUnavailable):
		return &StoreUnavailableError{RunID: id, Err: err}
	}
	return err
}

// RunID names the run.
func (x *Execution) RunID() string { return x.id }

// Run is the run's record as it was when it was taken.
func (x *Execution) Run() journal.Run { return x.record.run }

// Start is the run's first event.
func (x *Execution) Start() journal.Event { return x.record.start }

// Replaying reports whether the run had events beside its start when it was taken.
func (x *Execution) Replaying() bool { return x.record.replaying }

// Active is how long owners have had the run before this execution, as far as that is recorded.
func (x *Execution) Active() time.Duration { return x.record.active }

// History returns the events of a scope, in order, as they were recorded when the run was taken, without failures that
// nobody has handled yet.
func (x *Execution) History(scope string) []journal.Event {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.record.scopes[scope]
}

// end is why the execution's context has ended; nil if it has not.
func (x *Execution) end() error { return context.Cause(x.ctx) }

// Context returns a context that ends when ctx does, and also when the run is cancelled by somebody, with a
// *RunCancelledError as its cause, or is lost to another owner. Stop releases it.
func (x *Execution) Context(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	release := context.AfterFunc(x.ctx, func() { cancel(context.Cause(x.ctx)) })
	return ctx, func() {
		release()
		cancel(nil)
	}
}

// Append writes events, in this order, numbers them, and returns when they are durable. It does not end with ctx: what has
// happened is recorded, whoever has lost interest in it. While an append is under way, the next ones gather and are written
// together. After an error nothing more is written: every later Append returns that error.
func (x *Execution) Append(ctx context.Context, events ...journal.Event) error {
	x.mu.Lock()
	if err := x.broken; err != nil {
		x.mu.Unlock()
		return err
	}
	b, at, size := x.waiting, 0, sizeOf(events)
	if b != nil && b.size+size <= maxBatchBytes { // whoever has begun it writes it
		at = len(b.events)
		b.events, b.size = append(b.events, events...), b.size+size
		x.mu.Unlock()
		<-b.done
	} else {
		b = &batch{events: slices.Clip(events), size: size, err: errNotWritten, done: make(chan struct{})}
		x.waiting = b
		x.mu.Unlock()
		x.flush(ctx, b)
	}
	for i := range events {
		events[i].Seq = b.first + int64(at+i)
	}
	return b.err
}

// errNotWritten is what those hear who wait for a write whose goroutine has ended.
var errNotWritten = errors.New("pawl: the events were not written")

// flush writes a batch.
func (x *Execution) flush(ctx context.Context, b *batch) {
	x.flushing <- struct{}{}
	defer func() { <-x.flushing }()
	defer close(b.done)
	x.mu.Lock()
	if x.waiting == b { // else it was full, and another one gathers
		x.waiting = nil
	}
	x.mu.Unlock()
	b.first, b.err = x.write(ctx, b.events, time.Time{})
}

// write appends to the journal, and returns the number of the first of the events. The caller has the token of flushing.
func (x *Execution) write(ctx context.Context, events []journal.Event, due time.Time) (first int64, _ error) {
	x.mu.Lock()
	if err := x.broken; err != nil {
		x.mu.Unlock()
		return 0, err
	}
	lease, after, seen := x.lease, x.head, x.seen()
	first = after + 1 + int64(len(x.held))
	if len(x.held) > 0 {
		events = append(x.held, events...)
		x.held = nil
	}
	x.mu.Unlock()
	if len(events) == 0 {
		return first, nil
	}
	deadline := time.Now().Add(storePatience)
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	err := outage("append", x.settings.Store.Append(ctx, lease, journal.Append{
		After: after, Events: events, Due: due, Seen: seen, Outbox: x.outbox(events),
	}))
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil {
		x.patience = deadline
		x.breakOff(err)
		return 0, x.broken
	}
	x.head = after + int64(len(events))
	x.progressed(events)
	return first, nil
}

// outbox is what goes to other runs with these events: the end of a child wakes its parent, which may wait for it in another
// worker by now, and that of a run that goes on as another one wakes that.
func (x *Execution) outbox(events []journal.Event) []journal.Letter {
	switch last := events[len(events)-1].Kind; {
	case last == journal.RunContinued && x.Run().Queue != "":
		return []journal.Letter{{Run: x.next, Message: journal.Message{
			Kind: journal.ChainMessage, Name: x.id, Key: ownKeys + "chain", Time: Now(),
		}}}
	case last.Terminal() && (x.settings.assigned != nil || x.Run().Queue != ""): // else who has it waits with it
		return childEnded(x.id, x.parent)
	}
	return nil
}

// outage makes an outage of the end of our own time for a call: a store that is not done by then is out of reach.
func outage(op string, err error) error {
	ended := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	if !ended || errors.Is(err, journal.ErrUnavailable) {
		return err
	}
	return &journal.UnavailableError{Op: op, Unknown: !isContextError(err), Err: err}
}

// ending is the time that the calls have, together, that end an execution: nobody is left who could cancel them. Should the
// write before them have used it up, each still has a moment, since a store that is back can say where the run stands.
func (x *Execution) ending(ctx context.Context) (context.Context, context.CancelFunc) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.patience.IsZero() {
		x.patience = time.Now().Add(storePatience)
	}
	deadline := x.patience
	if least := time.Now().Add(lastPatience); deadline.Before(least) {
		deadline = least
	}
	return context.WithDeadline(context.WithoutCancel(ctx), deadline)
}

// breakOff keeps the execution from writing anything more. The caller holds mu.
func (x *Execution) breakOff(err error) {
	if x.broken != nil {
		return
	}
	switch {
	case errors.Is(err, journal.ErrUnavailable):
		x.broken = &StoreUnavailableError{RunID: x.id, Err: err}
	case errors.Is(err, journal.ErrFenced), errors.Is(err, journal.ErrEnded):
		x.broken = &RunLostError{RunID: x.id, Err: err}
	default:
		x.broken = &StoreError{RunID: x.id, Err: err}
	}
	x.cancel(x.broken)
}

// Broken returns the error after which nothing more is written; nil while the run can be written.
func (x *Execution) Broken() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.broken
}

// Finish writes the last event of the execution, a terminal one or a RunSuspended with the time it is due, and gives up the
// lease. It does not end with ctx. If the execution has broken off, Finish does what can still be done, and returns that
// error: for an outage it records, if the store is back, that the run is to be taken up again; for any other fault of the
// store it ends the run with the fault.
func (x *Execution) Finish(ctx context.Context, last journal.Event, due time.Time) error {
	x.dismiss(last.Kind)
	x.flushing <- struct{}{}
	defer func() { <-x.flushing }()
	last.Time = Now()
	last.Took = x.worked()
	due = x.punctual(&last, due)
	_, err := x.write(ctx, []journal.Event{last}, due)
	if err != nil {
		x.salvage(ctx, err)
		return err
	}
	x.finish()
	return nil
}

func (x *Execution) finish() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.finished = true
}

// salvage leaves a run whose execution has broken off in the best state that can be had. An outcome that is unknown is read
// first, and nothing is written twice.
func (x *Execution) salvage(ctx context.Context, broken error) {
	ctx, cancel := x.ending(ctx)
	defer cancel()
	var (
		last    journal.Event
		due     time.Time
		outage  *StoreUnavailableError
		refused *StoreError
	)
	switch {
	case errors.As(broken, &outage):
		last, due = x.outageOver()
	case errors.As(broken, &refused):
		last = x.settings.failure(refused, refused.code())
	default:
		return // the run is somebody else's, or has ended
	}
	if x.record != nil {
		last.Took = x.worked()
	}
	x.mu.Lock()
	lease, seen := x.lease, x.seen()
	x.mu.Unlock()
	for wait := salvageWait; ; wait = min(2*wait, lastPatience) {
		events := []journal.Event{last}
		err := x.bury(ctx, lease, journal.Append{Events: events, Due: due, Seen: seen, Outbox: x.outbox(events)})
		if err == nil {
			x.finish()
			return
		}
		// A worker has the time of the lease, then others take the run from it.
		if x.settings.assigned == nil || !errors.Is(err, journal.ErrUnavailable) || time.Now().Add(wait).After(lease.Until) {
			x.settings.Logger.Warn("pawl: the end of an execution could not be recorded", "run", x.id, "error", err)
			return
		}
		_ = waitUntil(ctx, time.Now().Add(wait), nil)
	}
}

// salvageWait is how long a worker waits before it tries again to record that a run met an outage.
const salvageWait = 50 * time.Millisecond

// bury writes the last event of an execution that has broken off behind what there is, if the run has not ended.
func (x *Execution) bury(ctx context.Context, lease journal.Lease, a journal.Append) error {
	run, err := x.settings.Store.Load(ctx, x.id)
	if err != nil || run.Status.Terminal() {
		return err
	}
	a.After = run.Head
	return x.settings.Store.Append(ctx, lease, a)
}

// Close gives up the lease, if Finish has not ended the run, and waits for the execution's goroutine. It may be repeated. The
// run of an Assignment that was not finished is left to Attend.
func (x *Execution) Close(ctx context.Context) { x.close(ctx, false) }

// close is Close. Free gives up an Assignment's lease in any case.
func (x *Execution) close(ctx context.Context, free bool) {
	x.cancel(context.Canceled)
	x.keeper.Wait()
	x.untrack()
	x.mu.Lock()
	lease := x.lease
	lost := errors.As(x.broken, new(*RunLostError))
	left := !free && !x.finished && !lost && lease.Token != 0 && x.settings.assigned.own(x.id)
	if !left {
		x.lease.Token = 0
	}
	x.mu.Unlock()
	switch {
	case left:
		x.settings.assigned.keep(x)
		return
	case lease.Token == 0 || lost:
		return
	}
	ctx, cancel := x.ending(ctx)
	defer cancel()
	_, err := x.settings.Store.Renew(ctx, lease, 0)
	if err != nil && !errors.Is(err, journal.ErrEnded) && !errors.Is(err, journal.ErrFenced) { // who has it already
		x.settings.Logger.Warn("pawl: a lease could not be given up; it ends by itself", "run", x.id, "error", err)
	}
}

// keep renews the lease and hears of cancellations until the execution ends.
func (x *Execution) keep() {
	defer x.unwatch()
	renew := time.NewTicker(x.settings.Heartbeat)
	defer renew.Stop()
	var poll <-chan time.Time
	if x.changed == nil {
		t := time.NewTicker(inboxPoll)
		defer t.Stop()
		poll = t.C
	}
	for {
		select {
		case <-x.ctx.Done():
			return
		case <-renew.C:
			x.renew()
			x.heed() // what a notice was missed of, or could not be read
		case <-x.changed:
			x.heed()
		case <-poll:
			x.heed()
		}
	}
}

// renew prolongs the lease. An outage is left to the next append, or to the lease's end.
func (x *Execution) renew() {
	x.mu.Lock()
	lease := x.lease
	x.mu.Unlock()
	renewed, err := x.settings.Store.Renew(x.ctx, lease, x.settings.LeaseTTL)
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case err == nil:
		x.lease.Until = renewed.Until
	case errors.Is(err, journal.ErrFenced), errors.Is(err, journal.ErrEnded):
		x.breakOff(err)
	}
}

// unread ends the execution because of a read that has failed, unless it was ctx that has ended.
func (x *Execution) unread(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.breakOff(outage("read", err))
	return x.broken
}

// Now is the time as events have it.
func Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// Encode turns a value into a payload. What names it in errors, "Result" say. The error is a *journal.NotSerializableError,
// a *journal.PayloadTooLargeError, or what the Codec returns.
func (x *Execution) Encode(what string, v any) ([]byte, error) { return x.settings.Encode(what, v) }

// Decode is the reverse of Encode; v is a pointer.
func (x *Execution) Decode(payload []byte, v any) error { return x.decode(payload, v) }

func (x *Execution) decode(payload []byte, v any) error { return x.settings.Decode(payload, v) }

// replayError says that a recorded event could not be read back.
func (x *Execution) replayError(e journal.Event, err error) error {
	return &ReplayError{RunID: x.id, Seq: e.Seq, Err: fmt.Errorf("%s: %w", e.Kind, err)}
}
