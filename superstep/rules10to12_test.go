package superstep_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

func TestRule10_AnErrorReturnedAfterTheEndOfTheContextIsACancellation(t *testing.T) {
	nodes := map[string]nodeFn{
		"ctx.Err":         waits,
		"the cause":       func(ctx context.Context, _ st) (up, error) { <-ctx.Done(); return up{}, context.Cause(ctx) },
		"another failure": func(ctx context.Context, _ st) (up, error) { <-ctx.Done(); return up{}, statusError(503) },
		"a panic":         func(ctx context.Context, _ st) (up, error) { <-ctx.Done(); panic("late") },
		"Goexit":          func(ctx context.Context, _ st) (up, error) { <-ctx.Done(); runtime.Goexit(); return up{}, nil },
	}
	shapes := map[string]func(nodeFn) *graph.Graph[st, up]{
		"alone":          func(fn nodeFn) *graph.Graph[st, up] { return one(t, fn) },
		"with a timeout": func(fn nodeFn) *graph.Graph[st, up] { return one(t, fn, graph.Timeout(time.Hour)) },
		"with a Catch": func(fn nodeFn) *graph.Graph[st, up] {
			return build(t, func(b *bld) {
				n := b.Node("a", fn)
				b.Start(n)
				b.Catch(n, func(context.Context, st, error) (up, error) { return up{V: "caught"}, nil })
			})
		},
		"two": func(fn nodeFn) *graph.Graph[st, up] {
			return build(t, func(b *bld) { b.Start(b.Node("a", fn), b.Node("b", fn)) })
		},
		"in a subgraph": func(fn nodeFn) *graph.Graph[st, up] {
			child := build(t, func(b *bld) { b.Start(b.Node("a", fn), b.Node("b", fn)) })
			return build(t, func(b *bld) {
				b.Start(graph.Sub(b, "sub", child, func(s st) st { return s }, func(st) up { return up{} }))
			})
		},
	}
	for shape, compile := range shapes {
		for name, fn := range nodes {
			bubble(t, shape+", "+name, func(t *testing.T) {
				t.Helper()
				ctx, cancel := context.WithCancelCause(t.Context())
				why := fmt.Errorf("user left: %w", statusError(503))
				time.AfterFunc(time.Second, func() { cancel(why) })
				o := play(ctx, t, compile(fn), superstep.Config{}, st{V: "in"}, superstep.RunID("r"))
				var ce *superstep.CancelledError
				require.ErrorAs(t, o.err, &ce)
				require.ErrorIs(t, o.err, context.Canceled)
				require.NotErrorIs(t, o.err, context.DeadlineExceeded)
				require.NotErrorIs(t, o.err, statusError(503), "it does not unwrap to the cause")
				require.Equal(t, why, ce.Cause)
				require.Equal(t, "r", ce.RunID)
				require.False(t, ce.Timeout())
				require.Equal(t, classifier.Canceled, classifier.Default().Classify(o.err).Class)
				require.Equal(t, st{V: "in"}, o.State)
				require.Len(t, only[*task.RunCancelled](o.events), 1)
				for _, ev := range only[*task.TaskFailed](o.events) {
					require.Equal(t, string(classifier.Canceled), ev.Class)
				}
			})
		}
	}
}

func TestRule10_ASuccessWithinGraceCounts(t *testing.T) {
	// One task or several: what has finished is kept, and its super-step with it if all of its tasks have.
	for _, n := range []int{1, 2, 3} {
		bubble(t, fmt.Sprint(n, " tasks"), func(t *testing.T) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			g := build(t, func(b *bld) {
				for i := range n {
					n := b.Node(fmt.Sprint("n", i), func(ctx context.Context, _ st) (up, error) {
						<-ctx.Done()
						return up{N: 1}, nil
					})
					b.Start(n)
					b.Edge(n, b.Node(fmt.Sprint("after", i), say("after")))
				}
			})
			time.AfterFunc(time.Second, cancel)
			o := play(ctx, t, g, superstep.Config{}, st{})
			require.ErrorIs(t, o.err, context.Canceled)
			require.Len(t, only[*task.TaskCompleted](o.events), n)
			require.Equal(t, n, o.State.N, "all tasks of the super-step succeeded within Grace")
			require.Equal(t, 1, o.SuperSteps)
		})
	}
}

func TestRule10_CanceledReturnedWhileNobodyCancelledIsAFailureLikeAnyOther(t *testing.T) {
	for _, err := range []error{
		context.Canceled, context.DeadlineExceeded, fmt.Errorf("x: %w", context.Canceled), &superstep.CancelledError{RunID: "other"},
	} {
		t.Run(fmt.Sprintf("%T %v", err, err), func(t *testing.T) {
			g := build(t, func(b *bld) { b.Start(b.Node("a", fails(err)), b.Node("b", waits)) })
			o := play(t.Context(), t, g, superstep.Config{}, st{})
			var node *superstep.NodeError
			require.ErrorAs(t, o.err, &node)
			require.Equal(t, "a", node.Node)
			require.ErrorIs(t, o.err, err)
			require.Len(t, only[*task.RunFailed](o.events), 1, "the run failed, nobody cancelled it")
			require.Empty(t, only[*task.RunCancelled](o.events))
		})
	}
}

func TestRule10_ARunInsideANodeIsJudgedByItself(t *testing.T) {
	t.Run("an inner run that was stopped is a failure of the outer one", func(t *testing.T) {
		inner := runner(t, one(t, say()), superstep.Config{})
		require.NoError(t, inner.Stop(t.Context()))
		o := play(t.Context(), t, one(t, func(ctx context.Context, _ st) (up, error) {
			_, err := inner.Run(ctx, st{})
			return up{}, err
		}), superstep.Config{}, st{})
		require.ErrorIs(t, o.err, superstep.ErrStopped)
		require.Len(t, only[*task.RunFailed](o.events), 1)
	})
	bubble(t, "the outer RunTimeout ends the inner run as a cancellation", func(t *testing.T) {
		t.Helper()
		var innerErr error
		var innerEvents tape
		inner := runner(t, one(t, waits), superstep.Config{Observers: []func(task.Event){innerEvents.observe}})
		o := play(t.Context(), t, one(t, func(ctx context.Context, _ st) (up, error) {
			_, innerErr = inner.Run(ctx, st{})
			return up{}, innerErr
		}), superstep.Config{RunTimeout: time.Second}, st{})
		require.ErrorAs(t, o.err, new(*superstep.RunTimeoutError))
		require.ErrorIs(t, innerErr, context.DeadlineExceeded)
		require.ErrorAs(t, innerErr, new(*superstep.CancelledError), "the inner run has no RunTimeout: the context given to it ended")
		checkEvents(t, innerEvents.all())
		require.Len(t, only[*task.RunCancelled](innerEvents.all()), 1)
	})
}

func TestRule10_AContextThatHasEndedStartsNoNode(t *testing.T) {
	called := false
	g := one(t, func(context.Context, st) (up, error) { called = true; return up{}, nil })
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for _, cfg := range []superstep.Config{{}, {MaxConcurrentRuns: 1}, {MaxConcurrency: 1}, {RunTimeout: time.Hour}} {
		o := play(cancelled, t, g, cfg, st{V: "in"})
		require.ErrorIs(t, o.err, context.Canceled)
		require.Equal(t, "in", o.State.V)
		require.NotEmpty(t, o.RunID)
		require.Zero(t, o.SuperSteps)
		o = play(late, t, g, cfg, st{})
		require.ErrorIs(t, o.err, context.DeadlineExceeded)
		var ce *superstep.CancelledError
		require.ErrorAs(t, o.err, &ce)
		require.True(t, ce.Timeout())
	}
	require.False(t, called)
}

func TestRule10_ARefusedRunIsAlwaysReportedTheSameWay(t *testing.T) {
	// With a free place and a context that has ended, both cases of a select are ready.
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	seen := map[int]bool{}
	for range 50 {
		o := play(cancelled, t, one(t, say()), superstep.Config{MaxConcurrentRuns: 1}, st{})
		seen[len(o.events)] = true
	}
	require.Len(t, seen, 1, "the numbers of events vary: %v", seen)
}

func TestRule10_WhoseDeadlineItWasIsToldApart(t *testing.T) {
	for _, tc := range []struct {
		name                 string
		caller, run, attempt int
		want                 string
		after                int
		attempts             int
	}{
		{"the caller's is first", 1, 5, 9, "caller", 1, 1},
		{"RunTimeout is first", 5, 1, 9, "run", 1, 1},
		{"the attempt's is first", 60, 50, 2, "node", 5, 2},
		{"the attempt's, then the caller's", 4, 50, 2, "caller", 4, 2},
		{"the attempt's, then RunTimeout", 50, 4, 2, "run", 4, 2},
		{"the run's, no attempt's", 50, 4, 0, "run", 4, 1},
		{"the caller's, no attempt's", 4, 0, 0, "caller", 4, 1},
	} {
		bubble(t, tc.name, func(t *testing.T) {
			t.Helper()
			calls := 0
			fn := func(ctx context.Context, s st) (up, error) { calls++; return waits(ctx, s) }
			opts := []graph.Option{graph.Retry(policy(2))}
			if tc.attempt > 0 {
				opts = append(opts, graph.Timeout(seconds(tc.attempt)))
			}
			ctx, cancel := context.WithTimeout(t.Context(), seconds(tc.caller))
			defer cancel()
			begin := time.Now()
			o := play(ctx, t, one(t, fn, opts...), superstep.Config{RunTimeout: seconds(tc.run)}, st{})
			require.Equal(t, seconds(tc.after), time.Since(begin))
			require.ErrorIs(t, o.err, context.DeadlineExceeded)
			require.Equal(t, tc.attempts, calls)
			switch tc.want {
			case "caller":
				require.ErrorAs(t, o.err, new(*superstep.CancelledError))
				require.Len(t, only[*task.RunCancelled](o.events), 1)
			case "run":
				var te *superstep.RunTimeoutError
				require.ErrorAs(t, o.err, &te)
				require.Equal(t, seconds(tc.run), te.After)
				require.Len(t, only[*task.RunFailed](o.events), 1)
				require.Equal(t, classifier.Timeout, classifier.Default().Classify(o.err).Class)
				require.True(t, te.Timeout())
				require.NotEmpty(t, te.Error())
			case "node":
				require.ErrorAs(t, o.err, new(*superstep.NodeError))
				require.Len(t, only[*task.RunFailed](o.events), 1)
			}
		})
	}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

func TestRule10_TheContextsValuesReachTheNodesAndCancelDuringABackoffIsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		p := policy(9)
		p.InitialDelay = time.Hour
		var got any
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "v"))
		time.AfterFunc(time.Minute, cancel)
		begin := time.Now()
		o := play(
			ctx,
			t,
			one(t, func(ctx context.Context, _ st) (up, error) { got = ctx.Value(key{}); return up{}, statusError(503) }, graph.Retry(p)),
			superstep.Config{},
			st{},
		)
		require.Equal(t, "v", got)
		require.Equal(t, time.Minute, time.Since(begin))
		require.ErrorAs(t, o.err, new(*superstep.CancelledError))
		require.NotErrorIs(t, o.err, statusError(503))
	})
}

func TestRule10_ATaskThatWaitsForAPlaceEndsWithTheRun(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg  superstep.Config
		opts []graph.Option
	}{
		"the run's MaxConcurrency":  {superstep.Config{MaxConcurrency: 1}, nil},
		"the node's MaxConcurrency": {superstep.Config{}, []graph.Option{graph.MaxConcurrency(1)}},
	} {
		for _, how := range []string{"cancelled", "a sibling failed"} {
			bubble(t, name+", "+how, func(t *testing.T) {
				t.Helper()
				var calls peak
				child := one(t, func(ctx context.Context, s st) (up, error) {
					calls.enter()
					if how == "cancelled" {
						return waits(ctx, s)
					}
					time.Sleep(time.Second)
					return up{}, errBoom
				}, tc.opts...)
				g := build(t, func(b *bld) {
					s := b.Node("s", say())
					sub := graph.SubTask(b, "sub", child, func(s st, _ int) st { return s }, func(st) up { return up{} })
					b.Start(s)
					b.Route(s, each(sub, 1, 2, 3), sub)
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if how == "cancelled" {
					time.AfterFunc(time.Second, cancel)
				}
				begin := time.Now()
				o := play(ctx, t, g, tc.cfg, st{})
				require.Equal(t, time.Second, time.Since(begin))
				require.EqualValues(t, 1, calls.now.Load(), "no other node was started")
				if how == "cancelled" {
					require.ErrorAs(t, o.err, new(*superstep.CancelledError))
				} else {
					require.ErrorIs(t, o.err, errBoom)
				}
			})
		}
	}
}

func TestRule10_NoNodeStartsOnceTheRunHasEndedAndGraceIsOver(t *testing.T) {
	// An observer that holds the run up for longer than Grace: the call that would come next must not be made.
	for _, place := range []string{"node", "node with a timeout", "Catch handler"} {
		for _, siblings := range []int{0, 2} {
			bubble(t, fmt.Sprint(place, ", siblings: ", siblings), func(t *testing.T) {
				t.Helper()
				handler := place == "Catch handler"
				var opts []graph.Option
				if place == "node with a timeout" {
					opts = append(opts, graph.Timeout(time.Hour))
				}
				called := false
				call := func(context.Context, st) (up, error) { //nolint:unparam // it is a node
					called = true
					return up{}, nil
				}
				g := build(t, func(b *bld) {
					fn := call
					if handler {
						fn = fails(errBoom)
					}
					a := b.Node("a", fn, opts...)
					b.Start(a)
					if handler {
						b.Catch(a, func(ctx context.Context, s st, _ error) (up, error) { return call(ctx, s) })
					}
					for i := range siblings {
						b.Start(b.Node(fmt.Sprint("w", i), waits))
					}
				})
				stall := func(ev task.Event) {
					if e, ok := ev.(*task.AttemptStarted); ok && e.Node == "a" && e.Handler == handler {
						time.Sleep(time.Minute)
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				o := play(ctx, t, g, superstep.Config{Grace: time.Second, Observers: []func(task.Event){stall}}, st{})
				require.ErrorIs(t, o.err, context.DeadlineExceeded)
				require.False(t, called)
				require.Zero(t, o.Abandoned)
			})
		}
	}
}

func TestRule11_ASnapshotIsSafeToAppendTo(t *testing.T) {
	type deep struct{ Inner struct{ List []int } }
	type state struct {
		Log  []string
		Deep deep
		Arr  [2][]int
	}
	grow := func(_ context.Context, s state) (state, error) { //nolint:unparam // it is a node; it appends to all it was given
		for i := range 100 {
			s.Log = append(s.Log, fmt.Sprint("private", i))
			s.Deep.Inner.List = append(s.Deep.Inner.List, -1)
			s.Arr[1] = append(s.Arr[1], -1)
		}
		return state{Log: []string{"x"}}, nil
	}
	b := graph.New("test", graph.Reduce(func(s, u state) state {
		s.Log = append(s.Log, u.Log...)
		s.Deep.Inner.List = append(s.Deep.Inner.List, len(s.Log))
		s.Arr[1] = append(s.Arr[1], len(s.Log))
		return s
	}))
	var nodes [8]graph.Node
	for i := range nodes {
		nodes[i] = b.Node(fmt.Sprint("n", i), grow)
		b.Start(nodes[i])
		b.Route(nodes[i], func(s state) graph.Next {
			if s, _ := grow(t.Context(), s); s.Log[0] != "x" {
				return graph.To()
			}
			grow(t.Context(), s)
			if len(s.Log) < 160 {
				return graph.To(nodes[i])
			}
			return graph.To()
		}, nodes[i])
	}
	g, err := b.Compile()
	require.NoError(t, err)
	shared := make([]string, 0, 1000) // the caller holds the room behind the length
	o := play(t.Context(), t, g, superstep.Config{}, state{Log: shared})
	require.NoError(t, o.err)
	require.Len(t, o.State.Log, 160)
	require.Len(t, o.State.Deep.Inner.List, 160)
	for i := range 160 {
		require.Equal(t, "x", o.State.Log[i])
		require.Equal(t, i+1, o.State.Deep.Inner.List[i])
		require.Equal(t, i+1, o.State.Arr[1][i])
	}
	require.Equal(t, make([]string, 1000), shared[:1000], "the caller's array was not written to")
	require.Equal(t, len(o.State.Log), cap(o.State.Log), "what Run returns is clipped, too")
}

func TestRule12_LeavingAStreamAtEveryEventEndsTheRunAndWaitsForItsTasks(t *testing.T) {
	var running peak
	work := func(ctx context.Context, _ st) (up, error) {
		running.enter()
		defer running.leave()
		task.Emit(ctx, "x")
		return up{N: 1}, nil
	}
	child := one(t, work)
	g := build(t, func(b *bld) {
		a := b.Node("a", flaky(2, classifier.Transient(errBoom), up{}), graph.Retry(policyNow(2)))
		c, d := b.Node("c", work), b.Node("d", work, graph.Timeout(time.Minute))
		sub := graph.Sub(b, "sub", child, func(s st) st { return s }, func(st) up { return up{} })
		b.Start(a)
		b.Edge(a, c)
		b.Edge(a, d)
		b.Edge(a, sub)
	})
	all, err := collect(t, runner(t, g, superstep.Config{}).Stream(t.Context(), st{}))
	require.NoError(t, err)
	for at := range all {
		for _, how := range []string{"break", "panic", "Goexit"} {
			p := &tape{}
			r := runner(t, g, superstep.Config{Observers: []func(task.Event){p.observe}})
			var wg sync.WaitGroup
			wg.Go(func() {
				defer func() { _ = recover() }()
				n := 0
				for range r.Stream(t.Context(), st{}) {
					if n == at {
						switch how {
						case "panic":
							panic("consumer")
						case "Goexit":
							runtime.Goexit()
						}
						break
					}
					n++
				}
			})
			wg.Wait()
			require.Zero(t, running.now.Load(), "leaving waits for the tasks")
			evs := p.all()
			checkEvents(t, evs) // observers see the run to its end
			require.NotEmpty(t, evs)
			last := evs[len(evs)-1].Head().Kind
			if at < len(all)-1 {
				require.Contains(t, []task.Kind{task.KindRunCancelled, task.KindRunCompleted}, last)
			}
			require.NoError(t, r.Stop(t.Context()))
		}
	}
}

func TestRule12_LeavingAStreamWhileNodesWaitCancelsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &tape{}
		g := build(t, func(b *bld) { b.Start(b.Node("a", waits), b.Node("b", waits, graph.Timeout(time.Hour))) })
		begin := time.Now()
		n := 0
		for range runner(t, g, superstep.Config{Observers: []func(task.Event){p.observe}}).Stream(t.Context(), st{}) {
			if n++; n == 6 { // both attempts have started
				break
			}
		}
		require.Zero(t, time.Since(begin))
		evs := p.all()
		checkEvents(t, evs)
		end, ok := evs[len(evs)-1].(*task.RunCancelled)
		require.True(t, ok)
		require.ErrorIs(t, end.Err, context.Canceled)
		require.Contains(t, end.Text, "stream", "the reason says who ended it")
	})
}

func TestRule12_AHostileNodeOfALeftStreamIsAwaitedForGraceOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, open := gate(t)
		r := runner(t, one(t, deaf(release, up{}, nil)), superstep.Config{Grace: time.Second})
		begin := time.Now()
		for ev := range r.Stream(t.Context(), st{}) {
			if ev.Head().Kind == task.KindAttemptStarted {
				break
			}
		}
		require.Equal(t, time.Second, time.Since(begin))
		require.Equal(t, 1, r.Abandoned())
		open()
		synctest.Wait()
		require.Zero(t, r.Abandoned())
	})
}

func TestRule12_NoGoroutineOutlivesARun(t *testing.T) {
	before := runtime.NumGoroutine()
	child := build(t, func(b *bld) { b.Start(b.Node("x", waits), b.Node("y", fails(errBoom))) })
	g := build(t, func(b *bld) {
		s := b.Node("s", say())
		sub := graph.SubTask(b, "sub", child, func(s st, _ int) st { return s }, func(st) up { return up{} })
		b.Start(s)
		b.Route(s, each(sub, make([]int, 50)...), sub)
	})
	for range 20 {
		o := play(t.Context(), t, g, superstep.Config{}, st{})
		require.ErrorIs(t, o.err, errBoom)
		require.LessOrEqual(t, runtime.NumGoroutine(), before+1) // goroutines that have signalled their end may still be seen
	}
	require.NotErrorIs(t, errBoom, context.Canceled)
}
