package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// tx is the committer's transaction: one value for all of them, one after another. It knows the runs whose leases this store
// has given, and keeps that knowledge true.
type tx struct {
	store *Store
	conn  *sql.Conn
	batch []*request // memory for the next one

	begins, commits, rollbacks, version, tokens, load *sql.Stmt
	insertRun, insertEvents, saveRun, rows            *sql.Stmt
	byKey, nextMessage, insertMessage                 *sql.Stmt
	deleteEvents, deleteInbox, deleteRun, raiseFloor  *sql.Stmt

	// number counts transactions. epoch counts the transactions of others that were noticed.
	number, epoch, seen int64
	wrote               bool
	fault               error // the first failure of a statement; it breaks the transaction

	// leases has the runs whose latest lease this store has given to somebody who, as far as it knows, still has it.
	leases map[string]*runState
	// others has the other runs that this transaction has looked at, touched what a rollback must restore.
	others  map[string]*runState
	touched []savedState
	notes   []note
	// sweepAt is how many leases there may be before those that have run out are forgotten.
	sweepAt int
}

// runState is what writing to a run needs to know of it.
type runState struct {
	id                           string
	key, token, head, checkpoint int64
	status                       journal.Status
	owner, holder                string
	updated, due, until          time.Time

	given   bool  // this store has given its latest lease
	gone    bool  // this transaction has deleted it
	epoch   int64 // when it was known to be true; unknown if only the file can tell
	touched int64 // the number of the last transaction that has changed it
}

const unknown = -1

type savedState struct {
	at  *runState
	was runState
}

// note is a message that somebody may wait for.
type note struct {
	run string
	id  int64
}

func newTx(s *Store, conn *sql.Conn) (*tx, error) {
	const firstSweep = 1024
	t := &tx{store: s, conn: conn, leases: map[string]*runState{}, others: map[string]*runState{}, sweepAt: firstSweep, epoch: 1}
	for _, p := range []struct {
		stmt  **sql.Stmt
		query string
	}{
		{&t.begins, "BEGIN IMMEDIATE"},
		{&t.commits, "COMMIT"},
		{&t.rollbacks, "ROLLBACK"},
		{&t.version, "PRAGMA data_version"},
		{&t.tokens, "SELECT id, token FROM runs WHERE key IN (SELECT value FROM json_each(?))"},
		{&t.load, `SELECT key, token, checkpoint, status, owner, holder, updated, due, until,
			(SELECT seq + n - 1 FROM events WHERE run = key ORDER BY seq DESC LIMIT 1) FROM runs WHERE id = ?`},
		{&t.insertRun, `INSERT INTO runs (id, kind, name, version, fingerprint, thread, link_kind, link_run, link_step, created,
			status, updated, due, checkpoint, token, owner, holder, until)
			SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, token, '', '', NULL FROM floor WHERE true
			ON CONFLICT (id) DO NOTHING RETURNING key, token`},
		{&t.insertEvents, "INSERT INTO events (run, seq, n, row) VALUES (?, ?, ?, ?)"},
		{&t.saveRun, `UPDATE runs SET token = ?, checkpoint = ?, status = ?, owner = ?, holder = ?, updated = ?, due = ?, until = ?
			WHERE key = ?`},
		{&t.rows, selectRows},
		{&t.byKey, selectMessages + " AND key = ?2 AND key <> ''"},
		{&t.nextMessage, "SELECT coalesce(max(seq), 0) + 1 FROM inbox WHERE run = ?"},
		{&t.insertMessage, "INSERT INTO inbox (run, seq, kind, name, key, time, payload, sum) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"},
		{&t.deleteEvents, "DELETE FROM events WHERE run = ?"},
		{&t.deleteInbox, "DELETE FROM inbox WHERE run = ?"},
		{&t.deleteRun, "DELETE FROM runs WHERE key = ?"},
		{&t.raiseFloor, "UPDATE floor SET token = ? WHERE token < ?1"},
	} {
		var err error
		if *p.stmt, err = conn.PrepareContext(context.Background(), p.query); err != nil {
			return nil, err
		}
	}
	return t, nil
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

func (t *tx) begin() error {
	t.number++
	t.wrote, t.fault = false, nil
	_, err := t.begins.ExecContext(context.Background())
	return err
}

// refresh finds out whether others have written since the last transaction, and if so, which of the leases that the batch is
// about are still the latest. Nobody but the owner of the latest lease changes what is known of a run.
func (t *tx) refresh(batch []*request) {
	var version int64
	if _, err := t.one(t.version, nil, &version); err != nil || version == t.seen {
		return
	}
	t.seen = version
	t.epoch++
	var keys []int64
	for _, r := range batch {
		if st := t.leases[r.run()]; st != nil && st.epoch != unknown {
			keys = append(keys, st.key)
		}
	}
	if len(keys) > 0 {
		t.fault = t.confirm(keys)
	}
}

func (t *tx) confirm(keys []int64) error {
	list, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	rows, err := t.tokens.QueryContext(context.Background(), string(list))
	if err != nil {
		return err
	}
	for rows.Next() {
		var id string
		var token int64
		if err := rows.Scan(&id, &token); err != nil {
			return errors.Join(err, rows.Close())
		}
		if st := t.leases[id]; st != nil && st.token == token && st.epoch != unknown {
			st.epoch = t.epoch
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

// run returns what is known of a run, within the transaction.
func (t *tx) run(id string) (*runState, error) {
	if st := t.others[id]; st != nil && !st.gone {
		return st, nil
	}
	known := t.leases[id]
	if known != nil && known.epoch == t.epoch && !known.gone {
		return known, nil
	}
	st := &runState{id: id, epoch: t.epoch}
	var updated, due, until sql.NullInt64
	var head sql.NullInt64
	found, err := t.one(t.load, []any{id}, &st.key, &st.token, &st.checkpoint, &st.status, &st.owner, &st.holder, &updated, &due, &until,
		&head)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, &journal.NotFoundError{Run: id}
	}
	st.updated, st.due, st.until, st.head = fromMicros(updated), fromMicros(due), fromMicros(until), head.Int64
	st.given = known != nil && known.key == st.key && known.token == st.token
	t.others[id] = st
	return st, nil
}

// touch makes sure that a rollback restores a run that is about to be changed.
func (t *tx) touch(st *runState) {
	if st.touched != t.number {
		t.touched = append(t.touched, savedState{st, *st})
		st.touched = t.number
	}
}

// save writes what may change of a run's record.
func (t *tx) save(st *runState) error {
	return t.exec(t.saveRun, st.token, st.checkpoint, string(st.status), st.owner, st.holder, micros(st.updated), micros(st.due),
		micros(st.until), st.key)
}

func (t *tx) commit() error {
	_, err := t.commits.ExecContext(context.Background())
	return err
}

// end ends a transaction that has written nothing.
func (t *tx) end() {
	_, _ = t.rollbacks.ExecContext(context.Background())
	t.publish()
}

func (t *tx) rollback() {
	// It fails if SQLite has rolled back by itself.
	_, _ = t.rollbacks.ExecContext(context.Background())
	for _, saved := range t.touched {
		number := saved.at.touched
		*saved.at = saved.was
		saved.at.touched = number
	}
	t.forgetOthers()
}

// publish makes what the transaction has changed what is known from now on.
func (t *tx) publish() {
	for id, st := range t.others {
		if st.given && !st.gone {
			t.leases[id] = st
		} else {
			delete(t.leases, id)
		}
	}
	for _, saved := range t.touched {
		if st := saved.at; (st.gone || !st.given) && t.leases[st.id] == st {
			delete(t.leases, st.id)
		}
	}
	for _, n := range t.notes {
		t.store.watchers.notify(n.run, n.id)
	}
	t.forgetOthers()
	t.sweep()
}

// distrust makes the next transaction read again what this one has changed.
func (t *tx) distrust() {
	for _, saved := range t.touched {
		saved.at.epoch = unknown
	}
}

func (t *tx) forgetOthers() {
	clear(t.others)
	clear(t.touched)
	clear(t.notes)
	t.touched, t.notes = t.touched[:0], t.notes[:0]
}

// sweep forgets leases that have run out, whose owners may have gone without a word. They are good still; what is known of
// the run is read again.
func (t *tx) sweep() {
	if len(t.leases) < t.sweepAt {
		return
	}
	now := time.Now()
	for id, st := range t.leases {
		if st.until.Before(now) {
			delete(t.leases, id)
		}
	}
	const room = 2
	t.sweepAt = max(t.sweepAt, room*len(t.leases))
}

// forget makes a lease one that nobody has, so that this store may give the run to another.
func (t *tx) forget(run string, token int64) {
	if st := t.leases[run]; st != nil && st.token == token {
		delete(t.leases, run)
	}
}

// held reports whether somebody has the run's lease whose time has not run out, and who has not died.
func (t *tx) held(st *runState, now time.Time) bool {
	switch {
	case !now.Before(st.until):
		return false
	case st.holder == t.store.owners.name:
		return st.given
	}
	return t.store.owners.alive(st.holder)
}

// become gives the run a status.
func (st *runState) become(s journal.Status, now time.Time) {
	if st.status != s {
		st.status, st.updated = s, now
	}
	if s != journal.Suspended {
		st.due = time.Time{}
	}
	if s.Terminal() {
		st.free()
	}
}

// free ends the run's lease.
func (st *runState) free() {
	st.owner, st.holder, st.until, st.given = "", "", time.Time{}, false
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
