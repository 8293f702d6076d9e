package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// maxName is the longest name that PostgreSQL does not cut off, in bytes.
const maxName = 63

// configure reads DSN and options.
func configure(dsn string, opts []Option) (settings, error) {
	s := settings{schema: defaultSchema, timeout: defaultTimeout, poll: defaultPoll, writers: 1}
	for _, opt := range opts {
		opt(&s)
	}
	if s.schema == "" || len(s.schema) > maxName || strings.ContainsRune(s.schema, 0) || strings.HasPrefix(s.schema, "pg_") {
		return s, fmt.Errorf("pawl: schema name %s: give it one of 1 to %d bytes that does not begin with pg_", quote(s.schema), maxName)
	}
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		// What the parser says may quote any part of the DSN, and so of a password that it took for something else.
		return s, errors.New("pawl: open journal in PostgreSQL: the DSN is not well-formed, or a file that it names cannot be read: " +
			"write postgres://user:password@host:5432/database, with special characters of the password as %XX, or " +
			"host=HOST user=USER password='PASSWORD' dbname=DATABASE")
	}
	s.config = config
	s.setUp(config.ConnConfig)
	c := config.ConnConfig
	at := net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	if filepath.IsAbs(c.Host) {
		at = c.Host
	}
	s.place = fmt.Sprintf("%s/%s, schema %s", at, c.Database, s.schema)
	return s, nil
}

// setUp makes every connection one that the statements can rely on, whatever the defaults of server, database and user are.
func (s *settings) setUp(c *pgx.ConnConfig) {
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = s.timeout
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "pawl"
	}
	setting := strings.Join([]string{
		"SET search_path = " + pgx.Identifier{s.schema}.Sanitize(),
		"SET default_transaction_isolation = 'read committed'", // what a lock has waited for is seen
		"SET plan_cache_mode = force_generic_plan",             // planning a batch costs more than it
		"SET enable_seqscan = off",                             // a plan that was made when a table was empty stays for long
		"SET jit = off",                                        // to compile them takes longer than any of them
		"SET statement_timeout = 0",                            // calls have their own
		"SET idle_session_timeout = 0",                         // the session that leases depend on is idle
		"SET idle_in_transaction_session_timeout = '2s'",       // a process that is stopped in a write holds up nobody else for long
		"SET tcp_keepalives_idle = 10", "SET tcp_keepalives_interval = 5", "SET tcp_keepalives_count = 3", "SET tcp_user_timeout = 30000",
		// What is acknowledged is durable. Levels that wait for standbys, or not, are the administrator's choice.
		"SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
	}, ";")
	c.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		_, err := conn.Exec(ctx, setting).ReadAll()
		return err
	}
}

// open connects, in the order in which a wrong database is found without being touched.
func (s *Store) open(ctx context.Context) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	s.watchers.store = s
	var err error
	if s.session, err = newSession(ctx, s); err != nil {
		return err
	}
	for range s.writers {
		c, err := newCommitter(ctx, s)
		if err != nil {
			return err
		}
		s.committers = append(s.committers, c)
	}
	s.session.start() //nolint:contextcheck // it lives as long as the store
	s.pool, err = pgxpool.NewWithConfig(ctx, s.config)
	return err
}
