package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

const (
	// schemaTable says which migrations a file has had.
	schemaTable = "pawl_schema"
	// applicationID marks a file as ours, in its header: "Pawl".
	applicationID = 0x5061776c
)

// prepare makes the file what this release needs. It uses pools of its own, which are closed behind it.
func (s *Store) prepare() error {
	err := s.using(0, func(ctx context.Context, db *sql.DB) error {
		return s.patiently(func() error { return inspect(ctx, db) })
	})
	if err != nil {
		return err
	}
	s.owners = &owners{folder: s.path + "-owners"}
	if err := s.owners.enter(); err != nil {
		return err
	}
	return s.owners.exclusively(s.busy, func() error { return s.using(s.busy, migrate) })
}

// using calls f with a pool whose connections wait for locks for a time.
func (s *Store) using(busy time.Duration, f func(context.Context, *sql.DB) error) error {
	db, err := s.database("rwc", busy, false)
	if err != nil {
		return err
	}
	return errors.Join(f(context.Background(), db), db.Close())
}

// inspect refuses a file that is not ours or that cannot be used, without changing it.
func inspect(ctx context.Context, db *sql.DB) error {
	var id, tables int
	if err := db.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return err
	}
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&tables); err != nil {
		return err
	}
	if id != applicationID && (id != 0 || tables > 0) {
		return errors.New("it is another program's database: give it the path of a new file")
	}
	// A file that may only be read says so when somebody writes, and not when he begins to.
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "PRAGMA user_version = 0")
	return errors.Join(err, tx.Rollback())
}

// migrate brings the file to this release's schema. The caller holds the lock for that.
func migrate(ctx context.Context, db *sql.DB) error {
	if err := mark(ctx, db); err != nil {
		return err
	}
	var mode string
	if err := db.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("its journal mode is %q and cannot be made WAL: move it to a local disk", mode)
	}
	p, err := provider(db)
	if err != nil {
		return err
	}
	has, knows, err := p.GetVersions(ctx)
	switch {
	case err != nil:
		return err
	case has > knows:
		return fmt.Errorf("it was written by a newer release: schema %d, this release knows %d: upgrade the program", has, knows)
	case has == knows:
		return nil
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate it from schema %d to %d: %w", has, knows, err)
	}
	return nil
}

// mark makes a new file ours before it has anything in it.
func mark(ctx context.Context, db *sql.DB) error {
	var id int
	if err := db.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil || id == applicationID {
		return err
	}
	for _, pragma := range []string{"page_size = 4096", fmt.Sprintf("application_id = %d", applicationID)} {
		if _, err := db.ExecContext(ctx, "PRAGMA "+pragma); err != nil {
			return err
		}
	}
	return nil
}

func provider(db *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectSQLite3, db, files,
		goose.WithTableName(schemaTable), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
}
