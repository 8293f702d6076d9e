package postgres

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl/journal"
)

// What Take does is one transaction in one round trip. The first statement chooses runs and locks them, the second one takes
// them: it began behind the locks, so it sees all that their last owners have written. Between them the server keeps the keys,
// in a setting of the transaction.
//
// Nothing is waited for but the turn of those who count what is held. A run that is locked is one that somebody else takes or
// writes. So there may be more candidates than are wanted; none is locked before it is its turn.
const (
	pickSome = `WITH RECURSIVE clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
		held AS (SELECT holder, count(*) AS n FROM runs WHERE ` + isHeld + ` AND ready > (SELECT now FROM clock) GROUP BY holder),
		room AS MATERIALIZED (SELECT CASE WHEN pg_try_advisory_xact_lock_shared($2) THEN NULL WHEN $3::bigint = 0 THEN $4::bigint ELSE
			least($4, $3 - (SELECT coalesce(sum(n), 0) FROM held WHERE NOT pg_try_advisory_xact_lock_shared(holder))::bigint) END AS n),`
	isHeld = `status = 'running' AND queue <> '' AND sha256(queue) = $1`

	pickThem = `picked AS (
			SELECT r.key FROM candidates c JOIN runs r ON r.key = c.key AND r.ready = c.ready AND r.holder IS NOT DISTINCT FROM c.holder
			ORDER BY c.ready, c.key LIMIT (SELECT greatest(n, 0) FROM room) FOR UPDATE OF r SKIP LOCKED
		)
		SELECT set_config('pawl.picked', coalesce(array_agg(key), '{}')::text, true), count(*), (SELECT n FROM room),
			(SELECT count(*) FROM candidates) FROM picked`

	readyOfProgram = `CROSS JOIN LATERAL (SELECT key, ready, holder FROM runs
		WHERE program = p.program AND sha256(queue) = $1 AND ready <= (SELECT now FROM clock)`
	oldestOf = ` ORDER BY ready, key LIMIT $5) AS r`

	readyOfPrograms = `SELECT r.* FROM unnest($6::bytea[]) AS p (program) ` + readyOfProgram + oldestOf

	pickReady = pickSome + ` candidates AS (` + readyOfPrograms + `), ` + pickThem

	// A lock that can be had is that of a session which is gone. Each holder is looked up, not each run.
	pickOrphans = pickSome + ` holders AS (
			(SELECT holder FROM runs WHERE ` + isHeld + ` ORDER BY holder LIMIT 1)
			UNION ALL
			SELECT (SELECT r.holder FROM runs r WHERE r.status = 'running' AND r.queue <> '' AND sha256(r.queue) = $1 AND r.holder > h.holder
				ORDER BY r.holder LIMIT 1) FROM holders h WHERE h.holder IS NOT NULL
		), gone AS MATERIALIZED (SELECT holder FROM holders WHERE pg_try_advisory_xact_lock_shared(holder)),
		candidates AS (` + readyOfPrograms + ` UNION ALL SELECT r.* FROM gone CROSS JOIN LATERAL (SELECT key, ready, holder FROM runs
			WHERE ` + isHeld + ` AND holder = gone.holder AND ready > (SELECT now FROM clock) AND program = ANY($6)` + oldestOf + `
		), ` + pickThem

	// Programs are looked up one after the other, not run by run.
	pickStranded = pickSome + ` programs AS (
			(SELECT program FROM runs WHERE ready IS NOT NULL ORDER BY program LIMIT 1)
			UNION ALL
			SELECT (SELECT r.program FROM runs r WHERE r.ready IS NOT NULL AND r.program > p.program ORDER BY r.program LIMIT 1)
			FROM programs p WHERE p.program IS NOT NULL
		), unserved AS (SELECT program FROM programs p WHERE p.program IS NOT NULL AND NOT EXISTS (SELECT FROM workers w WHERE w.program = p.program
			AND w.queue = $1 AND w.seen >= (SELECT now FROM clock) - $7::bigint * interval '1 us')),
		candidates AS (SELECT r.* FROM unserved p ` + readyOfProgram + ` AND ready < (SELECT now FROM clock) - $6::bigint * interval '1 us'` +
		oldestOf + `), ` + pickThem

	takePicked = `WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
		UPDATE runs SET token = nextval('numbers'), status = 'running', owner = $1, holder = $2,
			updated = CASE status WHEN 'running' THEN updated ELSE clock.now END, due = NULL,
			ready = clock.now + $3::bigint * interval '1 us', until = clock.now + $3::bigint * interval '1 us'
		FROM clock, (SELECT key AS k, status AS was, ready AS since FROM runs
			WHERE key = ANY (current_setting('pawl.picked')::bigint[])) AS picked
		WHERE key = k RETURNING ` + runColumns + `, token, until, was, since`

	// awaitTurn makes those who heed a limit count one after the other.
	awaitTurn = `SELECT pg_advisory_xact_lock($1)`
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
}

// spare is how many candidates there are beyond those that are wanted, at first and at most.
const (
	spare    = 16
	maxSpare = 4096
)

// attempt takes runs.
func (o *taking) attempt(c *committer) (unknown bool, err error) {
	for more := spare; more <= maxSpare; more *= 8 {
		enough, unknown, err := o.once(c, o.Limit-len(o.taken), more)
		if err != nil && len(o.taken) == 0 {
			return unknown, err
		}
		if err != nil || enough {
			break
		}
	}
	return false, nil
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
	args := []any{name[:], c.holder, o.Held, limit, limit + more}
	if o.pick == pickStranded {
		const most = 100 * 365 * 24 * time.Hour
		waited := min(o.waited, most)
		args = append(args, waited.Microseconds(), (waited + announceEvery).Microseconds())
	} else {
		args = append(args, o.programs)
	}
	b := &pgx.Batch{}
	b.Queue("begin")
	if o.Held > 0 {
		b.Queue(awaitTurn, c.store.turnOf("queue", o.Queue))
	}
	b.Queue(o.pick, args...).QueryRow(func(row pgx.Row) error { return row.Scan(nil, nil, &p.room, &p.candidates) })
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

// taker is the committer that takes runs for workers. It has a connection of its own, so that no append waits for it, and is
// made when it is first needed.
type taker struct {
	mu sync.Mutex
	c  *committer
	// busy is held while runs are taken, until their committers have been told.
	busy sync.Mutex
}

func (t *taker) start(s *Store) *committer {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.c == nil {
		t.c = startCommitter(s, nil)
	}
	return t.c
}

func (t *taker) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.c != nil {
		t.c.close()
		t.c = nil
	}
}

// arrival is a lease that was taken, and that the committer of its run does not know of yet.
type arrival struct {
	run    string
	holder int64 // the session's lock that it names
	lease  lease
}

// expect tells a committer of a lease. It learns it before any call of whoever gets the lease.
func (c *committer) expect(a arrival) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrivals = append(c.arrivals, a)
}

// welcome makes leases that were taken known.
func (c *committer) welcome(arrivals []arrival) {
	for i := range arrivals {
		a := &arrivals[i]
		if l := c.tx.leases[a.run]; l == nil || l.token < a.lease.token {
			c.tx.leases[a.run] = &a.lease
		}
		if a.holder != c.holder && !slices.Contains(c.former, a.holder) {
			c.former = append(c.former, a.holder)
		}
	}
}

// arriving reports whether this store has taken a run, and its committer has not been told.
func (s *Store) arriving(st *runState) bool {
	s.taker.busy.Lock() // what is being taken now has been handed over then
	c := s.committer(st.id)
	c.mu.Lock()
	is := slices.ContainsFunc(c.arrivals, func(a arrival) bool { return a.lease.token == st.token })
	c.mu.Unlock()
	s.taker.busy.Unlock()
	return is
}
