package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-go/pawl/journal"
)

// Codes of PostgreSQL's errors (SQLSTATE).
const (
	diskFull          = "53100"
	outOfMemory       = "53200"
	tooManyConns      = "53300"
	readOnly          = "25006"
	lockNotAvailable  = "55P03"
	idleInTransaction = "25P03"
	ioError           = "58030"
	serialization     = "40001"
	deadlock          = "40P01"
	starting          = "57P03"
	noPrivilege       = "42501"
	undefinedTable    = "42P01"
	undefinedSchema   = "3F000"
	undefinedDatabase = "3D000"
	wrongPassword     = "28P01"
	notAuthorized     = "28000"
	uniqueViolation   = "23505"
	dataCorrupted     = "XX001"
	indexCorrupted    = "XX002"

	// Classes: the first two characters.
	connectionClass = "08"
	resourceClass   = "53"
	operatorClass   = "57"
)

// errSession says that the session that leases depend on could not be had.
var errSession = errors.New("the session that tells others that this process lives is being made again")

// codeOf returns the SQLSTATE of an error; "" if it has none.
func codeOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// definite reports whether the server has refused a statement and goes on: it was surely not done. A server that ends the
// session says nothing of what it did before.
func definite(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.SeverityUnlocalized == "ERROR"
}

// mayPass reports whether an error is one of the world around the database rather than of the call or the data.
func mayPass(err error) bool {
	switch code := codeOf(err); code {
	case "":
		return isNetwork(err)
	case readOnly, lockNotAvailable, idleInTransaction, ioError, serialization, deadlock:
		return true
	default:
		class := code[:2]
		return class == connectionClass || class == resourceClass || class == operatorClass
	}
}

// isNetwork reports whether an error is that of a connection.
func isNetwork(err error) bool {
	for _, target := range []error{
		context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, errSession,
		syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNREFUSED,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	// Nothing was sent, or the connection was closed: there is no better way to tell what it was.
	return pgconn.SafeToRetry(err) || pgconn.Timeout(err) || strings.Contains(err.Error(), "conn closed")
}

// isCorrupt reports whether the server found that the data is not as it should be.
func isCorrupt(err error) bool {
	code := codeOf(err)
	return code == dataCorrupted || code == indexCorrupted
}

// explain adds to an error what can be done about it.
func (s *settings) explain(err error) error {
	switch code := codeOf(err); code {
	case diskFull:
		return fmt.Errorf("the server's disk is full: free some space on it: %w", err)
	case outOfMemory:
		return fmt.Errorf("the server is out of memory: lower its settings or give it more: %w", err)
	case tooManyConns:
		return fmt.Errorf("the server has no connection left: raise max_connections, or lower pool_max_conns: %w", err)
	case readOnly:
		return fmt.Errorf("the server may only be read: connect to the primary (target_session_attrs=read-write): %w", err)
	case starting:
		return fmt.Errorf("the server is starting or stopping: wait for it: %w", err)
	case noPrivilege:
		return fmt.Errorf("the user lacks a privilege: grant it what package journal/postgres lists, or migrate as the owner: %w", err)
	case wrongPassword, notAuthorized:
		return fmt.Errorf("the server refuses the user: check user, password and pg_hba.conf: %w", err)
	case undefinedDatabase:
		return fmt.Errorf("create the database: %w", err)
	case undefinedTable, undefinedSchema:
		return fmt.Errorf("the schema is gone: restore it from a backup, or open the store again: %w", err)
	case dataCorrupted, indexCorrupted:
		return fmt.Errorf("the database is damaged: restore it from a backup: %w", err)
	case "":
		if isNetwork(err) {
			return fmt.Errorf("the server cannot be reached, or has not answered in %v: "+
				"check that it runs and that the network leads to it: %w", s.timeout, err)
		}
	}
	return err
}

// openError says what Open failed to open.
func (s *settings) openError(err error) error {
	if mayPass(err) {
		return &journal.UnavailableError{Op: "open journal in " + s.place, Err: s.explain(err)}
	}
	return fmt.Errorf("pawl: open journal in %s: %w", s.place, s.explain(err))
}

// fault turns an error of PostgreSQL or a context into one of package journal where it is one. The run is "" where the call is
// about none.
func (s *settings) fault(op, run string, unknown bool, err error) error {
	switch {
	case err == nil || errors.Is(err, context.Canceled) || isOurs(err):
		return err
	case isCorrupt(err) && run != "":
		return &journal.CorruptError{Run: run, Err: fmt.Errorf("%s: %w", s.place, err)}
	case isCorrupt(err):
		return fmt.Errorf("pawl: %s in %s: %w: %w", op, s.place, journal.ErrCorrupt, s.explain(err))
	case unknown || mayPass(err):
		return &journal.UnavailableError{Op: op + " in " + s.place, Unknown: unknown, Err: s.explain(err)}
	}
	return fmt.Errorf("pawl: %s in %s: %w", op, s.place, s.explain(err))
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

func isMissing(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

func (s *settings) errClosed() error {
	return fmt.Errorf("pawl: journal in %s: %w: open it again", s.place, fs.ErrClosed)
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
