package durable

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// record is what a run's journal says, in the form in which replay asks.
type record struct {
	run       journal.Run
	start     journal.Event
	last      journal.Event // the terminal one, if there is one
	replaying bool
	active    time.Duration
	// scopes are the events by scope, without those of the run itself.
	scopes   map[string][]journal.Event
	taken    map[int64]bool // messages that were consumed
	requeues requeues
	// resting is what the run was last suspended on, without the scopes in which something has happened since, and heard the
	// last message that it knew then. Due is when the first of these waits ends, and ahead by how much the store's clock seemed
	// to be ahead.
	resting []Wait
	heard   int64
	due     time.Time
	ahead   time.Duration
	// strays are the calls that were made behind a failure that was reopened.
	strays map[place]bool
	// updates are those that have changed a workflow, and owed are those whose places went with a failure that was reopened.
	updates, owed []handledUpdate
	// copiedUpdates is the largest number of an update that was another run's: those of this run have larger ones.
	copiedUpdates int64
	rename        func(scope string) string
}

// StartMeta is the Meta of a RunStart.
type StartMeta struct {
	// Drawing is a picture of the graph, in Mermaid's language; empty for a workflow.
	Drawing string `json:"drawing,omitempty"`
	// Outline lists a graph's nodes, connections and fields, so that it can be said what has changed.
	Outline []string `json:"outline,omitempty"`
	// Copied is how many of the events behind the start were copied from another run. What they consumed was that run's.
	Copied int64 `json:"copied,omitempty"`
	// Salt is what hashes of values are salted with, as the Codec has written it; empty where payloads are not encoded.
	Salt []byte `json:"salt,omitempty"`
	// First is the first run of a continuation chain, and Part the number of this one in it; empty and 0 outside of a chain.
	First string `json:"first,omitempty"`
	Part  int    `json:"part,omitempty"`
	// Parent is the run that has started the first run of the chain; empty if none has.
	Parent string `json:"parent,omitempty"`
}

// consumed is the Meta of an event that consumes a message.
type consumed struct {
	Message int64 `json:"message"`
}

// SuspendedMeta is the Meta of a RunSuspended.
type SuspendedMeta struct {
	Waits []Wait `json:"waits"`
	// Seen is the number of the last message that the run knew.
	Seen int64 `json:"seen,omitempty"`
	// Ahead is by how much the store's clock seems to be ahead of that of the run's owner.
	Ahead time.Duration `json:"ahead_ns,omitempty"`
}

// progress is the Meta of a Checkpoint, beside what the executor has added to it: what older events would have said.
type progress struct {
	Taken  []int64       `json:"taken,omitempty"`
	Active time.Duration `json:"active_ns,omitempty"`
}

// parent is the run that has started this one, by itself or by what it continues; empty if none has.
func (r *record) parent() (string, error) {
	if r.run.Link.Kind == journal.ChildOf {
		return r.run.Link.Run, nil
	}
	var m StartMeta
	if err := readMeta(r.start, &m); err != nil {
		return "", &ReplayError{RunID: r.run.ID, Seq: r.start.Seq, Err: err}
	}
	return m.Parent, nil
}

// readRecord reads the start of a run and everything since its last checkpoint, or, if all is true, everything.
func readRecord(ctx context.Context, s Settings, id string, all bool) (*record, error) {
	store := s.Store
	run, err := store.Load(ctx, id)
	if err != nil {
		return nil, err
	}
	after := int64(0)
	if run.Checkpoint > 1 && !all {
		after = run.Checkpoint - 1
	}
	var events []journal.Event
	if after > 0 {
		for e, err := range store.Events(ctx, id, 0) {
			if err != nil {
				return nil, err
			}
			events = append(events, e)
			break
		}
	}
	for e, err := range store.Events(ctx, id, after) {
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	if err := complete(run, events, after); err != nil {
		return nil, err
	}
	return newRecord(run, events, s.Rename)
}

// complete checks that the run's record and its events, read from behind the one numbered after, go together.
func complete(run journal.Run, events []journal.Event, after int64) error {
	switch n := len(events); {
	case n == 0:
		return &ReplayError{RunID: run.ID, Seq: 1, Err: errNoStart}
	case after > 0 && (n < 2 || events[1].Kind != journal.Checkpoint || events[1].Seq != run.Checkpoint):
		return &ReplayError{RunID: run.ID, Seq: run.Checkpoint, Err: errNoCheckpoint}
	case events[n-1].Seq < run.Head:
		return &ReplayError{RunID: run.ID, Seq: events[n-1].Seq + 1, Err: errGap}
	}
	return nil
}

func newRecord(run journal.Run, events []journal.Event, rename func(string) string) (*record, error) {
	if rename == nil {
		rename = func(scope string) string { return scope }
	}
	r := &record{
		run: run, scopes: map[string][]journal.Event{}, taken: map[int64]bool{}, strays: map[place]bool{}, rename: rename,
	}
	bad := func(e journal.Event, err error) error { return &ReplayError{RunID: run.ID, Seq: e.Seq, Err: err} }
	if len(events) == 0 || events[0].Kind != journal.RunStart {
		return nil, bad(journal.Event{Seq: 1}, errNoStart)
	}
	r.start, r.replaying = events[0], len(events) > 1
	var start StartMeta
	if err := readMeta(r.start, &start); err != nil {
		return nil, bad(r.start, err)
	}
	want := r.start.Seq
	for i, e := range events {
		if i == 1 && e.Kind == journal.Checkpoint {
			want = e.Seq
		}
		if e.Seq != want {
			return nil, bad(journal.Event{Seq: want}, errGap)
		}
		want++
		e.Scope = rename(e.Scope)
		if err := r.add(e, e.Seq <= start.Copied+1); err != nil {
			return nil, bad(e, err)
		}
	}
	for scope, events := range r.scopes {
		r.scopes[scope] = handled(events)
	}
	return r, nil
}

// add takes an event. Copied says that it comes from another run.
func (r *record) add(e journal.Event, copied bool) error {
	if err := r.requeues.add(e); err != nil {
		return err
	}
	switch e.Kind {
	case journal.RunStart, journal.RunTaken:
		return nil
	case journal.RunSuspended:
		var m SuspendedMeta
		if err := readMeta(e, &m); err != nil {
			return err
		}
		for i := range m.Waits {
			m.Waits[i].Scope = r.rename(m.Waits[i].Scope)
		}
		r.active, r.resting, r.heard, r.ahead = max(r.active, e.Took), m.Waits, m.Seen, m.Ahead
		r.due = firstDue(m.Waits)
		return nil
	case journal.RunRequeued:
		r.active = max(r.active, e.Took) // whoever has lost an owner, or could read nothing, does not know it
		return nil
	case journal.Checkpoint:
		return r.addCheckpoint(e, copied)
	case journal.SignalReceived, journal.QuestionAnswered,
		journal.UpdateDone, journal.UpdateError, journal.UpdateRejected, journal.QueryAnswered:
		var c consumed
		if err := readMeta(e, &c); err != nil {
			return err
		}
		if !copied {
			r.taken[c.Message] = true
		}
	}
	if e.Kind.Terminal() {
		r.last = e
		return nil
	}
	switch e.Kind {
	case journal.UpdateRejected, journal.QueryAnswered:
		return nil // the run is as it was
	case journal.UpdateDone, journal.UpdateError:
		if err := r.addUpdate(e, copied); err != nil {
			return err
		}
	}
	if copied {
		r.copiedUpdates = max(r.copiedUpdates, updateNumber(e.Scope))
	}
	r.stir(e.Scope)
	return r.addCall(e)
}

// addCall takes an event of a scope.
func (r *record) addCall(e journal.Event) error {
	switch {
	case e.Kind == journal.StepReopened:
		r.reopen(FailedCall{Scope: e.Scope, Name: e.Name, N: e.N})
		return nil
	case e.Kind == journal.StepError && e.Name == "": // of a task, which is attempted again if that is not its end
		m, err := FailureOf(e)
		if err != nil {
			return err
		}
		for _, c := range m.Failed {
			c.Scope = r.rename(c.Scope)
			r.reopen(c)
		}
	}
	r.scopes[e.Scope] = append(r.scopes[e.Scope], e)
	return nil
}

// stir notes that something has happened in a scope, so that nothing in or around it rests any more.
func (r *record) stir(scope string) {
	r.resting = slices.DeleteFunc(r.resting, func(w Wait) bool { return inScope(scope, w.Scope) || inScope(w.Scope, scope) })
}

// inScope reports whether a scope is another one or lies in it.
func inScope(scope, outer string) bool {
	return scope == outer || strings.HasPrefix(scope, outer+"/")
}

func (r *record) addCheckpoint(e journal.Event, copied bool) error {
	r.scopes[e.Scope] = append(r.scopes[e.Scope], e)
	if e.Seq != r.run.Checkpoint {
		return nil // an older one, and all is read
	}
	var p progress
	if err := readMeta(e, &p); err != nil {
		return err
	}
	if copied {
		return nil // what it says of messages and time is the other run's
	}
	r.active = p.Active
	for _, m := range p.Taken {
		r.taken[m] = true
	}
	return nil
}

// callKey says which call of a scope is meant.
type callKey struct {
	name string
	n    int
}

// place says which call of a run is meant.
type place struct {
	scope string
	callKey
}

// readMeta reads an event's Meta; nil is an empty one.
func readMeta(e journal.Event, v any) error {
	if len(e.Meta) == 0 {
		return nil
	}
	return json.Unmarshal(e.Meta, v)
}

// meta makes an event's Meta of a value that has nothing JSON cannot say.
func meta(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic("pawl: internal: meta of an event: " + err.Error())
	}
	return data
}
