package postgrestest_test

import (
	"errors"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-go/pawl/journal/postgres/postgrestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What was committed survives the death of the server, whose sessions die along with it; and Stop leaves nothing behind.
func TestAServerIsKilledStartedAgainAndStopped(t *testing.T) {
	s, err := postgrestest.Start()
	if errors.Is(err, postgrestest.ErrNoPostgreSQL) {
		t.Skip(err)
	}
	require.NoError(t, err)
	stopped := false
	defer func() {
		if !stopped {
			s.Stop()
		}
	}()
	conn, err := pgx.Connect(t.Context(), s.DSN())
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "CREATE TABLE kept AS SELECT 7 AS n")
	require.NoError(t, err)

	require.NoError(t, s.Kill())
	_, err = conn.Exec(t.Context(), "SELECT 1")
	require.Error(t, err, "a session has outlived its server")
	require.NoError(t, s.Restart())

	conn, err = pgx.Connect(t.Context(), s.DSN())
	require.NoError(t, err)
	var n int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT n FROM kept").Scan(&n))
	assert.Equal(t, 7, n)
	require.NoError(t, conn.Close(t.Context()))

	s.Stop()
	stopped = true
	_, err = os.Stat(s.Socket())
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = pgx.Connect(t.Context(), s.DSN())
	require.Error(t, err)
}
