package durable

import (
	"context"

	"github.com/pawl-go/pawl/journal"
)

// Gate lets code change under runs that are under way. It is true for a run that comes here with this code for the first
// time, and false for one that has passed this place before the gate was there, which has to go the old way:
//
//	if fresh, err := durable.Gate(ctx, "send by queue"); err != nil {
//		return err
//	} else if fresh {
//		return enqueue(ctx, report) // makes other durable calls than before
//	}
//	return mail(ctx, report) // as before the change
//
// How it tells: a run that has recorded calls of this scope that lie ahead has been here before. Where the answer is true it
// is recorded. The first answer for a change holds for the whole scope, so a loop goes one way. Remove the gate, and the old
// way, when no run from before the change is left; one that has recorded the gate must have ended, too.
//
// Inside a step, and in a context that belongs to no run, it is true. Its errors are those of Step.
func Gate(ctx context.Context, change string) (bool, error) {
	if change == "" {
		return false, &OptionError{Call: string(gateCall), Name: change, Err: errNoName}
	}
	s, _ := scopeOf(ctx)
	if s == nil {
		return true, nil
	}
	if old, known := s.passed(change); known || old {
		return !old, nil
	}
	c, err := s.enter(ctx, gateCall, change)
	if err != nil {
		return false, err
	}
	defer c.exit()
	if len(c.recorded) == 0 {
		if err := c.write(ctx, journal.Event{Kind: journal.GateSet}); err != nil {
			return false, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setGate(change, true)
	return true, nil
}

// passed reports whether the run has been here before the gate was. Known is true if that was asked before.
func (s *Scope) passed(change string) (old, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fresh, ok := s.gates[change]; ok {
		return !fresh, true
	}
	if s.ended() != nil || s.unmet() == nil {
		return false, false
	}
	for _, e := range s.record {
		if !e.met && e.kind == gateCall && e.name == change {
			return false, false
		}
	}
	s.setGate(change, false)
	return true, false
}

// setGate keeps an answer. The caller holds mu.
func (s *Scope) setGate(change string, fresh bool) {
	if s.gates == nil {
		s.gates = map[string]bool{}
	}
	s.gates[change] = fresh
}
