package superstep

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
)

// RunOption sets something of one run.
type RunOption func(*runOptions)

type runOptions struct {
	id, thread    string
	threaded      bool // by Thread
	before, after []graph.Ref
	migration     *Migration
	anyway        bool
	named         bool // by RunID
	// Set by who calls execute:
	existing   bool                // the run must be there already; its input is not compared
	assignment *durable.Assignment // by a worker
}

// RunID names the run; without it a run gets a random name. It is any non-empty string, and only ever data. With a Store, a
// run of that id that exists is gone on with, or its recorded outcome is returned.
func RunID(id string) RunOption {
	return func(o *runOptions) { o.id = id }
}

// Thread makes the run a turn of a conversation, which Continue goes on with. The name is any non-empty string. It needs a
// Store.
func Thread(name string) RunOption {
	return func(o *runOptions) { o.thread, o.threaded = name, true }
}

// InterruptBefore suspends the run before each super-step in which one of the nodes is to run, until the question that
// this records is answered; any answer will do. The question's id is "<super-step>/<node>/before/ask1". It concerns the
// nodes of the run's own graph and needs a Store. It holds for this call, but what was asked once has to be answered, whoever
// goes on with the run.
func InterruptBefore(nodes ...graph.Ref) RunOption {
	return func(o *runOptions) { o.before = append(o.before, nodes...) }
}

// InterruptAfter is InterruptBefore for the moment after the super-step, when what the nodes did is part of the state.
func InterruptAfter(nodes ...graph.Ref) RunOption {
	return func(o *runOptions) { o.after = append(o.after, nodes...) }
}

// WithMigration lets a run go on that was started with an older version of the graph.
func WithMigration(m Migration) RunOption {
	return func(o *runOptions) { o.migration = &m }
}

// ContinueAnyway lets Continue go on from the last state of a conversation whose last run waits or has failed. That run
// stays as it is.
func ContinueAnyway() RunOption {
	return func(o *runOptions) { o.anyway = true }
}

// options puts together what was said of a run. They are nil if nothing was.
func (r *Runner[S, U]) options(opts []RunOption) (id string, o *runOptions, err error) {
	if len(opts) == 0 {
		return rand.Text(), nil, nil
	}
	o = &runOptions{id: rand.Text()}
	unnamed := o.id
	for _, opt := range opts {
		opt(o)
	}
	o.named = o.id != unnamed
	switch {
	case o.id == "":
		return "", nil, errors.New("pawl: superstep.RunID: the id is empty: pass a name, or no RunID for a random one")
	case o.threaded && o.thread == "":
		return "", nil, errors.New("pawl: superstep: the name of the thread is empty: give each conversation a name of its own")
	case r.cfg.Store == nil && (o.thread != "" || len(o.before) > 0 || len(o.after) > 0 || o.migration != nil):
		return "", nil, errors.New("pawl: superstep: Thread, InterruptBefore, InterruptAfter and WithMigration need a journal: " +
			"set Config.Store")
	}
	for _, ref := range slices.Concat(o.before, o.after) {
		if !r.g.Has(ref) {
			return "", nil, fmt.Errorf("pawl: superstep: InterruptBefore or InterruptAfter names %q, which is no node of graph %q: "+
				"use the handles that its own builder returned", graph.NameOf(ref), r.g.Name())
		}
	}
	if o.migration != nil {
		if err := o.migration.check(r.g.NodeNames()); err != nil {
			return "", nil, err
		}
	}
	return o.id, o, nil
}
