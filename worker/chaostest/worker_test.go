package chaostest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal/postgres"
	"github.com/pawl-go/pawl/worker"
)

// What the process of a worker is told by its environment.
const (
	dsnEnv    = "PAWL_CHAOS_DSN"
	nameEnv   = "PAWL_CHAOS_NAME"
	folderEnv = "PAWL_CHAOS_FOLDER"
)

const lockTTL = 2 * time.Second

func TestMain(m *testing.M) {
	if name := os.Getenv(nameEnv); name != "" {
		if err := work(name, os.Getenv(dsnEnv), os.Getenv(folderEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// work is the process of a worker.
func work(name, dsn, folder string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() { // the test has ended, in whatever way
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	file, err := os.OpenFile(filepath.Join(folder, "calls-"+name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	p, err := newPrograms(&calls{file: file})
	if err != nil {
		return err
	}
	store, err := open(ctx, dsn)
	if err != nil {
		return err
	}
	defer store.Close()
	w, err := worker.New(worker.Config{
		Store: store, Name: name, LockTTL: lockTTL, Poll: 100 * time.Millisecond, Concurrency: 40, Grace: time.Second,
		// Most of what happens here is the loss of owners and of the store.
		Budgets: durable.Budgets{MaxRetries: 500, MaxStoreRequeues: 500},
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	if err := w.Register(p.order, p.part, p.graph); err != nil {
		return err
	}
	return w.Run(ctx)
}

// open opens the store, which may be down just now.
func open(ctx context.Context, dsn string) (*postgres.Store, error) {
	for {
		store, err := postgres.Open(ctx, dsn)
		if err == nil || ctx.Err() != nil {
			return store, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// slot is the place of a worker, which has a new process whenever the last one has ended.
type slot struct {
	number  int
	mu      sync.Mutex // held by who hurts it
	process *process
}

// process is a worker that the test can hurt.
type process struct {
	slot, incarnation int
	cmd               *exec.Cmd
	life              io.Closer // when it is closed, the process ends
}

func (p *process) name() string { return fmt.Sprintf("w%d.%d", p.slot, p.incarnation) }

func (f *field) spawn(slot int) *process {
	p := &process{slot: slot, incarnation: int(f.incarnations.Add(1))}
	p.cmd = exec.Command(f.self)
	p.cmd.Env = append(os.Environ(), nameEnv+"="+p.name(), folderEnv+"="+f.folder, dsnEnv+"="+f.proxied(p.name()))
	log, err := os.Create(filepath.Join(f.folder, "log-"+p.name()))
	if !assert.NoError(f.t, err) {
		return p
	}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.life, err = p.cmd.StdinPipe()
	assert.NoError(f.t, err)
	assert.NoError(f.t, p.cmd.Start())
	assert.NoError(f.t, log.Close())
	return p
}

func (f *field) proxied(name string) string {
	return "host=127.0.0.1 port=" + strconv.Itoa(f.proxy.port()) + " user=owner dbname=postgres sslmode=disable connect_timeout=2 application_name=" + name
}

func (p *process) signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *process) kill() {
	p.signal(os.Kill)
	_ = p.cmd.Wait()
}
