package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
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
	// busySince is when the lock was first found taken, by whom waited were waiting then; zero if it was not.
	busySince time.Time
	waited    int
	// crowd is true if several were told at once. They are let go first, since what they write next can share a transaction;
	// the committer would otherwise find the first of them alone. It costs a lone writer nothing.
	crowd bool
	// hook lets tests cut writes off.
	hook  atomic.Pointer[func(place) error]
	batch []*request // memory for the next one

	mu      sync.Mutex
	waiting []*request
	stopped bool
	wake    chan struct{}
	done    chan struct{}
}

// place is where a write may be cut off.
type place string

const (
	atCall      place = "at the call"
	beforeWrite place = "before the transaction"
	beforeEnd   place = "before the commit"
	behindEnd   place = "behind the commit"
)

func (c *committer) at(p place) error {
	if hook := c.hook.Load(); hook != nil {
		return (*hook)(p)
	}
	return nil
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
type lost interface{ lost(c *committer) }

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
		// From here on the committer waits for the lock by itself.
		_, err = conn.ExecContext(ctx, "PRAGMA busy_timeout = 0")
	}
	if err == nil {
		err = c.files.check()
	}
	if err != nil {
		return nil, errors.Join(err, c.tx.close(), conn.Close())
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

// loop is the committer's goroutine. It asks for the lock again and again by itself, since beside a busy writer SQLite's own
// waiting, which takes longer and longer rests, may find the lock taken for seconds.
func (c *committer) loop() {
	defer close(c.done)
	for {
		if c.crowd {
			runtime.Gosched()
		}
		n := c.await()
		if n == 0 {
			return
		}
		err := c.round(n)
		if c.busyStill(n, err) {
			pause()
			continue
		}
		if err != nil {
			c.fail(c.take(max(c.waited, 1), 0), err)
		}
		c.busySince, c.waited = time.Time{}, 0
	}
}

// busyStill reports whether err is a lock that may be had yet.
func (c *committer) busyStill(n int, err error) bool {
	if code := codeOf(err); code != sqlite3.SQLITE_BUSY && code != sqlite3.SQLITE_LOCKED {
		c.waited = n
		return false
	}
	if c.busySince.IsZero() {
		c.busySince, c.waited = time.Now(), n
	}
	return time.Since(c.busySince) < c.tx.store.busy
}

func pause() {
	const least, spread = 300 * time.Microsecond, 700 * time.Microsecond
	<-time.After(least + rand.N(spread))
}

// round does some of what waits, or fails without having done anything.
func (c *committer) round(n int) error {
	if c.suspect {
		if err := c.files.check(); err != nil {
			return err
		}
		c.suspect = false
	}
	if err := c.at(beforeWrite); err != nil {
		return err
	}
	// Once the lock was found taken, it is got first, so that whoever leaves meanwhile has surely written nothing.
	if n == 1 && c.busySince.IsZero() {
		if done, err := c.alone(); done || err != nil {
			c.crowd = false
			return err
		}
	}
	if err := c.tx.begin(); err != nil {
		return err
	}
	batch := c.take(maxBatch, maxBatchBytes)
	c.crowd = len(batch) > 1
	c.commit(batch)
	return nil
}

// alone does the only request that waits, if it is an append that one insertion does: that is a transaction by itself.
func (c *committer) alone() (done bool, err error) {
	c.mu.Lock()
	r := c.waiting[0]
	c.mu.Unlock()
	o, ok := r.operation.(*appending)
	if !ok {
		return false, nil
	}
	l := o.known(c.tx)
	if l == nil || !r.state.CompareAndSwap(queued, taken) {
		return false, nil
	}
	c.tx.wrote, c.tx.fault = false, nil
	wrote, err := c.tx.insert(l.key, l.token, o.After+1, len(o.Events), o.row)
	if !wrote && (err == nil || codeOf(err) == sqlite3.SQLITE_BUSY) {
		r.state.CompareAndSwap(taken, queued)
		return false, err
	}
	c.mu.Lock()
	c.shift(1)
	c.mu.Unlock()
	c.tx.raise(l, l.head+int64(len(o.Events)))
	c.batch = append(c.batch[:0], r)
	c.conclude(c.batch, err)
	return true, nil
}

// shift removes the first of those that wait. The caller holds the lock.
func (c *committer) shift(n int) {
	rest := copy(c.waiting, c.waiting[n:])
	clear(c.waiting[rest:])
	c.waiting = c.waiting[:rest]
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
	batch := c.batch[:0]
	i, bytes := 0, 0
	for ; i < len(c.waiting) && i < n; i++ {
		r := c.waiting[i]
		if bytes += r.size; size > 0 && bytes > size && i > 0 {
			break
		}
		if r.state.CompareAndSwap(queued, taken) {
			batch = append(batch, r)
		} else if l, ok := r.operation.(lost); ok {
			l.lost(c)
		}
	}
	c.shift(i)
	c.mu.Unlock()
	c.batch = batch
	return batch
}

// commit does a batch in one transaction, which has begun, and tells the callers.
func (c *committer) commit(batch []*request) {
	for {
		bad := c.apply(batch)
		if bad < 0 {
			break
		}
		fault := c.tx.fault
		c.tx.rollback()
		if mayPass(fault) || isCorrupt(fault) {
			c.fail(batch, fault)
			return
		}
		// Nobody has been told anything yet, so it is as if this one had not been in the batch.
		c.fail(batch[bad:bad+1], fault)
		batch = slices.Delete(batch, bad, bad+1)
		if err := c.tx.store.patiently(c.tx.begin); err != nil {
			c.fail(batch, err)
			return
		}
	}
	if c.tx.wrote {
		err := c.at(beforeEnd)
		if err == nil {
			err = c.tx.commit()
		}
		c.conclude(batch, err)
		return
	}
	c.tx.end()
	for _, r := range batch {
		c.settle(r)
	}
}

// patiently calls f again as long as it finds the file locked, for as long as calls wait for that.
func (s *Store) patiently(f func() error) error {
	for start := time.Now(); ; pause() {
		err := f()
		if codeOf(err) != sqlite3.SQLITE_BUSY || time.Since(start) >= s.busy {
			return err
		}
	}
}

// apply does the operations of a batch and returns which one broke the transaction; -1 if none.
func (c *committer) apply(batch []*request) int {
	for i, r := range batch {
		if r.err = r.apply(c.tx); c.tx.fault != nil {
			return i
		}
	}
	return -1
}

// conclude tells the callers of a batch what came of its commit.
func (c *committer) conclude(batch []*request, err error) {
	if err == nil {
		err = c.at(behindEnd)
	}
	if err == nil {
		// Asked behind the commit, so that no caller is told of a write to a file that was gone by then.
		if err = c.files.check(); err != nil {
			c.suspect = true
			c.tx.distrust()
			c.failAs(batch, true, err)
			return
		}
		c.tx.publish()
		for _, r := range batch {
			c.settle(r)
		}
		return
	}
	// What failed for want of space is not in the file. Whatever else happened, it may be.
	code := codeOf(err)
	if code == sqlite3.SQLITE_FULL || code == sqlite3.SQLITE_BUSY {
		c.tx.rollback()
		c.fail(batch, err)
		return
	}
	c.tx.distrust()
	c.tx.rollback()
	c.failAs(batch, true, err)
}

func (c *committer) fail(batch []*request, err error) { c.failAs(batch, false, err) }

func (c *committer) failAs(batch []*request, unknown bool, err error) {
	for _, r := range batch {
		r.err = c.tx.store.fault(r.op(), r.run(), unknown, err)
		if l, ok := r.operation.(lost); ok {
			l.lost(c)
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
		l.lost(c)
	}
}
