package memory

import (
	"context"
	"sync"

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
	s.notify(run)
	return cloneMessage(m), nil
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
	m.Seq, m.Time = int64(len(e.inbox))+1, stamp(m.Time)
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

// Watch implements journal.Watcher. The run need not be there yet. The channel is not closed by stop, which may be called
// more than once.
func (s *Store) Watch(run string) (<-chan struct{}, func()) {
	changed := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchers[run] == nil {
		s.watchers[run] = map[chan struct{}]struct{}{}
	}
	s.watchers[run][changed] = struct{}{}
	return changed, sync.OnceFunc(func() { s.unwatch(run, changed) })
}

func (s *Store) unwatch(run string, changed chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers[run], changed)
	if len(s.watchers[run]) == 0 {
		delete(s.watchers, run)
	}
}

// notify tells who watches a run. The caller holds the lock.
func (s *Store) notify(run string) {
	for changed := range s.watchers[run] {
		select {
		case changed <- struct{}{}:
		default: // has not been read since the last time
		}
	}
}
