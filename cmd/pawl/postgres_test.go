package main

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal/postgres"
	"github.com/pawl-go/pawl/journal/postgres/postgrestest"
)

const password = "hunter2'x%41"

func TestRunsInPostgreSQLAreActedOnAndNoPasswordIsPrinted(t *testing.T) {
	server, err := postgrestest.Start()
	if errors.Is(err, postgrestest.ErrNoPostgreSQL) {
		t.Skip(err)
	}
	require.NoError(t, err)
	defer server.Stop()
	dsn := server.DSN()
	sh := newShell(t)
	pg := "postgres:" + dsn

	r := sh.raw("runs", "list", "--store", pg)
	assert.Equal(t, exitNoStore, r.code, "nothing is made by looking at it")
	assert.Contains(t, r.err, "has no journal: give the database that your program writes to, and with --schema")
	require.Equal(t, r, sh.raw("runs", "list", "--store", pg))

	db, err := postgres.Open(t.Context(), dsn, postgres.Schema("cli"))
	require.NoError(t, err)
	defer db.Close()
	_, err = durable.Run(t.Context(), db, asking[string]("a"), "r", "")
	require.ErrorAs(t, err, new(*durable.SuspendedError))

	secret := []string{
		fmt.Sprintf(`postgres:%s password='%s'`, dsn, strings.ReplaceAll(password, "'", `\'`)),
		"postgres://owner:hunter2%27x%2541@/postgres?host=" + filepath.Dir(server.Socket()),
		"postgresql://owner@/postgres?password=hunter2%27x%2541&host=" + filepath.Dir(server.Socket()),
	}
	for _, spec := range append(secret, pg) {
		for _, args := range []string{"runs list", "runs show r"} {
			r := sh.raw(append(strings.Fields(args), "--store", spec, "--schema", "cli")...)
			require.Zero(t, r.code, r.err)
			assert.NotContains(t, r.out+r.err, "hunter2")
		}
		r := sh.raw("runs", "show", "nobody", "--store", spec, "--schema", "cli")
		assert.Equal(t, exitNotFound, r.code)
		assert.Contains(t, r.err, "the store is ")
		assert.NotContains(t, r.err, "hunter2")
		r = sh.raw("runs", "list", "--store", spec, "--schema", "other")
		assert.Equal(t, exitNoStore, r.code)
		assert.NotContains(t, r.err, "hunter2")
	}
	out := sh.raw("runs", "show", "r", "--store", pg, "--schema", "cli").out
	assert.Contains(t, out, "pawl --store '"+pg+"' --schema cli runs answer r a#1/ask1 VALUE", "the commands it proposes can be pasted")

	sh.env = map[string]string{"PAWL_STORE": secret[0], "PAWL_SCHEMA": "cli"}
	assert.Contains(t, sh.raw("runs", "answer", "r", "-", "-s", "yes").out, "answered a#1/ask1 of run r")
	_, err = durable.Resume(t.Context(), db, asking[string]("a"), "r")
	require.NoError(t, err)
	assert.Equal(t, result{out: "[\"yes\"]\n"}, sh.raw("runs", "result", "r"))
	assert.Equal(t, result{out: "started run s in queue default\n"}, sh.raw("runs", "start-like", "r", "--id", "s"))
	assert.Equal(t, result{out: "run s is cancelled\n"}, sh.raw("runs", "cancel", "s"))
}

func TestAPasswordIsNeverPrinted(t *testing.T) {
	sh := newShell(t)
	for _, args := range [][]string{
		{"--store", "postgres://user:hunter2@127.0.0.1:1/db", "runs", "list"},
		{"--store", "postgres:host=127.0.0.1 port=1 user=user password=hunter2", "runs", "list"},
		{"--store", "postgres://user:hunter2@127.0.0.1:notaport/db", "runs", "list"},
		{"--store", "postgres://user:hunter2%zz@127.0.0.1/db", "runs", "list"},
		{"--store", "postgres://user:hunter2@127.0.0.1/db?sslmode=hunter2", "runs", "list"},
		{"--store", "postgres:host=127.0.0.1 password='hunter2", "runs", "list"},
		{"--store", "postgres:user:hunter2@host", "runs", "list"},
		{"--store", "postgre://user:hunter2@host/db", "runs", "list"},
		{"--store", "user:hunter2@host/db", "runs", "list", "--json"},
		{"--store", "host=127.0.0.1 password=hunter2", "runs", "list"},
		{"runs", "list", "postgres://user:hunter2@host/db"},
		{"postgres://user:hunter2@host/db", "runs", "list", "--json"},
		{"runs", "list", "--stor", "host=x password='hunter2 hunter2'"},
	} {
		r := sh.raw(args...)
		assert.NotZero(t, r.code, args)
		assert.NotEmpty(t, r.err, args)
		assert.NotContains(t, r.out+r.err, "hunter2", args)
	}
}

func TestAStoreIsShownWithoutItsPassword(t *testing.T) {
	for spec, want := range map[string]string{
		"pawl.db":                                         "pawl.db",
		"postgres://u@h:5433/db?sslmode=disable":          "postgres://u@h:5433/db?sslmode=disable",
		"postgres://u:secret@h/db?sslmode=disable":        "postgres://u@h/db?sslmode=disable",
		"postgres://h/db?password=secret&user=u":          "postgres://h/db?user=u",
		"postgres:host=h user=u dbname=db":                "postgres:host=h user=u dbname=db",
		"postgres:host=h user=u password=secret dbname=d": "postgres:host=h:5432 user=u dbname=d",
		"postgres:host=h pass word":                       "postgres:...",
	} {
		t.Setenv("PGPORT", "5432")
		assert.Equal(t, want, shownStore(spec))
	}
}

func FuzzAStoreIsShownWithoutItsPassword(f *testing.F) {
	f.Add("user", "hunter2", "host", "db")
	f.Add("", "p@ss:w/rd", "[::1]:5432", "a b")
	f.Add("u", `it's`, "h1:1,h2:2", `\`)
	f.Fuzz(func(t *testing.T, user, secret, host, db string) {
		const marked = "hunter2-"
		if strings.Contains(user+host+db, marked) {
			return
		}
		secret = marked + secret
		pair := func(v string) string { return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v) + "'" }
		for _, spec := range []string{
			(&url.URL{Scheme: "postgres", User: url.UserPassword(user, secret), Host: host, Path: "/" + db}).String(),
			fmt.Sprintf("postgres://%s:%s@%s/%s", user, secret, host, db),
			fmt.Sprintf("postgres://%s/%s?user=%s&password=%s", host, db, user, secret),
			fmt.Sprintf("postgres:host=%s user=%s dbname=%s password=%s", pair(host), pair(user), pair(db), pair(secret)),
		} {
			assert.NotContains(t, shownStore(spec), marked, spec)
		}
	})
}
