package bench_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-go/pawl/journal/postgres"
	"github.com/pawl-go/pawl/journal/postgres/postgrestest"
)

// server is what everything is measured on, or the reason why it is not.
var (
	server      *postgrestest.Server
	errNoServer error
)

func TestMain(m *testing.M) {
	if server, errNoServer = postgrestest.Start(); errNoServer == nil {
		// A commit is on the disk here, unlike in tests.
		errNoServer = server.Control("restart", "-o", "--fsync=on")
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if server != nil {
			server.Stop()
		}
		os.Exit(code)
	}))
}

// dsn names the database. On a machine without PostgreSQL all is skipped, and says how to get it.
func dsn(tb testing.TB) string {
	tb.Helper()
	if errors.Is(errNoServer, postgrestest.ErrNoPostgreSQL) {
		tb.Skip(errNoServer)
	}
	require.NoError(tb, errNoServer)
	return server.DSN()
}

// connect is a bare connection.
func connect(tb testing.TB) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(context.Background(), dsn(tb))
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, conn.Close(context.Background())) })
	return conn
}

// open opens the runs of a schema that each benchmark has for itself.
func open(tb testing.TB) *postgres.Store {
	tb.Helper()
	store, err := postgres.Open(context.Background(), dsn(tb), postgres.Schema(schemaOf(tb)))
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, store.Close()) })
	return store
}

func schemaOf(tb testing.TB) string {
	tb.Helper()
	return strings.ToLower(strings.NewReplacer("/", "_", "=", "_").Replace(tb.Name()))
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestTheServerSyncs(t *testing.T) {
	conn := connect(t)
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		var value string
		require.NoError(t, conn.QueryRow(t.Context(), "SHOW "+name).Scan(&value))
		assert.Equal(t, "on", value, name)
	}
}
