package superstep

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

// How workers run a runner's graph, and clients start it.

// Program names the graph's runs.
func (r *Runner[S, U]) Program() journal.Program {
	return journal.Program{Kind: journal.GraphRun, Name: r.g.Name(), Fingerprint: r.g.Fingerprint()}
}

// NewRun describes a run of the graph that begins with in. It implements durable.Starter; Run makes runs by itself. Of the
// settings the Codec and the PayloadLimit count, not the runner's own. Errors: a *journal.NotSerializableError or
// *journal.PayloadTooLargeError if in is not usable, and those of a codec.
func (r *Runner[S, U]) NewRun(s durable.Settings, in S) (journal.NewRun, error) {
	if r.cfg.Codec != nil && s.Codec == nil {
		return journal.NewRun{}, &durable.OptionError{Call: "NewRun", Name: r.g.Name(), Err: errNoCodec}
	}
	return r.newRunWith(s, &in, nil)
}

// Execute implements durable.Executable. The run is kept in the worker's store, whatever the runner's own is.
func (r *Runner[S, U]) Execute(ctx context.Context, a *durable.Assignment) error {
	return r.assigned(ctx, a, nil)
}

func (r *Runner[S, U]) assigned(ctx context.Context, a *durable.Assignment, m *Migration) error {
	o := &runOptions{id: a.Taken.Lease.Run, named: true, existing: true, assignment: a, migration: m}
	t := r.newTrunk(new(S), o.id, r.newEvents())
	t.run.draining, t.run.drained = a.Draining(), a.Drained()
	_, err := r.execute(ctx, t, o)
	return err
}

// Older is what a worker is given, along with the runner, to go on with runs that an older version of the graph has begun: the
// one of this fingerprint. A migration that names nodes which are not there, or are there still, is an error.
func (r *Runner[S, U]) Older(fingerprint string, m Migration) (durable.Executable, error) {
	if err := m.check(r.g.NodeNames()); err != nil {
		return nil, err
	}
	return older[S, U]{r: r, fingerprint: fingerprint, migration: m}, nil
}

type older[S, U any] struct {
	r           *Runner[S, U]
	fingerprint string
	migration   Migration
}

func (o older[S, U]) Program() journal.Program {
	p := o.r.Program()
	p.Fingerprint = o.fingerprint
	return p
}

func (o older[S, U]) Execute(ctx context.Context, a *durable.Assignment) error {
	return o.r.assigned(ctx, a, &o.migration)
}

// errNoCodec is a run that would be written in plain.
var errNoCodec = errors.New("the runner has a Codec and the settings have none: give the client the runner's Codec")

// Result reads the last event of a run that has completed. It implements durable.Starter. A state that cannot be read is a
// *durable.ReplayError.
func (r *Runner[S, U]) Result(s durable.Settings, run string, last journal.Event) (S, error) {
	return r.finalState(s.Codec, run, last)
}

// finalState is the state in a RunComplete.
func (r *Runner[S, U]) finalState(codec journal.Codec, run string, last journal.Event) (state S, err error) {
	data, err := journal.DecodeJSON(codec, last.Payload)
	if err == nil {
		state, err = r.g.Plan().DecodeState(data)
	}
	if err != nil {
		return state, &durable.ReplayError{RunID: run, Seq: last.Seq, Err: err}
	}
	return state, nil
}
