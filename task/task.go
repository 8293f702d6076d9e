// Package task is what running code knows of its task, and what a run says of itself.
//
// An executor calls a node's function with a context that carries the task: one activation of the node in one
// super-step. The function can ask which task it is, hand a stable key to a provider, and speak to whoever watches
// the run:
//
//	func charge(ctx context.Context, s State) (Update, error) {
//		key := task.Info(ctx).IdempotencyKey() // the same in every attempt
//		task.Emit(ctx, Progress{Done: 3, Of: 7})
//		...
//	}
//
// In a context without a task all of this is a harmless no-op, so the same function runs in a plain unit test.
//
// The package holds facts only: it starts no goroutine, keeps no state and imports nothing of Pawl.
package task

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Task says which task, and which attempt of it, is running. The zero Task means "not inside a run".
type Task struct {
	// RunID names the run.
	RunID string
	// Scope names the subgraph instance the task runs in, made of the tasks that enclose it ("2/research[0]/"). It is
	// empty in the run's own graph.
	Scope string
	// Node is the node's path: its name, behind the path of the task that encloses it ("research/search[3]/fetch").
	Node string
	// SuperStep counts from 1 within the task's graph.
	SuperStep int
	// Index is the task's place in its fan-out, from 0; 0 for a node that is not fanned out.
	Index int
	// Attempt counts from 1. A Catch handler counts as one attempt more than those that failed.
	Attempt int
	// SuperStepsLeft is how many super-steps may follow this one before the graph's limit ends the run.
	SuperStepsLeft int
}

// IdempotencyKey is the same in every attempt of a task, also after a restart of its run, and differs between any two
// tasks. Hand it to providers and tools that can recognise a repeated request. It is 32 characters of lower-case hex;
// the zero Task has the empty key.
func (t Task) IdempotencyKey() string {
	if t.RunID == "" {
		return ""
	}
	// %q keeps the parts apart whatever characters an id is made of.
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %d %d", t.RunID, t.Scope, t.Node, t.SuperStep, t.Index))
	return hex.EncodeToString(sum[:16])
}

// Runtime is for executors: what they provide to a running task. Code that runs in a task does not use it: it calls Info,
// Emit, EmitToken and AddUsage. All methods must be safe for concurrent use, and do nothing once the attempt is over.
type Runtime interface {
	// Task says which task and attempt is running.
	Task() Task
	// Emit hands an event to whoever watches the run, after it has filled the event's header.
	Emit(Event)
	// AddUsage adds to what the run has used.
	AddUsage(Usage)
}

// Key is for executors: the context key under which an executor keeps the Runtime of a task. An executor either calls NewContext or
// answers this key from a context type of its own.
type Key struct{}

// NewContext is for executors and tests: it returns a context that carries rt.
func NewContext(ctx context.Context, rt Runtime) context.Context {
	return context.WithValue(ctx, Key{}, rt)
}

func runtimeOf(ctx context.Context) (Runtime, bool) {
	rt, ok := ctx.Value(Key{}).(Runtime)
	return rt, ok
}

// Info returns the task that ctx belongs to, or the zero Task.
func Info(ctx context.Context) Task {
	if rt, ok := runtimeOf(ctx); ok {
		return rt.Task()
	}
	return Task{}
}

// Emit sends v to whoever watches the run, as a Custom event. It returns when every observer and the stream's consumer
// have taken it. Events of an attempt that is over are dropped.
func Emit(ctx context.Context, v any) {
	if rt, ok := runtimeOf(ctx); ok {
		rt.Emit(&Custom{Value: v})
	}
}

// EmitToken sends a piece of a model's answer to whoever watches the run, as a TokenDelta event, as Emit does.
func EmitToken(ctx context.Context, d TokenDelta) {
	if rt, ok := runtimeOf(ctx); ok {
		rt.Emit(&d)
	}
}

// AddUsage adds u to what the run has used. What failed attempts used was paid for and counts too.
func AddUsage(ctx context.Context, u Usage) {
	if rt, ok := runtimeOf(ctx); ok {
		rt.AddUsage(u)
	}
}

// Usage is what model calls have used.
type Usage struct {
	// Calls is the number of calls that reached a provider.
	Calls int `json:"calls"`
	// PromptTokens and CompletionTokens are as the providers reported them; a provider that reports none adds zero.
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
}

// Plus returns the sum of u and v.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		Calls:            u.Calls + v.Calls,
		PromptTokens:     u.PromptTokens + v.PromptTokens,
		CompletionTokens: u.CompletionTokens + v.CompletionTokens,
	}
}
