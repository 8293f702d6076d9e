package superstep

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/task"
)

// Continue runs the next turn of a conversation: a new run, from the last state of the thread's last run with the update
// merged into it by the graph's reducer; nil: from that state as it is. A thread without a run is a *ThreadError, and so is
// one whose last run has not completed, unless ContinueAnyway says to go on from the last state that was committed. Behind a
// run that has completed the graph may be another version, as long as the state still fits.
//
// RunID names the new run; without it the name is random. If there is a run of that name it must be this very turn, which then
// goes on, or whose recorded outcome is returned, also if others have followed; any other is a *durable.RunConflictError.
func (r *Runner[S, U]) Continue(ctx context.Context, thread string, update *U, opts ...RunOption) (*Result[S], error) {
	res := &Result[S]{}
	if err := r.needStore("Continue"); err != nil {
		return res, err
	}
	id, o, err := r.options(append(slices.Clip(opts), Thread(thread)))
	if err != nil {
		return res, err
	}
	res.RunID = id
	before, again, err := r.turnBefore(ctx, id, o)
	if err != nil {
		return res, r.unavailable(id, err)
	}
	state, err := r.lastState(ctx, before, o)
	if again && errors.Is(err, journal.ErrNotFound) {
		return r.resume(ctx, id, opts) // it cannot be compared any more
	}
	if err == nil && update != nil {
		state, err = r.reduced(state, *update)
	}
	if err != nil {
		return res, r.unavailable(id, err)
	}
	n, err := r.newRun(&state, o)
	if err != nil {
		return res, err
	}
	n.Run.ID, n.Run.Link = id, journal.Link{Kind: journal.TurnAfter, Run: before}
	if err := r.create(ctx, n); err != nil {
		return res, err
	}
	return r.resume(ctx, id, opts)
}

// turnBefore returns the run behind which a turn comes. Again is true if the turn is there already.
func (r *Runner[S, U]) turnBefore(ctx context.Context, id string, o *runOptions) (before string, again bool, err error) {
	notOurs := &durable.RunConflictError{RunID: id, What: "origin", Detail: fmt.Sprintf("it is no turn of thread %q", o.thread)}
	if o.named {
		there, err := r.cfg.Store.Load(ctx, id)
		switch {
		case err == nil && (there.Link.Kind != journal.TurnAfter || there.Thread != o.thread || there.Name != r.g.Name()):
			return "", false, notOurs
		case err == nil:
			return there.Link.Run, true, nil
		case !errors.Is(err, journal.ErrNotFound):
			return "", false, err
		}
	}
	lister, is := r.cfg.Store.(journal.Lister)
	if !is {
		return "", false, errors.New("pawl: superstep.Runner.Continue needs a store that lists runs: use one that is a journal.Lister")
	}
	page, err := lister.List(ctx, journal.Query{Kind: journal.GraphRun, Name: r.g.Name(), Thread: o.thread, Limit: 1})
	switch {
	case err != nil:
		return "", false, err
	case len(page.Runs) == 0:
		return "", false, &ThreadError{Thread: o.thread}
	}
	last := page.Runs[0]
	if last.Status != journal.Completed && !o.anyway {
		return "", false, &ThreadError{Thread: o.thread, RunID: last.ID, Status: last.Status}
	}
	return last.ID, false, nil
}

// lastState is what a run had come to last. What one that has completed returned need not be replayed.
func (r *Runner[S, U]) lastState(ctx context.Context, id string, o *runOptions) (S, error) {
	var none S
	run, err := r.cfg.Store.Load(ctx, id)
	if err != nil {
		return none, err
	}
	if run.Status != journal.Completed {
		past, err := r.past(ctx, id, o)
		if err != nil {
			return none, err
		}
		return past.last()
	}
	for e, err := range r.cfg.Store.Events(ctx, id, run.Head-1) {
		if err != nil {
			return none, err
		}
		s, err := r.plainState(e.Payload, o)
		if err != nil {
			err = &durable.ReplayError{RunID: id, Seq: e.Seq, Err: err}
		}
		return s, err
	}
	return none, &durable.ReplayError{RunID: id, Seq: run.Head, Err: errNoEnd}
}

var errNoEnd = errors.New("the last event is missing")

// plainState reads a recorded state, through the migration if there is one.
func (r *Runner[S, U]) plainState(payload []byte, o *runOptions) (s S, err error) {
	defer task.Recover("decoder of the state", &err)
	data, err := journal.DecodeJSON(r.cfg.Codec, payload)
	if err == nil && o != nil && o.migration != nil && o.migration.State != nil {
		data, err = o.migration.State(data)
	}
	if err != nil {
		return s, err
	}
	return r.g.Plan().DecodeState(data)
}

// unavailable says of an outage of the store which run it concerns.
func (r *Runner[S, U]) unavailable(id string, err error) error {
	if _, is := err.(*journal.UnavailableError); is { //nolint:errorlint // what the store returned, as it is
		return &durable.StoreUnavailableError{RunID: id, Err: err}
	}
	return err
}

// ThreadError says that a conversation cannot be continued.
type ThreadError struct {
	Thread string
	// RunID and Status are those of its last run; empty if it has none.
	RunID  string
	Status journal.Status
}

// Error says why.
func (e *ThreadError) Error() string {
	if e.RunID == "" {
		return fmt.Sprintf("pawl: thread %q has no run of this graph: begin it with Run and superstep.Thread(%q)", e.Thread, e.Thread)
	}
	return fmt.Sprintf("pawl: thread %q: its last run %q is %s: finish, answer or retry that, or go on from its last state with "+
		"superstep.ContinueAnyway()", e.Thread, e.RunID, e.Status)
}
