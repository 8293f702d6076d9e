package memory

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// Send implements journal.Store.
func (s *Store) Send(ctx context.Context, run string, m journal.Message) (journal.Message, error) {
	if err := check(ctx, run); err != nil {
		return journal.Message{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.find(run)
	if err != nil {
		return journal.Message{}, err
	}
	// An ended run has its messages still: who sends one of them again learns that it got there.
	if first, ok := e.keyed(m.Key); ok {
		return cloneMessage(first), nil
	}
	if e.run.Status.Terminal() {
		return journal.Message{}, ended(e)
	}
	m = e.receive(m)
	s.arrived(e, journal.Stamp(time.Now()))
	return cloneMessage(m), nil
}

// deliver puts a letter into the inbox it is for, if there is one that takes it. The caller holds the lock.
func (s *Store) deliver(l journal.Letter, now time.Time) {
	e := s.runs[l.Run]
	if e == nil || e.run.Status.Terminal() {
		return
	}
	if _, ok := e.keyed(l.Message.Key); ok {
		return
	}
	e.receive(l.Message)
	s.arrived(e, now)
}

// arrived tells whom it concerns that a run has a new message. The caller holds the lock.
func (s *Store) arrived(e *entry, now time.Time) {
	s.watchers.tell(e.run.ID)
	if e.rouse(int64(len(e.inbox))-1, now) {
		s.tellQueue(e, now)
	}
}

// Inbox implements journal.Store.
func (s *Store) Inbox(ctx context.Context, run string, after int64) ([]journal.Message, error) {
	if err := check(ctx, run); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.find(run)
	if err != nil {
		return nil, err
	}
	there := behind(e.inbox, after)
	messages := make([]journal.Message, 0, len(there))
	for _, m := range there {
		messages = append(messages, cloneMessage(m))
	}
	return messages, nil
}

// receive puts a message into the inbox, unless one of its key is there.
func (e *entry) receive(m journal.Message) journal.Message {
	if first, ok := e.keyed(m.Key); ok {
		return first
	}
	m = cloneMessage(m)
	m.Seq, m.Time = int64(len(e.inbox))+1, journal.Stamp(m.Time)
	e.inbox = append(e.inbox, m)
	if m.Key != "" {
		e.keys[m.Key] = m.Seq
	}
	return m
}

// keyed returns the message with a key.
func (e *entry) keyed(key string) (journal.Message, bool) {
	if seq := e.keys[key]; seq > 0 {
		return e.inbox[seq-1], true
	}
	return journal.Message{}, false
}

func cloneMessage(m journal.Message) journal.Message {
	m.Payload = clone(m.Payload)
	return m
}
