package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

const (
	// maxTaken bounds how many runs are taken at once, so that workers share what is there.
	maxTaken = 32
	// leave is how long code may take to return when the worker has ended its context.
	leave = time.Second
	// throttle is how long a slot rests whose run could not be begun.
	throttle = time.Second

	firstPause, longestPause = 50 * time.Millisecond, 5 * time.Second
)

// taker takes the runs of one queue.
type taker struct {
	*Worker

	queue      Queue
	log        *slog.Logger
	runs       context.Context //nolint:containedctx // of the runs, which outlive the taker
	executions *sync.WaitGroup
	slots      chan struct{} // of the queue; nil if it has no bound of its own
	freed      chan struct{} // has a value when a slot has become free
}

func (w *Worker) newTaker(q Queue, runs context.Context, executions *sync.WaitGroup) *taker { //nolint:revive // not the call's own context
	t := &taker{
		Worker: w, queue: q, log: w.cfg.Logger.With("worker", w.cfg.Name, "queue", q.Name), runs: runs, executions: executions,
		freed: make(chan struct{}, 1),
	}
	if q.Concurrency > 0 {
		t.slots = make(chan struct{}, q.Concurrency)
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
	var outage pause
	for ctx.Err() == nil {
		// Who has died is looked for less often than who is due.
		sweep := time.Since(swept) >= t.cfg.Heartbeat
		n, full, err := t.once(ctx, sweep)
		switch {
		case err != nil:
			outage.wait(ctx, t.log, err)
			continue
		case sweep:
			swept = time.Now()
		}
		outage.over(t.log)
		if full && n > 0 {
			continue // there may be more
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-t.freed:
		case <-poll.C:
		}
	}
}

// once takes as many runs as there are free slots. Full says that there may be more of them.
func (t *taker) once(ctx context.Context, orphans bool) (n int, full bool, err error) {
	free := t.reserve()
	if free == 0 {
		return 0, false, nil
	}
	taken, err := t.store.Take(ctx, journal.Take{
		Claim: t.claim(), Queue: t.queue.Name, Programs: t.programs, Limit: free, Held: t.queue.Held, Orphans: orphans,
	})
	if err != nil {
		t.giveBack(free)
		if ctx.Err() != nil {
			return 0, false, nil
		}
		return 0, false, err
	}
	for _, run := range taken {
		t.execute(run)
	}
	t.giveBack(free - len(taken))
	return len(taken), len(taken) == free, nil
}

func (t *taker) claim() journal.Claim {
	return journal.Claim{Owner: t.cfg.Name + "/" + rand.Text()[:8], TTL: t.cfg.LockTTL}
}

// reserve takes free slots, of the worker and of the queue, and returns how many.
func (t *taker) reserve() int {
	for n := range maxTaken {
		select {
		case t.Worker.slots <- struct{}{}:
		default:
			return n
		}
		if t.slots == nil {
			continue
		}
		select {
		case t.slots <- struct{}{}:
		default:
			<-t.Worker.slots
			return n
		}
	}
	return maxTaken
}

// giveBack frees slots.
func (t *taker) giveBack(n int) {
	for range n {
		<-t.Worker.slots
		if t.slots != nil {
			<-t.slots
		}
	}
}

// execute runs a run on a goroutine of its own.
func (t *taker) execute(run journal.Taken) {
	a := &durable.Assignment{Taken: run, Settings: t.settings, Programs: t.programs, Budgets: t.cfg.Budgets}
	t.mu.Lock()
	t.active[a] = struct{}{}
	t.mu.Unlock()
	t.executions.Go(func() {
		err := durable.Attend(t.runs, t.code[run.Run.Program()], a, leave)
		t.tell(run, err)
		if !settled(err) { // else it would be taken again and again
			select {
			case <-time.After(throttle):
			case <-t.draining:
			}
		}
		t.mu.Lock()
		delete(t.active, a)
		if blocked := (*durable.BlockedError)(nil); errors.As(err, &blocked) {
			t.left++
		}
		t.mu.Unlock()
		t.giveBack(1)
		select {
		case t.freed <- struct{}{}:
		default:
		}
	})
}

// announce says that the worker is there, and ends stranded runs, until ctx ends.
func (t *taker) announce(ctx context.Context) {
	beat := time.NewTicker(t.cfg.Heartbeat)
	defer beat.Stop()
	var outage pause
	for {
		err := t.store.Announce(ctx, t.queue.Name, t.programs)
		if err == nil && t.cfg.Stranded == Fail {
			err = t.failStranded(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			outage.wait(ctx, t.log, err)
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
	}
}

// failStranded ends the runs that no worker has served for too long.
func (t *taker) failStranded(ctx context.Context) error {
	for {
		taken, err := t.store.TakeStranded(ctx, journal.Take{Claim: t.claim(), Queue: t.queue.Name, Limit: maxTaken}, t.cfg.StrandedTimeout)
		if err != nil {
			return err
		}
		for _, run := range taken {
			a := &durable.Assignment{Taken: run, Settings: t.settings}
			if err := a.Strand(ctx, t.cfg.StrandedTimeout); err != nil {
				return err
			}
			t.log.Warn("pawl: a run was failed that no worker serves", "run", run.Run.ID, "name", run.Run.Name,
				"version", run.Run.Version, "fingerprint", run.Run.Fingerprint)
		}
		if len(taken) < maxTaken {
			return nil
		}
	}
}

// pause is the time between two tries while the store is out of reach.
type pause struct{ last time.Duration }

func (p *pause) wait(ctx context.Context, log *slog.Logger, err error) {
	if p.last == 0 {
		log.Warn("pawl: the store does not answer; the worker waits for it", "error", err)
		p.last = firstPause
	}
	select {
	case <-ctx.Done():
	case <-time.After(p.last):
	}
	p.last = min(2*p.last, longestPause)
}

func (p *pause) over(log *slog.Logger) {
	if p.last > 0 {
		log.Info("pawl: the store answers again")
	}
	p.last = 0
}
