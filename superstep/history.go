package superstep

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

// Snapshot is what a run had come to behind one of its super-steps.
type Snapshot[S any] struct {
	RunID string
	// SuperStep is the last one that is part of the state; 0 before the first.
	SuperStep int
	State     S
	// Next are the tasks that follow: "write", or "search[3]" for one of a fan-out. Empty if the run ends here.
	Next []string
	// Time is when it was committed.
	Time time.Time
}

// State returns the last committed state of a run: one that is under way, waits, or has ended. It does not hold the run. Of
// the options only WithMigration has a meaning.
func (r *Runner[S, U]) State(ctx context.Context, id string, opts ...RunOption) (*Snapshot[S], error) {
	p, err := r.look(ctx, "State", id, opts)
	if err != nil {
		return nil, err
	}
	var last Snapshot[S]
	for s, err := range p.snapshots() {
		if err != nil {
			return nil, err
		}
		last = s
	}
	return &last, nil
}

// History returns what a run had come to behind each of its super-steps, the newest first, down to its start. Before bounds it to
// the super-steps before that one, so that a page can begin where the last one ended; 0 is no bound. It yields at most one
// error, as the last thing. Of the options only WithMigration has a meaning.
func (r *Runner[S, U]) History(ctx context.Context, id string, before int, opts ...RunOption) iter.Seq2[*Snapshot[S], error] {
	return func(yield func(*Snapshot[S], error) bool) {
		p, err := r.look(ctx, "History", id, opts)
		if err != nil {
			yield(nil, err)
			return
		}
		var all []*Snapshot[S]
		for s, err := range p.snapshots() {
			if err != nil {
				yield(nil, err)
				return
			}
			if before == 0 || s.SuperStep < before {
				all = append(all, &s)
			}
		}
		for _, s := range slices.Backward(all) {
			if !yield(s, nil) {
				return
			}
		}
	}
}

// past is a run as it is read, from its start.
type past[S, U any] struct {
	*driver[S, U]

	x *durable.Execution
}

// look is past for callers from outside.
func (r *Runner[S, U]) look(ctx context.Context, method, id string, opts []RunOption) (*past[S, U], error) {
	if err := r.needStore(method); err != nil {
		return nil, err
	}
	_, o, err := r.options(opts)
	if err != nil {
		return nil, err
	}
	return r.past(ctx, id, o)
}

// past reads a run.
func (r *Runner[S, U]) past(ctx context.Context, id string, o *runOptions) (*past[S, U], error) {
	x, err := durable.Read(ctx, r.settings(o), id)
	if err != nil {
		return nil, err
	}
	var from runOptions
	if o != nil {
		from.migration = o.migration
	}
	from.existing = true
	if err := r.checkRun(x.Run(), x.Start(), nil, &from); err != nil {
		return nil, err
	}
	state, err := r.decodeState(x, x.Start().Payload, o)
	if err != nil {
		return nil, err
	}
	salt, err := saltOf(x)
	if err != nil {
		return nil, err
	}
	d := &driver[S, U]{prog: r.prog}
	d.place = place{run: &run{id: id, cfg: &r.cfg, stuck: &r.stuck}, limit: maxLimit}
	d.ledger = &ledger[S, U]{x: x, d: d, options: &from, salt: salt}
	d.m.init(r.prog.plan, r.prog.shape, state, maxLimit)
	return &past[S, U]{driver: d, x: x}, nil
}

// maxLimit is the limit of a machine that only reads.
const maxLimit = 1 << 30

// landmarks are the barriers and checkpoints of the run's own graph.
func (p *past[S, U]) landmarks() iter.Seq[journal.Event] {
	return func(yield func(journal.Event) bool) {
		for _, e := range p.x.History("") {
			if (e.Kind == journal.SuperStepDone || e.Kind == journal.Checkpoint) && !yield(e) {
				return
			}
		}
	}
}

// snapshots replays the run.
func (p *past[S, U]) snapshots() iter.Seq2[Snapshot[S], error] {
	return func(yield func(Snapshot[S], error) bool) {
		if !yield(p.snapshot(p.x.Start().Time), nil) {
			return
		}
		for e := range p.landmarks() {
			if err := p.ledger.follow(e); err != nil {
				yield(Snapshot[S]{}, err)
				return
			}
			if e.Kind == journal.SuperStepDone && !yield(p.snapshot(e.Time), nil) {
				return
			}
		}
	}
}

func (p *past[S, U]) snapshot(at time.Time) Snapshot[S] {
	s := Snapshot[S]{RunID: p.x.RunID(), SuperStep: p.m.SuperSteps(), State: p.m.State(), Time: at}
	for _, t := range p.m.Tasks() {
		name := p.prog.plan.Nodes[t.Node].Name
		if t.Items != nil {
			name = fmt.Sprintf("%s[%d]", name, t.Index)
		}
		s.Next = append(s.Next, name)
	}
	return s
}

// last replays the whole run and returns its state.
func (p *past[S, U]) last() (S, error) {
	for e := range p.landmarks() {
		if err := p.ledger.follow(e); err != nil {
			return p.m.State(), err
		}
	}
	return p.m.State(), nil
}
