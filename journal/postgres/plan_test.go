package postgres_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal/postgres"
)

// indexes are those that a statement must not be without, whatever the server believes of the tables.
var indexes = map[string][]string{
	"take": {"runs_ready", "runs_held", "runs_pkey"}, "take orphans": {"runs_ready", "runs_held", "runs_pkey"},
	"take stranded": {"runs_ready", "runs_held", "runs_pkey", "workers_pkey"}, "take picked": {"runs_pkey", "events_pkey"},
	"taken key": {"runs_by_dedup", "runs_hash_key"}, "create": {"runs_by_dedup"}, "call": {"runs_pkey"}, "announce": {"workers_pkey"},
	"lock": {"runs_hash_key"}, "read": {"runs_hash_key", "inbox_pkey"}, "save": {"runs_pkey"}, "message": {"runs_pkey"},
}

// No statement reads all rows of a table, neither while the server knows nothing of the tables, nor when they are large.
func TestPlans(t *testing.T) {
	s := open(t, newSchema(t))
	conn := attach(t, s.Schema())
	look := func(state string) {
		for name, sql := range postgres.Statements() {
			plan := explain(t, conn, sql)
			assert.NotContains(t, plan, "Seq Scan", "%s, %s", name, state)
			for _, index := range indexes[name] {
				assert.Contains(t, plan, index, "%s, %s", name, state)
			}
			if name != "append many" { // which joins what it is given
				assert.NotRegexp(t, "Hash|hashed|Merge Join|using (runs_by_status|runs_by_queue)", plan, "%s, %s", name, state)
			}
			assert.True(t, name != "keyed" || strings.Contains(plan, "AND (sha256(key) = k.key)"), "a key is found among many: %s", plan)
			t.Logf("%s, %s:\n%s", name, state, plan)
		}
	}
	look("empty")
	_, err := conn.Exec(t.Context(), `INSERT INTO runs SELECT n, int8send(n), '', '', '', '', '', '', '', 0, now(), 'pending', now(), NULL, 0, n, '', NULL, NULL
		FROM generate_series(1::bigint, 20000) n`)
	require.Error(t, err, "the hash is the server's")
	_, err = conn.Exec(t.Context(), `INSERT INTO runs (key, id, kind, name, version, fingerprint, thread, link_kind, link_run, link_step, created, status,
			updated, checkpoint, token, owner)
		SELECT n, int8send(n), '', '', '', '', '', '', '', 0, now(), 'pending', now(), 0, n, '' FROM generate_series(1::bigint, 20000) n`)
	require.NoError(t, err)
	fill(t, s.Schema(), 20000)
	_, err = conn.Exec(t.Context(), "UPDATE runs SET dedup = id WHERE key % 3 = 0")
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "INSERT INTO events SELECT n, s, 1, '' FROM generate_series(1, 20000) n, generate_series(2, 3) s")
	require.NoError(t, err)
	look("not analyzed")
	_, err = conn.Exec(t.Context(), "ANALYZE runs; ANALYZE events", pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	look("large")
}

// explain is the plan that is used for any arguments.
func explain(t *testing.T, conn *pgx.Conn, sql string) string {
	t.Helper()
	nulls := "NULL"
	for n := 2; strings.Contains(sql, fmt.Sprintf("$%d", n)); n++ {
		nulls += ", NULL"
	}
	_, err := conn.Exec(t.Context(), "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; PREPARE p AS "+sql, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	rows, err := conn.Query(t.Context(), "EXPLAIN (COSTS OFF) EXECUTE p("+nulls+")", pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "DEALLOCATE p")
	require.NoError(t, err)
	return strings.Join(lines, "\n")
}

// What anybody may send on the channel is read without harm, and what the store says is read as it was said.
func FuzzParseWord(f *testing.F) {
	f.Add("")
	f.Add("00 1")
	f.Add(postgres.Word(sha256.Sum256([]byte("r")), 42))
	f.Add(postgres.CallWord(sha256.Sum256([]byte("q")), "store"))
	f.Fuzz(func(t *testing.T, payload string) {
		if queue, store, err := postgres.ParseCall(payload); err == nil {
			again, same, err := postgres.ParseCall(postgres.CallWord(queue, store))
			require.NoError(t, err)
			require.Equal(t, queue, again)
			require.Equal(t, store, same)
		}
		run, id, err := postgres.ParseWord(payload)
		if err != nil {
			return
		}
		again, same, err := postgres.ParseWord(postgres.Word(run, id))
		require.NoError(t, err)
		require.Equal(t, run, again)
		require.Equal(t, id, same)
	})
}
