package superstep_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

// What users may hand to an executor, and what must not hang or crash it.

// cyclic is an error whose tree never ends.
type cyclic struct{}

func (*cyclic) Error() string   { return "cyclic" }
func (c *cyclic) Unwrap() error { return c }

func TestRule09_ACallThatGoesOnEmittingIsAbandonedAfterTwiceTheGraceAtMost(t *testing.T) {
	for _, tasks := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			var stop atomic.Bool
			defer stop.Store(true)
			b := graph.New("busy", graph.Fields[st, up]())
			for _, name := range []string{"a", "b", "c"}[:tasks] {
				b.Start(b.Node(name, func(ctx context.Context, _ st) (up, error) {
					for !stop.Load() {
						task.EmitToken(ctx, task.TokenDelta{Text: "x"})
						time.Sleep(time.Microsecond) // or the bubble's time would stand still
					}
					return up{}, nil
				}))
			}
			g, err := b.Compile()
			require.NoError(t, err)
			r := runner(t, g, superstep.Config{Grace: time.Second, Observers: []func(task.Event){func(task.Event) { time.Sleep(time.Millisecond) }}})
			var left time.Time
			n := 0
			for range r.Stream(t.Context(), st{}) {
				if n++; n == 20 {
					left = time.Now()
					break
				}
			}
			require.Less(t, time.Since(left), 3*time.Second)
			require.Equal(t, tasks, r.Abandoned())
			stop.Store(true)
			synctest.Wait()
			time.Sleep(time.Second)
			require.Zero(t, r.Abandoned())
		})
	}
}

// oddError cannot be compared.
type oddError []string

func (oddError) Error() string { return "odd" }

// oddContext is a context of somebody else's making.
type oddContext struct {
	context.Context //nolint:containedctx // it is one
	done            chan struct{}
}

func (c *oddContext) Done() <-chan struct{} { return c.done }
func (c *oddContext) Err() error {
	select {
	case <-c.done:
		return oddError{"ended"}
	default:
		return nil
	}
}

func TestRule10_AContextMayEndWithAnyError(t *testing.T) {
	for _, early := range []bool{true, false} {
		ctx := &oddContext{Context: t.Context(), done: make(chan struct{})}
		if early {
			close(ctx.done)
		}
		_, err := runner(t, one(t, func(inner context.Context, _ st) (up, error) {
			close(ctx.done)
			<-inner.Done()
			return up{}, inner.Err()
		}), superstep.Config{}).Run(ctx, st{})
		var c *superstep.CancelledError
		require.ErrorAs(t, err, &c)
		require.ErrorIs(t, err, context.Canceled)
	}
}

func TestRule08_AnErrorWithoutEndHangsNothing(t *testing.T) {
	failing := graph.New("child", graph.Merge(func(s st, _ []graph.Write[up]) (st, error) { return s, &cyclic{} }))
	failing.Start(failing.Node("x", say("x")))
	child, err := failing.Compile()
	require.NoError(t, err)
	for name, g := range map[string]*graph.Graph[st, up]{
		"node": one(t, func(context.Context, st) (up, error) { return up{}, &cyclic{} }),
		"reducer in a subgraph": build(t, func(b *bld) {
			b.Start(graph.Sub(b, "s", child, func(st) st { return st{} }, func(st) up { return up{} }))
		}),
		"caught": build(t, func(b *bld) {
			n := b.Node("n", func(context.Context, st) (up, error) { return up{}, &cyclic{} })
			b.Start(n)
			b.Catch(n, func(context.Context, st, error) (up, error) { return up{}, &cyclic{} })
		}),
	} {
		res, err := runner(t, g, superstep.Config{}).Run(t.Context(), st{})
		require.Error(t, err, name)
		require.Zero(t, res.SuperSteps, name)
	}
}

func TestRule08_AClassifierThatEndsItsGoroutineEndsTheRun(t *testing.T) {
	cfg := superstep.Config{Classifier: classifier.Func(func(error) classifier.Classification { runtime.Goexit(); panic("never") })}
	_, err := runner(t, one(t, fails(io.EOF)), cfg).Run(t.Context(), st{})
	var p *task.PanicError
	require.ErrorAs(t, err, &p)
	require.Equal(t, any(task.ErrGoexit), p.Value)
}

func TestSemantics_CheckMutationEndsOnStatesThatContainThemselves(t *testing.T) {
	m := map[string]any{"n": 1}
	m["self"] = m
	list := []any{1, nil}
	list[1] = list
	b := graph.New("self", graph.Replace[[]any]())
	b.Start(b.Node("a", func(_ context.Context, s []any) ([]any, error) {
		s[0].(map[string]any)["n"] = 2
		return s, nil
	}))
	g, err := b.Compile()
	require.NoError(t, err)
	_, err = runner(t, g, superstep.Config{CheckMutation: true}).Run(t.Context(), []any{m, list})
	var mutated *superstep.MutationError
	require.ErrorAs(t, err, &mutated)
	require.Equal(t, "state[0][n]", mutated.Path)
}

func TestRunner_TakesUpdatesOfAnySize(t *testing.T) {
	type large = [1 << 14]int
	b := graph.New("large", graph.Replace[large]())
	b.Start(b.Node("a", func(_ context.Context, s large) (large, error) {
		s[0] = 1
		return s, nil
	}, graph.Timeout(time.Minute)))
	g, err := b.Compile()
	require.NoError(t, err)
	res, err := runner(t, g, superstep.Config{}).Run(t.Context(), large{})
	require.NoError(t, err)
	require.Equal(t, 1, res.State[0])
}

func TestRunner_MakesASharedSubgraphReadyOnce(t *testing.T) {
	g := one(t, say("x"))
	for range 40 { // 2^40 instances, if each were made ready by itself
		inner := g
		g = build(t, func(b *bld) {
			in, out := func(s st) st { return s }, func(st) up { return up{} }
			b.Start(graph.Sub(b, "left", inner, in, out), graph.Sub(b, "right", inner, in, out))
		})
	}
	runner(t, g, superstep.Config{})
}

func TestRule10_ADeadlineOfTheRunIsNoFailureHoweverItIsReported(t *testing.T) {
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_, err := runner(t, one(t, func(ctx context.Context, _ st) (up, error) {
			deadline, _ := ctx.Deadline()
			for time.Now().Before(deadline) {
				runtime.Gosched()
			}
			return up{}, errors.New("i/o timeout")
		}), superstep.Config{}).Run(ctx, st{})
		cancel()
		var c *superstep.CancelledError
		require.ErrorAs(t, err, &c)
	}
}

// silent is an error that means to know its class, and panics when it is nil.
type silent struct{ class classifier.RunErrorClass }

func (s *silent) Error() string                           { return string(s.class) }
func (s *silent) RunErrorClass() classifier.RunErrorClass { return s.class }

func TestRule08_ATypedNilOfACatchHandlerCrashesNothing(t *testing.T) {
	g := build(t, func(b *bld) {
		n := b.Node("n", fails(errBoom))
		b.Start(n)
		b.Catch(n, func(context.Context, st, error) (up, error) { return up{}, (*silent)(nil) })
	})
	o := play(t.Context(), t, g, superstep.Config{}, st{})
	var caught *superstep.CatchError
	require.ErrorAs(t, o.err, &caught)
	require.ErrorIs(t, o.err, errBoom)
}
