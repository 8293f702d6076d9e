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
	// A shared lock that can be had is that of a session which is lost; whether its store is gone is for witness to say. Holders
	// are looked up one after the other, not run by run.
	pickSome = `WITH RECURSIVE clock AS MATERIALIZED (SELECT now, now - $6::bigint * interval '1 us' AS past FROM clock_timestamp() AS now),
		holders AS (
			(SELECT holder FROM runs WHERE ` + isHeld + ` ORDER BY holder LIMIT 1)
			UNION ALL
			SELECT (SELECT holder FROM runs WHERE ` + isHeld + ` AND holder > h.holder ORDER BY holder LIMIT 1)
			FROM holders h WHERE h.holder IS NOT NULL
		), owners AS MATERIALIZED (
			SELECT holder, lost, lost AND holder = ANY ($8::bigint[]) AS gone
			FROM (SELECT holder, pg_try_advisory_xact_lock_shared(holder) AS lost FROM holders WHERE holder IS NOT NULL) AS h
		), held AS (
			SELECT FROM owners CROSS JOIN LATERAL (SELECT FROM runs
				WHERE ` + isHeld + ` AND holder = owners.holder AND ready > (SELECT now FROM clock) LIMIT $3) AS few
			WHERE NOT gone LIMIT $3
		), room AS MATERIALIZED (
			SELECT CASE WHEN pg_try_advisory_xact_lock_shared($2) THEN NULL WHEN $3::bigint = 0 THEN $4::bigint
				ELSE least($4, $3 - (SELECT count(*) FROM held)) END AS n
		), candidates AS MATERIALIZED (`
	isHeld = `status = 'running' AND queue <> '' AND sha256(queue) = $1`

	// What is locked is looked at again: it may have changed meanwhile. IS TRUE keeps the planner from looking by time and by key.
	pickThem = `), picked AS (
			SELECT key FROM runs WHERE key = ANY (ARRAY(SELECT key FROM candidates)) AND (ready <= (SELECT past FROM clock)`
	andThem = `) IS TRUE
			ORDER BY ready, key LIMIT (SELECT greatest(n, 0) FROM room) FOR UPDATE SKIP LOCKED
		)
		SELECT set_config('pawl.picked', coalesce(array_agg(key), '{}')::text, true), (SELECT n FROM room), (SELECT count(*) FROM candidates),
			CASE WHEN $3 > 0 OR $9 THEN ARRAY(SELECT holder FROM owners WHERE lost) END
		FROM picked`

	oldestOf = ` ORDER BY ready, key LIMIT $5) AS oldest`
	readyOf  = ` CROSS JOIN LATERAL (SELECT key FROM runs
		WHERE program = p.program AND sha256(queue) = $1 AND ready <= (SELECT past FROM clock)` + oldestOf

	readyOfPrograms = `SELECT key FROM unnest($7::bytea[]) AS p (program)` + readyOf

	pickReady = pickSome + readyOfPrograms + pickThem + andThem

	pickOrphans = pickSome + readyOfPrograms + ` UNION ALL
			SELECT key FROM owners CROSS JOIN LATERAL (SELECT key FROM runs WHERE ` + isHeld + ` AND holder = owners.holder
				AND ready > (SELECT now FROM clock) AND program = ANY ($7)` + oldestOf + ` WHERE gone` + pickThem + `
			OR status = 'running' AND holder = ANY (ARRAY(SELECT holder FROM owners WHERE gone))` + andThem

	// Programs are looked up one after the other, not run by run.
	pickStranded = pickSome + `SELECT key FROM (
				WITH RECURSIVE programs AS (
					(SELECT program FROM runs WHERE ready IS NOT NULL ORDER BY program LIMIT 1)
					UNION ALL
					SELECT (SELECT program FROM runs WHERE ready IS NOT NULL AND program > p.program ORDER BY program LIMIT 1)
					FROM programs p WHERE p.program IS NOT NULL
				) SELECT program FROM programs WHERE program IS NOT NULL AND coalesce((SELECT seen FROM workers w
					WHERE w.program = programs.program AND w.queue = $1), '-infinity') < (SELECT past FROM clock) - $7::bigint * interval '1 us'
			) AS p` + readyOf + pickThem + andThem

	takePicked = `WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
		UPDATE runs SET token = nextval('numbers'), status = 'running', owner = $1, holder = $2,
			updated = CASE status WHEN 'running' THEN updated ELSE clock.now END, due = NULL,
			ready = clock.now + $3::bigint * interval '1 us', until = clock.now + $3::bigint * interval '1 us'
		FROM clock, (SELECT key AS k, status AS was, ready AS since FROM runs
			WHERE key = ANY (current_setting('pawl.picked', true)::bigint[])) AS picked
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

// taker is the committer that takes runs for workers. It has a connection of its own, so that no append waits for it, and is
// made when it is first needed.
type taker struct {
	mu sync.Mutex
	c  *committer
	// busy is held while runs are taken, until their committers have been told.
	busy sync.Mutex
	// lost is when a holder was first seen without its session; for the committer only.
	lost map[int64]time.Time
}

// reunion is how long a store that has lost its session has to make another one and rename its leases, before its runs are
// taken for those of a process that has died. After a restart of the server all stores have lost theirs.
const reunion = 2 * time.Second

// witness remembers holders without a session. None gets it back.
func (t *taker) witness(holders []int64) {
	const most = 4096
	if len(t.lost) > most || t.lost == nil {
		t.lost = map[int64]time.Time{}
	}
	for _, holder := range holders {
		if t.lost[holder].IsZero() {
			t.lost[holder] = time.Now()
		}
	}
}

// gone returns the holders that are given up on.
func (t *taker) gone() []int64 {
	list := make([]int64, 0, len(t.lost))
	for holder, since := range t.lost {
		if time.Since(since) > reunion {
			list = append(list, holder)
		}
	}
	return list
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
