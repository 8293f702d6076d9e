package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/worker"
)

type node func(context.Context, state) (update, error)

// chain is a runner of nodes one after the other.
func chain(t *testing.T, cfg superstep.Config, nodes ...node) *superstep.Runner[state, update] {
	t.Helper()
	b := graph.New("chain", graph.Fields[state, update]())
	var last graph.Node
	for i, fn := range nodes {
		n := b.Node(string(rune('a'+i)), fn)
		if i == 0 {
			b.Start(n)
		} else {
			b.Edge(last, n)
		}
		last = n
	}
	g, err := b.Compile()
	require.NoError(t, err)
	r, err := superstep.NewRunner(g, cfg)
	require.NoError(t, err)
	return r
}

// takes is a node that takes a while.
func takes(d time.Duration) node {
	return func(ctx context.Context, _ state) (update, error) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		return update{Notes: []string{"x"}}, ctx.Err()
	}
}

// One that was not held lost its lease, again and again, and failed as one that loses its owners.
func TestARunThatWaitsForAPlaceOfItsRunnerIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		for range 2 {
			r := chain(t, superstep.Config{MaxConcurrentRuns: 1, RunTimeout: 90 * time.Second}, takes(time.Minute))
			defer f.work(worker.Config{LockTTL: 10 * time.Second}, r)()
		}
		r := chain(t, superstep.Config{}, takes(time.Minute))
		var all []*client.Handle[state]
		for range 6 {
			h, err := client.Start(t.Context(), f.c, r, state{})
			require.NoError(t, err)
			all = append(all, h)
		}
		for _, h := range all {
			_, err := h.Result(t.Context())
			require.NoError(t, err)
			assert.Empty(t, reasons(t, f.events(h.ID())))
		}
	})
}

func TestARunThatWaitsForAPlaceOfItsRunnerHeedsCancelsAndDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		r := chain(t, superstep.Config{MaxConcurrentRuns: 1}, takes(time.Hour))
		stop := f.work(worker.Config{Grace: 2 * time.Second}, r)
		for _, id := range []string{"a", "b", "c"} {
			_, err := client.Start(t.Context(), f.c, r, state{}, client.ID(id))
			require.NoError(t, err)
			time.Sleep(time.Second)
		}
		require.NoError(t, f.c.Cancel(t.Context(), "b", "enough"))
		var cancelled *durable.RunCancelledError
		_, err := client.Attach(f.c, r, "b").Result(t.Context())
		require.ErrorAs(t, err, &cancelled)
		begun := time.Now()
		stop()
		assert.Less(t, time.Since(begun), 3*time.Second)
		run, err := f.c.Get(t.Context(), "c")
		require.NoError(t, err)
		assert.Empty(t, run.Owner)
		assert.Len(t, f.events("c"), 1)
	})
}

func TestTheRunsOfAStoppedRunnerAreNotTakenAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		r := chain(t, superstep.Config{}, takes(time.Minute))
		require.NoError(t, r.Stop(t.Context()))
		process := journaltest.NewFaulty(f.store)
		stop := f.work(worker.Config{Store: process}, r)
		h, err := client.Start(t.Context(), f.c, r, state{}, client.ID("d"))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		assert.Less(t, process.Done(journaltest.OpRenew), 70, "one a second")
		begun := time.Now()
		stop()
		assert.Less(t, time.Since(begun), time.Second)
		defer f.work(worker.Config{}, chain(t, superstep.Config{}, takes(time.Minute)))()
		_, err = h.Result(t.Context())
		require.NoError(t, err)
	})
}

func TestARunnerThatIsStoppedUnderAWorkerBeginsNoSuperStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		var second atomic.Int64
		r := chain(t, superstep.Config{Grace: time.Minute}, takes(10*time.Second), func(context.Context, state) (update, error) {
			second.Add(1)
			return update{}, nil
		})
		defer f.work(worker.Config{}, r)()
		_, err := client.Start(t.Context(), f.c, r, state{})
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, r.Stop(t.Context()))
		assert.Zero(t, second.Load())
	})
}

// RunTimeout counts what owners have used up, and does not begin anew when one is lost.
func TestTheTimeOfARunIsNotForgottenWithItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		calls := 0
		first := func(ctx context.Context, _ state) (update, error) {
			if calls++; calls == 1 {
				time.Sleep(40 * time.Minute)
			}
			return update{}, durable.Sleep(ctx, time.Hour)
		}
		var kill atomic.Pointer[func()]
		deadly := func(ctx context.Context, _ state) (update, error) {
			(*kill.Load())()
			<-ctx.Done()
			return update{}, ctx.Err()
		}
		cfg := superstep.Config{RunTimeout: time.Hour}
		good := chain(t, cfg, first, takes(40*time.Minute))
		stop := f.work(worker.Config{}, good)
		h, err := client.Start(t.Context(), f.c, good, state{}, client.ID("g"))
		require.NoError(t, err)
		time.Sleep(50 * time.Minute)
		stop()
		k, end := f.mortal(worker.Config{LockTTL: time.Minute}, chain(t, cfg, deadly, takes(40*time.Minute)))
		kill.Store(&k)
		defer end()
		time.Sleep(51 * time.Minute)
		defer f.work(worker.Config{}, good)()
		_, err = h.Result(t.Context())
		assert.ErrorAs(t, err, new(*superstep.RunTimeoutError))
		assert.Equal(t, []durable.RequeueReason{durable.RequeuedOwner}, reasons(t, f.events("g")))
	})
}

// A runner's own store has nothing to do with the runs that a worker takes.
func TestARunnerWithAStoreOfItsOwnRunsWhatAWorkerTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, other := newFixture(t), newFixture(t)
		r := runner(t, superstep.Config{Store: other.store, LeaseTTL: time.Nanosecond})
		defer f.work(worker.Config{}, r)()
		h, err := client.Start(t.Context(), f.c, r, state{}, client.ID("g"))
		require.NoError(t, err)
		out, err := h.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "b"}, out.Notes)
		_, err = other.c.Get(t.Context(), "g")
		assert.Error(t, err)
	})
}

func TestAQuestionThatWasAskedInlineIsAnsweredInAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		b := graph.New("ib", graph.Fields[state, update]())
		calls := 0
		n := b.Node("n", func(context.Context, state) (update, error) { calls++; return update{Notes: []string{"n"}}, nil })
		m := b.Node("m", func(ctx context.Context, s state) (update, error) {
			v, err := durable.Interrupt[string](ctx, "more?")
			return update{Notes: []string{v}}, err
		})
		b.Start(n)
		b.Edge(n, m)
		g, err := b.Compile()
		require.NoError(t, err)
		r, err := superstep.NewRunner(g, superstep.Config{Store: f.store})
		require.NoError(t, err)
		h, err := client.Start(t.Context(), f.c, r, state{}, client.ID("g"))
		require.NoError(t, err)
		_, err = r.Run(t.Context(), state{}, superstep.RunID("g"), superstep.InterruptBefore(m))
		require.ErrorAs(t, err, new(*durable.SuspendedError))
		defer f.work(worker.Config{}, r)()
		qs, err := durable.Questions(t.Context(), f.store, "g")
		require.NoError(t, err)
		require.Len(t, qs, 1)
		require.NoError(t, f.c.Answer(t.Context(), "g", qs[0].ID, true))
		time.Sleep(time.Minute)
		qs, err = durable.Questions(t.Context(), f.store, "g")
		require.NoError(t, err)
		require.Len(t, qs, 2)
		require.NoError(t, f.c.Pause(t.Context(), "g", ""))
		require.NoError(t, f.c.Answer(t.Context(), "g", qs[1].ID, "yes"))
		time.Sleep(time.Hour)
		require.NoError(t, f.c.Resume(t.Context(), "g"))
		out, err := h.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"n", "yes"}, out.Notes)
		assert.Equal(t, 1, calls)
	})
}
