package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// service is what workers announce.
type service struct {
	queue   string
	program journal.Program
}

// Take implements journal.Queue. No owner is known to be gone, so Orphans changes nothing.
func (s *Store) Take(ctx context.Context, t journal.Take) ([]journal.Taken, error) {
	return s.take(ctx, t, func(e *entry, _ time.Time) bool { return slices.Contains(t.Programs, e.run.Program()) })
}

// TakeStranded implements journal.Queue.
func (s *Store) TakeStranded(ctx context.Context, t journal.Take, waited time.Duration) ([]journal.Taken, error) {
	return s.take(ctx, t, func(e *entry, now time.Time) bool {
		since := now.Add(-waited)
		return e.ready().Before(since) && s.announced[service{t.Queue, e.run.Program()}].Before(since)
	})
}

// Announce implements journal.Queue.
func (s *Store) Announce(ctx context.Context, queue string, programs []journal.Program) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := journal.Stamp(time.Now())
	for _, p := range programs {
		s.announced[service{queue, p}] = now
	}
	return nil
}

// take gives leases on runs of a queue that are ready and wanted.
func (s *Store) take(ctx context.Context, t journal.Take, wanted func(*entry, time.Time) bool) ([]journal.Taken, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := journal.Stamp(time.Now())
	var ready []*entry
	held := 0
	for e := range s.queues[t.Queue] {
		if e.run.Status == journal.Running && e.held(now) {
			held++
		}
		if e.isReady(now) && wanted(e, now) {
			ready = append(ready, e)
		}
	}
	slices.SortFunc(ready, func(a, b *entry) int {
		return cmp.Or(a.ready().Compare(b.ready()), cmp.Compare(a.serial, b.serial))
	})
	most := t.Limit
	if t.Held > 0 {
		most = min(most, t.Held-held)
	}
	var taken []journal.Taken
	for _, e := range ready[:min(max(most, 0), len(ready))] {
		was := e.run.Status
		lease := s.lease(e, t.Claim, now)
		taken = append(taken, journal.Taken{Lease: lease, Run: e.record(now), Was: was})
	}
	return taken, nil
}

// ready returns from when on workers may take the run; zero if that is not known.
func (e *entry) ready() time.Time {
	var from time.Time
	switch e.run.Status {
	case journal.Running:
		return e.run.Until
	case journal.Pending:
		from = e.run.Due
		if from.IsZero() {
			from = e.run.Updated
		}
	case journal.Suspended:
		from = e.run.Due
	}
	if !from.IsZero() && from.Before(e.run.Until) {
		return e.run.Until // until it is given up
	}
	return from
}

func (e *entry) isReady(now time.Time) bool {
	from := e.ready()
	return !from.IsZero() && !now.Before(from)
}

// rouse makes a suspended run of a queue due if it has messages that were not seen, and reports whether it was not due yet.
func (e *entry) rouse(seen int64, now time.Time) bool {
	if e.run.Queue == "" || e.run.Status != journal.Suspended || int64(len(e.inbox)) <= seen {
		return false
	}
	if !e.run.Due.IsZero() && !now.Before(e.run.Due) {
		return false
	}
	e.run.Due = now
	return true
}

// tellQueue tells who watches a run's queue, if the run can be taken but for the time and a lease. The caller holds the lock.
func (s *Store) tellQueue(e *entry, now time.Time) {
	switch {
	case e.run.Queue == "":
	case e.run.Status == journal.Pending, e.run.Status == journal.Suspended && !e.run.Due.IsZero() && !now.Before(e.run.Due):
		s.queuers.tell(e.run.Queue)
	}
}

// enter puts a run into its queue, and gives it its key. The caller holds the lock.
func (s *Store) enter(e *entry) {
	if e.run.Dedup != "" {
		s.dedup[e.run.Dedup] = e
	}
	if e.run.Queue == "" {
		return
	}
	if s.queues[e.run.Queue] == nil {
		s.queues[e.run.Queue] = map[*entry]struct{}{}
	}
	s.queues[e.run.Queue][e] = struct{}{}
}

// leave undoes enter for a run that has ended or is deleted. The caller holds the lock.
func (s *Store) leave(e *entry) {
	if s.dedup[e.run.Dedup] == e {
		delete(s.dedup, e.run.Dedup)
	}
	delete(s.queues[e.run.Queue], e)
	if len(s.queues[e.run.Queue]) == 0 {
		delete(s.queues, e.run.Queue)
	}
}
