package sqlite

import (
	"context"
	"sync"
	"time"
)

// watchers knows who waits for messages. While anybody does, one goroutine looks for those that other processes have sent.
type watchers struct {
	store *Store

	mu     sync.Mutex
	byRun  map[string]map[*watcher]struct{}
	stop   chan struct{} // ends the goroutine; nil if there is none
	done   chan struct{}
	closed bool
}

type watcher struct {
	changed chan struct{}
	seen    int64 // the newest message it was told of
}

// Watch implements journal.Watcher. The run need not be there yet. The channel is not closed by stop, which may be called
// more than once.
func (s *Store) Watch(run string) (<-chan struct{}, func()) {
	w := &watcher{changed: make(chan struct{}, 1)}
	s.watchers.add(run, w)
	return w.changed, sync.OnceFunc(func() { s.watchers.remove(run, w) })
}

func (ws *watchers) add(run string, w *watcher) {
	ws.mu.Lock()
	resting := ws.stop == nil && !ws.closed
	ws.mu.Unlock()
	var newest int64
	if resting { // without the lock, which the committer needs
		// Where the count cannot be read now, everything there counts as new later.
		newest, _ = ws.store.newestMessage()
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return
	}
	if ws.byRun == nil {
		ws.byRun = map[string]map[*watcher]struct{}{}
	}
	if ws.byRun[run] == nil {
		ws.byRun[run] = map[*watcher]struct{}{}
	}
	ws.byRun[run][w] = struct{}{}
	if ws.stop == nil {
		ws.stop, ws.done = make(chan struct{}), make(chan struct{})
		go ws.look(newest, ws.stop, ws.done)
	}
}

func (ws *watchers) remove(run string, w *watcher) {
	ws.mu.Lock()
	delete(ws.byRun[run], w)
	if len(ws.byRun[run]) == 0 {
		delete(ws.byRun, run)
	}
	done := ws.rest(len(ws.byRun) == 0)
	ws.mu.Unlock()
	if done != nil {
		<-done
	}
}

// close ends the goroutine.
func (ws *watchers) close() {
	ws.mu.Lock()
	ws.closed = true
	done := ws.rest(true)
	ws.mu.Unlock()
	if done != nil {
		<-done
	}
}

// rest tells the goroutine to end, if it is to and there is one, and returns what to wait for. The caller holds the lock.
func (ws *watchers) rest(is bool) (done chan struct{}) {
	if !is || ws.stop == nil {
		return nil
	}
	close(ws.stop)
	done = ws.done
	ws.stop, ws.done = nil, nil
	return done
}

// notify tells who watches a run of a message, by its place among those of all runs.
func (ws *watchers) notify(run string, id int64) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.byRun[run] {
		if id <= w.seen {
			continue
		}
		w.seen = id
		select {
		case w.changed <- struct{}{}:
		default: // has not been read since the last time
		}
	}
}

// look is the goroutine.
func (ws *watchers) look(newest int64, stop <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	ticker := time.NewTicker(ws.store.poll)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		newest = ws.news(newest)
	}
}

// news tells of the messages that are newer, and returns which is the newest now. If the file cannot be read, the next look
// will do.
func (ws *watchers) news(newest int64) int64 {
	now, err := ws.store.newestMessage()
	if err != nil || now <= newest {
		return newest
	}
	rows, err := ws.store.read.news.QueryContext(context.Background(), newest)
	if err != nil {
		return newest
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var run string
		var id int64
		if rows.Scan(&run, &id) != nil {
			return newest
		}
		ws.notify(run, id)
		now = max(now, id)
	}
	if rows.Err() != nil {
		return newest
	}
	return now
}

func (s *Store) newestMessage() (id int64, err error) {
	err = s.read.newest.QueryRowContext(context.Background()).Scan(&id)
	return id, err
}
