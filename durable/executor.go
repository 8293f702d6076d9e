package durable

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// What only an executor asks of an execution.

// Read returns what is recorded of a run, whole, without holding the run. Nothing can be written with it, nor need it be
// closed.
func Read(ctx context.Context, s Settings, id string) (*Execution, error) {
	x := &Execution{settings: s.withDefaults(), id: id, begun: time.Now(), unwatch: func() {}, broken: errReadOnly}
	x.ctx, x.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	x.cancel(errReadOnly)
	var err error
	if x.record, err = readRecord(ctx, x.settings, id, true); err != nil {
		return nil, storeError(id, err)
	}
	x.taken = x.record.taken
	return x, nil
}

var errReadOnly = errors.New("pawl: the run was opened for reading")

// Plain undoes the Codec: the JSON in a payload.
func (x *Execution) Plain(payload []byte) ([]byte, error) {
	return journal.DecodeJSON(x.settings.Codec, payload)
}

// Waits are what the run's code has been suspended on so far, and the earliest time among them.
func (x *Execution) Waits() *SuspendedError {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sift()
	x.looked = x.sifted
	e := &SuspendedError{RunID: x.id, Waits: slices.Clone(x.waits)}
	if x.paused && !slices.ContainsFunc(e.Waits, func(w Wait) bool { return w.Paused }) {
		e.Waits = append(e.Waits, Wait{Paused: true})
	}
	e.Due = firstDue(e.Waits)
	return e
}

// firstDue is when the first of the waits ends by itself; zero if none does.
func firstDue(waits []Wait) (due time.Time) {
	for _, w := range waits {
		if w.Paused { // no timer ends that
			return time.Time{}
		}
		if !w.Due.IsZero() && (due.IsZero() || w.Due.Before(due)) {
			due = w.Due
		}
	}
	return due
}

// punctual is due for a run that was taken up before its time had come, by the clock of this process, and has not been sent
// anything: the store's clock is ahead, and would have the run taken again and again until then. It notes in the event what
// the run knows.
func (x *Execution) punctual(last *journal.Event, due time.Time) time.Time {
	if last.Kind != journal.RunSuspended || x.settings.assigned == nil {
		return due
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	know := struct {
		Seen  int64         `json:"seen,omitempty"`
		Ahead time.Duration `json:"ahead_ns,omitempty"`
	}{Seen: x.seen()}
	const most = time.Minute // at once: who has it next may have another clock
	woken := x.settings.assigned.Taken.Was != journal.Suspended || x.known > x.record.heard
	if early := time.Until(x.record.due); early > 0 && !woken && x.head == x.lease.Head {
		know.Ahead = x.record.ahead + min(early, most)
	}
	if know.Seen > 0 || know.Ahead > 0 {
		last.Meta = withMeta(last.Meta, know)
	}
	if due.IsZero() {
		return due
	}
	return due.Add(know.Ahead)
}

// Begin is for executors: the time that the run is worked on counts from now, not from when it was taken.
func (x *Execution) Begin() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.begun = time.Now()
}

// worked is how long owners have had the run, this one included.
func (x *Execution) worked() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.record.active + time.Since(x.begun)
}

// Suspension is the event of a run that is suspended, and when it is due.
func (e *SuspendedError) Suspension() (journal.Event, time.Time) {
	return journal.Event{Kind: journal.RunSuspended, Meta: meta(SuspendedMeta{Waits: e.Waits})}, e.Due
}

// Rest returns the suspension of a scope, or of one inside it, in which nothing can have happened since the run was
// suspended: no answer, no signal has come, and no time. Its code need not run to find that out. Nil if it has to.
func (x *Execution) Rest(scope string) *SuspendedError {
	x.mu.Lock()
	defer x.mu.Unlock()
	var waits []Wait
	for _, w := range x.record.resting {
		if !inScope(w.Scope, scope) {
			continue
		}
		if w.Child != "" || x.arrived(w) || (!w.Due.IsZero() && !time.Now().Before(w.Due)) {
			return nil
		}
		waits = append(waits, w)
	}
	if len(waits) == 0 {
		return nil
	}
	x.waits = append(x.waits, waits...)
	return &SuspendedError{RunID: x.id, Waits: waits}
}

// arrived reports whether what is waited for is in the inbox. The caller holds mu.
func (x *Execution) arrived(w Wait) bool {
	return slices.ContainsFunc(x.inbox, func(m journal.Message) bool { return !x.taken[m.Seq] && w.wants(m) })
}

// Forget lets go of what is recorded of a scope that will not be entered again.
func (x *Execution) Forget(scope string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.record.scopes, scope)
}

// Hold keeps events for the next append, of whatever it is, or for Flush.
func (x *Execution) Hold(events ...journal.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.held = append(x.held, events...)
}

// Flush writes what Hold keeps.
func (x *Execution) Flush(ctx context.Context) error {
	x.mu.Lock()
	held := len(x.held)
	x.mu.Unlock()
	if held == 0 {
		return nil
	}
	return x.Append(ctx)
}

// Checkpoint returns the event of a checkpoint: the executor's own state is its Meta, an object, the graph's its payload.
func (x *Execution) Checkpoint(own json.RawMessage, state []byte) journal.Event {
	p := progress{Active: x.worked()}
	x.mu.Lock()
	for m := range x.taken {
		p.Taken = append(p.Taken, m)
	}
	x.mu.Unlock()
	slices.Sort(p.Taken)
	return journal.Event{Kind: journal.Checkpoint, Time: Now(), Meta: withMeta(own, p), Payload: state}
}

// Copy returns the events of a run behind its start, up to the one numbered last (0: all), as a new run can take them
// over: without its end, and without its stops on the way.
func Copy(ctx context.Context, store journal.Store, id string, last int64) ([]journal.Event, error) {
	var out []journal.Event
	for e, err := range store.Events(ctx, id, 1) {
		if err != nil {
			return nil, storeError(id, err)
		}
		if last > 0 && e.Seq > last {
			break
		}
		out = append(out, e)
	}
	return withoutStops(out), nil
}
