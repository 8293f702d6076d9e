package durable

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/task"
)

const branchCall callKind = "Branch"

// Branch calls fn with a scope of its own, in which its durable calls are found again. It is for code that makes durable
// calls in several goroutines at the same time: the calls of one scope are made one after the other, so each goroutine gets
// a Branch.
//
//	var g errgroup.Group
//	for _, city := range cities {
//		g.Go(func() error { return durable.Branch(ctx, city, func(ctx context.Context) error { return visit(ctx, city) }) })
//	}
//	err := g.Wait()
//
// Fn runs on the caller's goroutine, and its error is returned as it is. A Branch itself leaves no record: its code runs
// again with the code around it. Branches may overlap each other and the calls around them; only those of one name that
// run at the same time are an *OverlapError, and one after the other they are counted. A branch that waits suspends what
// it is part of, at its next durable call at the latest; other branches begin and go on until they return. Durable calls
// with fn's context after fn has returned are a *ScopeEndedError. All other errors are those of Step. A panic of fn is a
// *task.PanicError.
//
// Inside a step, and in a context that belongs to no run, it just calls fn.
func Branch(ctx context.Context, name string, fn func(ctx context.Context) error) (err error) {
	var bad []error
	if name == "" {
		bad = append(bad, errNoName)
	}
	if fn == nil {
		bad = append(bad, errNoFunction)
	}
	if len(bad) > 0 {
		return &OptionError{Call: string(branchCall), Name: name, Err: errors.Join(bad...)}
	}
	s, _ := scopeOf(ctx)
	if s == nil {
		return callBranch(ctx, name, fn)
	}
	child, err := s.enterBranch(ctx, name)
	if err != nil {
		return err
	}
	defer s.exitBranch(name)
	defer child.leave(&err)
	return callBranch(context.WithValue(ctx, Key{}, child), name, fn)
}

func callBranch(ctx context.Context, name string, fn func(ctx context.Context) error) (err error) {
	defer task.Recover(fmt.Sprintf("branch %q", name), &err)
	return fn(ctx)
}

// enterBranch begins a branch. What is behind the failures of the scope's calls shows that they were handled, perhaps: the
// branch may be another goroutine's, which has not heard of them.
func (s *Scope) enterBranch(ctx context.Context, name string) (*Scope, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.over(); err != nil {
		return nil, err
	}
	if s.stopped != nil {
		return nil, s.stopped
	}
	b := s.branches[name]
	if b == nil {
		b = &branches{}
		s.branches[name] = b
	}
	if b.open {
		s.stopped = &OverlapError{RunID: s.x.id, Scope: s.path, Name: name, Other: name, Branches: true}
		return nil, s.stopped
	}
	if ctx.Err() == nil { // a branch whose context a failure has ended handles nothing
		s.settleAll(handledMeta{Perhaps: true})
	}
	b.begun++
	b.open = true
	return s.branch(s.branchPath(name, b.begun)), nil
}

// exitBranch makes room for the next branch of the name.
func (s *Scope) exitBranch(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.branches[name].open = false
}

// leave ends a branch that has returned err. If it was stopped, so is the scope around it.
func (s *Scope) leave(err *error) {
	s.Close(&ScopeEndedError{RunID: s.x.id, Scope: s.path})
	s.mu.Lock()
	stopped := s.why()
	s.mu.Unlock()
	switch {
	case stopped != nil:
		s.parent.stopAround(stopped)
		*err = stopped
	case *err == nil:
		s.settle(handledMeta{})
	case s.troubled():
		s.parent.mu.Lock()
		s.parent.unsettled = append(s.parent.unsettled, s)
		s.parent.mu.Unlock()
	}
}

// stopAround stops a scope because one of its branches was stopped.
func (s *Scope) stopAround(err error) {
	suspended, is := err.(*SuspendedError) //nolint:errorlint // just what suspend has made
	if !is {
		s.stop(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused == nil {
		s.paused = suspended
	}
}
