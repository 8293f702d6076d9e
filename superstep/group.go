package superstep

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// runTasks runs the tasks of a super-step that has several, on goroutines of their own, and waits for them. When one
// fails for good, its siblings are cancelled and awaited for Grace. The error is the first failure.
func (d *driver[S, U]) runTasks(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	g := &group[S, U]{d: d, ctx: ctx, cancel: cancel, done: make(chan struct{})}
	g.live.Store(1) // held until all lanes have started
	lanes := d.lanes()
	for i := range lanes {
		g.spawn(&lanes[i])
	}
	g.exit()
	select {
	case <-g.done:
	case <-ctx.Done():
		g.awaitEnd()
	}
	return g.result()
}

// lane is a stretch of tasks that share a limit: the tasks of one limited node, or a run of others.
type lane struct {
	next    atomic.Int64 // the next task to take
	end     int64
	limit   int32 // of workers; 0: none
	workers atomic.Int32
	pending atomic.Bool // a worker has been spawned and has not started
}

// lanes splits the tasks. Tasks of one node stand together.
func (d *driver[S, U]) lanes() []lane {
	tasks := d.m.Tasks()
	limits := func(i int) int { return d.prog.plan.Nodes[tasks[i].Node].MaxConcurrency }
	var out []lane
	for from := 0; from < len(tasks); {
		to := from + 1
		for to < len(tasks) && limits(to) == limits(from) && (limits(from) == 0 || tasks[to].Node == tasks[from].Node) {
			to++
		}
		limit := limits(from)
		if all := d.run.cfg.MaxConcurrency; all > 0 && (limit == 0 || all < limit) {
			limit = all // more workers would only wait for a slot
		}
		out = append(out, lane{})
		l := &out[len(out)-1]
		l.end, l.limit = int64(to), int32(min(limit, to-from)) //nolint:gosec // both are bounded by the number of tasks
		l.next.Store(int64(from))
		from = to
	}
	return out
}

// group is the tasks of one super-step under way.
type group[S, U any] struct {
	d      *driver[S, U]
	ctx    context.Context //nolint:containedctx // of one call of runTasks, whose locals these are
	cancel context.CancelCauseFunc
	live   atomic.Int64 // workers, and the spawner
	// complete counts the tasks that have succeeded.
	complete atomic.Int64
	done     chan struct{} // closed when none is left

	mu      sync.Mutex
	err     error // the first failure
	waits   error // a suspension, whose siblings go on
	workers []*worker[S, U]
	closing bool // no further worker starts
}

// worker is a goroutine that takes tasks of a lane one after another.
type worker[S, U any] struct {
	strand
	g        *group[S, U]
	lane     *lane
	call     call[S, U]
	complete int64 // tasks that have succeeded; added up at the end, since workers would fight for the sum
}

func (g *group[S, U]) spawn(l *lane) {
	w := &worker[S, U]{g: g, lane: l}
	g.mu.Lock()
	if g.closing {
		g.mu.Unlock()
		return
	}
	g.workers = append(g.workers, w)
	g.live.Add(1)
	g.mu.Unlock()
	l.workers.Add(1)
	l.pending.Store(true)
	go w.work()
}

// work takes tasks until the lane is empty or the super-step has failed. Each worker sees to it that another one is on
// its way while tasks are left. So tasks that end at once share a few goroutines, and tasks that wait have one each.
func (w *worker[S, U]) work() {
	defer w.exit()
	w.lane.pending.Store(false)
	for w.g.ctx.Err() == nil {
		i := w.lane.next.Add(1) - 1
		if i >= w.lane.end {
			break
		}
		if w.g.d.m.done[i] { // by what is recorded
			w.complete++
			continue
		}
		if rest := w.g.d.ledger.rest(int(i)); rest != nil {
			w.g.suspend(rest)
			continue
		}
		if i+1 < w.lane.end && w.lane.mayGrow() {
			w.g.spawn(w.lane)
		}
		err := w.g.d.runTask(w.g.ctx, &w.call, &w.strand, int(i))
		if w.lost() {
			return
		}
		switch {
		case err == nil:
			w.complete++
		case isSuspended(err):
			w.g.suspend(err)
		default:
			err = w.g.fail(err)
		}
		w.call.close(err)
	}
}

// mayGrow reports whether the lane can do with another worker, and takes the right to spawn it.
func (l *lane) mayGrow() bool {
	return !l.pending.Load() && (l.limit == 0 || l.workers.Load() < l.limit) && l.pending.CompareAndSwap(false, true)
}

func (w *worker[S, U]) exit() {
	if !w.finish() {
		w.g.d.run.stuck.Add(-1) // the call has come back after all; nobody waits for it
		return
	}
	if len(w.open) > 0 { // the task has ended the goroutine under us
		err := w.g.fail(w.g.d.run.goexit(w.g.ctx, &w.strand))
		w.g.d.run.closeTasks(&w.strand, err)
		w.call.release()
	}
	w.g.complete.Add(w.complete)
	w.g.exit()
}

func (g *group[S, U]) exit() {
	if g.live.Add(-1) == 0 {
		close(g.done)
	}
}

// fail records the first failure and cancels the siblings. It returns what the task is to report: a failure that is not
// the first comes after the cancel, and counts as one.
func (g *group[S, U]) fail(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return g.d.run.ended(g.ctx)
	}
	g.err = err
	g.cancel(g.d.run.cancelled("another task of its super-step failed"))
	return err
}

// suspend notes that a task waits for something. Its siblings go on.
func (g *group[S, U]) suspend(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waits = err
}

// awaitEnd waits for the workers after the end of their context, but not longer than Grace for those that ignore it.
func (g *group[S, U]) awaitEnd() {
	grace := time.NewTimer(g.d.run.cfg.Grace)
	defer grace.Stop()
	for {
		select {
		case <-g.done:
			return
		case <-grace.C:
			g.abandon()
			grace.Reset(g.d.run.cfg.Grace) // for those that wait for a consumer of events
		}
	}
}

// abandon leaves behind what ignores the end of its context, and keeps the others from calling anything more.
func (g *group[S, U]) abandon() {
	g.mu.Lock()
	g.closing = true
	workers := g.workers
	g.mu.Unlock()
	for _, w := range workers {
		if w.excuse() {
			continue
		}
		if g.d.run.abandonStrand(g.ctx, &w.strand) {
			g.exit()
		}
	}
}

func (g *group[S, U]) result() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.err != nil:
		return g.err
	case int(g.complete.Load()) == len(g.d.m.Tasks()):
		return nil
	case over(g.ctx):
		return g.d.run.ended(g.ctx) // some tasks have never started
	}
	return g.waits
}
