package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-go/pawl/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a Runtime that records.
type fake struct {
	mu     sync.Mutex
	task   task.Task
	events []task.Event
	usage  task.Usage
}

func (f *fake) Task() task.Task { return f.task }

func (f *fake) Emit(ev task.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	task.Stamp(ev, task.Header{RunID: f.task.RunID, Node: f.task.Node, Time: time.Unix(0, 0).UTC()})
	f.events = append(f.events, ev)
}

func (f *fake) AddUsage(u task.Usage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.usage = f.usage.Plus(u)
}

func TestOutsideOfARunInfoIsZeroAndAllElseIsANoOp(t *testing.T) {
	for name, ctx := range map[string]context.Context{
		"plain": context.Background(), "with values": context.WithValue(context.Background(), task.Key{}, "not a runtime"),
	} {
		t.Run(name, func(t *testing.T) {
			require.Zero(t, task.Info(ctx))
			require.Empty(t, task.Info(ctx).IdempotencyKey(), "the zero Task has the empty key")
			require.NotPanics(t, func() {
				task.Emit(ctx, 1)
				task.EmitToken(ctx, task.TokenDelta{Text: "x"})
				task.AddUsage(ctx, task.Usage{Calls: 1})
			})
		})
	}
}

func TestInsideOfARunTheRuntimeIsReachedThroughDerivedContexts(t *testing.T) {
	type key struct{}
	f := &fake{task: task.Task{RunID: "r", Node: "n", Attempt: 2, SuperStepsLeft: 3}}
	ctx, cancel := context.WithCancel(context.WithValue(task.NewContext(t.Context(), f), key{}, "v"))
	cancel()
	for _, ctx := range []context.Context{ctx, context.WithoutCancel(ctx)} {
		require.Equal(t, f.task, task.Info(ctx))
		task.Emit(ctx, "v")
		task.EmitToken(ctx, task.TokenDelta{Text: "x", Choice: 1, Provider: "p"})
		task.AddUsage(ctx, task.Usage{Calls: 1, PromptTokens: 2, CompletionTokens: 3})
	}
	require.Len(t, f.events, 4)
	custom, ok := f.events[0].(*task.Custom)
	require.True(t, ok)
	require.Equal(t, "v", custom.Value)
	require.Equal(t, task.KindCustom, custom.Kind)
	token, ok := f.events[1].(*task.TokenDelta)
	require.True(t, ok)
	require.Equal(t, "x", token.Text)
	require.Equal(t, task.Usage{Calls: 2, PromptTokens: 4, CompletionTokens: 6}, f.usage)
}

func TestEmitTokenDoesNotShareTheCallersValue(t *testing.T) {
	f := &fake{task: task.Task{RunID: "r"}}
	d := task.TokenDelta{Text: "x"}
	task.EmitToken(task.NewContext(t.Context(), f), d)
	require.Empty(t, d.RunID, "the header is filled in the event, not in the caller's value")
}

func TestIdempotencyKeyIsTheSameInEveryAttemptAndDiffersBetweenTasks(t *testing.T) {
	base := task.Task{RunID: "r", Scope: "2/research[0]/", Node: "research/search", SuperStep: 3, Index: 4, Attempt: 1, SuperStepsLeft: 9}
	again := base
	again.Attempt, again.SuperStepsLeft = 7, 1
	require.Equal(t, base.IdempotencyKey(), again.IdempotencyKey())
	require.Regexp(t, "^[0-9a-f]{32}$", base.IdempotencyKey())

	seen := map[string]task.Task{}
	hard := []string{"", "a", "b", `"`, `" "`, "\n", "a b", `a" "b`, "1", "1 1", "\x00", "é", "e\u0301", "\xff", "\ufffd", `\"`, `\n`}
	for _, run := range hard[1:] {
		for _, scope := range hard {
			for _, node := range hard {
				for _, step := range []int{0, 1, 11} {
					for _, index := range []int{0, 1, 11} {
						k := task.Task{RunID: run, Scope: scope, Node: node, SuperStep: step, Index: index}
						if other, ok := seen[k.IdempotencyKey()]; ok {
							require.Fail(t, "two tasks share a key", "%+v and %+v", k, other)
						}
						seen[k.IdempotencyKey()] = k
					}
				}
			}
		}
	}
}

func TestIdempotencyKeyIsStableOverReleases(t *testing.T) {
	// Keys are sent to providers, and a run may go on under a later release: they must never change.
	k := task.Task{RunID: "tides-42", Scope: "2/research[0]/", Node: "research/search", SuperStep: 3, Index: 4}
	want, err := os.ReadFile("testdata/idempotency_key")
	require.NoError(t, err)
	require.Equal(t, string(want), k.IdempotencyKey())
}

func TestUsageAddsUp(t *testing.T) {
	a, b := task.Usage{Calls: 1, PromptTokens: 2, CompletionTokens: 3}, task.Usage{Calls: 10, PromptTokens: 20, CompletionTokens: 30}
	require.Equal(t, task.Usage{Calls: 11, PromptTokens: 22, CompletionTokens: 33}, a.Plus(b))
	require.Equal(t, a.Plus(b), b.Plus(a))
	require.Equal(t, a, a.Plus(task.Usage{}))
}

func TestRecoverTurnsAPanicIntoAnError(t *testing.T) {
	try := func(v any) (err error) {
		defer task.Recover("router", &err)
		panic(v)
	}
	for _, v := range []any{"text", errors.New("e"), 7, nil} {
		var p *task.PanicError
		require.ErrorAs(t, try(v), &p)
		require.Equal(t, "router", p.Whose)
		require.True(t, p.Unretryable())
		require.Contains(t, string(p.Stack), "task_test.go")
		if v == nil {
			require.IsType(t, new(runtime.PanicNilError), p.Value)
			continue
		}
		require.Equal(t, v, p.Value)
		require.Equal(t, fmt.Sprintf("pawl: panic in router: %v", v), p.Error())
	}
	keep := func() (err error) {
		defer task.Recover("router", &err)
		return errors.New("kept")
	}
	require.EqualError(t, keep(), "kept", "no panic: the error stays")
}

func TestAPanicErrorDoesNotTellItsStackInItsText(t *testing.T) {
	require.NotContains(t, (&task.PanicError{Whose: "x", Value: "v", Stack: []byte("goroutine")}).Error(), "goroutine")
}

func TestEveryEventHasItsKindAndIsJSON(t *testing.T) {
	for kind, ev := range map[task.Kind]task.Event{
		"run_started": new(task.RunStarted), "super_step_started": new(task.SuperStepStarted), "task_started": new(task.TaskStarted),
		"attempt_started": new(task.AttemptStarted), "token_delta": new(task.TokenDelta), "custom": new(task.Custom),
		"attempt_failed": new(task.AttemptFailed), "attempt_discarded": new(task.AttemptDiscarded),
		"task_completed": new(task.TaskCompleted), "task_abandoned": new(task.TaskAbandoned),
		"task_failed": new(task.TaskFailed), "super_step_completed": new(task.SuperStepCompleted),
		"join_unfired": new(task.JoinUnfired), "run_completed": new(task.RunCompleted[int]), "run_failed": new(task.RunFailed),
		"run_cancelled": new(task.RunCancelled),
	} {
		h := task.Header{RunID: "r", Node: "n", SuperStep: 1, Index: 2, Attempt: 3, Time: time.Unix(1, 0).UTC(), Kind: "wrong"}
		task.Stamp(ev, h)
		require.Equal(t, kind, ev.Head().Kind)
		h.Kind = kind
		require.Equal(t, h, *ev.Head())
		b, err := json.Marshal(ev)
		require.NoError(t, err)
		var m map[string]any
		require.NoError(t, json.Unmarshal(b, &m))
		require.Equal(t, string(kind), m["kind"])
		require.Equal(t, "r", m["run_id"])
		require.Equal(t, "n", m["node"])
		require.Equal(t, "1970-01-01T00:00:01Z", m["time"])
	}
}

func TestAHeaderNamesItsTask(t *testing.T) {
	for want, h := range map[string]task.Header{
		"":                     {},
		"draft":                {Node: "draft"},
		"search[0]":            {Node: "search", FannedOut: true},
		"research[1]/fetch[3]": {Node: "research[1]/fetch", Index: 3, FannedOut: true},
	} {
		require.Equal(t, want, h.Task())
	}
}
