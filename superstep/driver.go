package superstep

import (
	"context"

	"github.com/pawl-go/pawl/task"
)

// driver runs one graph, the run's own or a subgraph, by driving its machine.
type driver[S, U any] struct {
	place
	prog *program[S, U]
	m    Machine[S, U]
	call call[S, U] // for super-steps of one task
	// ledger is nil in a run without a journal.
	ledger *ledger[S, U]
}

// place says which graph of which run: path and scope name a subgraph's, and are empty for the run's own graph.
type place struct {
	run         *run
	path, scope string
	limit       int // on super-steps
}

// pathOf is the path of a node of this graph.
func (p *place) pathOf(name string) string {
	if p.path == "" {
		return name
	}
	return p.path + "/" + name
}

// drive runs super-steps until nothing is active. It makes its calls on the calling goroutine where a super-step has one
// task, and returns early, with an error that nobody reads, if s is lost.
func (d *driver[S, U]) drive(ctx context.Context, s *strand) error {
	if d.ledger != nil {
		s.whose = "router or reducer"
		if err := d.ledger.restore(); err != nil {
			return err
		}
	}
	for !d.m.Done() {
		if err := d.superStep(ctx, s); err != nil || s.lost() {
			return err
		}
	}
	// What ends the run after its last task still ends it; the state has all of it.
	if over(ctx) {
		return d.run.ended(ctx)
	}
	if d.ledger != nil {
		if err := d.ledger.askAfter(ctx, d.m.SuperStep()); err != nil {
			return err
		}
	}
	if d.run.events != nil {
		d.reportJoins()
	}
	return nil
}

func (d *driver[S, U]) superStep(ctx context.Context, s *strand) error {
	if ctx.Err() != nil {
		return d.run.ended(ctx)
	}
	if d.scope == "" { // a subgraph is part of its super-step, which may finish
		if err := d.run.stopped(); err != nil {
			return err
		}
	}
	if d.ledger != nil {
		if err := d.ledger.begin(ctx); err != nil {
			return err
		}
	}
	if d.run.events != nil {
		d.report(&task.SuperStepStarted{Tasks: len(d.m.Tasks())}, d.m.SuperStep())
	}
	var err error
	if len(d.m.Tasks()) > 1 {
		err = d.runTasks(ctx)
	} else if rest := d.ledger.rest(0); rest != nil {
		err = rest
	} else if !d.m.done[0] {
		if err = d.runTask(ctx, &d.call, s, 0); !s.lost() {
			d.call.close(err)
		}
	}
	if err != nil || s.lost() {
		return err
	}
	s.whose = "router or reducer"
	step, before := d.m.SuperStep(), d.m.SuperSteps()
	if d.ledger != nil {
		err = d.ledger.advance(ctx)
	} else {
		err = d.m.Advance()
	}
	if d.run.events != nil && d.m.SuperSteps() > before {
		d.report(&task.SuperStepCompleted{}, step)
	}
	return err
}

// report sends an event of a super-step of this graph. Like the other functions that only build events it is kept out of
// its callers: headers are large, and runs that nobody watches are to have small stacks.
//
//go:noinline
func (d *driver[S, U]) report(ev task.Event, step int) {
	d.run.emit(ev, task.Header{Scope: d.scope, Node: d.path, SuperStep: step})
}

func (d *driver[S, U]) reportJoins() {
	for _, u := range d.m.Unfired() {
		if u.Join {
			d.report(&task.JoinUnfired{Unfired: u}, 0)
		}
	}
}
