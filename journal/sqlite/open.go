package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"modernc.org/sqlite"

	"github.com/pawl-go/pawl/journal"
)

// open opens the file, in the order in which a wrong one is found without being touched.
func (s *Store) open() (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, s.release())
		}
	}()
	if s.path, err = resolve(s.path); err != nil {
		return err
	}
	if err := s.prepare(); err != nil {
		return err
	}
	if s.writer, err = s.database("rw", s.busy, false); err != nil {
		return err
	}
	if s.reader, err = s.database("rw", s.busy, true); err != nil {
		return err
	}
	conns := max(minReaders, runtime.GOMAXPROCS(0))
	s.reader.SetMaxOpenConns(conns)
	s.reader.SetMaxIdleConns(conns)
	if s.read, err = prepareReads(s.reader); err != nil {
		return err
	}
	if s.committer, err = newCommitter(s); err != nil {
		return err
	}
	s.watchers.store = s
	return nil
}

const (
	minReaders = 4
	syncFull   = 2 // PRAGMA synchronous
)

// resolve makes a path absolute and follows its links, since the files beside a database must be the same for all who open
// it.
func resolve(path string) (string, error) {
	if path == "" || strings.HasPrefix(path, ":memory:") || strings.HasPrefix(path, "file:") {
		return "", errors.New("give it the path of a file; to keep runs in memory, use package journal/memory")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("the folder %s does not exist: create it", filepath.Dir(abs))
	}
	if err != nil {
		return "", err
	}
	abs = filepath.Join(folder, filepath.Base(abs))
	info, err := os.Stat(abs)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return abs, nil
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", errors.New("it is not a file: give it the path of one")
	}
	return filepath.EvalSymlinks(abs)
}

// openError says what Open failed to open.
func (s *Store) openError(path string, err error) error {
	if mayPass(err) {
		return &journal.UnavailableError{Op: "open journal " + path, Err: s.explain(err)}
	}
	if isCorrupt(err) {
		return fmt.Errorf("pawl: open journal %s: %w: %w", path, journal.ErrCorrupt, s.explain(err))
	}
	return fmt.Errorf("pawl: open journal %s: %w", path, err)
}

// database returns a pool of connections that wait for locks for a time. In mode "rw" a connection is refused, and no new
// file made, if the file is gone.
func (s *Store) database(mode string, busy time.Duration, readOnly bool) (*sql.DB, error) {
	query := url.Values{"mode": {mode}, "_txlock": {"immediate"}, "_error_rc": {"1"}, "_dqs": {"0"}}
	query["_pragma"] = []string{
		"synchronous(FULL)", // a new connection to a file in WAL mode may have another default
		"wal_autocheckpoint(1000)",
		"journal_size_limit(67108864)", // what a huge transaction made of the log is given back
	}
	query.Set("_busy_timeout", strconv.FormatInt(busy.Milliseconds(), 10))
	if readOnly {
		query.Set("_query_only", "1")
	}
	// As an URI, so that no character of the path means anything.
	path := filepath.ToSlash(s.path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	uri := url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}
	inner, err := sqlite.NewConnector(uri.String())
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector{inner}), nil
}

// connector makes connections of which it is sure that they sync what they commit.
type connector struct{ driver.Connector }

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	level, err := pragma(ctx, conn, "synchronous")
	if err == nil && level != int64(syncFull) {
		err = fmt.Errorf("PRAGMA synchronous is %v instead of FULL", level)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func pragma(ctx context.Context, conn driver.Conn, name string) (driver.Value, error) {
	q, ok := conn.(driver.QueryerContext)
	if !ok {
		return nil, errors.New("the driver cannot be asked")
	}
	rows, err := q.QueryContext(ctx, "PRAGMA "+name, nil)
	if err != nil {
		return nil, err
	}
	value := make([]driver.Value, 1)
	err = errors.Join(rows.Next(value), rows.Close())
	return value[0], err
}
