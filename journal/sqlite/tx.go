package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// tx is the committer's transaction: one value for all of them, one after another.
type tx struct {
	store *Store
	conn  *sql.Conn
	statements

	wrote bool
	fault error // the first failure of a statement; it breaks the transaction

	// leases has the runs whose latest lease this store has given to somebody who, as far as it knows, still has it.
	leases map[string]*lease
	// pending is what becomes of leases if the transaction is committed; nil where a lease ends. raised is what has been
	// changed in leases already, to be undone if it is not.
	pending map[string]*lease
	raised  []raise
	notes   []note
	// woken has the queues in which runs became ready, and how many times that makes.
	woken map[string]int64
	// sweepAt is how many leases there may be before those that have run out are forgotten.
	sweepAt int
}

// lease is what an append needs to know of a run. Nobody but the owner of its latest lease changes that, so it is true for
// as long as the token is.
type lease struct {
	key, token int64
	head       int64 // unknown after a commit of unknown outcome
	until      time.Time
}

const unknown = -1

type raise struct {
	lease *lease
	from  int64
}

// note is a message that somebody may wait for.
type note struct {
	run string
	id  int64
}

func newTx(s *Store, conn *sql.Conn) (*tx, error) {
	const firstSweep = 1024
	t := &tx{
		store: s, conn: conn, leases: map[string]*lease{}, pending: map[string]*lease{}, woken: map[string]int64{}, sweepAt: firstSweep,
	}
	return t, t.prepare(conn)
}

// exec runs a statement that writes. A context that can end would cost more than the statement.
func (t *tx) exec(stmt *sql.Stmt, args ...any) error {
	if t.fault != nil {
		return t.fault
	}
	t.wrote = true
	_, t.fault = stmt.ExecContext(context.Background(), args...)
	return t.fault
}

// one runs a statement that gives one row or none, and reports whether it did.
func (t *tx) one(stmt *sql.Stmt, args []any, into ...any) (bool, error) {
	if t.fault != nil {
		return false, t.fault
	}
	err := stmt.QueryRowContext(context.Background(), args...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	t.fault = err
	return err == nil, err
}

// broken notes a failure that is not the run's own.
func (t *tx) broken(err error) error {
	if err != nil && !isOurs(err) && t.fault == nil {
		t.fault = err
	}
	return err
}

// insert writes a row of events if the token is still the run's latest, and reports whether it was.
func (t *tx) insert(key, token, seq int64, n int, row []byte) (bool, error) {
	if t.fault != nil {
		return false, t.fault
	}
	var rows int64
	rows, t.fault = t.insertEvents.exec(key, seq, int64(n), row, token)
	if t.fault == nil && rows > 0 {
		t.wrote = true
	}
	return rows > 0, t.fault
}

func (t *tx) begin() error {
	t.wrote, t.fault = false, nil
	_, err := t.begins.exec()
	return err
}

func (t *tx) commit() error {
	_, err := t.commits.exec()
	return err
}

// end ends a transaction that has written nothing.
func (t *tx) end() {
	_, _ = t.rollbacks.exec()
	t.publish()
}

func (t *tx) rollback() {
	// It fails if SQLite has rolled back by itself.
	_, _ = t.rollbacks.exec()
	t.undo()
}

func (t *tx) undo() {
	for _, r := range t.raised {
		r.lease.head = r.from
	}
	t.reset()
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
	for _, n := range t.notes {
		t.store.watchers.notify(ofRun(n.run), n.id)
	}
	for queue, changes := range t.woken {
		t.store.watchers.notify(ofQueue(queue), changes)
	}
	t.reset()
	t.sweep()
}

// distrust is undo where the transaction may have been committed all the same. A lease that it would have given is nobody's.
func (t *tx) distrust() {
	for _, r := range t.raised {
		r.lease.head = unknown
	}
	for id := range t.pending {
		if l := t.leases[id]; l != nil {
			l.head = unknown
		}
	}
	t.reset()
}

func (t *tx) reset() {
	clear(t.pending)
	clear(t.raised)
	clear(t.notes)
	clear(t.woken)
	t.raised, t.notes = t.raised[:0], t.notes[:0]
}

// sweep forgets leases that have run out, whose owners may have gone without a word. They are good still; what is known of
// the run is read again.
func (t *tx) sweep() {
	if len(t.leases) < t.sweepAt {
		return
	}
	now := time.Now()
	for id, l := range t.leases {
		if l.until.Before(now) {
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

// raise notes a new head of a run.
func (t *tx) raise(l *lease, head int64) {
	t.raised = append(t.raised, raise{lease: l, from: l.head})
	l.head = head
}

// forget makes a lease one that nobody has, so that this store may give the run to another.
func (t *tx) forget(run string, token int64) {
	if l := t.leases[run]; l != nil && l.token == token {
		delete(t.leases, run)
	}
}

// runState is a run as it stands in the file, within the transaction.
type runState struct {
	id, queue                    string
	key, token, head, checkpoint int64
	status                       journal.Status
	owner, holder                string
	updated, due, until          time.Time
}

// run reads what there is of a run.
func (t *tx) run(id string) (*runState, error) {
	st := &runState{id: id}
	var updated, due, until, head sql.NullInt64
	found, err := t.one(t.load, []any{id},
		&st.key, &st.queue, &st.token, &st.checkpoint, &st.status, &st.owner, &st.holder, &updated, &due, &until, &head)
	if err != nil {
		return nil, err
	}
	if !found {
		t.pending[id] = nil
		return nil, &journal.NotFoundError{Run: id}
	}
	st.updated, st.due, st.until, st.head = fromMicros(updated), fromMicros(due), fromMicros(until), head.Int64
	if l := t.given(id); l != nil && l.token != st.token {
		t.pending[id] = nil // somebody else has it
	}
	return st, nil
}

// save writes what may change of a run's record.
func (t *tx) save(st *runState) error {
	return t.exec(t.saveRun, st.token, st.checkpoint, string(st.status), st.owner, st.holder, micros(st.updated), micros(st.due),
		micros(st.until), micros(st.ready()), st.key)
}

// held reports whether somebody has the run's lease whose time has not run out, and who has not died.
func (t *tx) held(st *runState, now time.Time) bool {
	switch {
	case !now.Before(st.until):
		return false
	case st.holder == t.store.owners.name:
		return t.given(st.id) != nil
	}
	return t.store.owners.alive(st.holder)
}

// has reports whether a lease is the run's latest. Nobody has that of a run that is free; of one that has ended, it was the
// last.
func (st *runState) has(l journal.Lease) bool {
	return st.token == l.Token && (st.holder != "" || st.status.Terminal())
}

// become gives the run a status, and its Due where the status has one.
func (st *runState) become(s journal.Status, due, now time.Time) {
	if st.status != s {
		st.status, st.updated = s, now
	}
	st.due = time.Time{}
	switch {
	case s.Terminal():
		st.free()
	case s != journal.Running:
		st.due = journal.Stamp(due)
	}
}

// free ends the run's lease.
func (st *runState) free() {
	st.owner, st.holder, st.until = "", "", time.Time{}
}

// micros is a time as the file has it.
func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

func fromMicros(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return time.UnixMicro(n.Int64).UTC()
}
