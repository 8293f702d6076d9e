package worker

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

const (
	// maxTaken bounds how many runs are taken at once, so that workers share what is there.
	maxTaken = 32
	// leave is how long code may take to return when the worker has ended its context.
	leave = time.Second
	// sweepEvery is how often runs are looked for whose worker is known to have died.
	sweepEvery = time.Second
)

// taker takes the runs of one queue.
type taker struct {
	*Worker

	queue      Queue
	log        *slog.Logger
	runs       context.Context //nolint:containedctx // of the runs, which outlive the taker
	executions *sync.WaitGroup
	places     *slots // of the queue; nil if it has no bound of its own
	// freed has a value when a run of a queue has ended of which only so many may be held.
	freed chan struct{}
}

func (w *Worker) newTaker(q Queue, runs context.Context, executions *sync.WaitGroup) *taker { //nolint:revive // not the call's own context
	t := &taker{
		Worker: w, queue: q, log: w.cfg.Logger.With("worker", w.cfg.Name, "queue", q.Name), runs: runs, executions: executions,
		freed: make(chan struct{}, 1),
	}
	if q.Concurrency > 0 {
		t.places = &slots{free: q.Concurrency}
	}
	return t
}

// take takes runs until ctx ends.
func (t *taker) take(ctx context.Context) {
	changed, stop := t.store.WatchQueue(t.queue.Name)
	defer stop()
	poll := time.NewTicker(t.cfg.Poll)
	defer poll.Stop()
	var swept time.Time
	var outage backoff
	for {
		free := t.reserve(ctx)
		if free == 0 || ctx.Err() != nil {
			t.giveBack(free)
			return
		}
		// Who has died is looked for less often than who is due.
		sweep := time.Since(swept) >= min(t.cfg.Heartbeat, sweepEvery)
		full, err := t.once(ctx, free, sweep)
		switch {
		case err != nil && ctx.Err() != nil:
			return
		case err != nil:
			outage.wait(ctx, t.log, err)
			continue
		case sweep:
			swept = time.Now()
		}
		outage.over(t.log)
		if full {
			continue // there may be more
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-t.freed:
		case <-poll.C:
		}
	}
}

// once takes runs for places that were reserved. Full says that there may be more of them.
func (t *taker) once(ctx context.Context, free int, orphans bool) (full bool, err error) {
	longer, done := outlive(ctx)
	defer done()
	taken, err := t.store.Take(longer, journal.Take{
		Claim: t.claim(), Queue: t.queue.Name, Programs: t.programs, Limit: free, Held: t.queue.Held, Orphans: orphans,
	})
	if err != nil {
		t.giveBack(free)
		return false, err
	}
	for _, run := range taken {
		t.execute(ctx, run)
	}
	t.giveBack(free - len(taken))
	return len(taken) == free, nil
}

// outlive returns a context that goes on for a moment when ctx ends: the runs of a take whose outcome is not known would count
// as lost by their owner.
func outlive(ctx context.Context) (longer context.Context, done func()) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(leave, cancel) })
	return longer, func() {
		stop()
		cancel()
	}
}

func (t *taker) claim() journal.Claim {
	return journal.Claim{Owner: t.cfg.Name + "/" + rand.Text()[:8], TTL: t.cfg.LockTTL}
}

// reserve takes places, of the queue and of the worker, and returns how many: none if ctx has ended. It waits for the first.
func (t *taker) reserve(ctx context.Context) int {
	if t.places != nil && !t.places.take(ctx) {
		return 0
	}
	if !t.slots.take(ctx) {
		if t.places != nil {
			t.places.give(1)
		}
		return 0
	}
	more := maxTaken - 1
	if t.places != nil {
		more = t.places.more(more)
	}
	got := t.slots.more(more)
	if t.places != nil {
		t.places.give(more - got)
	}
	return 1 + got
}

// giveBack frees places.
func (t *taker) giveBack(n int) {
	t.slots.give(n)
	if t.places != nil {
		t.places.give(n)
	}
}

// execute runs a run on a goroutine of its own, which outlives ctx.
func (t *taker) execute(ctx context.Context, run journal.Taken) {
	if run.Was == journal.Running {
		t.log.Warn("pawl: a run's worker was lost; this worker goes on with it", "run", run.Run.ID, "name", run.Run.Name)
	}
	a := &durable.Assignment{Taken: run, Settings: t.settings, Programs: t.programs, Budgets: t.cfg.Budgets}
	if ctx.Err() != nil { // the worker ends: the run is to be let go of before it does anything
		a.Drain()
	}
	t.mu.Lock()
	t.active[a] = struct{}{}
	t.mu.Unlock()
	t.executions.Go(func() {
		t.tell(run, durable.Attend(t.runs, counted{t.code[run.Run.Program()], &t.calls}, a, leave))
		t.mu.Lock()
		delete(t.active, a)
		t.mu.Unlock()
		t.giveBack(1)
		if t.queue.Held > 0 {
			select {
			case t.freed <- struct{}{}:
			default:
			}
		}
	})
}

// counted counts the calls of code that have not returned.
type counted struct {
	durable.Executable

	calls *atomic.Int64
}

func (c counted) Execute(ctx context.Context, a *durable.Assignment) error {
	c.calls.Add(1)
	defer c.calls.Add(-1)
	return c.Executable.Execute(ctx, a)
}
