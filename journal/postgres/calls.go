package postgres

import (
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
)

// calls are the queues whose workers a transaction calls, since it has made runs ready. A notification makes those who commit
// wait for each other, so nothing else is told this way.
type calls struct {
	queues []string
	// keys are those of runs that the transaction tries to make, 0 for others.
	keys []int64
	done []string // the queues of those that it was able to make
}

func (c *calls) add(queue string) {
	if !slices.Contains(c.queues, queue) {
		c.queues, c.keys = append(c.queues, queue), append(c.keys, 0)
		c.done = append(c.done, queue)
	}
}

func (c *calls) addIfMade(st *runState) {
	c.queues, c.keys = append(c.queues, st.queue), append(c.keys, st.key)
}

// made says that a run was made. It matters only if it was added.
func (c *calls) made(st *runState) {
	if slices.Contains(c.keys, st.key) && !slices.Contains(c.done, st.queue) {
		c.done = append(c.done, st.queue)
	}
}

func (c *calls) reset() { c.queues, c.keys, c.done = c.queues[:0], c.keys[:0], c.done[:0] }

const callWorkers = `SELECT pg_notify($1, word) FROM (
	SELECT DISTINCT word FROM unnest($2::text[], $3::bigint[]) AS c (word, key)
	CROSS JOIN LATERAL (SELECT WHERE c.key = 0 UNION ALL SELECT FROM runs WHERE runs.key = c.key LIMIT 1) AS made) AS words`

func (c *calls) write(t *tx) {
	if len(c.queues) == 0 {
		return
	}
	words := make([]string, 0, len(c.queues))
	for _, queue := range c.queues {
		words = append(words, callWord(hashOf(queue), t.store.name))
	}
	t.write(callWorkers, t.store.channel(), words, slices.Clone(c.keys))
}

// tell tells those of this process.
func (c *calls) tell(qs *queueWatchers) {
	for _, queue := range c.done {
		qs.tell(hashOf(queue))
	}
}

// tellAll tells those of this process of what may have been done.
func (c *calls) tellAll(qs *queueWatchers) {
	for _, queue := range c.queues {
		qs.tell(hashOf(queue))
	}
}

// queueWatchers knows who waits for runs of queues. They are told by this store itself, and by the session of what other
// processes have said.
type queueWatchers struct {
	mu      sync.Mutex
	byQueue map[hash]map[chan struct{}]struct{}
	closed  bool
}

// WatchQueue implements journal.Queue. If the server or the connection to it was lost, there is a value for what may have been
// missed. The channel is not closed by stop, which may be called more than once.
func (s *Store) WatchQueue(queue string) (<-chan struct{}, func()) {
	changed := make(chan struct{}, 1)
	id := hashOf(queue)
	s.queues.add(id, changed)
	return changed, sync.OnceFunc(func() { s.queues.remove(id, changed) })
}

func (qs *queueWatchers) add(queue hash, changed chan struct{}) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if qs.closed {
		return
	}
	if qs.byQueue == nil {
		qs.byQueue = map[hash]map[chan struct{}]struct{}{}
	}
	if qs.byQueue[queue] == nil {
		qs.byQueue[queue] = map[chan struct{}]struct{}{}
	}
	qs.byQueue[queue][changed] = struct{}{}
}

func (qs *queueWatchers) remove(queue hash, changed chan struct{}) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	delete(qs.byQueue[queue], changed)
	if len(qs.byQueue[queue]) == 0 {
		delete(qs.byQueue, queue)
	}
}

func (qs *queueWatchers) tell(queue hash) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	nudgeAll(qs.byQueue[queue])
}

func (qs *queueWatchers) tellAll() {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for _, channels := range qs.byQueue {
		nudgeAll(channels)
	}
}

func (qs *queueWatchers) close() {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	qs.closed, qs.byQueue = true, nil
}

func nudgeAll(channels map[chan struct{}]struct{}) {
	for c := range channels {
		select {
		case c <- struct{}{}:
		default: // has not been read since the last time
		}
	}
}

const callMark = "q "

// callWord is a notification: which queue has ready runs, and the name of the store that says so, which has told its own.
func callWord(queue hash, store string) string {
	return callMark + hex.EncodeToString(queue[:]) + " " + store
}

func parseCall(payload string) (queue hash, store string, err error) {
	rest, is := strings.CutPrefix(payload, callMark)
	name, store, found := strings.Cut(rest, " ")
	b, err := hex.DecodeString(name)
	if err != nil || !is || !found || len(b) != len(queue) {
		return queue, "", errNoWord
	}
	return hash(b), store, nil
}

// errNoWord is a notification that this package has not sent.
var errNoWord = errors.New("no word of ours")
