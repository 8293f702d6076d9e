package superstep

import (
	"sync"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/task"
)

// attemptJournal gives an attempt its scope, which is made when the node's code asks for it: most never do.
type attemptJournal struct {
	x     *durable.Execution
	path  string
	once  sync.Once
	mu    sync.Mutex
	scope *durable.Scope
}

func (j *attemptJournal) scopeOf(a *attempt) *durable.Scope {
	j.once.Do(func() {
		scope := j.x.Task(j.path, a.alive)
		scope.Within(a)
		j.mu.Lock()
		defer j.mu.Unlock()
		j.scope = scope
	})
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.scope
}

// alive says why an attempt may make no more durable calls.
func (a *attempt) alive() error {
	switch {
	case a.strand.lost():
		return &durable.AbandonedError{RunID: a.run.id, Scope: a.journal.path}
	case a.over.Load():
		return &durable.ScopeEndedError{RunID: a.run.id, Scope: a.journal.path}
	}
	return nil
}

// outcome is what counts of what an attempt has returned: one that its journal has stopped has no say in it.
func (a *attempt) outcome(returned error) error {
	if a.journal == nil {
		return returned
	}
	a.journal.mu.Lock()
	defer a.journal.mu.Unlock()
	if a.journal.scope == nil {
		return returned
	}
	return a.journal.scope.Outcome(returned)
}

// usage is what the last attempt has used.
func (c *call[S, U]) usage() task.Usage {
	if c.last == nil {
		return task.Usage{}
	}
	return c.last.used()
}
