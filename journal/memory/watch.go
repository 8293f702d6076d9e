package memory

import "sync"

// watchers are the channels of those who wait for news, by what it is of.
type watchers map[string]map[chan struct{}]struct{}

// Watch implements journal.Watcher. The run need not be there yet. The channel is not closed by stop, which may be called
// more than once.
func (s *Store) Watch(run string) (<-chan struct{}, func()) { return s.watch(s.watchers, run) }

// WatchQueue implements journal.Queue. The channel is not closed by stop, which may be called more than once.
func (s *Store) WatchQueue(queue string) (<-chan struct{}, func()) { return s.watch(s.queuers, queue) }

func (s *Store) watch(ws watchers, name string) (<-chan struct{}, func()) {
	changed := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if ws[name] == nil {
		ws[name] = map[chan struct{}]struct{}{}
	}
	ws[name][changed] = struct{}{}
	return changed, sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(ws[name], changed)
		if len(ws[name]) == 0 {
			delete(ws, name)
		}
	})
}

// tell lets those know who watch a name. The caller holds the store's lock.
func (ws watchers) tell(name string) {
	for changed := range ws[name] {
		select {
		case changed <- struct{}{}:
		default: // has not been read since the last time
		}
	}
}
