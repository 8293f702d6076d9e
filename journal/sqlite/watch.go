package sqlite

import (
	"context"
	"sync"
	"time"
)

// watchers knows who waits for news of runs and queues. While anybody does, one goroutine looks for those that other processes
// have made.
type watchers struct {
	store *Store

	mu      sync.Mutex
	byTopic map[topic]map[*watcher]struct{}
	queues  int           // how many of them wait for news of a queue
	stop    chan struct{} // ends the goroutine; nil if there is none
	done    chan struct{}
	closed  bool
}

// topic is what somebody waits for news of.
type topic struct {
	name    string
	isQueue bool
}

func ofRun(run string) topic     { return topic{name: run} }
func ofQueue(queue string) topic { return topic{name: queue, isQueue: true} }

type watcher struct {
	changed chan struct{}
	seen    int64 // the newest message it was told of, or how many changes of the queue
}

// Watch implements journal.Watcher. The run need not be there yet. The channel is not closed by stop, which may be called
// more than once.
func (s *Store) Watch(run string) (<-chan struct{}, func()) { return s.watch(ofRun(run)) }

// WatchQueue implements journal.Queue. The channel is not closed by stop, which may be called more than once.
func (s *Store) WatchQueue(queue string) (<-chan struct{}, func()) { return s.watch(ofQueue(queue)) }

func (s *Store) watch(t topic) (<-chan struct{}, func()) {
	w := &watcher{changed: make(chan struct{}, 1)}
	s.watchers.add(t, w)
	return w.changed, sync.OnceFunc(func() { s.watchers.remove(t, w) })
}

func (ws *watchers) add(t topic, w *watcher) {
	ws.mu.Lock()
	resting, closed := ws.stop == nil, ws.closed
	ws.mu.Unlock()
	if closed {
		return
	}
	// Without the lock, which the committer needs. Where a count cannot be read now, everything there counts as new later.
	var newest int64
	if resting {
		newest, _ = ws.store.newestMessage()
	}
	if t.isQueue {
		_ = ws.store.read.queue.QueryRowContext(context.Background(), t.name).Scan(&w.seen)
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return
	}
	if ws.byTopic == nil {
		ws.byTopic = map[topic]map[*watcher]struct{}{}
	}
	if ws.byTopic[t] == nil {
		ws.byTopic[t] = map[*watcher]struct{}{}
	}
	ws.byTopic[t][w] = struct{}{}
	if t.isQueue {
		ws.queues++
	}
	if ws.stop == nil {
		ws.stop, ws.done = make(chan struct{}), make(chan struct{})
		go ws.look(newest, ws.stop, ws.done)
	}
}

func (ws *watchers) remove(t topic, w *watcher) {
	ws.mu.Lock()
	if _, there := ws.byTopic[t][w]; there && t.isQueue {
		ws.queues--
	}
	delete(ws.byTopic[t], w)
	if len(ws.byTopic[t]) == 0 {
		delete(ws.byTopic, t)
	}
	done := ws.rest(len(ws.byTopic) == 0)
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

// notify tells who waits for it of what is new: a message, by its place among those of all runs, or a change of a queue, by
// its number.
func (ws *watchers) notify(t topic, number int64) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.byTopic[t] {
		if number <= w.seen {
			continue
		}
		w.seen = number
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
		ws.newsOfQueues()
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
		ws.notify(ofRun(run), id)
		now = max(now, id)
	}
	if rows.Err() != nil {
		return newest
	}
	return now
}

// newsOfQueues tells of the queues that have changed. If the file cannot be read, the next look will do.
func (ws *watchers) newsOfQueues() {
	ws.mu.Lock()
	watched := ws.queues > 0
	ws.mu.Unlock()
	if !watched {
		return
	}
	rows, err := ws.store.read.queues.QueryContext(context.Background())
	if err != nil {
		return
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var queue string
		var changes int64
		if rows.Scan(&queue, &changes) != nil {
			return
		}
		ws.notify(ofQueue(queue), changes)
	}
	_ = rows.Err() // as above
}

func (s *Store) newestMessage() (id int64, err error) {
	err = s.read.newest.QueryRowContext(context.Background()).Scan(&id)
	return id, err
}
