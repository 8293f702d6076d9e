package worker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/worker"
)

// A run of the child's id that is there already is taken for the child, and tells others of its end, or nobody.
func TestAParentHearsOfAChildThatIsNotItsOwn(t *testing.T) {
	for name, start := range map[string]func(f *fixture) error{
		"of a client": func(f *fixture) error {
			_, err := client.Start(f.t.Context(), f.c, waiter, 1, client.ID("c"))
			return err
		},
		"of another parent": func(f *fixture) error {
			_, err := client.Start(f.t.Context(), f.c, parent, 1, client.ID("p0"))
			return err
		},
		"inline": func(f *fixture) error {
			_, err := durable.Run(f.t.Context(), f.store, waiter, "c", 1)
			require.ErrorAs(f.t, err, new(*durable.SuspendedError))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				require.NoError(t, start(f))
				defer f.work(worker.Config{}, parent, waiter)()
				time.Sleep(time.Second)
				h, err := client.Start(t.Context(), f.c, parent, 1, client.ID("p"))
				require.NoError(t, err)
				time.Sleep(time.Hour)
				require.NoError(t, f.c.Signal(t.Context(), "c", "go", 41))
				begun := time.Now()
				out, err := h.Result(t.Context())
				require.NoError(t, err)
				assert.Equal(t, 42, out)
				assert.Less(t, time.Since(begun), 6*time.Minute)
				assert.Less(t, len(f.events("p")), 200, "it has not looked all the time")
			})
		})
	}
}

func TestAChildThatSomebodyFinishesInlineWakesItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		stop := f.work(worker.Config{}, parent, waiter)
		h, err := client.Start(t.Context(), f.c, parent, 1, client.ID("p"))
		require.NoError(t, err)
		time.Sleep(time.Hour)
		stop()
		require.NoError(t, f.c.Signal(t.Context(), "c", "go", 41))
		_, err = durable.Run(t.Context(), f.store, waiter, "c", 1)
		require.NoError(t, err)
		defer f.work(worker.Config{}, parent, waiter)()
		begun := time.Now()
		_, err = h.Result(t.Context())
		require.NoError(t, err)
		assert.Less(t, time.Since(begun), time.Second)
	})
}

func TestARetriedChildThatWaitsWakesTheRetriedParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		calls := 0
		child := durable.Workflow("child", func(ctx context.Context, _ int) (int, error) {
			if calls++; calls == 1 {
				return 0, assert.AnError
			}
			return durable.WaitForSignal[int](ctx, "go")
		})
		above := durable.Workflow("above", func(ctx context.Context, n int) (int, error) { return durable.RunChild(ctx, child, n) })
		defer f.work(worker.Config{}, above, child)()
		h, err := client.Start(t.Context(), f.c, above, 1, client.ID("p"))
		require.NoError(t, err)
		_, err = h.Result(t.Context())
		require.Error(t, err)
		_, err = f.c.Retry(t.Context(), "p", "p2")
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, f.c.Signal(t.Context(), "p2-child#1", "go", 5))
		begun := time.Now()
		out, err := client.Attach(f.c, above, "p2").Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 5, out)
		assert.Less(t, time.Since(begun), time.Second)
	})
}

// Config.Versions lets new code go on with the runs of old code, and with the children they have.
func TestAChildOfAnOlderVersionGoesOnUnderANewerParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		define := func(version string) (child, above *durable.Definition[int, int]) {
			child = durable.Workflow("child", func(ctx context.Context, _ int) (int, error) {
				return durable.WaitForSignal[int](ctx, "go")
			}, durable.SetVersion(version))
			return child, durable.Workflow("above", func(ctx context.Context, n int) (int, error) {
				return durable.RunChild(ctx, child, n, durable.ChildID("c"))
			}, durable.SetVersion(version))
		}
		child, above := define("1")
		stop := f.work(worker.Config{}, child, above)
		h, err := client.Start(t.Context(), f.c, above, 1, client.ID("p"))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		stop()
		child, above = define("2")
		defer f.work(worker.Config{Versions: map[string][]string{"child": {"1"}, "above": {"1"}}}, child, above)()
		require.NoError(t, f.c.Signal(t.Context(), "p", "nobody waits for", 1)) // wakes the parent alone
		time.Sleep(time.Minute)
		require.NoError(t, f.c.Signal(t.Context(), "c", "go", 3))
		begun := time.Now()
		out, err := h.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 3, out)
		assert.Less(t, time.Since(begun), time.Second)
	})
}

func TestAParentDoesNotKeepItsChildFromRunning(t *testing.T) {
	for name, cfg := range map[string]worker.Config{
		"one run":                {Concurrency: 1},
		"one run of all workers": {Queues: []worker.Queue{{Name: journal.DefaultQueue, Held: 1}}},
		"one run of the queue":   {Queues: []worker.Queue{{Name: journal.DefaultQueue, Concurrency: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				child := durable.Workflow("child", func(ctx context.Context, _ int) (int, error) {
					if err := durable.Sleep(ctx, time.Minute); err != nil {
						return 0, err
					}
					return durable.WaitForSignal[int](ctx, "go")
				})
				above := durable.Workflow("above", func(ctx context.Context, n int) (int, error) {
					return durable.RunChild(ctx, child, n, durable.ChildID(fmt.Sprint("c", n)))
				})
				for range 2 {
					defer f.work(cfg, child, above)()
				}
				const runs = 20
				var all []*client.Handle[int]
				for i := range runs {
					h, err := client.Start(t.Context(), f.c, above, i)
					require.NoError(t, err)
					all = append(all, h)
				}
				time.Sleep(2 * time.Minute)
				for i := range runs {
					require.NoError(t, f.c.Signal(t.Context(), fmt.Sprint("c", i), "go", i))
				}
				for i, h := range all {
					out, err := h.Result(t.Context())
					require.NoError(t, err)
					assert.Equal(t, i, out)
				}
			})
		})
	}
}

func TestNamesOfAllCharactersAreData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		child := durable.Workflow("ch/ild#1~2", func(ctx context.Context, n int) (int, error) {
			if n == 0 {
				_, err := durable.WaitForSignal[int](ctx, "go\x00")
				if err != nil {
					return 0, err
				}
				return 0, durable.ContinueAsNew(ctx, 1)
			}
			return 5, durable.Sleep(ctx, time.Minute)
		})
		above := durable.Workflow("a'b", func(ctx context.Context, n int) (int, error) { return durable.RunChild(ctx, child, n) })
		q := "q'\x00;--"
		for range 2 {
			defer f.work(worker.Config{Name: "same", Queues: []worker.Queue{{Name: q}}}, child, above)()
		}
		for _, id := range []string{"~2", "a\x00b", "pawl:x", "../..", strings.Repeat("é", 10000), "x~2", "x", "日本\n"} {
			h, err := client.Start(t.Context(), f.c, above, 0, client.ID(id), client.Queue(q))
			require.NoError(t, err)
			time.Sleep(time.Second)
			run, err := h.Get(t.Context())
			require.NoError(t, err)
			require.NoError(t, f.c.Signal(t.Context(), run.ID+"-ch%2Fild%231~2#1", "go\x00", 1))
			out, err := h.Result(t.Context())
			require.NoError(t, err, "%.20q", id)
			assert.Equal(t, 5, out)
		}
	})
}
