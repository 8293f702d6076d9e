package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
)

// statements are those of the committer, compiled once.
type statements struct {
	begins, commits, rollbacks, insertEvents hot

	load, rows, saveRun, insertRun       *sql.Stmt
	byKey, nextMessage, insertMessage    *sql.Stmt
	deleteEvents, deleteInbox, deleteRun *sql.Stmt
	raiseFloor                           *sql.Stmt
	byDedup, ready, running, record      *sql.Stmt
	nextProgram, announced, announce     *sql.Stmt
	wakeQueue                            *sql.Stmt

	all []*sql.Stmt // to be closed
}

// selectRows finds the row that has the event behind a number, and those behind it.
const selectRows = `SELECT seq, n, row FROM events WHERE run = ?1 AND seq >= coalesce(
	(SELECT max(seq) FROM events WHERE run = ?1 AND seq <= ?2 + 1), 0) ORDER BY seq LIMIT 256`

const selectMessages = "SELECT seq, kind, name, key, time, payload, sum FROM inbox WHERE run = ?1"

// The conditions of an index are repeated in each query that is to use it.
const (
	selectDedup = `SELECT id FROM runs WHERE dedup = ? AND dedup <> ''
		AND status NOT IN ('completed', 'failed', 'cancelled', 'continued')`
	selectReady   = "SELECT id, key, ready FROM runs WHERE program = ? AND queue = ? AND ready <= ? ORDER BY ready, key LIMIT ?"
	selectRunning = "SELECT id, key, program, holder, until FROM runs WHERE queue = ? AND queue <> '' AND status = 'running'"
	// selectProgram finds the first program behind another of which there are runs in queues.
	selectProgram = "SELECT min(program) FROM runs WHERE program > ? AND ready IS NOT NULL"
)

func (s *statements) prepare(conn *sql.Conn) error {
	var err error
	for _, p := range []struct {
		stmt  *hot
		query string
	}{
		{&s.begins, "BEGIN IMMEDIATE"},
		{&s.commits, "COMMIT"},
		{&s.rollbacks, "ROLLBACK"},
		// The token is the fence: if it is not the run's latest any more, no row is written.
		{&s.insertEvents, "INSERT INTO events (run, seq, n, row) SELECT key, ?2, ?3, ?4 FROM runs WHERE key = ?1 AND token = ?5"},
	} {
		err = errors.Join(err, p.stmt.prepare(conn, p.query))
	}
	for _, p := range []struct {
		stmt  **sql.Stmt
		query string
	}{
		{&s.load, `SELECT key, queue, token, checkpoint, status, owner, holder, updated, due, until,
			(SELECT seq + n - 1 FROM events WHERE run = key ORDER BY seq DESC LIMIT 1) FROM runs WHERE id = ?`},
		{&s.insertRun, `INSERT INTO runs (id, kind, name, version, fingerprint, thread, link_kind, link_run, link_step, queue, dedup,
			program, created, status, updated, due, ready, checkpoint, token, owner, holder, until)
			SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, token, '', '', NULL FROM floor WHERE true
			ON CONFLICT (id) DO NOTHING RETURNING key, token`},
		{&s.saveRun, `UPDATE runs SET token = ?, checkpoint = ?, status = ?, owner = ?, holder = ?, updated = ?, due = ?, until = ?,
			ready = ? WHERE key = ?`},
		{&s.rows, selectRows},
		{&s.byKey, selectMessages + " AND key = ?2 AND key <> ''"},
		{&s.nextMessage, "SELECT coalesce(max(seq), 0) + 1 FROM inbox WHERE run = ?"},
		{&s.insertMessage, "INSERT INTO inbox (run, seq, kind, name, key, time, payload, sum) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"},
		{&s.deleteEvents, "DELETE FROM events WHERE run = ?"},
		{&s.deleteInbox, "DELETE FROM inbox WHERE run = ?"},
		{&s.deleteRun, "DELETE FROM runs WHERE key = ?"},
		{&s.raiseFloor, "UPDATE floor SET token = ?1 WHERE token < ?1"},
		{&s.byDedup, selectDedup},
		{&s.ready, selectReady},
		{&s.running, selectRunning},
		{&s.record, "SELECT " + runColumns + " FROM runs WHERE key = ?"},
		{&s.nextProgram, selectProgram},
		{&s.announced, "SELECT time FROM announced WHERE program = ? AND queue = ?"},
		{&s.announce, `INSERT INTO announced (program, queue, time) VALUES (?, ?, ?)
			ON CONFLICT DO UPDATE SET time = excluded.time`},
		{&s.wakeQueue, `INSERT INTO queues (name, changes) VALUES (?, 1)
			ON CONFLICT DO UPDATE SET changes = changes + 1 RETURNING changes`},
	} {
		stmt, fault := conn.PrepareContext(context.Background(), p.query) //nolint:sqlclosecheck // close does it
		if *p.stmt = stmt; fault == nil {
			s.all = append(s.all, stmt)
		}
		err = errors.Join(err, fault)
	}
	return err
}

// close frees the statements, as nothing else does: SQLite keeps a connection open, locks included, while one is left.
func (s *statements) close() error {
	err := errors.Join(s.begins.close(), s.commits.close(), s.rollbacks.close(), s.insertEvents.close())
	for _, stmt := range s.all {
		err = errors.Join(err, stmt.Close())
	}
	return err
}

// hot is a statement that every commit needs. It is run on the driver's connection, since all that package sql does around
// one costs as much as the statement.
type hot struct {
	conn *sql.Conn
	stmt driver.StmtExecContext
	args []driver.NamedValue
	rows int64
	raw  func(any) error
}

func (h *hot) prepare(conn *sql.Conn, query string) error {
	h.conn = conn
	h.raw = h.run
	return conn.Raw(func(c any) error {
		preparer, ok := c.(driver.ConnPrepareContext)
		if !ok {
			return errors.New("the driver cannot prepare statements")
		}
		stmt, err := preparer.PrepareContext(context.Background(), query)
		if err != nil {
			return err
		}
		if h.stmt, ok = stmt.(driver.StmtExecContext); !ok {
			return errors.Join(errors.New("the driver cannot run prepared statements"), stmt.Close())
		}
		return nil
	})
}

// close frees the statement. The connection must still be open.
func (h *hot) close() error {
	if h.stmt == nil {
		return nil
	}
	return h.conn.Raw(func(any) error {
		if stmt, ok := h.stmt.(driver.Stmt); ok {
			return stmt.Close()
		}
		return nil
	})
}

// exec runs the statement and returns how many rows it has written.
func (h *hot) exec(args ...driver.Value) (int64, error) {
	h.args = h.args[:0]
	for i, arg := range args {
		h.args = append(h.args, driver.NamedValue{Ordinal: i + 1, Value: arg})
	}
	h.rows = 0
	err := h.conn.Raw(h.raw)
	clear(h.args)
	return h.rows, err
}

func (h *hot) run(any) error {
	result, err := h.stmt.ExecContext(context.Background(), h.args)
	if err != nil {
		return err
	}
	h.rows, err = result.RowsAffected()
	return err
}
