package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl/journal"
)

// taking is a Take.
type taking struct {
	journal.Take
	alone

	pick     string
	programs [][]byte
	waited   time.Duration

	taken []journal.Taken
}

func (*taking) op() string { return "take runs" }

// lost gives back what nobody has got.
func (o *taking) lost(c *committer) {
	for i := range o.taken {
		c.store.committer(o.taken[i].Run.ID).push(&renewal{lease: o.taken[i].Lease})
	}
	o.taken = nil
}

// pickedRun is a run that was taken.
type pickedRun struct {
	journal.Taken
	key   int64
	ready time.Time
}

// picking is what one transaction has come to.
type picking struct {
	owner      string
	runs       []pickedRun
	room       *int64 // how many could have been taken; nil if the server does not know the session
	candidates int64
	lost       []int64 // holders whose sessions are
}

// spare is how many candidates there are beyond those that are wanted, at first and at most.
const (
	spare    = 16
	maxSpare = 4096
)

// attempt takes runs. If it has taken some and can take no more, it is content with them.
func (o *taking) attempt(c *committer) (unknown bool, err error) {
	const growth = 8
	for more := spare; more <= maxSpare; more *= growth {
		enough, unknown, err := o.once(c, o.Limit-len(o.taken), more)
		if err != nil && len(o.taken) == 0 {
			return unknown, err
		}
		if err != nil || enough {
			break
		}
	}
	return false, nil //nolint:nilerr // see above
}

// once is one transaction. It reports whether there is no more to be had.
func (o *taking) once(c *committer, limit, more int) (enough, unknown bool, err error) {
	if c.conn == nil || c.conn.IsClosed() {
		return false, false, errLost
	}
	if err := c.store.at(beforeEnd); err != nil {
		return false, false, err
	}
	c.deadline()
	s := c.store
	s.taker.busy.Lock()
	p, err := o.ask(c, limit, more)
	if err == nil {
		err = s.at(behindEnd)
	}
	if err == nil {
		s.taker.witness(p.lost)
		o.hand(c, p.runs)
	}
	s.taker.busy.Unlock()
	if err != nil {
		return false, c.abort(err), err
	}
	if p.room == nil {
		return false, false, c.replaceSession()
	}
	n := int64(len(p.runs))
	return n >= *p.room || p.candidates < int64(limit+more), false, nil
}

func (o *taking) ask(c *committer, limit, more int) (p picking, err error) {
	p.owner = o.Claim.Owner
	name := hashOf(o.Queue)
	args := []any{name[:], c.holder, o.Held, limit, limit + more, o.waited.Microseconds(), o.programs, c.store.taker.gone(), o.Orphans}
	if o.pick == pickStranded {
		args[6], args[8] = announceEvery.Microseconds(), false
	}
	b := &pgx.Batch{}
	b.Queue("begin")
	if o.Held > 0 {
		b.Queue(awaitTurn, c.store.turnOf("queue", o.Queue))
	}
	b.Queue(o.pick, args...).QueryRow(func(row pgx.Row) error { return row.Scan(nil, &p.room, &p.candidates, &p.lost) })
	b.Queue(takePicked, text(o.Claim.Owner), c.holder, o.Claim.TTL.Microseconds()).Query(p.scan)
	b.Queue("commit")
	err = c.conn.SendBatch(context.Background(), b).Close()
	slices.SortFunc(p.runs, byReadiness)
	return p, err
}

func (p *picking) scan(rows pgx.Rows) error {
	for rows.Next() {
		var r pickedRun
		var until, since *time.Time
		var err error
		if r.Run, r.key, err = scanRun(rows, &r.Lease.Token, &until, &r.Was, &since); err != nil {
			return err
		}
		r.Lease.Run, r.Lease.Owner, r.Lease.Until, r.Lease.Head = r.Run.ID, p.owner, fromTime(until), r.Run.Head
		r.ready = fromTime(since)
		p.runs = append(p.runs, r)
	}
	return rows.Err()
}

// hand adds runs to those that were taken, and tells their committers.
func (o *taking) hand(c *committer, runs []pickedRun) {
	for i := range runs {
		r := &runs[i]
		o.taken = append(o.taken, r.Taken)
		c.store.committer(r.Run.ID).expect(arrival{
			run: r.Run.ID, holder: c.holder,
			lease: lease{key: r.key, token: r.Lease.Token, head: r.Lease.Head, until: r.Lease.Until},
		})
	}
}
