package superstep_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

func TestInfo_TellsEveryTaskWhoItIsAndKeysDifferBetweenAnyTwoTasks(t *testing.T) {
	var mu sync.Mutex
	infos := map[string]map[string]task.Task{} // by key, then by what the task is
	note := func(ctx context.Context) task.Task {
		mu.Lock()
		defer mu.Unlock()
		i := task.Info(ctx)
		who := fmt.Sprintf("%q %q %q %d %d", i.RunID, i.Scope, i.Node, i.SuperStep, i.Index)
		if infos[i.IdempotencyKey()] == nil {
			infos[i.IdempotencyKey()] = map[string]task.Task{}
		}
		infos[i.IdempotencyKey()][who] = i
		return i
	}
	leaf := build(t, func(b *bld) {
		x := b.Node("x", func(ctx context.Context, _ st) (up, error) {
			if note(ctx).Attempt == 1 {
				return up{}, classifier.Transient(errBoom)
			}
			return up{N: 1}, nil
		}, graph.Retry(policyNow(2)))
		b.Start(x)
		b.Route(x, func(s st) graph.Next { // twice in each instance
			if s.N < 2 {
				return graph.To(x)
			}
			return graph.To()
		}, x)
	})
	middle := build(t, func(b *bld) {
		s := b.Node("s", say())
		sub := graph.SubTask(b, "sub", leaf, func(st, int) st { return st{} }, func(s st) up { return up{N: s.N} })
		b.Start(s)
		b.Route(s, each(sub, 0, 1, 2), sub)
	})
	g := build(t, func(b *bld) {
		sub := graph.Sub(b, "mid dle\"", middle, func(st) st { return st{} }, func(s st) up { return up{N: s.N} })
		x := b.Node("x", func(ctx context.Context, _ st) (up, error) { note(ctx); return up{}, nil })
		b.Start(sub, x)
		b.Route(sub, func(s st) graph.Next { // the same subgraph again in a later super-step
			if s.N < 12 {
				return graph.To(sub, x)
			}
			return graph.To()
		}, sub, x)
	})
	r := runner(t, g, superstep.Config{MaxSuperSteps: 10, Logger: quiet()})
	for _, id := range []string{"a", "a\n", `a"`, "b"} {
		_, err := r.Run(t.Context(), st{}, superstep.RunID(id))
		require.NoError(t, err)
	}
	require.Len(t, infos, 4*(2*3*2+2), "runs x (super-steps x items x super-steps of the leaf, and x)")
	attempts := map[int]int{}
	for _, who := range infos {
		require.Len(t, who, 1, "one key, one task")
		for _, i := range who {
			attempts[i.Attempt]++
			if i.Node == "x" {
				require.Empty(t, i.Scope)
				require.Equal(t, 10-i.SuperStep, i.SuperStepsLeft)
			} else {
				require.Contains(t, i.Node, `mid dle"/sub[`)
				require.NotEmpty(t, i.Scope)
				require.Equal(t, 10-i.SuperStep, i.SuperStepsLeft, "the leaf has a limit of its own")
			}
		}
	}
	require.Equal(t, map[int]int{1: 8, 2: 48}, attempts)
}

func TestInfo_UsageOfFailedAndDiscardedWorkCounts(t *testing.T) {
	use := func(ctx context.Context, _ st) (up, error) {
		task.AddUsage(ctx, task.Usage{Calls: 1, PromptTokens: 10, CompletionTokens: 1})
		return up{}, classifier.Transient(errBoom)
	}
	child := one(t, use, graph.Retry(policyNow(3)))
	g := build(t, func(b *bld) {
		b.Start(graph.Sub(b, "sub", child, func(s st) st { return s }, func(st) up { return up{} }))
	})
	o := play(t.Context(), t, g, superstep.Config{Logger: quiet()}, st{})
	require.ErrorIs(t, o.err, errBoom)
	require.Equal(t, task.Usage{Calls: 3, PromptTokens: 30, CompletionTokens: 3}, o.Usage, "also of a run that failed")
}

func TestInfo_ARunInsideANodeIsARunOfItsOwn(t *testing.T) {
	inner := runner(t, one(t, func(ctx context.Context, _ st) (up, error) {
		task.AddUsage(ctx, task.Usage{Calls: 1})
		task.Emit(ctx, "inner")
		return up{V: task.Info(ctx).RunID}, nil
	}), superstep.Config{})
	o := play(t.Context(), t, one(t, func(ctx context.Context, _ st) (up, error) {
		res, err := inner.Run(ctx, st{}, superstep.RunID("inner"))
		task.Emit(ctx, "outer")
		return up{V: res.State.V}, err
	}), superstep.Config{}, st{}, superstep.RunID("outer"))
	require.NoError(t, o.err)
	require.Equal(t, "inner", o.State.V)
	require.Len(t, only[*task.Custom](o.events), 1)
	require.Zero(t, o.Usage)
}
