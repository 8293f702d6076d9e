package superstep_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/superstep"
)

// Each benchmark stands beside the floor that a hand-written program reaches, in the same run:
//
//	go test -run '^$' -bench . -count 10 ./superstep | benchstat -

type counter struct {
	N     int
	Notes []string
}

type counterUpdate struct {
	N     int      `merge:"sum"`
	Notes []string `merge:"append"`
}

func increment(context.Context, counter) (counterUpdate, error) { return counterUpdate{N: 1}, nil }

func chain(tb testing.TB, nodes int, opts ...graph.Option) *graph.Graph[counter, counterUpdate] {
	tb.Helper()
	b := graph.New("chain", graph.Fields[counter, counterUpdate]())
	last := b.Node("n0", increment, opts...)
	b.Start(last)
	for i := 1; i < nodes; i++ {
		n := b.Node(fmt.Sprintf("n%d", i), increment, opts...)
		b.Edge(last, n)
		last = n
	}
	g, err := b.Compile()
	require.NoError(tb, err)
	return g
}

func runner[S, U any](tb testing.TB, g *graph.Graph[S, U], cfg superstep.Config) *superstep.Runner[S, U] {
	tb.Helper()
	if cfg.Logger == nil {
		cfg.Logger = quiet()
	}
	r, err := superstep.NewRunner(g, cfg)
	require.NoError(tb, err)
	return r
}

// perNode reports what one of n nodes costs.
func perNode(b *testing.B, n int) {
	b.Helper()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/node")
}

func benchRun(b *testing.B, r *superstep.Runner[counter, counterUpdate], nodes int) {
	b.Helper()
	b.ReportAllocs()
	ctx := context.Background()
	for b.Loop() {
		res, err := r.Run(ctx, counter{})
		if err != nil || res.State.N != nodes {
			b.Fatal(res, err)
		}
	}
	perNode(b, nodes)
}

func BenchmarkChain(b *testing.B) {
	standard := retrypolicy.Standard()
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("nodes=%d/pawl", n), func(b *testing.B) {
			benchRun(b, runner(b, chain(b, n), superstep.Config{MaxSuperSteps: n}), n)
		})
		b.Run(fmt.Sprintf("nodes=%d/pawl-retry", n), func(b *testing.B) {
			benchRun(b, runner(b, chain(b, n), superstep.Config{MaxSuperSteps: n, Retry: &standard}), n)
		})
		b.Run(fmt.Sprintf("nodes=%d/floor", n), func(b *testing.B) {
			b.ReportAllocs()
			ctx := context.Background()
			for b.Loop() {
				var s counter
				for range n {
					u, err := increment(ctx, s)
					if err != nil {
						b.Fatal(err)
					}
					s.N += u.N
				}
			}
			perNode(b, n)
		})
	}
}

func loop(tb testing.TB, rounds int) *graph.Graph[counter, counterUpdate] {
	tb.Helper()
	b := graph.New("loop", graph.Fields[counter, counterUpdate]())
	n := b.Node("again", increment)
	b.Start(n)
	b.Route(n, func(s counter) graph.Next {
		if s.N < rounds {
			return graph.To(n)
		}
		return graph.To(graph.End)
	}, n, graph.End)
	g, err := b.Compile()
	require.NoError(tb, err)
	return g
}

func BenchmarkLoop(b *testing.B) {
	const rounds = 1000
	b.Run("pawl", func(b *testing.B) {
		benchRun(b, runner(b, loop(b, rounds), superstep.Config{MaxSuperSteps: rounds}), rounds)
	})
	b.Run("floor", func(b *testing.B) {
		b.ReportAllocs()
		ctx := context.Background()
		for b.Loop() {
			var s counter
			for s.N < rounds {
				u, err := increment(ctx, s)
				if err != nil {
					b.Fatal(err)
				}
				s.N += u.N
			}
		}
		perNode(b, rounds)
	})
}

type fanState struct{ Items, Results []int }
type fanUpdate struct {
	Results []int `merge:"append"`
	Items   []int
}

func fanOut(tb testing.TB, n int, work func(context.Context, int) int) *graph.Graph[fanState, fanUpdate] {
	tb.Helper()
	items := make([]int, n)
	for i := range items {
		items[i] = i
	}
	b := graph.New("fan", graph.Reduce(func(s fanState, u fanUpdate) fanState {
		s.Results = append(s.Results, u.Results...)
		return s
	}))
	start := b.Func("start", func(fanState) (fanUpdate, error) { return fanUpdate{}, nil })
	each := graph.Task(b, "each", func(ctx context.Context, _ fanState, i int) (fanUpdate, error) {
		return fanUpdate{Results: []int{work(ctx, i)}}, nil
	})
	join := b.Func("join", func(fanState) (fanUpdate, error) { return fanUpdate{}, nil })
	b.Start(start)
	b.Route(start, func(fanState) graph.Next { return each.Each(items) }, each)
	b.Edge(each, join)
	g, err := b.Compile()
	require.NoError(tb, err)
	return g
}

func BenchmarkFanOut(b *testing.B) {
	const n = 100
	ctx := context.Background()
	loads := map[string]func(context.Context, int) int{
		"trivial": func(_ context.Context, i int) int { return i * i },
		"1us":     func(_ context.Context, i int) int { return spin(i) },
	}
	for name, work := range loads {
		b.Run(name+"/pawl", func(b *testing.B) {
			r := runner(b, fanOut(b, n, work), superstep.Config{})
			b.ReportAllocs()
			for b.Loop() {
				res, err := r.Run(ctx, fanState{})
				if err != nil || len(res.State.Results) != n {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/floor", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				updates := make([]fanUpdate, n)
				var wg sync.WaitGroup
				for i := range n {
					wg.Go(func() {
						updates[i] = fanUpdate{Results: []int{work(ctx, i)}}
					})
				}
				wg.Wait()
				var s fanState
				for _, u := range updates {
					s.Results = append(s.Results, u.Results...)
				}
			}
		})
	}
}

func spin(i int) int {
	for k := range 1000 {
		i += k ^ i
	}
	return i
}

func wait10ms(ctx context.Context) {
	t := time.NewTimer(10 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func BenchmarkConcurrentRuns(b *testing.B) {
	const runs, nodes = 1000, 10
	bld := graph.New("wait", graph.Fields[counter, counterUpdate]())
	var last graph.Node
	for i := range nodes {
		n := bld.Node(fmt.Sprintf("n%d", i), func(ctx context.Context, _ counter) (counterUpdate, error) {
			wait10ms(ctx)
			return counterUpdate{N: 1}, nil
		})
		if i == 0 {
			bld.Start(n)
		} else {
			bld.Edge(last, n)
		}
		last = n
	}
	g, err := bld.Compile()
	require.NoError(b, err)
	all := func(one func()) {
		var wg sync.WaitGroup
		for range runs {
			wg.Go(one)
		}
		wg.Wait()
	}
	ctx := context.Background()
	b.Run("pawl", func(b *testing.B) {
		r := runner(b, g, superstep.Config{})
		b.ReportAllocs()
		for b.Loop() {
			all(func() {
				if _, err := r.Run(ctx, counter{}); err != nil {
					b.Error(err)
				}
			})
		}
	})
	b.Run("floor", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			all(func() {
				for range nodes {
					wait10ms(ctx)
				}
			})
		}
	})
}

// BenchmarkParked reports what a run costs that waits inside a node, beside a goroutine that waits for another one.
func BenchmarkParked(b *testing.B) {
	var hold chan struct{}
	arrived := make(chan struct{})
	wait := func() {
		arrived <- struct{}{}
		<-hold
	}
	bld := graph.New("parked", graph.Fields[counter, counterUpdate]())
	bld.Start(bld.Node("wait", func(context.Context, counter) (counterUpdate, error) {
		wait()
		return counterUpdate{N: 1}, nil
	}))
	g, err := bld.Compile()
	require.NoError(b, err)
	r := runner(b, g, superstep.Config{})
	for name, one := range map[string]func(){
		"pawl": func() {
			if _, err := r.Run(context.Background(), counter{}); err != nil {
				b.Error(err)
			}
		},
		"floor": func() {
			done := make(chan struct{})
			go func() {
				defer close(done)
				wait()
			}()
			<-done
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				hold = make(chan struct{})
				park(b, one, arrived)
				close(hold)
			}
		})
	}
}

// park starts 100,000 of them, and reports what they hold once all have arrived.
func park(b *testing.B, one func(), arrived <-chan struct{}) {
	b.Helper()
	const runs = 100_000
	before, goroutines := memory(), runtime.NumGoroutine()
	for range runs {
		go one()
	}
	for range runs {
		<-arrived
	}
	after := memory()
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/runs, "heap-B/run")
	b.ReportMetric(float64(after.StackInuse-before.StackInuse)/runs, "stack-B/run")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/runs, "goroutines/run")
}

func memory() (m runtime.MemStats) {
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m
}

// BenchmarkStateSize shows that a super-step costs the same however much the state has gathered.
func BenchmarkStateSize(b *testing.B) {
	const rounds = 5000 // the first append has to copy what the caller gave, once a run
	bld := graph.New("grow", graph.Fields[counter, counterUpdate]())
	n := bld.Node("add", func(context.Context, counter) (counterUpdate, error) {
		return counterUpdate{N: 1, Notes: []string{"message"}}, nil
	})
	bld.Start(n)
	bld.Route(n, func(s counter) graph.Next {
		if s.N < rounds {
			return graph.To(n)
		}
		return graph.To(graph.End)
	}, n, graph.End)
	g, err := bld.Compile()
	require.NoError(b, err)
	r := runner(b, g, superstep.Config{MaxSuperSteps: rounds})
	ctx := context.Background()
	for _, size := range []int{10, 10_000} {
		notes := make([]string, size)
		b.Run(fmt.Sprintf("messages=%d/pawl", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Run(ctx, counter{Notes: notes}); err != nil {
					b.Fatal(err)
				}
			}
			perNode(b, rounds)
		})
		b.Run(fmt.Sprintf("messages=%d/floor", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				all := notes[:size:size]
				for range rounds {
					all = append(all, []string{"message"}...)
				}
				kept = all
			}
			perNode(b, rounds)
		})
	}
}

// kept keeps a result from being optimised away.
var kept []string
