package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal/postgres/postgrestest"
)

const (
	dsnEnv = "PAWL_POSTGRES_DSN"
	remedy = postgrestest.Remedy + ", or name a server's database that the tests may make schemas and roles in: " +
		dsnEnv + "=postgres://user@host:5432/database"
)

// server is the private PostgreSQL of this test binary, or the one that the environment names.
type server struct {
	dsn string
	own *postgrestest.Server // nil if it is not ours
	err error
}

var theServer server

// launch starts the server. Without one, tests are skipped with the remedy.
func (s *server) launch() {
	if s.dsn = os.Getenv(dsnEnv); s.dsn != "" {
		return
	}
	s.own, s.err = postgrestest.Start()
	if errors.Is(s.err, postgrestest.ErrNoPostgreSQL) {
		s.err = errors.New(remedy)
	}
	if s.err != nil {
		fmt.Fprintln(os.Stderr, s.err)
		return
	}
	s.dsn = s.own.DSN()
}

func (s *server) stop() {
	if s.own != nil {
		s.own.Stop()
	}
}

// dsn returns the DSN of the server; without one the test is skipped.
func dsn(tb testing.TB) string {
	tb.Helper()
	if theServer.err != nil {
		tb.Skip(theServer.err)
	}
	return theServer.dsn
}

// own skips a test that needs a server that it may stop.
func own(tb testing.TB) {
	tb.Helper()
	if dsn(tb); theServer.own == nil {
		tb.Skip("not on a server that others use: unset " + dsnEnv)
	}
}

// durable makes the server sync what it commits, for the length of a test. It need not for tests of what has no crash.
func durable(tb testing.TB) {
	tb.Helper()
	if dsn(tb); theServer.own == nil {
		return
	}
	set := func(value string) {
		exec1(tb, "public", "ALTER SYSTEM SET fsync = "+value)
		exec1(tb, "public", "SELECT pg_reload_conf()")
	}
	set("on")
	tb.Cleanup(func() { set("off") })
	require.Eventually(tb, func() bool { return ask[string](tb, "public", "SHOW fsync") == "on" }, 10*time.Second, 10*time.Millisecond)
}

// with adds pairs to the DSN.
func with(dsn string, pairs map[string]string) string {
	if u, err := url.Parse(dsn); err == nil && strings.HasPrefix(u.Scheme, "postgres") {
		q := u.Query()
		for k, v := range pairs {
			q.Set(k, v)
		}
		u.RawQuery = q.Encode()
		return u.String()
	}
	for k, v := range pairs {
		dsn += " " + k + "='" + v + "'"
	}
	return dsn
}

// attach is a connection of an administrator, with the tables of a schema in its path.
func attach(tb testing.TB, schema string) *pgx.Conn {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn(tb))
	require.NoError(tb, err)
	tb.Cleanup(func() { conn.Close(context.Background()) })
	_, err = conn.Exec(ctx, "SET search_path = "+pgx.Identifier{schema}.Sanitize())
	require.NoError(tb, err)
	return conn
}

// exec runs a statement as an administrator.
func exec1(tb testing.TB, schema, sql string, args ...any) {
	tb.Helper()
	conn := attach(tb, schema)
	_, err := conn.Exec(context.Background(), sql, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
	require.NoError(tb, err)
	require.NoError(tb, conn.Close(context.Background()))
}

// ask returns what a statement says to an administrator.
func ask[T any](tb testing.TB, schema, sql string, args ...any) (answer T) {
	tb.Helper()
	conn := attach(tb, schema)
	require.NoError(tb, conn.QueryRow(context.Background(), sql, args...).Scan(&answer))
	require.NoError(tb, conn.Close(context.Background()))
	return answer
}
