package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl/journal"
)

var (
	// errAgain says that nothing was done, and that it can be at once.
	errAgain = errors.New("begin again")
	// errLost says that the same batch's other part has lost the connection.
	errLost = fmt.Errorf("the connection was lost: %w", io.ErrUnexpectedEOF)
)

// tx is the committer's transaction: one value for all of them, one after another. What is needed is read at its beginning, and
// what is to be written is sent together with the commit: two round trips.
type tx struct {
	store  *Store
	conn   *pgx.Conn
	holder int64 // the session's lock

	now     time.Time // the server's clock
	alive   bool      // whether the server knows the session
	claims  bool      // whether that matters
	numbers []int64
	runs    map[hash]*runState
	keyed   map[keyOf]journal.Message
	needs   needs
	queue   *pgx.Batch
	fault   error // the first failure of a statement; it breaks the transaction

	// leases has the runs whose latest lease this store has given to somebody who, as far as it knows, still has it.
	leases map[string]*lease
	// pending is what becomes of leases if the transaction is committed; nil where a lease ends.
	pending map[string]*lease
	notes   []note
	calls   calls
	marked  []*lease
	// sweepAt is how many leases there may be before those that have run out are forgotten.
	sweepAt int
}

// lease is what an append needs to know of a run. Nobody but the owner of its latest lease changes that, so it is true for as
// long as the token is.
type lease struct {
	key, token int64
	head       int64 // unknown after a commit of unknown outcome
	until      time.Time
	marked     bool // an append of the batch is for it
}

const unknown = -1

// note is a message that somebody may wait for.
type note struct {
	run hash
	id  int64
}

// needs is what the operations of a batch need.
type needs struct {
	runs    map[hash]string
	numbers int
	keys    []keyOf
	claims  bool
	// turns are advisory locks: of those who may make runs of the same deduplication key, one at a time does.
	turns []int64
}

// keyOf is a key of a message to a run.
type keyOf struct {
	run hash
	key string
}

func (n *needs) addRun(id string) hash {
	h := hashOf(id)
	n.runs[h] = id
	return h
}

func newTx(s *Store) *tx {
	const firstSweep = 1024
	return &tx{
		store: s, runs: map[hash]*runState{}, keyed: map[keyOf]journal.Message{}, needs: needs{runs: map[hash]string{}},
		queue: &pgx.Batch{}, leases: map[string]*lease{}, pending: map[string]*lease{}, sweepAt: firstSweep,
	}
}

// What a transaction begins with. Each statement sees what was committed before it began, so what is read of a run behind its
// lock is what it is until the transaction ends.
const (
	lockRuns = `SELECT key FROM runs WHERE hash = ANY($1) ORDER BY key FOR UPDATE`

	// A shared lock that can be had is one that nobody holds: the session is gone.
	readRuns = `SELECT key, hash, token, checkpoint, status, owner, holder, queue, updated, due, ready, until, coalesce(` + headOf + `, 0),
		coalesce((SELECT max(seq) FROM inbox WHERE run = runs.key), 0),
		CASE WHEN until > clock_timestamp() AND holder <> $2 THEN NOT pg_try_advisory_xact_lock_shared(holder) ELSE false END
		FROM runs WHERE hash = ANY($1)`

	readKeyed = `SELECT r.hash, ` + messageColumns + ` FROM unnest($1::bytea[], $2::bytea[]) AS k (run, key)
		CROSS JOIN LATERAL (SELECT key, hash FROM runs WHERE hash = k.run LIMIT 1) r
		CROSS JOIN LATERAL (SELECT seq, kind, name, key, time, payload, sum FROM inbox
			WHERE run = r.key AND key <> '' AND sha256(key) = k.key LIMIT 1) i`

	readCommon = `SELECT clock_timestamp(), NOT pg_try_advisory_xact_lock_shared($1),
		ARRAY(SELECT nextval('numbers') FROM generate_series(1, $2))`
)

// begin begins a transaction and reads what the batch needs.
func (t *tx) begin(conn *pgx.Conn, holder int64, batch []*request) error {
	t.reset()
	t.conn, t.holder = conn, holder
	n := &t.needs
	for _, r := range batch {
		r.need(n)
	}
	t.claims = n.claims
	b := &pgx.Batch{}
	b.Queue("begin")
	if len(n.turns) > 0 { // before anybody can wait for what is locked here
		slices.Sort(n.turns)
		b.Queue(awaitTurns, n.turns)
	}
	if len(n.runs) > 0 {
		hashes := make([][]byte, 0, len(n.runs))
		for h := range n.runs {
			hashes = append(hashes, h[:])
		}
		lockedRuns := map[int64]bool{}
		b.Queue(lockRuns, hashes).Query(func(rows pgx.Rows) error { return scanKeys(rows, lockedRuns) })
		b.Queue(readRuns, hashes, holder).Query(func(rows pgx.Rows) error { return t.scanStates(rows, lockedRuns) })
	}
	if len(n.keys) > 0 {
		runs, keys := make([][]byte, 0, len(n.keys)), make([][]byte, 0, len(n.keys))
		for i := range n.keys {
			key := hashOf(n.keys[i].key)
			runs, keys = append(runs, n.keys[i].run[:]), append(keys, key[:])
		}
		b.Queue(readKeyed, runs, keys).Query(t.scanKeyed)
	}
	b.Queue(readCommon, holder, n.numbers).QueryRow(func(row pgx.Row) error { return row.Scan(&t.now, &t.alive, &t.numbers) })
	err := conn.SendBatch(context.Background(), b).Close()
	t.now = journal.Stamp(t.now)
	return err
}

func scanKeys(rows pgx.Rows, keys map[int64]bool) error {
	var key int64
	_, err := pgx.ForEachRow(rows, []any{&key}, func() error {
		keys[key] = true
		return nil
	})
	return err
}

func (t *tx) scanStates(rows pgx.Rows, lockedRuns map[int64]bool) error {
	for rows.Next() {
		st := &runState{}
		var h []byte
		var holder *int64
		var updated, due, ready, until *time.Time
		err := rows.Scan(&st.key, &h, &st.token, &st.checkpoint, &st.status, (*text)(&st.owner), &holder, (*text)(&st.queue),
			&updated, &due, &ready, &until, &st.head, &st.messages, &st.foreign)
		if err != nil {
			return err
		}
		if !lockedRuns[st.key] {
			continue // made since the others were locked: as if this transaction had come before
		}
		if holder != nil {
			st.holder = *holder
		}
		st.hash = hash(h)
		st.id = t.needs.runs[st.hash]
		st.updated, st.due, st.ready, st.until = fromTime(updated), fromTime(due), fromTime(ready), fromTime(until)
		t.runs[st.hash] = st
		if l := t.given(st.id); l != nil && l.token != st.token {
			t.pending[st.id] = nil // somebody else has it
		}
	}
	return rows.Err()
}

func (t *tx) scanKeyed(rows pgx.Rows) error {
	for rows.Next() {
		var h []byte
		var m journal.Message
		var sum uint32
		if err := scanMessage(rows, &m, &sum, &h); err != nil {
			return err
		}
		if err := checkSum(t.needs.runs[hash(h)], &m, sum); err != nil {
			return err
		}
		t.keyed[keyOf{hash(h), m.Key}] = m
	}
	return rows.Err()
}

// number returns a number that nobody has, larger than any that was there when the runs were locked.
func (t *tx) number() int64 {
	n := t.numbers[0]
	t.numbers = t.numbers[1:]
	return n
}

// write queues a statement, and what is to be done with its result.
func (t *tx) write(sql string, args ...any) *pgx.QueuedQuery { return t.queue.Queue(sql, args...) }

// writes reports whether anything is to be written.
func (t *tx) writes() bool {
	for _, st := range t.runs {
		if st.changed && !st.gone {
			return true
		}
	}
	return t.queue.Len() > 0
}

const saveRun = `UPDATE runs SET token = $2, checkpoint = $3, status = $4, owner = $5, holder = $6, updated = $7, due = $8, ready = $9,
	until = $10 WHERE key = $1`

// commit writes what was queued and the runs that were changed, and commits, in one round trip.
func (t *tx) commit() error {
	for _, st := range t.runs {
		if !st.changed || st.gone {
			continue
		}
		var holder *int64
		if st.holder != 0 {
			holder = &st.holder
		}
		ready := st.readyFrom()
		t.write(saveRun, st.key, st.token, st.checkpoint, string(st.status), text(st.owner), holder, st.updated,
			toTime(st.due), toTime(ready), toTime(st.until))
		if !ready.Equal(st.ready) && isReady(ready, t.now) {
			t.calls.add(st.queue)
		}
	}
	t.calls.write(t)
	t.write("commit")
	return t.conn.SendBatch(context.Background(), t.queue).Close()
}

// publish makes what the transaction has changed what is known from now on.
func (t *tx) publish() {
	for id, l := range t.pending {
		if l == nil {
			delete(t.leases, id)
		} else {
			t.leases[id] = l
		}
	}
	for _, st := range t.runs {
		if l := t.leases[st.id]; l != nil && l.token == st.token {
			l.head, l.until = st.head, st.until
		}
	}
	for _, n := range t.notes {
		t.store.watchers.notify(n.run, n.id)
	}
	t.calls.tell(&t.store.queues)
	t.sweep()
	t.reset()
}

// distrust is reset where the transaction may have been committed all the same. A lease that it would have given is nobody's.
func (t *tx) distrust() {
	t.calls.tellAll(&t.store.queues)
	for _, st := range t.runs {
		if l := t.leases[st.id]; l != nil {
			l.head = unknown
		}
	}
	t.reset()
}

func (t *tx) reset() {
	clear(t.runs)
	clear(t.keyed)
	clear(t.needs.runs)
	clear(t.pending)
	t.needs = needs{runs: t.needs.runs, keys: t.needs.keys[:0], turns: t.needs.turns[:0]}
	t.notes = t.notes[:0]
	t.calls.reset()
	t.numbers, t.fault = nil, nil
	t.queue = &pgx.Batch{}
}

// sweep forgets leases that have run out, whose owners may have gone without a word. They are good still; what is known of
// the run is read again.
func (t *tx) sweep() {
	if len(t.leases) < t.sweepAt {
		return
	}
	for id, l := range t.leases {
		if l.until.Before(t.now) {
			delete(t.leases, id)
		}
	}
	const room = 2
	t.sweepAt = max(t.sweepAt, room*len(t.leases))
}

// given returns the lease of a run that this store has given; nil if it has not.
func (t *tx) given(run string) *lease {
	if l, ok := t.pending[run]; ok {
		return l
	}
	return t.leases[run]
}

// forget makes a lease one that nobody has, so that this store may give the run to another.
func (t *tx) forget(run string, token int64) {
	if l := t.leases[run]; l != nil && l.token == token {
		delete(t.leases, run)
	}
}

// mark notes that an append of the batch is for a lease, and reports whether it is the first.
func (t *tx) mark(l *lease) bool {
	if l.marked {
		return false
	}
	l.marked = true
	t.marked = append(t.marked, l)
	return true
}

func (t *tx) unmark() {
	for _, l := range t.marked {
		l.marked = false
	}
	t.marked = t.marked[:0]
}

const renameHolder = `WITH mine AS (SELECT key FROM runs WHERE key = ANY($3) AND holder = $1 ORDER BY key FOR UPDATE)
	UPDATE runs SET holder = $2 FROM mine WHERE runs.key = mine.key`

// rename makes the leases that nobody has taken meanwhile name another lock.
func (t *tx) rename(conn *pgx.Conn, from, to int64) error {
	keys := make([]int64, 0, len(t.leases))
	for _, l := range t.leases {
		keys = append(keys, l.key)
	}
	if len(keys) == 0 {
		return nil
	}
	_, err := conn.Exec(context.Background(), renameHolder, from, to, keys)
	return err
}
