// Fleet is a hundred agents on a few workers. Kill any worker, and watch the others take over.
//
//	plan ──> search, one task a query ──> rest ──> write
//
// Run it with
//
//	go run ./examples/agents/fleet
//
// It starts four workers as processes of their own and a hundred runs, and shows who runs what until all are done, about half a
// minute. The runs are in a SQLite file. With a PostgreSQL they may be on many machines: in two terminals,
//
//	go run ./examples/agents/fleet -store postgres://user@localhost/db
//	go run ./examples/agents/fleet -store postgres://user@localhost/db -role worker
//
// The second one adds a worker. The table has the process ids: kill -9 one of them. Within seconds the others have its runs.
// What these had recorded is served, and what was under way is done again. Meanwhile or afterwards look into a run:
//
//	go run ./cmd/pawl --store postgres://user@localhost/db runs list
//
// The model is a scripted one in the worker's process, and takes its time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/postgres"
	"github.com/pawl-go/pawl/journal/sqlite"
	"github.com/pawl-go/pawl/worker"
)

// options are what the command line says.
type options struct {
	store, role, name string
	workers, runs     int
	ttl               time.Duration
	latency           time.Duration
}

func main() {
	log.SetFlags(0)
	var o options
	flag.StringVar(&o.store, "store", "", "where the runs are: a postgres:// URL, or a SQLite file; empty is a new file")
	flag.StringVar(&o.role, "role", "fleet", `"fleet" starts workers and runs and shows them; "worker" is one more worker`)
	flag.StringVar(&o.name, "name", fmt.Sprintf("w-%d", os.Getpid()), "for a worker: its name")
	flag.IntVar(&o.workers, "workers", 4, "how many workers to start")
	flag.IntVar(&o.runs, "runs", 100, "how many runs to start")
	flag.DurationVar(&o.ttl, "ttl", 5*time.Second, "after how long a worker that hangs is given up; one that is dead is noticed sooner")
	flag.DurationVar(&o.latency, "latency", 2*time.Second, "how long the model takes for an answer")
	flag.Parse()
	if err := run(o); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func run(o options) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch o.role {
	case "worker":
		return work(ctx, o)
	case "fleet":
		return lead(ctx, o, os.Stdout)
	}
	return fmt.Errorf(`-role %q: use "fleet" or "worker"`, o.role)
}

// work is the process of a worker.
func work(ctx context.Context, o options) error {
	store, err := open(ctx, o.store)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // all that counts is written
	agent, err := newAgent(o.latency)
	if err != nil {
		return err
	}
	w, err := worker.New(worker.Config{
		Store: store, Name: o.name, LockTTL: o.ttl, Concurrency: 8,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return err
	}
	if err := w.Register(agent); err != nil {
		return err
	}
	log.Printf("worker %s, process %d", o.name, os.Getpid())
	return w.Run(ctx)
}

// closable is a store that holds something open.
type closable interface {
	journal.Store
	journal.Lister
	io.Closer
}

// open opens the store that a URL or a path names.
func open(ctx context.Context, name string) (closable, error) {
	switch {
	case name == "":
		return nil, errors.New("-store is empty: a worker needs the store of its fleet")
	case strings.HasPrefix(name, "postgres://"), strings.HasPrefix(name, "postgresql://"), strings.HasPrefix(name, "host="):
		return postgres.Open(ctx, name)
	}
	return sqlite.Open(name) //nolint:contextcheck // opening a file is not cut short
}

// lead starts the workers and the runs, and shows them.
func lead(ctx context.Context, o options, out io.Writer) error {
	if o.store == "" {
		folder, err := os.MkdirTemp("", "fleet")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder) //nolint:errcheck // it is in the system's folder for such things
		o.store = filepath.Join(folder, "runs.db")
	}
	store, err := open(ctx, o.store)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // all that counts is written
	f := fleet{options: o, store: store, out: out}
	defer f.stop()
	return f.run(ctx)
}
