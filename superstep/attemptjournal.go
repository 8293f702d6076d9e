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
	if stopped := a.stopped(); stopped != nil {
		return stopped
	}
	if isVerdict(returned) || isUnkept(returned) {
		return &foreignError{returned}
	}
	return returned
}

// stopped is why the attempt's journal has stopped it; nil if it has not.
func (a *attempt) stopped() error {
	if a.journal == nil {
		return nil
	}
	a.journal.mu.Lock()
	defer a.journal.mu.Unlock()
	if a.journal.scope == nil {
		return nil
	}
	return a.journal.scope.Outcome(nil)
}

// foreignError is what the journal of another run has to say, and a node has returned: to this run it is a failure like
// others.
type foreignError struct{ err error }

// Error is that of the other run.
func (e *foreignError) Error() string { return e.err.Error() }

// Unwrap returns the other run's error.
func (e *foreignError) Unwrap() error { return e.err }

// usage is what the last attempt has used.
func (c *call[S, U]) usage() task.Usage {
	if c.last == nil {
		return task.Usage{}
	}
	return c.last.used()
}
