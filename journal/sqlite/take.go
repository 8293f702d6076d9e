package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// Take implements journal.Queue. A holder whose process has died, or has closed its store, is gone at once. While nothing is
// ready nothing is written, so that workers may ask as often as they like.
func (s *Store) Take(ctx context.Context, t journal.Take) ([]journal.Taken, error) {
	o := &taking{Take: t}
	for _, p := range t.Programs {
		o.programs = append(o.programs, p.Sum())
	}
	slices.SortFunc(o.programs, bytes.Compare)
	o.programs = slices.CompactFunc(o.programs, bytes.Equal)
	return s.take(ctx, o)
}

// TakeStranded implements journal.Queue.
func (s *Store) TakeStranded(ctx context.Context, t journal.Take, waited time.Duration) ([]journal.Taken, error) {
	t.Orphans = false
	return s.take(ctx, &taking{Take: t, stranded: true, waited: waited})
}

func (s *Store) take(ctx context.Context, o *taking) ([]journal.Taken, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.end()
	if o.Queue == "" || o.Limit < 1 {
		return nil, nil
	}
	if !o.stranded {
		some, err := o.look(ctx, s)
		if !some || err != nil {
			return nil, s.fault(o.op(), "", false, err)
		}
	}
	if err := s.committer.do(ctx, o, 0); err != nil {
		return nil, err
	}
	return o.taken, nil
}

type taking struct {
	journal.Take
	programs [][]byte // their digests, each once
	stranded bool
	waited   time.Duration
	taken    []journal.Taken
}

func (*taking) op() string  { return "take" }
func (*taking) run() string { return "" }

func (o *taking) lost(c *committer) {
	for _, got := range o.taken {
		c.tx.forget(got.Run.ID, got.Lease.Token)
	}
}

// candidate is a run that may be taken.
type candidate struct {
	id         string
	key, ready int64
}

// look reports whether there may be runs to take, without keeping anybody from writing.
func (o *taking) look(ctx context.Context, s *Store) (bool, error) {
	if err := s.committer.files.checkMain(); err != nil {
		return false, err
	}
	v := s.view()
	for _, program := range o.programs {
		some, err := readyRuns(ctx, s.read.ready, program, o.Queue, v.now, 1)
		if len(some) > 0 || err != nil {
			return len(some) > 0, err
		}
	}
	if !o.Orphans {
		return false, nil
	}
	running, err := runningRuns(ctx, s.read.running, o.Queue)
	return slices.ContainsFunc(running, func(r runningRun) bool { return o.wants(r.program) && !v.held(r.holder, r.until) }), err
}

func (o *taking) wants(program []byte) bool {
	_, found := slices.BinarySearchFunc(o.programs, program, bytes.Compare)
	return found
}

func (o *taking) apply(t *tx) error {
	o.taken = nil
	v := t.store.view()
	v.now = journal.Stamp(v.now)
	ready, err := o.candidates(t, v)
	if err != nil {
		return t.broken(err)
	}
	for _, c := range ready {
		st, err := t.run(c.id)
		if err != nil {
			return err
		}
		was := st.status
		lease, err := t.lease(st, o.Claim, v.now)
		if err != nil {
			return err
		}
		r, _, err := v.scan(t.record.QueryRowContext(context.Background(), st.key).Scan)
		if err != nil {
			return t.broken(err)
		}
		o.taken = append(o.taken, journal.Taken{Lease: lease, Run: r, Was: was})
	}
	return nil
}

// candidates are the runs to take.
func (o *taking) candidates(t *tx, v *view) ([]candidate, error) {
	most := o.Limit
	var orphans []candidate
	if o.Held > 0 || o.Orphans {
		running, err := runningRuns(context.Background(), t.running, o.Queue)
		if err != nil {
			return nil, err
		}
		held := 0
		for _, r := range running {
			switch {
			case !v.now.Before(r.until): // it is ready
			case t.holds(v, r.id, r.holder, r.until):
				held++
			case o.Orphans && o.wants(r.program):
				orphans = append(orphans, candidate{id: r.id, key: r.key, ready: r.until.UnixMicro()})
			}
		}
		if o.Held > 0 {
			most = min(most, o.Held-held)
		}
	}
	if most < 1 {
		return nil, nil
	}
	ready, err := o.readyRuns(t, v.now, most)
	if err != nil {
		return nil, err
	}
	ready = append(ready, orphans...)
	slices.SortFunc(ready, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.ready, b.ready), cmp.Compare(a.key, b.key))
	})
	return ready[:min(most, len(ready))], nil
}

// readyRuns are those of each program that have been ready longest, or are stranded.
func (o *taking) readyRuns(t *tx, now time.Time, most int) (ready []candidate, err error) {
	programs, before := o.programs, now
	if o.stranded {
		before = now.Add(-o.waited - time.Microsecond)
		if programs, err = t.unserved(o.Queue, before); err != nil {
			return nil, err
		}
	}
	for _, program := range programs {
		some, err := readyRuns(context.Background(), t.ready, program, o.Queue, before, most)
		if err != nil {
			return nil, err
		}
		ready = append(ready, some...)
	}
	return ready, nil
}

// unserved are the programs of runs in queues that nobody has announced for this one behind a time.
func (t *tx) unserved(queue string, behind time.Time) (programs [][]byte, err error) {
	program := []byte{}
	for {
		err := t.nextProgram.QueryRowContext(context.Background(), program).Scan(&program)
		if err != nil || program == nil {
			return programs, err
		}
		var at int64
		err = t.announced.QueryRowContext(context.Background(), program, queue).Scan(&at)
		switch {
		case errors.Is(err, sql.ErrNoRows) || err == nil && at <= behind.UnixMicro():
			programs = append(programs, program)
		case err != nil:
			return nil, err
		}
	}
}

// holds reports whether somebody has a run's lease whose time has not run out, and who has not died.
func (t *tx) holds(v *view, run, holder string, until time.Time) bool {
	if holder == t.store.owners.name {
		return v.now.Before(until) && t.given(run) != nil
	}
	return v.held(holder, until)
}

func readyRuns(ctx context.Context, stmt *sql.Stmt, program []byte, queue string, at time.Time, most int) (ready []candidate, err error) {
	rows, err := stmt.QueryContext(ctx, program, queue, at.UnixMicro(), most)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var c candidate
		if err := rows.Scan(&c.id, &c.key, &c.ready); err != nil {
			return nil, err
		}
		ready = append(ready, c)
	}
	return ready, rows.Err()
}

// runningRun is a run that is running.
type runningRun struct {
	id, holder string
	key        int64
	program    []byte
	until      time.Time
}

func runningRuns(ctx context.Context, stmt *sql.Stmt, queue string) (running []runningRun, err error) {
	rows, err := stmt.QueryContext(ctx, queue)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var r runningRun
		var until sql.NullInt64
		if err := rows.Scan(&r.id, &r.key, &r.program, &r.holder, &until); err != nil {
			return nil, err
		}
		r.until = fromMicros(until)
		running = append(running, r)
	}
	return running, rows.Err()
}

// Announce implements journal.Queue.
func (s *Store) Announce(ctx context.Context, queue string, programs []journal.Program) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.end()
	o := &announcement{queue: queue}
	for _, p := range programs {
		o.programs = append(o.programs, p.Sum())
	}
	return s.committer.do(ctx, o, 0)
}

type announcement struct {
	queue    string
	programs [][]byte
}

func (*announcement) op() string  { return "announce" }
func (*announcement) run() string { return "" }

func (o *announcement) apply(t *tx) error {
	now := journal.Stamp(time.Now())
	for _, program := range o.programs {
		if err := t.exec(t.announce, program, o.queue, micros(now)); err != nil {
			return err
		}
	}
	return nil
}
