package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

const (
	dsnEnv = "PAWL_POSTGRES_DSN"
	remedy = "no PostgreSQL for the tests of journal/postgres: install it (apt-get install postgresql), so that initdb and pg_ctl are in " +
		"PATH or /usr/lib/postgresql, or name a server's database that the tests may make schemas and roles in: " +
		dsnEnv + "=postgres://user@host:5432/database"
)

// server is the private PostgreSQL of this test binary, or the one that the environment names.
type server struct {
	dsn    string
	folder string // "" if it is not ours
	bin    string
	keeper io.Closer // stops the server when it is closed, also by the death of this process
	gone   *exec.Cmd
	err    error
}

var theServer server

// launch starts the server. Without one, tests are skipped with the remedy.
func (s *server) launch() {
	if s.dsn = os.Getenv(dsnEnv); s.dsn != "" {
		return
	}
	if s.err = s.init(); s.err != nil {
		fmt.Fprintln(os.Stderr, s.err)
	}
}

func (s *server) init() error {
	var err error
	if s.bin, err = programs(); err != nil {
		return err
	}
	// Short, since the path of a socket must be.
	if s.folder, err = os.MkdirTemp("", "pawlpg"); err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(s.folder, 0o755), ownFolder(s.folder)); err != nil {
		return err
	}
	if err := s.program("initdb", "-D", s.data(), "-U", "owner", "-A", "trust", "-E", "UTF8", "--no-locale"); err != nil {
		return err
	}
	conf := "listen_addresses = ''\nunix_socket_directories = '" + s.folder + "'\nmax_connections = 150\n" +
		"shared_buffers = 64MB\nfsync = off\nsynchronous_commit = on\nlog_min_messages = warning\n"
	hba := "local all locked scram-sha-256\nlocal postgres all trust\nlocal all owner trust\n"
	if err := errors.Join(appendTo(filepath.Join(s.data(), "postgresql.conf"), conf),
		os.WriteFile(filepath.Join(s.data(), "pg_hba.conf"), []byte(hba), 0o600)); err != nil {
		return err
	}
	if err := s.keep(); err != nil {
		return err
	}
	s.dsn = "host=" + s.folder + " user=owner dbname=postgres"
	return s.ctl("start")
}

func (s *server) data() string { return filepath.Join(s.folder, "data") }

// keep starts a process that stops the server and removes its files once its standard input ends.
func (s *server) keep() error {
	script := `cat >/dev/null; "$0/pg_ctl" -D "$1/data" -m immediate -w stop >/dev/null 2>&1; rm -rf "$1"`
	s.gone = exec.Command("sh", "-c", script, s.bin, s.folder)
	asServer(s.gone)
	s.gone.Dir = s.folder
	in, err := s.gone.StdinPipe()
	s.keeper = in
	return errors.Join(err, s.gone.Start())
}

// ctl starts, stops or restarts the server.
func (s *server) ctl(action string, args ...string) error {
	return s.program("pg_ctl", append([]string{"-D", s.data(), "-w", "-l", filepath.Join(s.folder, "log"), action}, args...)...)
}

func (s *server) program(name string, args ...string) error {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.folder
	asServer(cmd)
	// To a file: a pipe would be held open by the server.
	out, err := os.CreateTemp("", "pawlpg")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(out.Name())
		return fmt.Errorf("%s: %w: %s", name, err, text)
	}
	return nil
}

func (s *server) stop() {
	if s.keeper == nil {
		return
	}
	s.keeper.Close()
	_ = s.gone.Wait()
	os.RemoveAll(s.folder)
}

// programs returns the folder of the newest PostgreSQL of this machine.
func programs() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", errors.New(remedy)
	}
	return filepath.Dir(slices.Max(found)), nil
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
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
	if dsn(tb); theServer.folder == "" {
		tb.Skip("not on a server that others use: unset " + dsnEnv)
	}
}

// durable makes the server sync what it commits, for the length of a test. It need not for tests of what has no crash.
func durable(tb testing.TB) {
	tb.Helper()
	if dsn(tb); theServer.folder == "" {
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
