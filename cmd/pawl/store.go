package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"syscall"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/sqlite"
)

// store is what the commands need of a store.
type store interface {
	journal.Store
	journal.Lister
	io.Closer
}

const (
	defaultStore = "pawl.db"
	storeKinds   = "sqlite:PATH, just PATH, or postgres:DSN"
)

// spec is what the store was given as.
func (s *session) spec() string {
	if s.store == "" {
		return "the store is " + defaultStore
	}
	return "the store is " + printable(shownStore(s.store))
}

// withStore opens the store for f.
func (s *session) withStore(ctx context.Context, f func(db store) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	db, err := s.open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(f(db), db.Close())
}

// withClient opens the store for f, with a client for its runs.
func (s *session) withClient(ctx context.Context, f func(db store, runs *client.Client) error) error {
	return s.withStore(ctx, func(db store) error {
		runs, err := client.New(db, client.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		return f(db, runs)
	})
}

func (s *session) open(ctx context.Context) (store, error) {
	spec := s.store
	if spec == "" {
		spec = defaultStore
	}
	if dsn, ok := postgresDSN(spec); ok {
		return s.openPostgres(ctx, dsn)
	}
	scheme, path, ok := strings.Cut(spec, ":")
	switch {
	case s.schema != "":
		return nil, &exitError{code: exitUsage, text: "--schema is for a store in PostgreSQL: leave it out, or give --store postgres:DSN"}
	case ok && scheme == "sqlite":
		spec = path
	case ok && strings.HasPrefix(path, "//"):
		return nil, &exitError{code: exitUsage, text: fmt.Sprintf("--store: %s is no kind of store: give %s", quoted(scheme), storeKinds)}
	}
	return openFile(spec) //nolint:contextcheck // opening a file is not cut short
}

// openFile opens a file that is there: sqlite.Open would make one.
func openFile(path string) (store, error) {
	if path == "" {
		return nil, &exitError{code: exitUsage, text: "--store names no file: give " + storeKinds}
	}
	info, err := os.Stat(path)
	switch {
	case err != nil && (isSecret(path) || strings.Contains(path, ":") && strings.Contains(path, "@")):
		return nil, &exitError{code: exitUsage, text: "--store looks like a DSN: write postgres: before it"}
	case errors.Is(err, fs.ErrNotExist):
		return nil, &exitError{code: exitNoStore, err: err, text: fmt.Sprintf("there is no file %s: give --store, or set PAWL_STORE to, "+
			"the database that your program writes to", printable(path))}
	case err != nil:
		return nil, &exitError{code: exitNoStore, err: err, text: err.Error()}
	case info.Mode().IsRegular() && info.Size() == 0:
		return nil, &exitError{code: exitNoStore, text: fmt.Sprintf("the file %s is empty: no program has written a run to it, "+
			"so it may be the wrong one", printable(path))}
	}
	db, err := sqlite.Open(path)
	if err != nil {
		text := err.Error()
		if mayOnlyRead(err) {
			text += ": to look at a backup, copy it to a folder that you may write to"
		}
		return nil, &exitError{code: exitNoStore, err: err, text: text}
	}
	return db, nil
}

// mayOnlyRead reports whether a database was not opened since it, or its folder, may not be written to.
func mayOnlyRead(err error) bool {
	const readOnly, primary = 8, 0xff // SQLITE_READONLY, and the bits of its family
	var fault interface{ Code() int }
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.As(err, &fault) && fault.Code()&primary == readOnly
}
