// Package postgrestest starts private PostgreSQL servers for tests, from the programs that are on the machine.
package postgrestest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Remedy says how to get what Start needs.
const Remedy = "no PostgreSQL on this machine: install it (apt-get install postgresql), so that initdb and pg_ctl are in PATH or in " +
	"/usr/lib/postgresql"

// ErrNoPostgreSQL is the error of Start where the programs are missing.
var ErrNoPostgreSQL = errors.New(Remedy)

// Server is a PostgreSQL of this process, that listens on a Unix socket alone. It is stopped, and its files are removed, by
// Stop or by the death of this process. It is not safe for concurrent use.
type Server struct {
	folder, bin string
	keeper      io.Closer // stops the server when it is closed
	gone        *exec.Cmd
}

// Start starts a server. Its superuser is "owner", and its data is as safe as the machine's memory: it does not sync.
func Start() (*Server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	// Short, since the path of a socket must be.
	folder, err := os.MkdirTemp("", "pawlpg")
	if err != nil {
		return nil, err
	}
	s := &Server{folder: folder, bin: bin}
	if err := s.begin(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Server) begin() error {
	if err := errors.Join(os.Chmod(s.folder, 0o755), ownFolder(s.folder)); err != nil { //nolint:gosec // the server may be another user
		return err
	}
	if err := s.program("initdb", "-D", s.data(), "-U", "owner", "-A", "trust", "-E", "UTF8", "--no-locale"); err != nil {
		return err
	}
	conf := "listen_addresses = ''\nunix_socket_directories = '" + s.folder + "'\nmax_connections = 150\n" +
		"shared_buffers = 64MB\nfsync = off\nsynchronous_commit = on\nlog_min_messages = warning\n"
	hba := "local all locked scram-sha-256\nlocal postgres all trust\nlocal all owner trust\n"
	err := errors.Join(appendTo(filepath.Join(s.data(), "postgresql.conf"), conf),
		os.WriteFile(filepath.Join(s.data(), "pg_hba.conf"), []byte(hba), 0o600))
	if err != nil {
		return err
	}
	if err := s.keep(); err != nil {
		return err
	}
	return s.Control("start")
}

// DSN names the server's database.
func (s *Server) DSN() string { return "host=" + s.folder + " user=owner dbname=postgres" }

// Socket is the path of the server's socket.
func (s *Server) Socket() string { return filepath.Join(s.folder, ".s.PGSQL.5432") }

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

// keep starts a process that stops the server and removes its files once its standard input ends.
func (s *Server) keep() error {
	script := `cat >/dev/null; "$0/pg_ctl" -D "$1/data" -m immediate -w stop >/dev/null 2>&1; rm -rf "$1"`
	s.gone = exec.Command("sh", "-c", script, s.bin, s.folder) //nolint:gosec,noctx // its own script, which outlives all contexts
	asServer(s.gone)
	s.gone.Dir = s.folder
	in, err := s.gone.StdinPipe()
	if err != nil {
		return err
	}
	s.keeper = in
	return s.gone.Start()
}

// Control calls pg_ctl: "start", "stop" or "restart", with further arguments.
func (s *Server) Control(action string, args ...string) error {
	return s.program("pg_ctl", append([]string{"-D", s.data(), "-w", "-l", filepath.Join(s.folder, "log"), action}, args...)...)
}

func (s *Server) program(name string, args ...string) error {
	cmd := exec.Command(filepath.Join(s.bin, name), args...) //nolint:gosec,noctx // of PostgreSQL
	cmd.Dir = s.folder
	asServer(cmd)
	// To a file: a pipe would be held open by the server.
	out, err := os.CreateTemp("", "pawlpg")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(out.Name()) }()
	defer func() { _ = out.Close() }()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(out.Name())
		return fmt.Errorf("%s: %w: %s", name, err, text)
	}
	return nil
}

// Kill ends the server and its sessions with SIGKILL, as a crash would.
func (s *Server) Kill() error {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		return err
	}
	return killAll(pid)
}

// Restart starts the server again after Kill, and returns when it has recovered.
func (s *Server) Restart() error {
	const patience, wait = 30 * time.Second, 50 * time.Millisecond
	deadline := time.After(patience)
	for { // the last of its sessions may not be gone yet
		err := s.Control("start")
		if err == nil {
			return nil
		}
		select {
		case <-deadline:
			return err
		case <-time.After(wait):
		}
	}
}

// Stop stops the server and removes its files.
func (s *Server) Stop() {
	if s.keeper != nil {
		_ = s.keeper.Close()
		_ = s.gone.Wait()
	}
	_ = os.RemoveAll(s.folder)
}

// programs returns the folder of the newest PostgreSQL of this machine.
func programs() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", ErrNoPostgreSQL
	}
	return filepath.Dir(slices.Max(found)), nil
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0) //nolint:gosec // in its own folder
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
