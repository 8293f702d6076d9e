package bench_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/worker"
)

// newRaw is the floor: what the driver does with rows like those of package postgres, one a commit, on one connection.
func newRaw(tb testing.TB) contender {
	tb.Helper()
	const enough = 500
	conn := connect(tb)
	ctx := context.Background()
	_, err := conn.Exec(ctx, `DROP TABLE IF EXISTS raw;
		CREATE TABLE raw (run bigint NOT NULL, seq bigint NOT NULL, n integer NOT NULL, data bytea NOT NULL, PRIMARY KEY (run, seq))`)
	require.NoError(tb, err)
	row := journal.EncodeRow("run-0", 1, []journal.Event{{Kind: journal.StepDone, Name: "s", Time: time.Now(), Payload: []byte("1")}})
	var seq int64
	insert := func(runs, steps int) int {
		n := min(runs*steps, enough)
		for range n {
			seq++
			if _, err := conn.Exec(ctx, "INSERT INTO raw (run, seq, n, data) VALUES ($1, $2, 1, $3)", int64(1), seq, row); err != nil {
				tb.Fatal(err)
			}
		}
		return n
	}
	return contender{name: "raw", do: insert, rows: "SELECT count(*) FROM raw"}
}

// workflow is a workflow that does as many no-op steps as it is told, and then calls ended.
func workflow(name string, ended func()) *durable.Definition[int, int] {
	return durable.Workflow(name, func(ctx context.Context, steps int) (int, error) {
		for i := range steps {
			if _, err := durable.Step(ctx, "s", func(context.Context) (int, error) { return i, nil }); err != nil {
				return 0, err
			}
		}
		ended()
		return steps, nil
	})
}

// newInline runs workflows in this process until they have ended, with durable.Run.
func newInline(tb testing.TB, store journal.Store) contender {
	tb.Helper()
	wf := workflow("inline", func() {})
	began := 0
	run := func(runs, steps int) int {
		var all sync.WaitGroup
		for range runs {
			began++
			id := fmt.Sprint("run-", began)
			all.Go(func() {
				_, err := durable.Run(context.Background(), store, wf, id, steps)
				assert.NoError(tb, err)
			})
		}
		all.Wait()
		return runs * steps
	}
	return contender{name: "inline", do: run, rows: "SELECT count(*) FROM " + schemaOf(tb) + ".events"}
}

// newQueued starts runs with a client, for a worker that takes them, and waits until the last has done its steps.
func newQueued(tb testing.TB, store journal.Store) contender {
	tb.Helper()
	var all sync.WaitGroup
	wf := workflow("queued", all.Done)
	work(tb, store, wf)
	c, err := client.New(store, client.Config{})
	require.NoError(tb, err)
	run := func(runs, steps int) int {
		all.Add(runs)
		for range runs {
			go func() {
				_, err := client.Start(context.Background(), c, wf, steps)
				assert.NoError(tb, err)
			}()
		}
		all.Wait()
		return runs * steps
	}
	return contender{name: "queued", do: run, rows: "SELECT count(*) FROM " + schemaOf(tb) + ".events"}
}

// work has a worker run a workflow until the benchmark ends.
func work(tb testing.TB, store journal.Store, wf durable.Executable) {
	tb.Helper()
	w, err := worker.New(worker.Config{Store: store, Logger: quiet()})
	require.NoError(tb, err)
	require.NoError(tb, w.Register(wf))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		assert.NoError(tb, <-done)
	})
}

// newDBOS runs workflows in this process until they have ended, as its documentation shows it, with a connection for each run: its
// default of 20, and 50, are no faster.
func newDBOS(tb testing.TB) contender {
	tb.Helper()
	ctx, err := dbos.NewContext(context.Background(), dbos.Config{
		AppName: "bench", DatabaseURL: dsn(tb) + " pool_max_conns=100", Logger: quiet(),
	})
	require.NoError(tb, err)
	wf := func(ctx dbos.Context, steps int) (int, error) {
		for i := range steps {
			if _, err := dbos.RunAsStep(ctx, func(context.Context) (int, error) { return i, nil }, dbos.WithStepName("s")); err != nil {
				return 0, err
			}
		}
		return steps, nil
	}
	dbos.RegisterWorkflow(ctx, wf, dbos.WithWorkflowName("nothing"))
	require.NoError(tb, dbos.Launch(ctx))
	tb.Cleanup(func() { assert.NoError(tb, dbos.Shutdown(ctx, time.Minute)) })
	run := func(runs, steps int) int {
		var all sync.WaitGroup
		for range runs {
			all.Go(func() {
				h, err := dbos.RunWorkflow(ctx, wf, steps)
				if assert.NoError(tb, err) {
					_, err = h.GetResult()
					assert.NoError(tb, err)
				}
			})
		}
		all.Wait()
		return runs * steps
	}
	return contender{name: "dbos", do: run, rows: "SELECT count(*) FROM dbos.operation_outputs"}
}
