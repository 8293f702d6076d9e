package worker_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/sqlite"
	"github.com/pawl-go/pawl/worker"
)

// Workers that come and go over one SQLite file: every run ends, each step is recorded once, each Once called once.
func TestWorkersThatComeAndGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	open := func() *sqlite.Store {
		s, err := sqlite.Open(path)
		require.NoError(t, err)
		return s
	}
	store := open()
	defer store.Close()
	var once [40]atomic.Int64
	child := durable.Workflow("child", func(ctx context.Context, n int) (int, error) {
		_, err := durable.WaitForSignal[int](ctx, "go")
		if err != nil {
			return 0, err
		}
		return durable.Step(ctx, "s", func(context.Context) (int, error) { return n, nil })
	})
	above := durable.Workflow("above", func(ctx context.Context, n int) (int, error) {
		_, err := durable.Once(ctx, "o", func(context.Context) (int, error) { return int(once[n].Add(1)), nil })
		if err != nil {
			return 0, err
		}
		for range 3 {
			_, err := durable.Step(ctx, "s", func(ctx context.Context) (int, error) {
				select {
				case <-time.After(20 * time.Millisecond):
				case <-ctx.Done():
				}
				return 0, ctx.Err()
			})
			if err != nil {
				return 0, err
			}
		}
		return durable.RunChild(ctx, child, n, durable.ChildID(fmt.Sprint("c", n)))
	})
	c, err := client.New(store, client.Config{})
	require.NoError(t, err)
	var all []*client.Handle[int]
	for i := range once {
		h, err := client.Start(t.Context(), c, above, i, client.ID(fmt.Sprint("p", i)))
		require.NoError(t, err)
		all = append(all, h)
	}
	ended := make(chan struct{})
	gone := make(chan struct{})
	for range 3 {
		go func() {
			defer func() { gone <- struct{}{} }()
			for {
				s, err := sqlite.Open(path)
				if !assert.NoError(t, err) {
					return
				}
				w, err := worker.New(worker.Config{Store: s, Concurrency: 8, Grace: -1, Budgets: durable.Budgets{MaxRetries: 100}, Logger: slog.New(slog.DiscardHandler)})
				assert.NoError(t, err)
				assert.NoError(t, w.Register(above, child))
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(50+rand.IntN(400))*time.Millisecond)
				_ = w.Run(ctx) // on a busy machine code may take longer to leave than it has
				cancel()
				assert.NoError(t, s.Close())
				select {
				case <-ended:
					return
				default:
				}
			}
		}()
	}
	for i := range once {
		if t.Failed() {
			break
		}
		assert.Eventually(t, func() bool { return c.Signal(t.Context(), fmt.Sprint("c", i), "go", 1) == nil }, 20*time.Second, 20*time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i, h := range all {
		out, err := h.Result(ctx)
		if !assert.NoError(t, err) {
			run, _ := h.Get(t.Context())
			t.Log(h.ID(), run.Status, kinds(slices.Collect(events(store, h.ID()))))
			continue
		}
		assert.Equal(t, i, out)
		assert.Equal(t, int64(1), once[i].Load())
		steps := 0
		for e := range events(store, h.ID()) {
			if e.Kind == journal.StepDone {
				steps++
			}
		}
		assert.Equal(t, 5, steps)
	}
	close(ended)
	for range 3 {
		<-gone
	}
}

func events(store journal.Store, id string) iter.Seq[journal.Event] {
	return func(yield func(journal.Event) bool) {
		for e, err := range store.Events(context.Background(), id, 0) {
			if err != nil || !yield(e) {
				return
			}
		}
	}
}
