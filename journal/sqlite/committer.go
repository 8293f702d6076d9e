package sqlite

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pawl-go/pawl/journal"
)

// A batch is closed at whichever comes first.
const (
	maxBatch      = 256
	maxBatchBytes = 16 << 20
)

// committer writes what the calls of this store want written, on one connection: what waits when it gets the lock shares a
// transaction. Nobody waits for others to come: a lone writer's request is a transaction by itself.
type committer struct {
	conn  *sql.Conn
	tx    *tx
	files files
	// suspect is set once the files were not there, so that nothing more is written before they are back.
	suspect bool

	mu      sync.Mutex
	waiting []*request
	stopped bool
	wake    chan struct{}
	done    chan struct{}
}

// operation is what a request wants done.
type operation interface {
	// op says what it is, for errors, and run which run it is for; "" for several.
	op() string
	run() string
	// apply does it. An error means that it has written nothing, or that t.fault is set.
	apply(t *tx) error
}

// lost is an operation that wants to know when it was not done although its caller is gone or has been told so.
type lost interface{ lost(c *committer, err error) }

// request is an operation on its way through the committer.
type request struct {
	operation
	size  int
	state atomic.Int32
	done  chan struct{}
	err   error
}

// The states of a request. Whoever changes it decides: the caller, whose context has ended, or the committer.
const (
	queued int32 = iota
	taken
	settled
	left
)

func newCommitter(s *Store) (*committer, error) {
	ctx := context.Background()
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return nil, err
	}
	c := &committer{conn: conn, files: files{path: s.path}, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if c.tx, err = newTx(s, conn); err == nil {
		err = c.files.checkMain()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	go c.loop()
	return c, nil
}

// close waits until all that waits is done.
func (c *committer) close() {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.nudge()
	<-c.done
}

func (c *committer) nudge() {
	select {
	case c.wake <- struct{}{}:
	default: // it has been told already
	}
}

// do has an operation done and waits for it, or for the end of ctx.
func (c *committer) do(ctx context.Context, o operation, size int) error {
	r := &request{operation: o, size: size, done: make(chan struct{}, 1)}
	c.mu.Lock()
	c.waiting = append(c.waiting, r)
	first := len(c.waiting) == 1
	c.mu.Unlock()
	if first {
		c.nudge()
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
	}
	switch {
	case r.state.CompareAndSwap(queued, left):
		return ctx.Err()
	case r.state.CompareAndSwap(taken, left):
		return &journal.UnavailableError{Op: o.op() + " in " + c.files.path, Unknown: true, Err: ctx.Err()}
	}
	<-r.done
	return r.err
}

// abandon tells the committer of an operation that will not be done.
func (c *committer) abandon(o operation) {
	r := &request{operation: o}
	r.state.Store(left)
	c.mu.Lock()
	c.waiting = append(c.waiting, r)
	c.mu.Unlock()
	c.nudge()
}

// loop is the committer's goroutine.
func (c *committer) loop() {
	defer close(c.done)
	for {
		n := c.await()
		if n == 0 {
			return
		}
		if err := c.begin(); err != nil {
			c.fail(c.take(n, 0), err)
			continue
		}
		c.commit(c.take(maxBatch, maxBatchBytes))
	}
}

// await returns how many requests wait, at least one; 0 once the store is closed.
func (c *committer) await() int {
	for {
		c.mu.Lock()
		n, stopped := len(c.waiting), c.stopped
		c.mu.Unlock()
		if n > 0 || stopped {
			return n
		}
		<-c.wake
	}
}

// take returns up to n of the requests that wait, as many as have a total size of up to size if that is not 0, and without
// those that nobody waits for any more.
func (c *committer) take(n, size int) []*request {
	c.mu.Lock()
	batch := c.tx.batch[:0]
	i, bytes := 0, 0
	for ; i < len(c.waiting) && i < n; i++ {
		r := c.waiting[i]
		if bytes += r.size; size > 0 && bytes > size && i > 0 {
			break
		}
		if r.state.CompareAndSwap(queued, taken) {
			batch = append(batch, r)
		} else if l, ok := r.operation.(lost); ok {
			l.lost(c, context.Canceled)
		}
	}
	rest := copy(c.waiting, c.waiting[i:])
	clear(c.waiting[rest:])
	c.waiting = c.waiting[:rest]
	c.mu.Unlock()
	c.tx.batch = batch
	return batch
}

// begin gets the lock for writing. It asks again and again by itself, since beside a busy writer SQLite's own waiting, which
// takes longer and longer rests, may find the lock taken for seconds.
func (c *committer) begin() error {
	if c.suspect {
		if err := c.files.check(); err != nil {
			return err
		}
		c.suspect = false
	}
	const least, spread = 300 * time.Microsecond, 700 * time.Microsecond
	start := time.Now()
	for {
		err := c.tx.begin()
		if code := codeOf(err); code != sqlite3.SQLITE_BUSY && code != sqlite3.SQLITE_LOCKED || time.Since(start) >= c.tx.store.busy {
			return err
		}
		<-time.After(least + rand.N(spread))
	}
}

// commit does a batch in one transaction, which has begun, and tells the callers.
func (c *committer) commit(batch []*request) {
	refused := 0
	for {
		wrote, bad := c.apply(batch)
		if bad < 0 {
			c.finish(batch, wrote)
			return
		}
		// Nobody has been told anything yet, so it is as if this one had not been in the batch.
		r := batch[bad]
		r.err = c.tx.store.fault(r.op(), r.run(), false, c.tx.fault)
		c.tx.rollback()
		if mayPass(c.tx.fault) || isCorrupt(c.tx.fault) {
			c.fail(batch, c.tx.fault)
			return
		}
		c.settle(r)
		batch = append(batch[:bad], batch[bad+1:]...)
		refused++
		if err := c.begin(); err != nil {
			c.fail(batch, err)
			return
		}
	}
}

// apply does the operations of a batch and returns whether any has written, and which one broke the transaction; -1 if none.
func (c *committer) apply(batch []*request) (wrote bool, bad int) {
	c.tx.refresh(batch)
	for i, r := range batch {
		if c.tx.fault == nil {
			r.err = r.apply(c.tx)
		}
		if c.tx.fault != nil {
			return false, i
		}
	}
	return c.tx.wrote, -1
}

// finish ends the transaction and tells the callers.
func (c *committer) finish(batch []*request, wrote bool) {
	if !wrote {
		c.tx.end()
	} else if err := c.tx.commit(); err != nil {
		// What failed for want of space is not in the file; whatever else happened, it may be.
		code := codeOf(err)
		unknown := code != sqlite3.SQLITE_FULL && code != sqlite3.SQLITE_BUSY
		c.tx.rollback()
		if unknown {
			c.tx.distrust()
		}
		c.failAs(batch, unknown, err)
		return
	} else if err := c.files.check(); err != nil {
		c.suspect = true
		c.tx.publish()
		c.tx.distrust()
		c.failAs(batch, true, err)
		return
	} else {
		c.tx.publish()
	}
	for _, r := range batch {
		c.settle(r)
	}
}

func (c *committer) fail(batch []*request, err error) { c.failAs(batch, false, err) }

func (c *committer) failAs(batch []*request, unknown bool, err error) {
	for _, r := range batch {
		r.err = c.tx.store.fault(r.op(), r.run(), unknown, err)
		if l, ok := r.operation.(lost); ok {
			l.lost(c, r.err)
		}
		c.settle(r)
	}
}

// settle tells a request's caller, unless it has left.
func (c *committer) settle(r *request) {
	if r.state.CompareAndSwap(taken, settled) {
		r.done <- struct{}{}
		return
	}
	if l, ok := r.operation.(lost); ok {
		l.lost(c, context.Canceled)
	}
}
