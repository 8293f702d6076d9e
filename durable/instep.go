package durable

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"

	"github.com/pawl-go/pawl/task"
)

// inStep is what the context of a step's function has instead of a scope.
type inStep struct {
	scope *Scope // nil in a plain context
	outer *inStep
	name  string
	n     int

	mu   sync.Mutex
	uses map[string]int // of names inside the step
}

// inside is what the functions of c's step find in their context.
func (c *call) inside() *inStep { return &inStep{scope: c.s, name: c.name, n: c.n} }

// context is that of one attempt, in which names count from 1 again.
func (in *inStep) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, Key{}, &inStep{scope: in.scope, outer: in.outer, name: in.name, n: in.n})
}

// count counts the uses of a name.
func (in *inStep) count(name string) int {
	if in == nil {
		return 1
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.uses == nil {
		in.uses = map[string]int{}
	}
	in.uses[name]++
	return in.uses[name]
}

// within is the scope that the step belongs to; nil if there is none.
func (in *inStep) within() *Scope {
	for ; in != nil; in = in.outer {
		if in.scope != nil {
			return in.scope
		}
	}
	return nil
}

// path names the step in its scope.
func (in *inStep) path() string {
	if in == nil {
		return ""
	}
	return fmt.Sprintf("%s/%q %d", in.outer.path(), in.name, in.n)
}

// IdempotencyKey is the same in every attempt of the step that ctx belongs to, also after a restart of its run, and differs
// between any two steps. Hand it to providers and tools that can recognise a repeated request. Outside a step it is the key of
// the task (task.Task.IdempotencyKey). It is 32 characters of lower-case hex; empty in a context that belongs to no run, and
// in a workflow's body outside its steps.
func IdempotencyKey(ctx context.Context) string {
	_, in := scopeOf(ctx)
	s := in.within()
	if s == nil {
		return task.Info(ctx).IdempotencyKey()
	}
	// %q keeps the parts apart whatever characters an id is made of.
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %s", s.x.id, s.path, in.path()))
	return hex.EncodeToString(sum[:16])
}
