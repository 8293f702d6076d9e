package providers

import (
	"container/list"
	"context"
	"fmt"
	"iter"
	"strconv"
	"sync"
)

// MaxConcurrent bounds how many calls are under way at once. Further calls wait, first come, first served, until a slot is
// free or their context ends. A stream holds its slot until it ends or is left; a consumer that calls the same provider
// from within its loop needs a second one.
type MaxConcurrent struct {
	// Calls is how many, at least 1.
	Calls int
}

// Validate reports a bad field, in a *ConfigError.
func (m MaxConcurrent) Validate() error {
	e := &ConfigError{Config: "providers.MaxConcurrent"}
	if m.Calls < 1 {
		e.Add("Calls", strconv.Itoa(m.Calls), "allow at least one call, or leave the middleware out")
	}
	return e.OrNil()
}

// New returns the slots, to be watched or shared between providers.
func (m MaxConcurrent) New() (*Slots, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return &Slots{calls: m.Calls}, nil
}

// Wrap makes it a Middleware, with slots of its own.
func (m MaxConcurrent) Wrap(next Provider) (Provider, error) {
	s, err := m.New()
	if err != nil {
		return nil, err
	}
	return s.Wrap(next)
}

// Slots are what MaxConcurrent counts. All providers that they wrap share them. They are safe for concurrent use.
type Slots struct {
	calls int

	mu      sync.Mutex
	inUse   int
	waiting list.List // of chan struct{}, closed when the slot is handed over
}

// InUse returns how many calls are under way.
func (s *Slots) InUse() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inUse
}

// Waiting returns how many calls wait for a slot.
func (s *Slots) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting.Len()
}

// Wrap makes it a Middleware.
func (s *Slots) Wrap(next Provider) (Provider, error) {
	if err := validNext("providers.MaxConcurrent", next); err != nil {
		return nil, err
	}
	return &slotted{slots: s, next: next}, nil
}

// acquire takes a slot, or returns with the context's end.
func (s *Slots) acquire(ctx context.Context) error {
	s.mu.Lock()
	if s.inUse < s.calls { // then nobody waits: slots are handed over
		s.inUse++
		s.mu.Unlock()
		return nil
	}
	ready := make(chan struct{})
	place := s.waiting.PushBack(ready)
	s.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-ready: // handed over at the same moment: it goes on to the next
		s.pass()
	default:
		s.waiting.Remove(place)
	}
	return ctx.Err()
}

func (s *Slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass()
}

// pass hands a slot to the first who waits, or frees it.
func (s *Slots) pass() {
	first := s.waiting.Front()
	if first == nil {
		s.inUse--
		return
	}
	if ready, ok := s.waiting.Remove(first).(chan struct{}); ok {
		close(ready)
	}
}

type slotted struct {
	slots *Slots
	next  Provider
}

func (s *slotted) Name() string { return s.next.Name() }

func (s *slotted) Chat(ctx context.Context, req Request) (*Response, error) {
	if err := s.enter(ctx, req); err != nil {
		return nil, err
	}
	defer s.slots.release()
	return s.next.Chat(ctx, req)
}

func (s *slotted) Stream(ctx context.Context, req Request) iter.Seq2[*Delta, error] {
	return func(yield func(*Delta, error) bool) {
		if err := s.enter(ctx, req); err != nil {
			yield(nil, err)
			return
		}
		defer s.slots.release()
		s.next.Stream(ctx, req)(yield)
	}
}

func (s *slotted) enter(ctx context.Context, req Request) error {
	if s.slots.acquire(ctx) == nil {
		return nil
	}
	return notStarted(ctx, s.Name(), req, fmt.Sprintf(" while waiting for one of %d slots (MaxConcurrent)", s.slots.calls))
}
