package superstep_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

// How runs, calls and goroutines end when several things come together.

// atDeadline returns at the very deadline of its context, as network clients do, before the context's timer has run.
func atDeadline(ctx context.Context, _ st) (up, error) {
	deadline, _ := ctx.Deadline()
	for time.Now().Before(deadline) {
		runtime.Gosched()
	}
	return up{}, os.ErrDeadlineExceeded
}

func TestRule10_ACallThatReturnsAtTheRunsDeadlineHasNotFailed(t *testing.T) {
	for range 50 {
		g := build(t, func(b *bld) {
			a := b.Node("a", atDeadline)
			b.Start(a)
			b.Catch(a, func(context.Context, st, error) (up, error) {
				t.Error("a Catch handler is not for the end of the run")
				return up{}, nil
			})
		})
		r := runner(t, g, superstep.Config{RunTimeout: time.Millisecond, Logger: quiet()})
		_, err := r.Run(t.Context(), st{})
		var late *superstep.RunTimeoutError
		require.ErrorAs(t, err, &late)

		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_, err = runner(t, g, superstep.Config{Logger: quiet()}).Run(ctx, st{})
		cancel()
		var cancelled *superstep.CancelledError
		require.ErrorAs(t, err, &cancelled)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
}

func TestRule08_AGoexitIsReportedOnceAlsoWhenItsReportOutlastsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		running := false
		g := build(t, func(b *bld) {
			b.Start(
				b.Node("goexit", func(context.Context, st) (up, error) { runtime.Goexit(); return up{}, nil }),
				b.Node("sibling", func(ctx context.Context, _ st) (up, error) {
					running = true
					defer func() { running = false }()
					<-ctx.Done()
					time.Sleep(time.Second)
					return up{}, nil
				}))
		})
		p := &tape{}
		slow := true
		r := runner(t, g, superstep.Config{Grace: 2 * time.Second, Observers: []func(task.Event){p.observe, func(ev task.Event) {
			if ev.Head().Kind == task.KindAttemptFailed && slow {
				slow = false
				cancel()
				time.Sleep(time.Minute)
			}
		}}})
		_, err := r.Run(ctx, st{})
		require.Error(t, err)
		require.False(t, running, "no sibling outlives the run")
		checkEvents(t, p.all())
		synctest.Wait()
		require.Zero(t, r.Abandoned())
	})
}

func TestRule08_AnObserverThatEndsItsGoroutineEndsTheStream(t *testing.T) {
	for _, kind := range []task.Kind{task.KindRunStarted, task.KindTaskStarted, task.KindRunCompleted} {
		r := runner(t, one(t, say("x")), superstep.Config{Observers: []func(task.Event){func(ev task.Event) {
			if ev.Head().Kind == kind {
				runtime.Goexit()
			}
		}}})
		var last error
		for _, err := range r.Stream(t.Context(), st{}) {
			last = err
		}
		var p *task.PanicError
		require.ErrorAs(t, last, &p, kind)
		require.Equal(t, any(task.ErrGoexit), p.Value, kind)
	}
}

func TestRule02_ARouterThatEndsItsGoroutineCommitsNothing(t *testing.T) {
	g := build(t, func(b *bld) {
		a := b.Node("a", say("never"))
		b.Start(a)
		b.Route(a, func(st) graph.Next { runtime.Goexit(); return graph.To() }, a)
	})
	res, err := runner(t, g, superstep.Config{}).Run(t.Context(), st{})
	require.Error(t, err)
	require.Empty(t, res.State.Log)
	require.Zero(t, res.SuperSteps)
}

func TestRule06_ARealFailureIsNotLostBehindAnObserversPanic(t *testing.T) {
	r := runner(t, one(t, fails(errBoom)), superstep.Config{Observers: []func(task.Event){func(ev task.Event) {
		if ev.Head().Kind == task.KindTaskFailed {
			panic("observer")
		}
	}}})
	_, err := r.Run(t.Context(), st{})
	require.ErrorIs(t, err, errBoom)
	var p *task.PanicError
	require.ErrorAs(t, err, &p)
}

func TestRule06_TheRunsErrorIsTheFirstFailureReported(t *testing.T) {
	for range 200 {
		var first error
		g := build(t, func(b *bld) {
			b.Start(b.Node("a", fails(errors.New("A"))), b.Node("b", fails(errors.New("B"))))
		})
		r := runner(t, g, superstep.Config{Observers: []func(task.Event){func(ev task.Event) {
			if f, is := ev.(*task.TaskFailed); is && first == nil {
				if _, is := f.Err.(*superstep.NodeError); is { //nolint:errorlint // not a cancelled sibling
					first = f.Err
				}
				runtime.Gosched()
			}
		}}})
		_, err := r.Run(t.Context(), st{})
		if first != nil {
			require.ErrorIs(t, err, first)
		}
	}
}

func TestRule12_AStopThatGivesUpLeavesNoGoroutine(t *testing.T) {
	release, open := gate(t)
	r := runner(t, one(t, func(ctx context.Context, _ st) (up, error) {
		<-release
		return up{}, nil
	}), superstep.Config{})
	done := make(chan struct{})
	started := make(chan struct{})
	go func() {
		defer close(done)
		for ev := range r.Stream(t.Context(), st{}) {
			if ev.Head().Kind == task.KindAttemptStarted {
				close(started)
			}
		}
	}()
	<-started
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	before := runtime.NumGoroutine()
	for range 50 {
		require.ErrorIs(t, r.Stop(ended), context.Canceled)
	}
	require.Less(t, runtime.NumGoroutine(), before+10)
	open()
	<-done
	require.NoError(t, r.Stop(t.Context()))
}

type level int

// String hides the value, and must not be asked.
func (level) String() string { return "level" }

type nested struct {
	Levels map[string]level
	Groups [][]string
}

func TestSemantics_CheckMutationLooksBehindMethodsAndBehindTheLengthOfInnerSlices(t *testing.T) {
	for path, change := range map[string]func(nested){
		"nested.Levels[k]":    func(s nested) { s.Levels["k"] = 7 },
		"nested.Groups[0][0]": func(s nested) { _ = append(s.Groups[0], "mine") },
	} {
		b := graph.New("nested", graph.Replace[nested]())
		b.Start(b.Node("a", func(_ context.Context, s nested) (nested, error) {
			change(s)
			return s, nil
		}))
		g, err := b.Compile()
		require.NoError(t, err)
		in := nested{Levels: map[string]level{"k": 1}, Groups: [][]string{make([]string, 0, 1)}}
		_, err = runner(t, g, superstep.Config{CheckMutation: true}).Run(t.Context(), in)
		var m *superstep.MutationError
		require.ErrorAs(t, err, &m)
		require.Equal(t, path, m.Path)
	}
}

func TestEvents_TellTheInstancesOfASubgraphApart(t *testing.T) {
	child := build(t, func(b *bld) { b.Start(b.Node("x", say("x"))) })
	g := build(t, func(b *bld) {
		sub := graph.Sub(b, "sub", child, func(s st) st { return st{} }, func(st) up { return up{Log: []string{"s"}} })
		b.Start(sub)
		b.Route(sub, func(s st) graph.Next {
			if len(s.Log) < 2 {
				return graph.To(sub)
			}
			return graph.To()
		}, sub)
	})
	scopes := map[string]bool{}
	for ev, err := range runner(t, g, superstep.Config{}).Stream(t.Context(), st{}) {
		require.NoError(t, err)
		if h := ev.Head(); h.Kind == task.KindTaskCompleted && h.Node == "sub/x" {
			scopes[h.Scope] = true
		}
	}
	require.Equal(t, map[string]bool{"1/sub[0]/": true, "2/sub[0]/": true}, scopes)
}
