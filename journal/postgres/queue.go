package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// Take implements journal.Queue. It takes no more than 4,096 runs at a time. What it takes is given back if ctx ends before it is
// returned. Held is heeded by all processes together. Orphans are the runs of processes that have died or have closed their store.
func (s *Store) Take(ctx context.Context, t journal.Take) ([]journal.Taken, error) {
	o := &taking{Take: t, pick: pickReady, programs: sums(t.Programs)}
	if t.Orphans {
		o.pick = pickOrphans
	}
	return s.take(ctx, o, len(o.programs) > 0)
}

// TakeStranded implements journal.Queue. What it knows of announcements may be a second old, so it waits for one more.
func (s *Store) TakeStranded(ctx context.Context, t journal.Take, waited time.Duration) ([]journal.Taken, error) {
	const longest = 100 * 365 * 24 * time.Hour
	return s.take(ctx, &taking{Take: t, pick: pickStranded, waited: min(max(waited, 0), longest)}, true)
}

// maxTake is how many runs a transaction takes at most.
const maxTake = 4096

func (s *Store) take(ctx context.Context, o *taking, wants bool) ([]journal.Taken, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.end()
	o.Limit = min(o.Limit, maxTake)
	if !wants || o.Queue == "" || o.Limit < 1 {
		return nil, nil
	}
	if err := s.taker.start(s).do(ctx, o, 0); err != nil { //nolint:contextcheck // it lives as long as the store
		return nil, err
	}
	return o.taken, nil
}

// announceEvery is how exact announcements are: one that is younger is good enough.
const announceEvery = time.Second

// announce writes only what has changed: a row that is not updated is not locked either.
const announce = `INSERT INTO workers (program, queue, seen)
	SELECT program, $1, clock_timestamp() FROM unnest($2::bytea[]) AS p (program) WHERE NOT EXISTS (
		SELECT FROM workers w WHERE w.program = p.program AND w.queue = $1 AND w.seen > clock_timestamp() - $3::bigint * interval '1 us')
	ON CONFLICT (program, queue) DO UPDATE SET seen = greatest(workers.seen, excluded.seen)`

// Announce implements journal.Queue. It writes at most once a second for each program and queue, however many workers call it.
func (s *Store) Announce(ctx context.Context, queue string, programs []journal.Program) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.end()
	o := &announcing{queue: hashOf(queue), programs: sums(programs)}
	if len(o.programs) == 0 {
		return nil
	}
	return s.taker.start(s).do(ctx, o, 0) //nolint:contextcheck // it lives as long as the store
}

type announcing struct {
	alone

	queue    hash
	programs [][]byte
}

func (*announcing) op() string { return "announce a worker" }

func (o *announcing) attempt(c *committer) (unknown bool, err error) {
	if c.conn == nil || c.conn.IsClosed() {
		return false, errLost
	}
	if err := c.store.at(beforeEnd); err != nil {
		return false, err
	}
	c.deadline()
	_, err = c.conn.Exec(context.Background(), announce, o.queue[:], o.programs, announceEvery.Microseconds())
	if err == nil {
		err = c.store.at(behindEnd)
	}
	if err != nil {
		return c.abort(err), err
	}
	return false, nil
}

// sums stand for programs, in one order for all, so that nobody waits for somebody who waits, and each once.
func sums(programs []journal.Program) [][]byte {
	list := make([][]byte, 0, len(programs))
	for _, p := range programs {
		list = append(list, p.Sum())
	}
	slices.SortFunc(list, slices.Compare)
	return slices.CompactFunc(list, slices.Equal)
}

// byReadiness is the order of Take: those that have been ready longest come first, and then those that were made first.
func byReadiness(a, b pickedRun) int {
	return cmp.Or(a.ready.Compare(b.ready), cmp.Compare(a.key, b.key))
}
