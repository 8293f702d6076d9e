package durable

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// Which failures of calls are outcomes, and which are to run again. What stands behind a failure in its scope shows that the
// code has handled it, and so does a StepHandled, where what followed left no trace in the scope. But what an attempt
// returns nobody has handled, whatever stands behind it: that is reopened. Where a process has died before its attempt
// could return, and only a branch has begun behind the failure, the failure is served, and reopened if it is returned.

// handled returns the events of one scope without the failures that it ends with. Nothing behind them says that the code has
// gone on, so what failed is to run again; if that was a whole task, what failed last inside it is, too.
func handled(events []journal.Event) []journal.Event {
	if n := len(events); n > 0 && events[n-1].Kind == journal.StepError && events[n-1].Name == "" {
		events = events[:n-1]
	}
	failed := map[callKey]bool{}
	for _, e := range slices.Backward(events) {
		if e.Kind != journal.StepError || e.Name == "" {
			break
		}
		failed[callKey{e.Name, e.N}] = true
		if !isCut(e) { // a call that a context has ended does not tell what became of the one before it
			break
		}
	}
	for k := range failed {
		events = withoutFailures(events, k)
	}
	return events
}

// withoutFailures drops the failures of a call: each attempt of its task may have had one. What was done at most once keeps
// its own.
func withoutFailures(events []journal.Event, k callKey) []journal.Event {
	if lastFailure(events, k) < 0 {
		return events
	}
	return slices.DeleteFunc(slices.Clone(events), func(e journal.Event) bool { return isFailure(e, k) })
}

// isFailure reports whether an event belongs to what a call that may be made again has failed with: of a wait for a signal
// that is all of it.
func isFailure(e journal.Event, k callKey) bool {
	switch e.Kind {
	case journal.StepError, journal.SignalWait, journal.SignalReceived, journal.SignalTimeout:
		return e.Name == k.name && e.N == k.n
	}
	return false
}

// lastFailure finds the last failure of a call that may be made again, -1 if there is none.
func lastFailure(events []journal.Event, k callKey) int {
	at := -1
	for i, e := range events {
		switch {
		case isFailure(e, k):
			at = i
		case e.Kind == journal.StepIntent && e.Name == k.name && e.N == k.n:
			return -1
		}
	}
	return at
}

// handledMeta is the Meta of a StepHandled.
type handledMeta struct {
	// Perhaps is true if only a branch has begun behind the failure, which may be another goroutine's.
	Perhaps bool `json:"perhaps,omitempty"`
}

// doubtfulIn returns the call whose failure a scope ends with, and perhaps nobody has handled.
func doubtfulIn(events []journal.Event) (k callKey, ok bool) {
	n := len(events)
	if n < 2 || events[n-1].Kind != journal.StepHandled {
		return k, false
	}
	var m handledMeta
	e := events[n-2]
	ok = e.Kind == journal.StepError && e.Name != "" && readMeta(events[n-1], &m) == nil && m.Perhaps
	return callKey{e.Name, e.N}, ok
}

// Doubtful is for executors: it reports whether what an attempt of the task in a scope has returned consists of failures that
// it has only met again, and of which it was not known whether an earlier process had handled them. It has not: Reopen them,
// and let the attempt not count. The scope of a workflow is empty.
func (x *Execution) Doubtful(scope string, err error) bool { return len(x.doubted(scope, err)) > 0 }

func (x *Execution) doubted(scope string, err error) []FailedCall {
	calls := x.failedIn(err)
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.DeleteFunc(calls, func(c FailedCall) bool {
		return !x.doubts[c] || (scope != "" && !inScope(c.Scope, scope))
	})
}

// doubt keeps in mind that the call's failure is one of these.
func (c *call) doubt() {
	c.s.x.mu.Lock()
	defer c.s.x.mu.Unlock()
	c.s.x.doubts[c.failed()] = c.doubtful
}

// Reopen is for executors: it says that an attempt of the task in a scope has failed with err, and that there is to be
// another one. That calls again what err consists of, durable calls of the scope or of one inside it that have failed, even
// where the code went on behind them; and the steps behind them, which belong to a way that it may not take again. What was
// asked, received or done at most once behind them is served wherever the code comes to it.
//
// Only what the journal would say otherwise is written. The error is that of Append.
func (x *Execution) Reopen(ctx context.Context, scope string, err error) error {
	var events []journal.Event
	calls := x.failedIn(err)
	x.mu.Lock()
	for _, c := range calls {
		k := callKey{c.Name, c.N}
		if inScope(c.Scope, scope) && lastFailure(handled(x.record.scopes[c.Scope]), k) >= 0 {
			events = append(events, reopened(c))
		}
	}
	x.mu.Unlock()
	if len(events) == 0 {
		return nil
	}
	if err := x.Append(ctx, events...); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range events {
		c := FailedCall{Scope: e.Scope, Name: e.Name, N: e.N}
		x.record.reopen(c)
		delete(x.doubts, c)
	}
	return nil
}

func reopened(c FailedCall) journal.Event {
	return journal.Event{Kind: journal.StepReopened, Scope: c.Scope, Name: c.Name, N: c.N, Time: Now()}
}

// reopen takes back the failure of a call, with what its code, and the code around that, has gone on to behind it.
func (r *record) reopen(c FailedCall) {
	k := callKey{c.Name, c.N}
	i := lastFailure(r.scopes[c.Scope], k)
	switch {
	case i < 0 && r.over(c.Scope, k):
		return
	case i < 0: // a Once that was not called in the end
		r.scopes[c.Scope] = slices.DeleteFunc(slices.Clone(r.scopes[c.Scope]), func(e journal.Event) bool {
			return e.Kind == journal.StepIntent && callKey{e.Name, e.N} == k
		})
		return
	}
	failure := r.scopes[c.Scope][i]
	r.scopes[c.Scope] = withoutFailures(r.scopes[c.Scope], k)
	for scope, inside := c.Scope, true; inside; scope, inside = around(scope) {
		r.setAside(scope, failure)
		if scope == "" {
			r.displace(failure)
		}
	}
}

// over reports whether a call of a scope has an outcome.
func (r *record) over(scope string, k callKey) bool {
	return slices.ContainsFunc(r.scopes[scope], func(e journal.Event) bool {
		return (e.Kind == journal.StepDone || e.Kind == journal.StepError) && callKey{e.Name, e.N} == k
	})
}

// setAside drops the steps of a scope that began behind a failure, and makes the other calls there strays.
func (r *record) setAside(scope string, failure journal.Event) {
	drop, first := map[callKey]bool{}, map[callKey]bool{}
	for _, e := range r.scopes[scope] {
		k := callKey{e.Name, e.N}
		if e.Name == "" || first[k] {
			continue
		}
		first[k] = true
		switch {
		case e.Seq < failure.Seq, scope != failure.Scope && begun(e).Before(failure.Time):
		case kindOf(e) == stepCall, kindOf(e) == awaitCall:
			drop[k] = true
		default:
			r.strays[place{scope, k}] = true
		}
	}
	if len(drop) > 0 {
		r.scopes[scope] = slices.DeleteFunc(slices.Clone(r.scopes[scope]), func(e journal.Event) bool { return drop[callKey{e.Name, e.N}] })
	}
}

// displace takes the updates that were handled behind a failure from their places: the run may not come to these again. They
// are handled wherever it goes on.
func (r *record) displace(failure journal.Event) {
	r.updates = slices.DeleteFunc(r.updates, func(u handledUpdate) bool {
		e := u.event
		if e.Seq < failure.Seq || failure.Scope != "" && begun(e).Before(failure.Time) {
			return false
		}
		r.owed = append(r.owed, u)
		return true
	})
}

// begun is when the call began that an event is the end of.
func begun(e journal.Event) time.Time { return e.Time.Add(-e.Took.Truncate(time.Microsecond)) }

// around returns the scope that a branch, or the handler of an update, is part of.
func around(scope string) (outer string, isPart bool) {
	if updateNumber(scope) > 0 && !strings.Contains(scope, "/") {
		return "", true
	}
	i := strings.LastIndex(scope, "/")
	_, number, found := strings.Cut(scope[i+1:], "#")
	if !found || strings.TrimLeft(number, "0123456789") != "" {
		return "", false
	}
	return scope[:max(i, 0)], true
}
