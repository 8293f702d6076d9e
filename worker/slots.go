package worker

import (
	"context"
	"sync"
)

// slots are the places for runs under way. Who waits for one gets it in turn, so that a queue with a backlog leaves places to
// the others.
type slots struct {
	mu      sync.Mutex
	free    int
	waiting []chan struct{} // each is closed when it is given a place
}

// take takes a place, and waits for it; it is false if ctx has ended.
func (s *slots) take(ctx context.Context) bool {
	s.mu.Lock()
	if s.free > 0 { // then nobody waits
		s.free--
		s.mu.Unlock()
		return true
	}
	mine := make(chan struct{})
	s.waiting = append(s.waiting, mine)
	s.mu.Unlock()
	select {
	case <-mine:
		return true
	case <-ctx.Done():
	}
	s.mu.Lock()
	for i, w := range s.waiting {
		if w == mine {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			s.mu.Unlock()
			return false
		}
	}
	s.mu.Unlock()
	s.give(1) // it was given one meanwhile
	return false
}

// more takes up to n further places, as many as nobody waits for.
func (s *slots) more(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, s.free)
	s.free -= n
	return n
}

// give gives back n places.
func (s *slots) give(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; n > 0 && len(s.waiting) > 0; n-- {
		close(s.waiting[0])
		s.waiting = s.waiting[1:]
	}
	s.free += n
}
