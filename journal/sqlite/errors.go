package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pawl-go/pawl/journal"
)

// errGone says that what is written would go to a file that nobody can open any more.
var errGone = errors.New("the database file was deleted, moved or replaced while it was open: put it back, or close the store and " +
	"open it again")

// codeOf returns SQLite's primary result code of an error; 0 if it has none.
func codeOf(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// mayPass reports whether an error of SQLite is one of the world around it rather than of the call or the data.
func mayPass(err error) bool {
	switch codeOf(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_INTERRUPT,
		sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL:
		return true
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errGone)
}

// isCorrupt reports whether SQLite found that the file is not as it should be.
func isCorrupt(err error) bool {
	code := codeOf(err)
	return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}

// explain adds to an error of SQLite what can be done about it.
func (s *Store) explain(err error) error {
	switch codeOf(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fmt.Errorf("another process has had the database locked for %v: end it, or wait for it: %w", s.busy, err)
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("the disk is full: free some space on it: %w", err)
	case sqlite3.SQLITE_READONLY:
		return fmt.Errorf("the file or its folder may only be read: let this user write to both: %w", err)
	case sqlite3.SQLITE_CANTOPEN:
		return fmt.Errorf("the file cannot be opened: check that it and its folder are there and this user may write to both: %w", err)
	case sqlite3.SQLITE_IOERR:
		return fmt.Errorf("the disk failed: look into the system's log: %w", err)
	case sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("the file is no SQLite database: give the path of another, or restore it from a backup: %w", err)
	case sqlite3.SQLITE_CORRUPT:
		return fmt.Errorf("the database is damaged: restore it from a backup: %w", err)
	}
	return err
}

// fault turns an error of SQLite or a context into one of package journal where it is one. The run is "" where the call is
// about none.
func (s *Store) fault(op, run string, unknown bool, err error) error {
	switch {
	case err == nil || errors.Is(err, context.Canceled) || isOurs(err):
		return err
	case isCorrupt(err) && run != "":
		return &journal.CorruptError{Run: run, Err: fmt.Errorf("%s: %w", s.path, err)}
	case isCorrupt(err):
		return fmt.Errorf("pawl: %s in %s: %w: %w", op, s.path, journal.ErrCorrupt, s.explain(err))
	case unknown || mayPass(err):
		return &journal.UnavailableError{Op: op + " in " + s.path, Unknown: unknown, Err: s.explain(err)}
	}
	return fmt.Errorf("pawl: %s in %s: %w", op, s.path, err)
}

// isOurs reports whether an error is one of package journal already.
func isOurs(err error) bool {
	for _, ours := range []error{
		journal.ErrNotFound, journal.ErrExists, journal.ErrDuplicate, journal.ErrLocked, journal.ErrFenced, journal.ErrEnded,
		journal.ErrConflict, journal.ErrUnavailable, journal.ErrCorrupt,
	} {
		if errors.Is(err, ours) {
			return true
		}
	}
	return false
}

func (s *Store) errClosed() error {
	return fmt.Errorf("pawl: journal %s: %w: open it again", s.path, fs.ErrClosed)
}

func ended(st *runState) error {
	return &journal.RefusedError{Run: st.id, Reason: journal.ErrEnded, Detail: fmt.Sprintf("it is %s", st.status)}
}

func locked(st *runState) error {
	return &journal.LockedError{Run: st.id, Owner: st.owner, Until: st.until}
}

func fenced(st *runState, l journal.Lease) error {
	detail := fmt.Sprintf("token %d was given up or followed by another", l.Token)
	return &journal.RefusedError{Run: st.id, Reason: journal.ErrFenced, Detail: detail}
}

func conflict(st *runState, a journal.Append) error {
	detail := fmt.Sprintf("%d events for behind number %d, but the last one is number %d", len(a.Events), a.After, st.head)
	return &journal.RefusedError{Run: st.id, Reason: journal.ErrConflict, Detail: detail}
}

// quote makes text of any kind and length fit for a message.
func quote(text string) string {
	const most = 100
	if len(text) > most {
		return fmt.Sprintf("%q... (%d bytes)", text[:most], len(text))
	}
	return fmt.Sprintf("%q", text)
}
