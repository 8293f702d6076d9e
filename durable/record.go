package durable

import (
	"context"
	"encoding/json"
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
	scopes map[string][]journal.Event
	taken  map[int64]bool // messages that were consumed
	// checkpoint is the last one; without it all events are here, with it only those behind.
	checkpoint journal.Event
	// resting is what the run was suspended on, if nothing has happened since.
	resting []Wait
}

// StartMeta is the Meta of a RunStart.
type StartMeta struct {
	// Drawing is a picture of the graph, in Mermaid's language; empty for a workflow.
	Drawing string `json:"drawing,omitempty"`
	// State and Update describe the fields of a graph's types, for messages about a changed graph.
	Nodes []string `json:"nodes,omitempty"`
	// Copied is how many of the events behind the start were copied from another run. What they consumed was that run's.
	Copied int64 `json:"copied,omitempty"`
	// Kept is true if the answers among what was copied are to be used, and not asked for again.
	Kept bool `json:"kept,omitempty"`
}

// consumed is the Meta of an event that consumes a message.
type consumed struct {
	Message int64 `json:"message"`
}

// SuspendedMeta is the Meta of a RunSuspended.
type SuspendedMeta struct {
	Waits []Wait `json:"waits"`
}

// progress is the Meta of a Checkpoint, beside what the executor has added to it: what older events would have said.
type progress struct {
	Taken  []int64       `json:"taken,omitempty"`
	Active time.Duration `json:"active_ns,omitempty"`
}

// readRecord reads the start of a run and everything since its last checkpoint, or, if all is true, everything.
func readRecord(ctx context.Context, store journal.Store, id string, all bool) (*record, error) {
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
	return newRecord(run, events)
}

func newRecord(run journal.Run, events []journal.Event) (*record, error) {
	r := &record{run: run, scopes: map[string][]journal.Event{}, taken: map[int64]bool{}}
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
		r.resting = nil
		switch e.Kind {
		case journal.RunStart:
			continue
		case journal.RunSuspended:
			var m SuspendedMeta
			if err := readMeta(e, &m); err != nil {
				return nil, bad(e, err)
			}
			r.active, r.resting = e.Took, m.Waits
			continue
		case journal.RunRequeued:
			r.active = e.Took
			continue
		case journal.Checkpoint:
			if e.Seq != run.Checkpoint {
				continue // an older one, and all is read
			}
			var p progress
			if err := readMeta(e, &p); err != nil {
				return nil, bad(e, err)
			}
			r.checkpoint, r.active = e, p.Active
			for _, m := range p.Taken {
				r.taken[m] = true
			}
			continue
		case journal.SignalReceived, journal.QuestionAnswered:
			var c consumed
			if err := readMeta(e, &c); err != nil {
				return nil, bad(e, err)
			}
			if e.Seq > start.Copied+1 {
				r.taken[c.Message] = true
			}
		}
		if e.Kind.Terminal() {
			r.last = e
			continue
		}
		r.scopes[e.Scope] = append(r.scopes[e.Scope], e)
	}
	for scope, events := range r.scopes {
		r.scopes[scope] = Handled(events)
	}
	return r, nil
}

// Handled is for executors: the events of one scope without the failure that they end with. Nothing behind it says that the
// code has gone on, so what failed is to run again; if that was a whole task, what failed last inside it is, too. What
// was done at most once keeps its failure.
func Handled(events []journal.Event) []journal.Event {
	n := len(events)
	if n == 0 || events[n-1].Kind != journal.StepError {
		return events
	}
	if last := events[n-1]; last.Name != "" {
		return withoutFailure(events, last)
	}
	if events = events[:n-1]; n > 1 && events[n-2].Kind == journal.StepError && events[n-2].Name != "" {
		return withoutFailure(events, events[n-2])
	}
	return events
}

// withoutFailure leaves out the failures of a step, all of them: each attempt of its task may have had one.
func withoutFailure(events []journal.Event, of journal.Event) []journal.Event {
	var out []journal.Event
	for _, e := range events {
		if e.Name != of.Name || e.N != of.N {
			out = append(out, e)
			continue
		}
		switch e.Kind {
		case journal.StepIntent:
			return events
		case journal.StepError:
		default:
			out = append(out, e)
		}
	}
	return out
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
