package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal/sqlite"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// asProgram makes the test's binary the program.
const asProgram = "PAWL_TEST_AS_PROGRAM"

// The program as others see it: another process, on a file that is in use here.
func TestTheProgramWorksBesideTheOneThatRunsTheRuns(t *testing.T) {
	sh := newShell(t)
	program := func(in string, args ...string) result {
		cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
		cmd.Env = append(os.Environ(), asProgram+"=1", "PAWL_STORE="+sh.path, "GOCOVERDIR="+t.TempDir())
		var out, errs bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(in), &out, &errs
		_ = cmd.Run()
		return result{out: out.String(), err: errs.String(), code: cmd.ProcessState.ExitCode()}
	}
	sh.with(func(db *sqlite.Store) {
		_, err := durable.Run(t.Context(), db, asking[string]("a"), "r", "")
		require.ErrorAs(t, err, new(*durable.SuspendedError))
		assert.Contains(t, program("", "runs", "show", "r").out, "open question a#1/ask1")
		assert.Zero(t, program("yes\n", "runs", "answer", "r", "-", "-", "--string").code)
		got, err := durable.Run(t.Context(), db, asking[string]("a"), "r", "")
		require.NoError(t, err)
		assert.Equal(t, []string{"yes"}, got)

		put(t, db, workflow("busy"))
		assert.Equal(t, result{out: "run busy is held by worker-1, who is told to cancel it\n"}, program("", "runs", "cancel", "busy"))
		assert.Equal(t, exitRefused, program("", "runs", "answer", "r", "a#1/ask1", "1").code)
		assert.Equal(t, exitNotFound, program("", "runs", "show", "nobody").code)
		assert.Equal(t, exitUsage, program("", "runs", "shwo", "r").code)
	})
	assert.Equal(t, exitNoStore, program("", "runs", "list", "--store", sh.path+".old").code)
}

var update = flag.Bool("update", false, "write the golden files anew")

// result is what a command line has come to.
type result struct {
	out, err string
	code     int
}

// shell runs command lines on one database.
type shell struct {
	t    *testing.T
	path string
	in   string
	env  map[string]string
}

func newShell(t *testing.T) *shell {
	t.Helper()
	return &shell{t: t, path: filepath.Join(t.TempDir(), "pawl.db")}
}

// pawl runs the program, with the store of the shell.
func (sh *shell) pawl(args ...string) result {
	sh.t.Helper()
	return sh.raw(append([]string{"--store", sh.path}, args...)...)
}

func (sh *shell) raw(args ...string) result {
	sh.t.Helper()
	var out, errs bytes.Buffer
	code := run(context.Background(), args, strings.NewReader(sh.in), &out, &errs, func(name string) string { return sh.env[name] })
	return result{out: out.String(), err: errs.String(), code: code}
}

// ok is pawl for a command line that must succeed without a word on standard error.
func (sh *shell) ok(args ...string) string {
	sh.t.Helper()
	r := sh.pawl(args...)
	require.Zero(sh.t, r.code, "%q: %s", args, r.err)
	require.Empty(sh.t, r.err, "%q", args)
	return r.out
}

// read is ok with --json, decoded.
func read[T any](sh *shell, args ...string) T {
	sh.t.Helper()
	var v T
	require.NoError(sh.t, json.Unmarshal([]byte(sh.ok(append(args, "--json")...)), &v))
	return v
}

// with opens the shell's database for a program.
func (sh *shell) with(f func(db *sqlite.Store)) {
	sh.t.Helper()
	db, err := sqlite.Open(sh.path)
	require.NoError(sh.t, err)
	defer func() { require.NoError(sh.t, db.Close()) }()
	f(db)
}

// tempDir is a database in a test's own folder.
var tempDir = regexp.MustCompile(`\S+/00\d/pawl\.db`)

// golden compares a text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	got = tempDir.ReplaceAllString(got, "pawl.db")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "go test -update writes it")
	assert.Equal(t, string(want), got, "if this is right, go test -update writes it anew")
}

func indented(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, json.Indent(&b, []byte(text), "", "  "))
	return b.String()
}
