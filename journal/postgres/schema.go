package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"hash/crc64"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

const (
	// schemaTable says which migrations a schema has had.
	schemaTable = "pawl_schema"
	oldest      = 15 // release of PostgreSQL
)

// Migrate makes the schema, or brings it to what this release needs, as Open does; nothing more. It is for a role that owns
// the schema, where the programs that use it may not change it. Its errors are those of Open.
func Migrate(ctx context.Context, dsn string, opts ...Option) error {
	s, err := configure(dsn, opts)
	if err != nil {
		return err
	}
	if err := s.prepare(ctx); err != nil {
		return s.openError(err)
	}
	return nil
}

// prepare makes the schema what this release needs. It uses a pool of its own, which is closed behind it.
func (s *settings) prepare(ctx context.Context) error {
	db := stdlib.OpenDB(*s.config.ConnConfig.Copy())
	return errors.Join(s.prepareWith(ctx, db), db.Close())
}

func (s *settings) prepareWith(ctx context.Context, db *sql.DB) error {
	var version int
	if err := db.QueryRowContext(ctx, "SELECT current_setting('server_version_num')::int / 10000").Scan(&version); err != nil {
		return err
	}
	if version < oldest {
		return fmt.Errorf("the server is PostgreSQL %d: use %d or later", version, oldest)
	}
	p, err := provider(db)
	if err != nil {
		return err
	}
	sources := p.ListSources()
	knows := sources[len(sources)-1].Version
	has, err := schemaVersion(ctx, db)
	if err == nil && has < knows {
		return s.migrate(ctx, db, p, knows)
	}
	return errors.Join(err, newer(has, knows))
}

// newer refuses a schema that this release does not know.
func newer(has, knows int64) error {
	if has <= knows {
		return nil
	}
	return fmt.Errorf("it was written by a newer release: schema version %d, this release knows %d: upgrade the program", has, knows)
}

// schemaVersion returns the last migration that the schema has had; 0 if there is none.
func schemaVersion(ctx context.Context, db *sql.DB) (version int64, err error) {
	err = db.QueryRowContext(ctx, "SELECT coalesce(max(version_id), 0) FROM "+schemaTable+" WHERE is_applied").Scan(&version)
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && (e.Code == undefinedTable || e.Code == undefinedSchema) {
		return 0, nil
	}
	return version, err
}

const maySchema = `SELECT coalesce(bool_and(has_schema_privilege(oid, 'USAGE') AND has_schema_privilege(oid, 'CREATE')), false)
	FROM pg_namespace WHERE nspname = $1`

// migrate brings the schema to this release's version, while no other process does.
func (s *settings) migrate(ctx context.Context, db *sql.DB, p *goose.Provider, knows int64) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }() // which does not end the session: the pool's closing does
	lock := s.lockID("migrate")
	if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock($1)", lock); err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{s.schema}.Sanitize()); err != nil {
		// A user who may not make schemas may still fill one that somebody has made for it.
		var may bool
		look := conn.QueryRowContext(ctx, maySchema, s.schema).Scan(&may)
		if look != nil || !may {
			return fmt.Errorf("make or migrate the schema: %w", err)
		}
	}
	has, err := schemaVersion(ctx, db)
	if err == nil {
		err = newer(has, knows)
	}
	if err != nil || has == knows {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate it from version %d to %d: %w", has, knows, err)
	}
	return nil
}

// lockID is the number of the advisory lock for a purpose in this schema.
func (s *settings) lockID(purpose string) int64 {
	sum := crc64.Checksum([]byte("pawl\x00"+purpose+"\x00"+s.schema), crc64.MakeTable(crc64.ECMA))
	return int64(sum) //nolint:gosec // any number will do
}

func provider(db *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithTableName(schemaTable), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
}
