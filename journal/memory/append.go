package memory

import (
	"context"
	"iter"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// Append implements journal.Store.
func (s *Store) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	if err := check(ctx, l.Run); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.find(l.Run)
	if err != nil {
		return err
	}
	switch {
	case !e.valid(l):
		return fenced(e, l)
	case e.has(a):
		return nil
	case e.run.Status.Terminal():
		return ended(e)
	case a.After != e.run.Head:
		return conflict(e, a)
	}
	if err := journal.CheckEnd(l.Run, a.Events); err != nil {
		return err
	}
	e.append(a.Events)
	now := journal.Stamp(time.Now())
	if status := journal.StatusAfter(a.Events); status != "" {
		e.become(status, a.Due, now)
		e.rouse(a.Seen, now)
		s.tellQueue(e, now)
		if status.Terminal() {
			s.leave(e)
		}
	}
	for _, letter := range a.Outbox {
		s.deliver(letter, now)
	}
	return nil
}

// Events implements journal.Store. It returns the events that are there when the loop begins.
func (s *Store) Events(ctx context.Context, run string, after int64) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		events, err := s.events(ctx, run, after)
		for i := range events {
			if err = ctx.Err(); err != nil {
				break
			}
			if !yield(cloneEvent(events[i]), nil) {
				return
			}
		}
		if err != nil {
			yield(journal.Event{}, err)
		}
	}
}

func (s *Store) events(ctx context.Context, run string, after int64) ([]journal.Event, error) {
	if err := check(ctx, run); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.find(run)
	if err != nil {
		return nil, err
	}
	return behind(e.events, after), nil
}

// append writes events behind the last one.
func (e *entry) append(events []journal.Event) {
	for _, ev := range events {
		ev = cloneEvent(ev)
		e.run.Head++
		ev.Seq, ev.Time = e.run.Head, journal.Stamp(ev.Time)
		if ev.Kind == journal.Checkpoint {
			e.run.Checkpoint = ev.Seq
		}
		e.events = append(e.events, ev)
	}
}

// has reports whether these events stand behind a.After already.
func (e *entry) has(a journal.Append) bool {
	if a.After < 0 || a.After > e.run.Head {
		return false
	}
	there := e.events[a.After:]
	if len(a.Events) > len(there) {
		return false
	}
	for i := range a.Events {
		if !journal.Same(&there[i], &a.Events[i]) {
			return false
		}
	}
	return true
}

// cloneEvent returns an event that shares no memory with e. Empty and nil are the same to a store.
func cloneEvent(e journal.Event) journal.Event {
	e.Meta, e.Payload = clone(e.Meta), clone(e.Payload)
	return e
}

func clone[T ~[]byte](b T) T {
	if len(b) == 0 {
		return nil
	}
	return append(T(nil), b...)
}

// behind returns what stands behind number after in a list that is numbered from 1.
func behind[T any](list []T, after int64) []T {
	return list[min(max(after, 0), int64(len(list))):]
}
