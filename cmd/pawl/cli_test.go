package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/sqlite"
)

func TestHelpDocumentsEveryCommandAndTheExitCodes(t *testing.T) {
	sh := newShell(t)
	none := sh.raw()
	help := sh.raw("--help")
	assert.Equal(t, none, help, "without a command there is help")
	assert.Zero(t, help.code)
	golden(t, "help.txt", help.out)
	for name := range commands {
		r := sh.raw(append(strings.Fields(name), "--help")...)
		assert.Zero(t, r.code)
		assert.Contains(t, r.out, "Usage: pawl "+name)
		assert.Empty(t, r.err)
	}
}

func TestAWrongCommandLineIsUsage(t *testing.T) {
	sh := newShell(t)
	sh.with(func(*sqlite.Store) {})
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"runs"}, `see "pawl runs --help"`},
		{[]string{"runs", "lst"}, `did you mean "list"`},
		{[]string{"runs", "show"}, `expected "<id>"`},
		{[]string{"runs", "list", "--color"}, "unknown flag --color"},
		{[]string{"runs", "list", "--status", "broken"}, `--status "broken": it is one of pending, running`},
		{[]string{"runs", "list", "--kind", "dag"}, `--kind "dag": it is graph or workflow`},
		{[]string{"runs", "list", "--limit", "0"}, "--limit 0: it is at least 1"},
		{[]string{"runs", "list", "--limit", "many"}, "--limit"},
		{[]string{"runs", "list", "--cursor", "x"}, `--cursor "x": it is none that a page has ended with`},
		{[]string{"runs", "events", "r", "--after", "x"}, "--after"},
	} {
		r := sh.pawl(tt.args...)
		assert.Equal(t, exitUsage, r.code, tt.args)
		assert.Contains(t, r.err, tt.want)
		assert.Equal(t, 1, strings.Count(r.err, "\n"), r.err)
		assert.True(t, strings.HasPrefix(r.err, "pawl: "), r.err)
		assert.Empty(t, r.out)
	}
}

func TestErrorsAreJSONWithJSON(t *testing.T) {
	sh := newShell(t)
	sh.with(func(*sqlite.Store) {})
	for _, tt := range []struct {
		args []string
		code int
	}{
		{[]string{"runs", "show", "nobody", "--json"}, exitNotFound},
		{[]string{"runs", "lst", "--json"}, exitUsage},
	} {
		r := sh.pawl(tt.args...)
		var e errorReport
		require.NoError(t, json.Unmarshal([]byte(r.err), &e), r.err)
		assert.Equal(t, tt.code, e.Exit)
		assert.Equal(t, tt.code, r.code)
		assert.True(t, strings.HasPrefix(e.Error, "pawl: "))
	}
	assert.True(t, strings.HasPrefix(sh.pawl("runs", "show", "--", "--json").err, "pawl: "), "behind -- it is an id")
}

func TestWhereTheStoreComesFrom(t *testing.T) {
	sh := newShell(t)
	sh.with(func(db *sqlite.Store) {
		put(t, db, workflow("r"), journal.Event{Kind: journal.RunComplete})
	})
	t.Chdir(filepath.Dir(sh.path))
	other := newShell(t)
	other.with(func(*sqlite.Store) {})
	has := func(r result) bool {
		require.Zero(t, r.code, r.err)
		return strings.Contains(r.out, "completed")
	}
	assert.True(t, has(sh.raw("runs", "list")), "pawl.db in the working directory is the default")
	assert.True(t, has(sh.raw("runs", "list", "--store", sh.path)), "a flag may stand anywhere")
	assert.True(t, has(sh.raw("--store", "sqlite:"+sh.path, "runs", "list")))
	assert.True(t, has(sh.raw("--store=sqlite:pawl.db", "runs", "list")))
	sh.env = map[string]string{"PAWL_STORE": other.path}
	assert.False(t, has(sh.raw("runs", "list")), "the environment comes before the default")
	assert.True(t, has(sh.raw("runs", "list", "--store", sh.path)), "and the flag before both")
}

func TestAStoreThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	foreign := filepath.Join(dir, "foreign.db")
	db, err := sql.Open("sqlite", foreign)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "CREATE TABLE songs (title)")
	require.NoError(t, err)
	require.NoError(t, db.Close())

	missing := filepath.Join(dir, "missing.db")
	for _, tt := range []struct {
		store string
		code  int
		want  string
	}{
		{missing, exitNoStore, "there is no file " + missing + ": give --store, or set PAWL_STORE to"},
		{filepath.Join(dir, "no", "folder.db"), exitNoStore, "there is no file"},
		{file("empty.db", ""), exitNoStore, "is empty: no program has written a run to it"},
		{file("text.db", strings.Repeat("no database ", 100)), exitNoStore, "the file is no SQLite database"},
		{foreign, exitNoStore, "it is another program's database"},
		{dir, exitNoStore, "it is not a file: give it the path of one"},
		{"postgres://user:secret@127.0.0.1:1/db", exitNoStore, "the server cannot be reached"},
		{"mysql://user:secret@host/db", exitUsage, `"mysql" is no kind of store: give sqlite:PATH, just PATH, or postgres:DSN`},
		{"sqlite:", exitUsage, "--store names no file"},
	} {
		sh := newShell(t)
		r := sh.raw("runs", "list", "--store", tt.store)
		assert.Equal(t, tt.code, r.code, r.err)
		assert.Contains(t, r.err, tt.want)
		assert.NotContains(t, r.err, "secret")
		assert.Empty(t, r.out)
	}
	assert.NoFileExists(t, missing, "nothing is created")
	assert.NoDirExists(t, missing+"-owners")
}

func TestAStoreThatMayOnlyBeReadIsToBeCopied(t *testing.T) {
	for _, err := range []error{fs.ErrPermission, syscall.EROFS, readOnly{}} {
		assert.True(t, mayOnlyRead(fmt.Errorf("open: %w", err)), err)
	}
	assert.False(t, mayOnlyRead(fs.ErrNotExist))
}

// readOnly is SQLite's SQLITE_READONLY_DBMOVED.
type readOnly struct{}

func (readOnly) Error() string { return "read only" }
func (readOnly) Code() int     { return 1032 }

func TestALockedStoreIsUnavailable(t *testing.T) {
	sh := newShell(t)
	sh.with(func(*sqlite.Store) {})
	db, err := sql.Open("sqlite", sh.path+"?_txlock=exclusive")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback()) }()
	r := sh.pawl("runs", "list")
	assert.Equal(t, exitNoStore, r.code)
	assert.Contains(t, r.err, "another process has had the database locked")
}

func TestADamagedJournalIsAnErrorThatNamesTheRun(t *testing.T) {
	sh := newShell(t)
	sh.with(func(db *sqlite.Store) {
		put(t, db, workflow("r"), journal.Event{Kind: journal.RunComplete})
	})
	db, err := sql.Open("sqlite", sh.path)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "UPDATE events SET row = substr(row, 1, length(row) - 1) || x'00'")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	for _, what := range []string{"show", "events"} {
		r := sh.pawl("runs", what, "r")
		assert.Equal(t, exitFailed, r.code)
		assert.Contains(t, r.err, `pawl: run "r": event 1: journal corrupt`)
	}
}

func TestIDsAreDataWhateverTheyAreMadeOf(t *testing.T) {
	sh := newShell(t)
	ids := []string{
		"-", "--", "--help", "a b", "it's", `"`, "../../etc/passwd", "'; DROP TABLE runs; --", "a\tb\nc", "\x1b[2J", "\u202e evil", "\xff", "潮",
		"$(reboot)", strings.Repeat("x", 10_000), " r", "~", "#1",
	}
	sh.with(func(db *sqlite.Store) {
		for _, id := range ids {
			put(t, db, workflow(id), journal.Event{Kind: journal.RunError, Meta: json.RawMessage(`{"code":"internal"}`)})
		}
	})
	clean := func(text string) {
		t.Helper()
		for line := range strings.Lines(text) {
			assert.True(t, isPrintable(strings.TrimSuffix(line, "\n")), "%q", line)
		}
	}
	clean(sh.ok("runs", "list"))
	clean(sh.pawl("runs", "cancel", "\x1b[2J").err)
	clean(sh.pawl("runs", "show", "\x1b[3J").err)
	for _, id := range ids {
		clean(sh.ok("runs", "show", "--", id))
		clean(sh.pawl("runs", "answer", "--", id, "-", "1").err)
		if id != "\xff" { // JSON has no such strings
			var v shown
			require.NoError(t, json.Unmarshal([]byte(sh.ok("runs", "show", "--json", "--", id)), &v))
			assert.Equal(t, id, v.Run.ID)
		}
	}
}

func TestCommandsThatAreProposedCanBePasted(t *testing.T) {
	s := &session{store: "my runs.db", given: true}
	assert.Equal(t, `pawl --store 'my runs.db' runs retry r-1`, s.command("runs retry", "r-1"))
	s.given = false
	for id, want := range map[string]string{
		"2/review[0]/ask1": `pawl runs show '2/review[0]/ask1'`,
		"it's":             `pawl runs show 'it'\''s'`,
		"a\nb'":            `pawl runs show $'a\nb\''`,
		"-x":               `pawl runs show -- -x`,
		"":                 `pawl runs show ''`,
		"~":                `pawl runs show '~'`,
		"潮":                `pawl runs show '潮'`,
		"east%2Fwest#1":    `pawl runs show east%2Fwest#1`,
	} {
		assert.Equal(t, want, s.command("runs show", id))
	}
}

func TestVersionSaysWhatItIs(t *testing.T) {
	sh := newShell(t)
	assert.Regexp(t, `^pawl \S+ go1\.\S+ \w+/\w+\n$`, sh.raw("version").out)
	var b build
	require.NoError(t, json.Unmarshal([]byte(sh.raw("version", "--json").out), &b))
	assert.NotEmpty(t, b.Version)
	assert.NotEmpty(t, b.Go)
}

// full is a disk that is.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestAnOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	sh := newShell(t)
	sh.with(func(db *sqlite.Store) {
		put(t, db, workflow("r"), journal.Event{Kind: journal.RunComplete})
	})
	var errs strings.Builder
	code := run(t.Context(), []string{"runs", "list", "--store", sh.path}, nil, full{}, &errs, os.Getenv)
	assert.Equal(t, exitFailed, code)
	assert.Equal(t, "pawl: write the output: no space left\n", errs.String())
	assert.Equal(t, exitFailed, run(t.Context(), []string{"runs", "lst"}, nil, io.Discard, full{}, os.Getenv))
}

func TestAnInterruptedCommandSaysSo(t *testing.T) {
	sh := newShell(t)
	sh.with(func(*sqlite.Store) {})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var errs strings.Builder
	assert.Equal(t, exitFailed, run(ctx, []string{"runs", "list", "--store", sh.path}, nil, io.Discard, &errs, os.Getenv))
	assert.Equal(t, "pawl: interrupted\n", errs.String())
}
