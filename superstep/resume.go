package superstep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/task"
)

// needStore is the error of a method that needs a journal, where there is none.
func (r *Runner[S, U]) needStore(method string) error {
	if r.cfg.Store == nil {
		return fmt.Errorf("pawl: superstep.Runner.%s needs a journal: set Config.Store", method)
	}
	return nil
}

// Resume goes on with a run that exists, or returns its recorded outcome, as Run does with the same id and input. A run that
// does not exist is a *journal.NotFoundError. RunID has no meaning among the options.
func (r *Runner[S, U]) Resume(ctx context.Context, id string, opts ...RunOption) (*Result[S], error) {
	if err := r.needStore("Resume"); err != nil {
		return &Result[S]{RunID: id}, err
	}
	return r.resume(ctx, id, opts)
}

func (r *Runner[S, U]) resume(ctx context.Context, id string, opts []RunOption) (*Result[S], error) {
	o, err := r.existing(id, opts)
	if err != nil {
		return &Result[S]{RunID: id}, err
	}
	return r.execute(ctx, r.newTrunk(new(S), id, r.newEvents()), o)
}

// existing are the options of a run that is to be there.
func (r *Runner[S, U]) existing(id string, opts []RunOption) (*runOptions, error) {
	_, o, err := r.options(append(slices.Clip(opts), RunID(id)))
	if err == nil {
		o.existing = true
	}
	return o, err
}

// Retry goes on with a failed run, as a new run that is linked to it: what is recorded is served, answers included, and what
// failed runs again, and what has not run yet. RunID names the new run; without it, it is called what durable.RetryID says, so
// that retrying twice makes one run. A run that has not failed is refused with a *durable.RetryError: a cancelled one with the
// code retry_cancelled.
func (r *Runner[S, U]) Retry(ctx context.Context, id string, opts ...RunOption) (*Result[S], error) {
	if err := r.needStore("Retry"); err != nil {
		return &Result[S]{RunID: id}, err
	}
	to, o, err := r.options(opts)
	if err == nil && o != nil && o.thread != "" {
		err = errors.New("pawl: superstep.Runner.Retry takes no Thread: the new run is the same turn of the same conversation")
	}
	if err != nil {
		return &Result[S]{RunID: id}, err
	}
	if o == nil || !o.named {
		to = durable.RetryID(id)
	}
	if err := r.mayTake(ctx, id, o); err != nil {
		return &Result[S]{RunID: to}, r.unavailable(id, err)
	}
	if _, err := durable.PrepareRetry(ctx, r.cfg.Store, id, to); err != nil {
		return &Result[S]{RunID: to}, r.unavailable(to, err)
	}
	return r.resume(ctx, to, opts)
}

// mayTake says beforehand what would keep this runner from going on with a run of that kind.
func (r *Runner[S, U]) mayTake(ctx context.Context, id string, o *runOptions) error {
	if r.stopped.Load() {
		return (&run{id: id}).stoppedError()
	}
	there, err := r.cfg.Store.Load(ctx, id)
	if err != nil {
		return err
	}
	for start, err := range r.cfg.Store.Events(ctx, id, 0) {
		if err != nil {
			return err
		}
		as := runOptions{existing: true}
		if o != nil {
			as.migration = o.migration
		}
		return r.checkRun(there, start, nil, &as)
	}
	return &durable.ReplayError{RunID: id, Seq: 1, Err: errNoEvents}
}

var errNoEvents = errors.New("it has no events")

// Fork starts a new run that branches off another one behind a super-step, and goes on from there: 0 is its start. What was
// recorded up to there is served; what the other run did later is not. Edit, if it is not nil, is merged by the graph's
// reducer, behind the updates of that super-step, whose routers then decide anew. Questions are asked again. The other run may
// be under way, and may be deleted afterwards. The new run is a turn of a conversation only if Thread says so.
//
// RunID names the new run; without it the name is random. If there is a run of that name it must be this very fork, which then
// goes on, or whose recorded outcome is returned; any other is a *durable.RunConflictError.
func (r *Runner[S, U]) Fork(ctx context.Context, id string, superStep int, edit *U, opts ...RunOption) (*Result[S], error) {
	if err := r.needStore("Fork"); err != nil {
		return &Result[S]{RunID: id}, err
	}
	to, o, err := r.options(opts)
	if err != nil {
		return &Result[S]{RunID: id}, err
	}
	n, err := r.forked(ctx, id, superStep, edit, o)
	if err != nil {
		return &Result[S]{RunID: to}, r.unavailable(to, err)
	}
	n.Run.ID = to
	if err := r.create(ctx, n); err != nil {
		return &Result[S]{RunID: to}, err
	}
	return r.resume(ctx, to, opts)
}

// create makes a run that is linked to another one, or finds that it was made before.
func (r *Runner[S, U]) create(ctx context.Context, n journal.NewRun) error {
	id := n.Run.ID
	_, err := r.cfg.Store.Create(ctx, n)
	if errors.Is(err, journal.ErrExists) {
		err = r.sameStart(ctx, n)
	}
	return r.unavailable(id, err)
}

// sameStart reports how a run that exists differs from one that is to be made.
func (r *Runner[S, U]) sameStart(ctx context.Context, n journal.NewRun) error {
	conflict := func(what, detail string) error {
		return &durable.RunConflictError{RunID: n.Run.ID, What: what, Detail: detail}
	}
	there, err := r.cfg.Store.Load(ctx, n.Run.ID)
	switch {
	case err != nil:
		return err
	case there.Link != n.Run.Link || there.Name != n.Run.Name || there.Thread != n.Run.Thread:
		return conflict("origin", fmt.Sprintf("it is %q of %q at super-step %d", there.Link.Kind, there.Link.Run, there.Link.SuperStep))
	}
	for _, at := range []int{0, len(n.Events) - 1} { // the state it starts from, and an edit
		var e journal.Event
		for e, err = range r.cfg.Store.Events(ctx, n.Run.ID, int64(at)) {
			break
		}
		if err != nil {
			return err
		}
		var both [2][]byte
		for i, payload := range [][]byte{e.Payload, n.Events[at].Payload} {
			if len(payload) == 0 {
				continue
			}
			if both[i], err = journal.DecodeJSON(r.cfg.Codec, payload); err != nil {
				return &durable.ReplayError{RunID: n.Run.ID, Seq: e.Seq, Err: err}
			}
		}
		if !bytes.Equal(both[0], both[1]) || e.Kind != n.Events[at].Kind {
			return conflict("input", "it starts from another state, or with another edit")
		}
	}
	return nil
}

// forked describes the run that branches off.
func (r *Runner[S, U]) forked(ctx context.Context, id string, superStep int, edit *U, o *runOptions) (journal.NewRun, error) {
	past, err := r.past(ctx, id, o)
	if err != nil {
		return journal.NewRun{}, err
	}
	n := journal.NewRun{Run: past.x.Run()}
	n.Run.Link, n.Run.Thread = journal.Link{Kind: journal.ForkOf, Run: id, SuperStep: superStep}, ""
	n.Run.Queue, n.Run.Dedup = "", "" // who forks it runs it
	if o != nil {
		n.Run.Thread = o.thread
	}
	if superStep == 0 {
		return r.forkedAtStart(past, n, edit)
	}
	for e := range past.landmarks() {
		if e.Kind == journal.SuperStepDone && e.N == superStep {
			return r.forkedBehind(ctx, past, n, e, edit)
		}
		if err := past.ledger.follow(e); err != nil {
			return n, err
		}
	}
	return n, fmt.Errorf("pawl: run %q has no super-step %d to fork from: History lists those it has", id, superStep)
}

func (r *Runner[S, U]) forkedAtStart(past *past[S, U], n journal.NewRun, edit *U) (journal.NewRun, error) {
	state := past.m.State()
	if edit != nil {
		var err error
		if state, err = r.reduced(state, *edit); err != nil {
			return n, err
		}
	}
	fresh, err := r.newRun(&state, nil)
	n.Run.Fingerprint, n.Events = fresh.Run.Fingerprint, fresh.Events
	return n, err
}

// forkedBehind copies what stands before the barrier, and asks the barrier anew.
func (r *Runner[S, U]) forkedBehind(
	ctx context.Context, past *past[S, U], n journal.NewRun, at journal.Event, edit *U,
) (journal.NewRun, error) {
	barrier := journal.Event{Kind: journal.SuperStepDone, N: at.N, Time: durable.Now(), Payload: at.Payload}
	var err error
	switch {
	case edit == nil:
	case at.Payload != nil:
		return n, fmt.Errorf("pawl: super-step %d of run %q was edited when that run was forked: fork the run it comes from, "+
			"or branch off a later super-step", at.N, past.x.RunID())
	default:
		if barrier.Payload, err = past.x.Encode("Update", edit); err != nil {
			return n, err
		}
	}
	if err = past.ledger.serveAll(at); err != nil {
		return n, err
	}
	if edit, err = past.ledger.edit(barrier); err != nil {
		return n, err
	}
	if err = past.m.advance(edit); err != nil {
		return n, err
	}
	next, err := past.m.planned(past.ledger.salt)
	if err != nil {
		return n, err
	}
	barrier.Meta = mustMarshal(barrierMeta{Next: next, Usage: past.run.usage})
	start := past.x.Start()
	copied, err := durable.Copy(ctx, r.cfg.Store, past.x.RunID(), at.Seq-1)
	if err != nil {
		return n, err
	}
	var m durable.StartMeta // of the graph that the copied events belong to, should there have been a migration
	if err := json.Unmarshal(start.Meta, &m); err != nil {
		return n, past.ledger.fault(start, err)
	}
	m.Copied = int64(len(copied)) + 1
	start.Meta = mustMarshal(m)
	n.Events = append(append([]journal.Event{start}, copied...), barrier)
	return n, nil
}

// reduced is a state with an update from outside.
func (r *Runner[S, U]) reduced(s S, update U) (_ S, err error) {
	defer task.Recover("reducer", &err)
	plan := r.g.Plan()
	plan.Clip(&s)
	if err := plan.Reduce(&s, []graph.Write[U]{{Node: editor, Index: -1, Update: update}}); err != nil {
		return s, &ReduceError{Nodes: []string{editor}, Err: err}
	}
	return s, nil
}

// Answer answers a question of a suspended run, which goes on with it when it is run again. The value must fit the question.
// See durable.Answer for the errors.
func (r *Runner[S, U]) Answer(ctx context.Context, id, question string, value any) error {
	if err := r.needStore("Answer"); err != nil {
		return err
	}
	return durable.Answer(ctx, r.cfg.Store, id, question, value, durable.Using(r.settings(nil)))
}

// Questions lists what a run asks and nobody has answered yet. See durable.Questions.
func (r *Runner[S, U]) Questions(ctx context.Context, id string) ([]durable.Question, error) {
	if err := r.needStore("Questions"); err != nil {
		return nil, err
	}
	return durable.Questions(ctx, r.cfg.Store, id, durable.Using(r.settings(nil)))
}

// Signal sends a value to whoever waits for the signal of that name in a run. See durable.Signal.
func (r *Runner[S, U]) Signal(ctx context.Context, id, name string, value any, opts ...durable.SendOption) error {
	if err := r.needStore("Signal"); err != nil {
		return err
	}
	return durable.Signal(ctx, r.cfg.Store, id, name, value, append([]durable.SendOption{durable.Using(r.settings(nil))}, opts...)...)
}

// Cancel ends a run for good, wherever it is under way. See durable.Cancel.
func (r *Runner[S, U]) Cancel(ctx context.Context, id, reason string) error {
	if err := r.needStore("Cancel"); err != nil {
		return err
	}
	return durable.Cancel(ctx, r.cfg.Store, id, reason, durable.Using(r.settings(nil)))
}
