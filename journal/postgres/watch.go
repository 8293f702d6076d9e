package postgres

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"
)

// hash stands for a run's id where that may be too long.
type hash [sha256.Size]byte

func hashOf(run string) hash { return sha256.Sum256([]byte(run)) }

// watchers knows who waits for messages. The session tells of those that other processes have sent, as the server does at
// once. While anybody watches, one goroutine also looks, should a notification be lost.
type watchers struct {
	store *Store

	mu     sync.Mutex
	byRun  map[hash]map[*watcher]struct{}
	now    chan struct{}      // makes the goroutine look at once
	stop   context.CancelFunc // ends it; nil if there is none
	done   chan struct{}
	closed bool
}

type watcher struct {
	changed chan struct{}
	seen    int64 // the newest message it was told of
}

// Watch implements journal.Watcher. The run need not be there yet. Soon after it begins, there may be a value for messages
// that were there before. The channel is not closed by stop, which may be called more than once.
func (s *Store) Watch(run string) (<-chan struct{}, func()) {
	w := &watcher{changed: make(chan struct{}, 1)}
	id := hashOf(run)
	s.watchers.add(id, w)
	return w.changed, sync.OnceFunc(func() { s.watchers.remove(id, w) })
}

func (ws *watchers) add(run hash, w *watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return
	}
	if ws.byRun == nil {
		ws.byRun = map[hash]map[*watcher]struct{}{}
	}
	if ws.byRun[run] == nil {
		ws.byRun[run] = map[*watcher]struct{}{}
	}
	ws.byRun[run][w] = struct{}{}
	if ws.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		ws.stop, ws.done, ws.now = stop, make(chan struct{}), make(chan struct{}, 1)
		go ws.look(ctx, ws.now, ws.done)
	}
}

func (ws *watchers) remove(run hash, w *watcher) {
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
	ws.stop()
	done = ws.done
	ws.stop, ws.done, ws.now = nil, nil, nil
	return done
}

// pollNow makes the goroutine look at once, if there is one.
func (ws *watchers) pollNow() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.now == nil {
		return
	}
	select {
	case ws.now <- struct{}{}:
	default: // it will
	}
}

// notify tells who watches a run of a message. Those of one run have growing ids, in the order of their commits.
func (ws *watchers) notify(run hash, id int64) {
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
func (ws *watchers) look(ctx context.Context, now <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	ticker := time.NewTicker(ws.store.poll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-now:
		case <-ticker.C:
		}
		ws.poll(ctx)
	}
}

// selectNews finds the newest message of each run: since a run is locked when it gets one, it is the one with the largest id.
const selectNews = `SELECT r.hash, m.id FROM runs r
	JOIN LATERAL (SELECT id FROM inbox WHERE run = r.key ORDER BY seq DESC LIMIT 1) m ON true
	WHERE r.hash = ANY($1)`

// poll tells of the newest messages of all runs that are watched. If they cannot be read, the next look will do.
func (ws *watchers) poll(ctx context.Context) {
	ws.mu.Lock()
	runs := make([][]byte, 0, len(ws.byRun))
	for run := range ws.byRun {
		runs = append(runs, run[:])
	}
	ws.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, ws.store.timeout)
	defer cancel()
	rows, err := ws.store.pool.Query(ctx, selectNews, runs)
	if err != nil {
		return
	}
	defer rows.Close()
	for rows.Next() {
		var run []byte
		var id int64
		if rows.Scan(&run, &id) != nil || len(run) != sha256.Size {
			return
		}
		ws.notify(hash(run), id)
	}
}
