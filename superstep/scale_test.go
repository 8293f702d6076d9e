package superstep_test

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/superstep"
)

func TestScale_AFanOutOf100000TasksStaysWithinMaxConcurrencyAnd1KBATask(t *testing.T) {
	const n = 100_000
	for name, observed := range map[string]bool{"unobserved": false, "with a stream": true} {
		t.Run(name, func(t *testing.T) {
			var p peak
			var most uint64
			var mu sync.Mutex
			before := heap()
			r := runner(t, fanOut(t, n, func(_ context.Context, i int) int {
				p.enter()
				defer p.leave()
				if i%10_000 == 9_999 { // near the end all that a task leaves behind is there
					mu.Lock()
					most = max(most, heap())
					mu.Unlock()
				}
				return i
			}), superstep.Config{MaxConcurrency: 8})
			var results []int
			if observed {
				for _, err := range r.Stream(t.Context(), fanState{}) {
					require.NoError(t, err)
				}
			} else {
				res, err := r.Run(t.Context(), fanState{})
				require.NoError(t, err)
				results = res.State.Results
				require.Len(t, results, n)
				for i := range results {
					require.Equal(t, i, results[i])
				}
			}
			require.LessOrEqual(t, p.most.Load(), int64(8))
			perTask := int64(most-before) / n
			t.Logf(
				"%d B of live heap a task at its peak, updates included",
				perTask,
			) // an update is a slice of one int, 8 B, and its header, 48 B
			require.Less(t, perTask, int64(1024))
		})
	}
}

// heap is the live heap.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestScale_AFanOutWithoutALimitRunsAllTasksAtOnce(t *testing.T) {
	const n = 1000
	all := make(chan struct{})
	var p peak
	r := runner(t, fanOut(t, n, func(_ context.Context, i int) int {
		if p.enter(); p.now.Load() == n {
			close(all)
		}
		<-all
		return i
	}), superstep.Config{})
	res, err := r.Run(t.Context(), fanState{})
	require.NoError(t, err)
	require.Len(t, res.State.Results, n)
}

func TestScale_ALongRunKeepsNothingOfOldSuperSteps(t *testing.T) {
	debug.FreeOSMemory()
	type state struct{ N int }
	live := uint64(0)
	b := graph.New("test", graph.Reduce(func(s state, _ []byte) state { s.N++; return s }))
	s := b.Node("s", func(context.Context, state) ([]byte, error) { return make([]byte, 1<<20), nil })
	fan := graph.Task(b, "fan", func(_ context.Context, s state, item []byte) ([]byte, error) {
		if s.N == 100 && item[0] == 1 { // three a round, and one of this round
			live = heap()
		}
		return make([]byte, 1<<16), nil
	})
	b.Start(s)
	b.Route(s, func(state) graph.Next {
		items := [][]byte{make([]byte, 1<<20), make([]byte, 1<<20)}
		items[0][0] = 1
		return fan.Each(items)
	}, fan)
	b.Route(fan, func(state) graph.Next { return graph.To(s) }, s)
	g, err := b.Compile()
	require.NoError(t, err)
	before := heap()
	_, err = runner(t, g, superstep.Config{MaxSuperSteps: 70}).Run(t.Context(), state{})
	require.ErrorAs(t, err, new(*superstep.MaxSuperStepsError))
	require.NotZero(t, live)
	require.Less(t, int64(live)-int64(before), int64(8<<20), "updates and items of 66 super-steps must not pile up")
}

func TestScale_ManySubgraphsAndDeepNesting(t *testing.T) {
	leaf := one(t, func(_ context.Context, s st) (up, error) { return up{N: 1}, nil })
	nested := leaf
	for range 30 {
		child := nested
		nested = build(t, func(b *bld) {
			b.Start(graph.Sub(b, "sub", child, func(s st) st { return s }, func(s st) up { return up{N: s.N + 1} }))
		})
	}
	o := play(t.Context(), t, nested, superstep.Config{MaxSuperSteps: 1, MaxConcurrency: 1}, st{})
	require.NoError(t, o.err)
	require.Equal(t, 31, o.State.N)
	wide := build(t, func(b *bld) {
		s := b.Node("s", say())
		sub := graph.SubTask(b, "sub", leaf, func(s st, _ int) st { return st{} }, func(s st) up { return up{N: s.N} })
		b.Start(s)
		b.Route(s, each(sub, make([]int, 2000)...), sub)
	})
	o = play(t.Context(), t, wide, superstep.Config{MaxConcurrency: 4}, st{})
	require.NoError(t, o.err)
	require.Equal(t, 2000, o.State.N)
}

func TestScale_SnapshotsAreSafeWhileEveryNodeAppends(t *testing.T) {
	g := build(t, func(b *bld) {
		s := b.Node("s", say("s"))
		fan := graph.Task(b, "fan", func(_ context.Context, s st, i int) (up, error) {
			for range 50 {
				s.Log = append(s.Log, fmt.Sprint("private", i))
				runtime.Gosched()
			}
			return up{Log: []string{fmt.Sprint(i)}, M: map[string]int{fmt.Sprint(i): i}}, nil
		})
		b.Start(s)
		b.Route(s, each(fan, 1, 2, 3, 4, 5, 6, 7, 8), fan)
		b.Route(fan, func(s st) graph.Next {
			if len(s.Log) < 90 {
				return fan.Each([]int{1, 2, 3, 4, 5, 6, 7, 8})
			}
			return graph.To()
		}, fan)
	})
	o := play(t.Context(), t, g, superstep.Config{}, st{})
	require.NoError(t, o.err)
	require.Len(t, o.State.Log, 97)
	for _, l := range o.State.Log {
		require.NotContains(t, l, "private")
	}
}
