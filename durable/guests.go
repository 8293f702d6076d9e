package durable

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// How updates and queries reach the body of a workflow: on its goroutine, when it enters a call of its own scope. An update
// that has changed the run is recorded with the call that it came before, and a replay handles it there.

// guests is what a body has for those who ask it something.
type guests struct {
	updates map[string]updateHandler
	queries map[string]queryHandler
	// recorded are the updates that were handled before a call, which is yet to be met. Owed are those of which nobody can say
	// any more where they belong, since what they stood behind was reopened.
	recorded map[callKey][]handledUpdate
	owed     []handledUpdate
}

// newGuests takes from the record what concerns the body.
func (x *Execution) newGuests() *guests {
	g := &guests{
		updates: map[string]updateHandler{}, queries: map[string]queryHandler{},
		recorded: map[callKey][]handledUpdate{}, owed: x.record.owed,
	}
	for _, u := range x.record.updates {
		k := u.meta.Before.key()
		g.recorded[k] = append(g.recorded[k], u)
	}
	x.record.updates, x.record.owed = nil, nil
	return g
}

// guestsOf returns the body that a handler can be registered with.
func (s *Scope) guestsOf(call string) (*guests, error) {
	if s.guests == nil {
		return nil, &PlacementError{Call: call, Why: fmt.Sprintf(
			"scope %q is not the body of a workflow: register handlers there, before its first durable call", s.path)}
	}
	return s.guests, nil
}

// welcome handles what is to be handled before a call of the body, whose record is e, if it has one. The caller holds mu,
// which is not held meanwhile.
func (s *Scope) welcome(c *call, e *entry) error {
	live := (e == nil || e.open()) && s.lastUnmet(e)
	if len(s.guests.recorded) == 0 && (!live || len(s.guests.owed) == 0 && !s.x.asked()) {
		return nil
	}
	s.flying = c // a call that comes now overlaps
	s.mu.Unlock()
	err := s.replayUpdates(callKey{c.name, c.n})
	if err == nil && live {
		_, err = s.receive(c, false)
	}
	s.mu.Lock()
	s.flying = nil
	if err != nil {
		return err
	}
	return s.ended()
}

// open reports whether the call of an entry can still wait: what comes now comes before its end.
func (e *entry) open() bool {
	last := e.events[len(e.events)-1]
	switch e.kind {
	case onceCall:
		return last.Kind == journal.StepIntent
	case sleepCall:
		var m timerMeta
		return readMeta(last, &m) == nil && time.Now().Before(m.Due)
	case signalCall, awaitCall:
		return last.Kind == journal.SignalWait
	case questionCall:
		return last.Kind == journal.QuestionAsked
	case childCall:
		return last.Kind == journal.ChildStart
	}
	return false
}

// lastUnmet reports whether there is no recorded call that is still to be met, but for this one. The caller holds mu.
func (s *Scope) lastUnmet(e *entry) bool {
	for _, other := range s.record[s.next:] {
		if other != e && !other.met && !other.stray {
			return false
		}
	}
	return true
}

// receive handles the updates and queries that have come, in their order, before a call that has no outcome yet. Names that
// the body has no handler for are let be, unless it is about to wait. It returns how many updates have changed the run.
func (s *Scope) receive(c *call, waiting bool) (changed int, _ error) {
	if len(s.guests.recorded) > 0 || s.idle() { // it has not come as far as it has been, or ends
		return 0, nil
	}
	for {
		again, ok := s.nextOwed()
		if !ok {
			break
		}
		if err := s.updateAgain(c, again); err != nil {
			return changed, err
		}
		changed++
	}
	for !s.x.Paused() {
		m, ok := s.x.nextGuest(func(m journal.Message) bool { return waiting || s.expects(m) })
		if !ok {
			break
		}
		done, err := s.handle(c, m)
		if err != nil {
			return changed, err
		}
		if done {
			changed++
		}
	}
	return changed, nil
}

// nextOwed takes an update that was handled at a place which the run has not come to again, if its handler is there.
func (s *Scope) nextOwed() (handledUpdate, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.guests
	i := slices.IndexFunc(g.owed, func(u handledUpdate) bool { return g.updates[u.event.Name] != nil })
	if i < 0 {
		return handledUpdate{}, false
	}
	again := g.owed[i]
	g.owed = slices.Delete(g.owed, i, i+1)
	return again, true
}

// expects reports whether a message can be dealt with now. A query of an unknown name is told so at once: it may be asked again.
func (s *Scope) expects(m journal.Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.guests.updates[m.Name]
	return known || m.Kind == journal.QueryMessage
}

// handle deals with a message. Changed says that it was an update that has changed the run, or may have.
func (s *Scope) handle(c *call, m journal.Message) (changed bool, err error) {
	var e journal.Event
	if m.Kind == journal.QueryMessage {
		e = s.query(m)
	} else if e, err = s.update(c, m); err != nil {
		return false, err
	}
	if err := s.x.Append(s.base, e); err != nil {
		return false, err
	}
	return e.Kind == journal.UpdateDone || e.Kind == journal.UpdateError, nil
}

// partWithGuests answers what is left of the queries, and turns away updates that nobody knows, behind a body that waits.
// What it knows it may still come to.
func (s *Scope) partWithGuests() {
	for !s.x.Paused() {
		m, ok := s.x.nextGuest(func(m journal.Message) bool { return m.Kind == journal.QueryMessage || !s.expects(m) })
		if !ok {
			return
		}
		if m.Kind == journal.QueryMessage {
			s.x.Hold(s.query(m))
		} else {
			s.x.Hold(s.x.refusal(m, RefusedUnknown, nil))
		}
	}
}

// dismiss gives those who still wait for an answer one, along with the last event of the execution. A run that goes on as
// another one takes them along.
func (x *Execution) dismiss(last journal.Kind) {
	switch {
	case x.Broken() != nil, last == journal.RunContinued:
	case last.Terminal():
		x.turnAway(RefusedEnded)
	case last == journal.RunSuspended && x.body != nil:
		x.body.partWithGuests()
	case last == journal.RunSuspended:
		x.TurnAway()
	}
}

// TurnAway is for executors whose code takes neither updates nor queries: it tells those who have sent one, along with the
// next append.
func (x *Execution) TurnAway() { x.turnAway(RefusedGraph) }

func (x *Execution) turnAway(reason Refusal) {
	for {
		m, ok := x.nextGuest(nil)
		if !ok {
			return
		}
		x.Hold(x.refusal(m, reason, nil))
	}
}

// idle reports whether the body takes up nothing new.
func (s *Scope) idle() bool {
	return s.base.Err() != nil || s.x.ctx.Err() != nil || s.x.Broken() != nil
}
