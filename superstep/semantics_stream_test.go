package superstep_test

import (
	"context"
	"encoding/json"
	"fmt"
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

func TestSemantics_AChildStartsFromInEachTimeAndNothingElseCrossesTheBorder(t *testing.T) {
	type inner struct{ Count, Seed int }
	cb := graph.New("child", graph.Reduce(func(s inner, n int) inner { s.Count += n; return s }))
	n := cb.Node("n", func(_ context.Context, s inner) (int, error) { return s.Seed, nil })
	cb.Start(n)
	cb.Route(n, func(s inner) graph.Next {
		if s.Count < 3*s.Seed {
			return graph.To(n)
		}
		return graph.To()
	}, n)
	child, err := cb.Compile()
	require.NoError(t, err)
	g := build(t, func(b *bld) {
		sub := graph.Sub(
			b,
			"sub",
			child,
			func(s st) inner { return inner{Seed: s.N + 1} },
			func(s inner) up { return up{N: s.Count, Log: []string{fmt.Sprint(s)}} },
		)
		b.Start(sub)
		b.Route(sub, func(s st) graph.Next {
			if s.N < 15 {
				return graph.To(sub)
			}
			return graph.To()
		}, sub)
	})
	o := play(t.Context(), t, g, superstep.Config{}, st{})
	require.NoError(t, o.err)
	require.Equal(t, []string{"{3 1}", "{12 4}"}, o.State.Log)
	require.Equal(t, 2, o.SuperSteps)
}

func TestSemantics_ParallelInstancesAreIndependentAndEventsCarryThePath(t *testing.T) {
	child := build(t, func(b *bld) {
		x := b.Node("fetch", func(ctx context.Context, s st) (up, error) {
			task.Emit(ctx, s.V)
			return up{Log: []string{s.V}}, nil
		})
		y := b.Node("read", func(_ context.Context, s st) (up, error) { return up{Log: []string{s.Log[0] + "!"}}, nil })
		b.Start(x)
		b.Edge(x, y)
	})
	mid := build(t, func(b *bld) {
		s := b.Node("s", say())
		sub := graph.SubTask(b, "search", child, func(_ st, v string) st { return st{V: v} }, func(s st) up { return up{Log: s.Log} })
		b.Start(s)
		b.Route(s, each(sub, "a", "b", "c"), sub)
	})
	g := build(t, func(b *bld) {
		b.Start(graph.Sub(b, "research", mid, func(s st) st { return s }, func(s st) up { return up{Log: s.Log} }))
	})
	o := play(t.Context(), t, g, superstep.Config{}, st{})
	require.NoError(t, o.err)
	require.Equal(t, []string{"a", "a!", "b", "b!", "c", "c!"}, o.State.Log)
	paths := map[string]string{}
	for _, ev := range only[*task.Custom](o.events) {
		paths[ev.Node] = ev.Value.(string)
	}
	require.Equal(
		t,
		map[string]string{"research/search[0]/fetch": "a", "research/search[1]/fetch": "b", "research/search[2]/fetch": "c"},
		paths,
	)
}

func TestSemantics_AChildsEventsArriveWhileItRunsAndItsFailureNamesTheInnerNode(t *testing.T) {
	release := make(chan struct{})
	child := build(t, func(b *bld) {
		b.Start(b.Node("x", func(ctx context.Context, _ st) (up, error) {
			task.Emit(ctx, "live")
			<-release // opened by the consumer once it has seen the event
			return up{}, errBoom
		}))
	})
	g := build(t, func(b *bld) {
		sub := graph.Sub(b, "sub", child, func(s st) st { return s }, func(st) up { return up{} })
		b.Start(sub, b.Node("other", waits))
	})
	var last error
	for ev, err := range runner(t, g, superstep.Config{}).Stream(t.Context(), st{}) {
		if c, ok := ev.(*task.Custom); ok {
			require.Equal(t, "sub/x", c.Node)
			close(release)
		}
		last = err
	}
	var node *superstep.NodeError
	require.ErrorAs(t, last, &node)
	require.Equal(t, "sub/x", node.Node)
	require.ErrorIs(t, last, errBoom)
}

func TestSemantics_AJoinThatDidNotFireInASubgraphIsReportedWithItsPath(t *testing.T) {
	child := build(t, func(b *bld) {
		x, y, d := b.Node("x", say()), b.Node("y", say()), b.Node("d", say())
		b.Start(x)
		b.Route(x, to(), y)
		b.Join([]graph.Ref{x, y}, d)
	})
	g := build(t, func(b *bld) {
		b.Start(graph.Sub(b, "sub", child, func(s st) st { return s }, func(st) up { return up{} }))
	})
	o := play(t.Context(), t, g, superstep.Config{}, st{})
	require.NoError(t, o.err)
	joins := only[*task.JoinUnfired](o.events)
	require.Len(t, joins, 1)
	require.Equal(t, "sub", joins[0].Node)
	require.Equal(t, "d", joins[0].Target)
	require.Empty(t, o.Unfired, "the run's own graph is complete")
}

// busy has retries, fan-outs, a subgraph, a join and what is emitted.
func busy(tb testing.TB) *graph.Graph[st, up] {
	tb.Helper()
	child := one(tb, flaky(2, classifier.Transient(errBoom), up{Log: []string{"child"}}), graph.Retry(policyNow(2)))
	return build(tb, func(b *bld) {
		s := b.Node("s", flaky(2, classifier.Transient(errBoom), up{Log: []string{"s"}}), graph.Retry(policyNow(3)))
		fan := graph.Task(b, "fan", func(ctx context.Context, _ st, w string) (up, error) {
			task.Emit(ctx, map[string]any{"word": w})
			return up{Log: []string{w}}, nil
		}, graph.Timeout(time.Minute))
		sub := graph.Sub(b, "sub", child, func(st) st { return st{} }, func(s st) up { return up{Log: s.Log} })
		j := b.Node("j", say("j"))
		b.Start(s)
		b.Route(s, each(fan, "1", "2", "3"), fan)
		b.Edge(s, sub)
		b.Join([]graph.Ref{sub, fan}, j)
	})
}

func TestSemantics_RunAndStreamGiveTheSameResultAndRunCompletedCarriesIt(t *testing.T) {
	r := runner(t, busy(t), superstep.Config{Logger: quiet()})
	res, err := r.Run(t.Context(), st{V: "in"}, superstep.RunID("id"))
	require.NoError(t, err)
	evs, err := collect(t, r.Stream(t.Context(), st{V: "in"}, superstep.RunID("id")))
	require.NoError(t, err)
	done, ok := evs[len(evs)-1].(*task.RunCompleted[st])
	require.True(t, ok, "the last thing is RunCompleted, with the state's own type")
	require.Equal(t, res.State, done.State)
	require.Equal(t, res.SuperSteps, done.SuperSteps)
	require.Equal(t, res.Usage, done.Usage)
	require.Equal(t, res.Unfired, done.Unfired)
	first, ok := evs[0].(*task.RunStarted)
	require.True(t, ok, "the first event names the run")
	require.Equal(t, "id", first.RunID)
	require.Equal(t, "test", first.Graph)
	require.NotEmpty(t, first.Fingerprint)
}

func TestSemantics_ARunThatFailsGivesTheSameErrorByRunAndStream(t *testing.T) {
	r := runner(t, one(t, fails(errBoom)), superstep.Config{})
	_, want := r.Run(t.Context(), st{})
	evs, err := collect(t, r.Stream(t.Context(), st{}))
	require.Equal(t, want, err)
	require.Equal(t, task.KindRunFailed, evs[len(evs)-1].Head().Kind)
}

func TestSemantics_TheOrderOfEventsIsTheSameForObserversAndStream(t *testing.T) {
	for range 20 {
		var one, two tape
		r := runner(t, busy(t), superstep.Config{Observers: []func(task.Event){one.observe, two.observe}, Logger: quiet()})
		evs, err := collect(t, r.Stream(t.Context(), st{}))
		require.NoError(t, err)
		require.Len(t, one.events, len(evs))
		for i := range evs {
			require.Same(t, evs[i].Head(), one.events[i].Head())
			require.Same(t, evs[i].Head(), two.events[i].Head())
		}
	}
}

func TestSemantics_EverySequenceIsARunOfItsOwn(t *testing.T) {
	seq := runner(t, busy(t), superstep.Config{Logger: quiet()}).Stream(t.Context(), st{})
	a, err := collect(t, seq)
	require.NoError(t, err)
	b, err := collect(t, seq)
	require.NoError(t, err)
	require.NotEqual(t, a[0].Head().RunID, b[0].Head().RunID)
}

func TestSemantics_CustomEventsArriveWhenTheyAreEmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var at []time.Duration
		g := one(t, func(ctx context.Context, _ st) (up, error) {
			for range 3 {
				time.Sleep(time.Second)
				task.EmitToken(ctx, task.TokenDelta{Text: "x", Choice: 1, Provider: "p"})
			}
			return up{}, nil
		})
		for ev := range runner(t, g, superstep.Config{}).Stream(t.Context(), st{}) {
			if d, ok := ev.(*task.TokenDelta); ok {
				require.Equal(t, "x", d.Text)
				require.Equal(t, 1, d.Choice)
				require.Equal(t, "p", d.Provider)
				require.Equal(t, "a", d.Node)
				at = append(at, time.Since(begin))
			}
		}
		require.Equal(t, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}, at)
	})
}

func TestSemantics_ASlowConsumerSlowsTheRunAndLosesNothing(t *testing.T) {
	const events = 100
	synctest.Test(t, func(t *testing.T) {
		g := one(t, func(ctx context.Context, _ st) (up, error) {
			for i := range events {
				task.Emit(ctx, i)
			}
			return up{}, nil
		})
		begin := time.Now()
		next := 0
		for ev := range runner(t, g, superstep.Config{}).Stream(t.Context(), st{}) {
			if c, ok := ev.(*task.Custom); ok {
				require.Equal(t, next, c.Value)
				next++
				time.Sleep(time.Second)
			}
		}
		require.Equal(t, events, next)
		require.Equal(t, events*time.Second, time.Since(begin))
	})
}

func TestSemantics_ASlowConsumerOfConcurrentTasksInSimulatedTime(t *testing.T) {
	// Users test their graphs with testing/synctest as well. A task that waits for its turn to emit must wait on something
	// that counts as waiting there, and a mutex does not: then time stands still while the consumer sleeps.
	done := make(chan struct{})
	go func() {
		defer close(done)
		synctest.Test(t, func(t *testing.T) {
			emit := func(tctx context.Context, _ st) (up, error) {
				for range 5 {
					task.Emit(tctx, 1)
				}
				return up{}, nil
			}
			g := build(t, func(b *bld) { //nolint:testifylint // the bubble has a test of its own
				b.Start(b.Node("a", emit), b.Node("b", emit), b.Node("c", emit))
			})
			r := runner(t, g, superstep.Config{}) //nolint:testifylint // the bubble has a test of its own
			for range r.Stream(t.Context(), st{}) {
				time.Sleep(time.Second)
			}
		})
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Error("simulated time stands still: tasks wait for the emitting one on a sync.Mutex")
	}
}

func TestSemantics_AConsumerThatStallsAndThenCancelsGetsControlBackWithinASecond(t *testing.T) {
	for _, how := range []string{"goes on", "leaves"} {
		bubble(t, how, func(t *testing.T) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			g := one(t, func(ctx context.Context, _ st) (up, error) {
				for ctx.Err() == nil {
					task.Emit(ctx, "more")
				}
				return up{}, ctx.Err()
			})
			var begin time.Time
			var last error
			for ev, err := range runner(t, g, superstep.Config{}).Stream(ctx, st{}) {
				last = err
				if ev != nil && ev.Head().Kind == task.KindCustom && begin.IsZero() {
					time.Sleep(time.Hour)
					cancel()
					begin = time.Now()
					if how == "leaves" {
						break
					}
				}
			}
			require.Less(t, time.Since(begin), time.Second)
			if how == "goes on" {
				require.ErrorIs(t, last, context.Canceled)
			}
		})
	}
}

func TestSemantics_ANodeThatOnlyWaitsForTheConsumerIsNotAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p := &tape{}
		r := runner(t, one(t, func(ctx context.Context, _ st) (up, error) {
			for ctx.Err() == nil { // it honours its context
				task.Emit(ctx, "more")
			}
			return up{}, ctx.Err()
		}), superstep.Config{Grace: time.Second, Observers: []func(task.Event){p.observe}})
		slept := false
		for ev := range r.Stream(ctx, st{}) {
			if ev != nil && ev.Head().Kind == task.KindCustom && !slept {
				slept = true
				cancel()
				time.Sleep(time.Minute) // longer than Grace
			}
		}
		checkEvents(t, p.all())
		require.Empty(t, only[*task.TaskAbandoned](p.all()), "Emit did not return since the consumer was slow; the node ignored nothing")
		require.Zero(t, r.Abandoned())
	})
}

func TestSemantics_EveryKindOfEventIsJSONWithStableNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := map[task.Kind]string{}
		keep := func(evs []task.Event) {
			for _, ev := range evs {
				b, err := json.Marshal(ev)
				require.NoError(t, err)
				seen[ev.Head().Kind] = string(b)
			}
		}
		release, open := gate(t)
		keep(play(t.Context(), t, busy(t), superstep.Config{Logger: quiet()}, st{}).events)
		keep(play(t.Context(), t, one(t, deaf(release, up{}, nil), graph.Timeout(time.Second)), superstep.Config{}, st{}).events)
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		keep(play(cancelled, t, one(t, say()), superstep.Config{}, st{}).events)
		keep(play(t.Context(), t, build(t, func(b *bld) {
			x, y := b.Node("x", say()), b.Node("y", say())
			b.Start(x)
			b.Route(x, to(), y)
			b.Join([]graph.Ref{x, y}, x)
		}), superstep.Config{}, st{}).events)
		for _, kind := range []task.Kind{
			task.KindRunStarted, task.KindSuperStepStarted, task.KindTaskStarted, task.KindAttemptStarted, task.KindTokenDelta,
			task.KindCustom,
			task.KindAttemptFailed, task.KindAttemptDiscarded, task.KindTaskCompleted, task.KindTaskAbandoned, task.KindTaskFailed,
			task.KindSuperStepCompleted, task.KindJoinUnfired, task.KindRunCompleted, task.KindRunFailed, task.KindRunCancelled,
		} {
			require.Contains(t, seen[kind], fmt.Sprintf(`{"kind":%q,"run_id":"`, kind))
		}
		require.Contains(t, seen[task.KindRunCompleted], `"state":{`)
		require.Contains(t, seen[task.KindRunFailed], `"class":"timeout","error":"`)
		require.Contains(t, seen[task.KindJoinUnfired], `"target":"x","join":true,"arrived":["x"],"missing":["y"]`)
		require.Contains(t, seen[task.KindTaskAbandoned], `"node":"a","super_step":1,"attempt":1`)
		open()
	})
}

func TestSemantics_AnEventsHeaderIsWholeAlsoUnderConcurrentRuns(t *testing.T) {
	var mu sync.Mutex
	byRun := map[string][]task.Event{}
	r := runner(t, busy(t), superstep.Config{Logger: quiet(), Observers: []func(task.Event){func(ev task.Event) {
		mu.Lock()
		defer mu.Unlock()
		byRun[ev.Head().RunID] = append(byRun[ev.Head().RunID], ev)
	}}})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { _, _ = r.Run(context.Background(), st{}) })
	}
	wg.Wait()
	require.Len(t, byRun, 20)
	for _, evs := range byRun {
		checkEvents(t, evs)
	}
}

func TestSemantics_EveryEventOfATaskSaysWhetherItIsFannedOutSoThatIndex0MeansTheFirst(t *testing.T) {
	o := play(t.Context(), t, busy(t), superstep.Config{Logger: quiet()}, st{})
	tasks := map[string]bool{}
	for _, ev := range o.events {
		require.Equal(t, ev.Head().Node == "fan", ev.Head().FannedOut)
		tasks[ev.Head().Task()] = true
	}
	require.Equal(
		t,
		map[string]bool{"": true, "s": true, "fan[0]": true, "fan[1]": true, "fan[2]": true, "sub": true, "sub/a": true, "j": true},
		tasks,
	)
}
