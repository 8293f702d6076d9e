package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/postgres"
)

// secret is what no error may say.
const secret = "s3cr/et@:pass word"

// fails opens what must be refused, with an error that says where and what to do, and no password.
func fails(t *testing.T, dsn, schema string, parts ...string) error {
	t.Helper()
	s, err := postgres.Open(t.Context(), dsn, postgres.Schema(schema), postgres.Timeout(2*time.Second))
	require.Error(t, err)
	require.Nil(t, s)
	for _, part := range append(parts, "pawl: ") {
		require.ErrorContains(t, err, part)
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		for _, text := range []string{e.Error(), fmt.Sprintf("%+v", e), fmt.Sprintf("%#v", e)} {
			require.NotContains(t, text, "s3cr")
		}
	}
	return err
}

func TestOpenRefusesWhatIsNoDSN(t *testing.T) {
	for _, dsn := range []string{
		"postgres://user:" + secret + "@host:5432/db",
		"postgres://user:s3cr%zz@host/db",
		"postgres://user:s3cret@host:port/db",
		"postgres://user:s3cret@host/db?sslmode=s3cret",
		"host=h user=u password=s3cr et=x sslmode",
		"host=h password='s3cret",
		"host=h password=s3cret sslrootcert=/s3cret sslmode=verify-full",
		"password=s3cret pool_max_conns=none",
		"s3cret",
	} {
		fails(t, dsn, "pawl", "the DSN is not well-formed", "postgres://user:password@host:5432/database")
	}
}

func TestOpenRefusesAWrongSchemaName(t *testing.T) {
	for _, name := range []string{"", "pg_mine", strings.Repeat("x", 64), "a\x00b"} {
		fails(t, "host=/none", name, "schema name", "1 to 63 bytes")
	}
}

func TestOpenSaysThatTheServerCannotBeReached(t *testing.T) {
	err := fails(t, "postgres://user:s3cret@127.0.0.1:1/db", "pawl", "127.0.0.1:1/db, schema pawl", "check that it runs")
	require.ErrorIs(t, err, journal.ErrUnavailable)
	err = fails(t, "host=/none user=u password=s3cret dbname=db", "pawl", "/none/db", "check that it runs")
	require.ErrorIs(t, err, journal.ErrUnavailable)
}

func TestOpenSaysThatTheServerRefusesTheUser(t *testing.T) {
	own(t) // it needs a line of pg_hba.conf
	exec1(t, "public", "CREATE ROLE locked LOGIN PASSWORD 'right'")
	err := fails(t, with(dsn(t), map[string]string{"user": "locked", "password": "s3cret"}), "pawl", "check user, password and pg_hba.conf")
	require.NotErrorIs(t, err, journal.ErrUnavailable)
	exec1(t, "public", "ALTER ROLE locked CONNECTION LIMIT 0")
	err = fails(t, with(dsn(t), map[string]string{"user": "locked", "password": "right"}), "pawl", "max_connections")
	require.ErrorIs(t, err, journal.ErrUnavailable)
	err = fails(t, with(dsn(t), map[string]string{"dbname": "none", "password": "s3cret"}), "pawl", "create the database")
	require.NotErrorIs(t, err, journal.ErrUnavailable)
}

func TestOpenRefusesANewerSchema(t *testing.T) {
	s := open(t, newSchema(t))
	require.NoError(t, s.Close())
	exec1(t, s.Schema(), "INSERT INTO pawl_schema (version_id, is_applied) VALUES (7, true)")
	fails(t, dsn(t), s.Schema(), "written by a newer release: schema version 7, this release knows 2", "upgrade the program", s.Schema())
	require.ErrorContains(t, postgres.Migrate(t.Context(), dsn(t), postgres.Schema(s.Schema())), "newer release")
}

// The end of the context ends the opening.
func TestOpenWithAnEndedContext(t *testing.T) {
	dsn(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := postgres.Open(ctx, dsn(t), postgres.Schema(newSchema(t)))
	require.ErrorIs(t, err, context.Canceled)
}

// Several processes may open a new schema at the same time.
func TestManyOpenANewSchemaAtOnce(t *testing.T) {
	schema := newSchema(t)
	errs := make(chan error)
	const many = 8
	for range many {
		go func() {
			s, err := postgres.Open(t.Context(), dsn(t), postgres.Schema(schema))
			if err == nil {
				err = s.Close()
			}
			errs <- err
		}()
	}
	var all []error
	for range many {
		all = append(all, <-errs)
	}
	require.NoError(t, errors.Join(all...))
	require.Equal(t, 1, ask[int](t, schema, "SELECT count(*) FROM pawl_schema WHERE version_id = 1"))
}

// A schema is a store of its own, whatever it is called, and nothing is made outside it.
func TestSchemas(t *testing.T) {
	before := ask[int](t, "public", "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'public'")
	for _, name := range []string{`a "quoted" one`, "Upper", "it's, $user", "файл"} {
		t.Cleanup(func() { exec1(t, "public", "DROP SCHEMA "+pgx.Identifier{name}.Sanitize()+" CASCADE") })
		s := open(t, name)
		require.NoError(t, add(t, s, held(t, s, "r"), 1))
		other := open(t, newSchema(t))
		changed, stop := other.Watch("r")
		t.Cleanup(stop)
		_, err := other.Load(t.Context(), "r")
		require.ErrorIs(t, err, journal.ErrNotFound)
		_, err = s.Send(t.Context(), "r", journal.Message{})
		require.NoError(t, err)
		held(t, other, "r")
		require.Empty(t, changed)
	}
	require.Equal(t, before, ask[int](t, "public", "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'public'"))
}

// What the package comment lists is what roles need, and not more than they need.
func TestRoles(t *testing.T) {
	schema := newSchema(t)
	db := ask[string](t, "public", "SELECT current_database()")
	role := func(name string) string { return name + "_" + schema }
	t.Cleanup(func() {
		for _, name := range []string{"owner", "user", "reader"} {
			exec1(t, "public", "DROP OWNED BY "+role(name)+" CASCADE; DROP ROLE "+role(name))
		}
	})
	exec1(t, "public", strings.NewReplacer("OWNER", role("owner"), "USER", role("user"), "READER", role("reader"), "DB", db).Replace(
		`CREATE ROLE OWNER LOGIN; CREATE ROLE USER LOGIN; CREATE ROLE READER LOGIN; GRANT CREATE ON DATABASE DB TO OWNER`))
	as := func(name string) string { return with(dsn(t), map[string]string{"user": role(name)}) }
	fails(t, as("user"), schema, "the user lacks a privilege", "migrate as the owner")
	require.NoError(t, postgres.Migrate(t.Context(), as("owner"), postgres.Schema(schema)))
	fails(t, as("user"), schema, "the user lacks a privilege")

	grants := func(text string) {
		owner, err := pgx.Connect(t.Context(), as("owner"))
		require.NoError(t, err)
		defer owner.Close(context.Background())
		_, err = owner.Exec(t.Context(), strings.NewReplacer("pawl_user", role("user"), "pawl_reader", role("reader"), "SCHEMA pawl", "SCHEMA "+schema,
			" pawl.", " "+schema+".").Replace(text))
		require.NoError(t, err)
	}
	for _, text := range documented(t) {
		grants(text)
	}
	s, err := postgres.Open(t.Context(), as("user"), postgres.Schema(schema))
	require.NoError(t, err)
	l := held(t, s, "r")
	require.NoError(t, add(t, s, l, 1))
	require.NoError(t, add(t, s, held(t, s, "other"), 1))
	_, err = s.Send(t.Context(), "r", journal.Message{Key: "k"})
	require.NoError(t, err)
	_, err = s.Renew(t.Context(), l, 0)
	require.NoError(t, err)
	require.NoError(t, s.Delete(t.Context(), "r"))
	for range 2 {
		require.NoError(t, s.Announce(t.Context(), "q", []journal.Program{theProgram()}))
		_, err = s.Create(t.Context(), queued("queued"))
		require.NoError(t, err)
		taken, err := s.Take(t.Context(), journal.Take{Queue: "q", Programs: []journal.Program{theProgram()}, Limit: 1, Held: 1, Orphans: true})
		require.NoError(t, err)
		require.Len(t, taken, 1)
		_, err = s.TakeStranded(t.Context(), journal.Take{Queue: "q", Limit: 1}, time.Hour)
		require.NoError(t, err)
		_, err = s.Renew(t.Context(), taken[0].Lease, 0)
		require.NoError(t, err)
		require.NoError(t, s.Delete(t.Context(), "queued"))
		exec1(t, schema, "UPDATE workers SET seen = seen - interval '1 hour'")
	}
	_, err = s.Prune(t.Context(), time.Now())
	require.NoError(t, err)
	require.NoError(t, s.Close())
	for _, sql := range []string{"DROP TABLE runs", "UPDATE events SET seq = 2", "UPDATE inbox SET seq = 2", "DELETE FROM workers", "CREATE TABLE x ()", "DELETE FROM pawl_schema"} {
		refused(t, as("user"), schema, sql)
	}

	reader, err := postgres.Open(t.Context(), as("reader"), postgres.Schema(schema))
	require.NoError(t, err)
	defer reader.Close()
	require.Len(t, read(t, reader, "other"), 2)
	_, err = reader.List(t.Context(), journal.Query{})
	require.NoError(t, err)
	_, err = reader.Create(t.Context(), newRun("new"))
	require.ErrorContains(t, err, "the user lacks a privilege")
	require.NotErrorIs(t, err, journal.ErrUnavailable)
}

func refused(t *testing.T, dsn, schema, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), "SET search_path = "+schema)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), sql)
	require.ErrorContains(t, err, "42501", sql)
}

// Every connection that writes is durable and waits, whatever the defaults of the database are.
func TestSettingsOfConnections(t *testing.T) {
	own(t)
	for name, value := range map[string]string{
		"synchronous_commit": "off", "default_transaction_isolation": "serializable", "idle_session_timeout": "'1s'", "plan_cache_mode": "auto",
	} {
		exec1(t, "public", "ALTER ROLE owner SET "+name+" = "+value)
		t.Cleanup(func() { exec1(t, "public", "ALTER ROLE owner RESET "+name) })
	}
	s := open(t, newSchema(t))
	for name, want := range map[string]string{
		"synchronous_commit": "on", "default_transaction_isolation": "read committed", "idle_session_timeout": "0",
		"plan_cache_mode": "force_generic_plan", "application_name": s.Schema(),
	} {
		got, err := s.Settings(name)
		require.NoError(t, err)
		assert.Equal(t, want, got, name)
	}
}

// After Close there is no connection left.
func TestCloseLeavesNothing(t *testing.T) {
	s := open(t, newSchema(t))
	require.NoError(t, add(t, s, held(t, s, "r"), 1))
	_, err := s.Load(t.Context(), "r")
	require.NoError(t, err)
	lock := s.Lock()
	count := "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND (classid::bigint << 32) + objid::bigint = $1"
	require.Equal(t, 1, ask[int](t, "public", count, lock))
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "again")
	require.Eventually(t, func() bool { return ask[int](t, "public", count, lock) == 0 }, 5*time.Second, time.Millisecond)
}

func TestCallsBehindCloseSaySo(t *testing.T) {
	s := open(t, newSchema(t))
	l := held(t, s, "r")
	_, stop := s.Watch("r")
	require.NoError(t, s.Close())
	stop()
	s.Watch("r")
	ctx := context.Background()
	_, create := s.Create(ctx, newRun("x"))
	_, load := s.Load(ctx, "r")
	_, acquire := s.Acquire(ctx, "r", journal.Claim{TTL: time.Second})
	_, renew := s.Renew(ctx, l, time.Second)
	_, give := s.Renew(ctx, l, 0)
	_, send := s.Send(ctx, "r", journal.Message{})
	_, inbox := s.Inbox(ctx, "r", 0)
	_, list := s.List(ctx, journal.Query{})
	_, prune := s.Prune(ctx, time.Now())
	_, take := s.Take(ctx, journal.Take{})
	_, stranded := s.TakeStranded(ctx, journal.Take{}, 0)
	announced := s.Announce(ctx, "q", nil)
	var events error
	for _, events = range s.Events(ctx, "r", 0) {
	}
	for i, err := range []error{create, load, acquire, renew, give, send, inbox, list, prune, take, stranded, announced, events, add(t, s, l, 1), s.Delete(ctx, "r")} {
		require.ErrorIs(t, err, fs.ErrClosed, "call %d", i)
		require.ErrorContains(t, err, s.Place())
		require.ErrorContains(t, err, "open it again")
	}
}

// Close waits for what is under way, and what it has waited for is written.
func TestCloseWaitsForWrites(t *testing.T) {
	s := open(t, newSchema(t))
	l := held(t, s, "r")
	reached, goOn := make(chan struct{}), make(chan struct{})
	s.At("before the transaction", func() error { s.At("", nil); close(reached); <-goOn; return nil })
	written, closed := make(chan error, 1), make(chan error, 1)
	go func() { written <- add(t, s, l, 1) }()
	<-reached
	go func() { closed <- s.Close() }()
	select {
	case <-closed:
		t.Fatal("closed with a write under way")
	case <-time.After(20 * time.Millisecond):
	}
	close(goOn)
	require.NoError(t, <-written)
	require.NoError(t, <-closed)
	require.Len(t, read(t, open(t, s.Schema()), "r"), 2)
}

// Times are the server's, so machines whose clocks differ agree on when a lease ends.
func TestTimesAreTheServers(t *testing.T) {
	s := open(t, newSchema(t))
	l := held(t, s, "r")
	r, err := s.Load(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, time.Hour, l.Until.Sub(r.Created))
	require.True(t, ask[bool](t, s.Schema(), "SELECT created BETWEEN clock_timestamp() - interval '20 s' AND clock_timestamp() FROM runs"))
}
