package postgres

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-go/pawl/journal"
)

// A batch is closed at whichever comes first.
const (
	maxBatch      = 256
	maxBatchBytes = 16 << 20
)

// committer writes what the calls of this store want written, on one connection: what waits when it comes back from a commit
// shares the next one. Nobody waits for others to come: a lone append is one statement.
type committer struct {
	store *Store
	conn  *pgx.Conn // nil while there is none
	used  time.Time // when it was last known to work
	tx    *tx
	// holder is the session's lock that all leases of this committer name, but for those that name a former one still.
	holder int64
	former []int64
	// downSince is when the server was first found out of reach; zero if it was not.
	downSince time.Time
	// crowd is true if several were told at once. They are let go first, since what they write next can share a transaction;
	// the committer would otherwise find the first of them alone. It costs a lone writer nothing.
	crowd bool

	batch, fast, slow []*request // memory for the next one
	columns           columns

	mu       sync.Mutex
	waiting  []*request
	arrivals []arrival
	stopped  bool
	wake     chan struct{}
	done     chan struct{}
}

// operation is what a request wants done.
type operation interface {
	// op says what it is, for errors, and run which run it is for; "" for several.
	op() string
	run() string
	// need says what must be read or reserved before apply.
	need(n *needs)
	// apply does it: what it wants written is queued. An error means that it has queued nothing, or that t.fault is set.
	apply(t *tx) error
}

// lost is an operation that wants to know when it was not done although its caller is gone or has been told so.
type lost interface{ lost(c *committer) }

// finisher is an operation that knows only behind its transaction what came of it.
type finisher interface{ finish(t *tx) error }

// loner is an operation that is a transaction of its own.
type loner interface {
	// attempt does it. If it fails, it also says whether it may have been done all the same.
	attempt(c *committer) (unknown bool, err error)
}

// alone has what such an operation does not need.
type alone struct{}

func (alone) run() string     { return "" }
func (alone) need(*needs)     {}
func (alone) apply(*tx) error { return nil }

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

func newCommitter(ctx context.Context, s *Store) (*committer, error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	return startCommitter(s, conn), nil //nolint:contextcheck // it lives as long as the store
}

// startCommitter returns a committer with a connection, or one that makes it when it needs it.
func startCommitter(s *Store, conn *pgx.Conn) *committer {
	c := &committer{
		store: s, conn: conn, used: time.Now(), tx: newTx(s), holder: s.session.name(),
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	go c.loop()
	return c
}

// close waits until all that waits is done, and closes the connection.
func (c *committer) close() {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.nudge()
	<-c.done
	c.drop()
}

// drop gives the connection up.
func (c *committer) drop() {
	if c.conn != nil {
		hangUp(c.conn)
		c.conn = nil
	}
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
		return &journal.UnavailableError{Op: o.op() + " in " + c.store.place, Unknown: true, Err: ctx.Err()}
	}
	<-r.done
	return r.err
}

// push has an operation done that nobody waits for.
func (c *committer) push(o operation) {
	c.enter(&request{operation: o, done: make(chan struct{}, 1)})
}

// abandon tells the committer of an operation that will not be done.
func (c *committer) abandon(o operation) {
	r := &request{operation: o}
	r.state.Store(left)
	c.enter(r)
}

func (c *committer) enter(r *request) {
	c.mu.Lock()
	c.waiting = append(c.waiting, r)
	c.mu.Unlock()
	c.nudge()
}

// loop is the committer's goroutine.
func (c *committer) loop() {
	defer close(c.done)
	for {
		if c.crowd {
			runtime.Gosched()
		}
		if !c.await() {
			return
		}
		if err := c.store.at(beforeWrite); err != nil {
			c.fail(c.take(0, 0), err)
			continue
		}
		err := c.ready()
		if err == nil {
			c.downSince = time.Time{}
			c.work(c.take(maxBatch, maxBatchBytes))
			continue
		}
		if c.patient(err) {
			<-time.After(retryPause)
			continue
		}
		c.downSince = time.Time{}
		c.fail(c.take(0, 0), err)
		<-time.After(retryPause)
	}
}

const (
	retryPause = 20 * time.Millisecond
	// checkIdle is how long a connection may have been idle before it is asked whether it is there still: a write that fails
	// for that has an unknown outcome, and costs its owner the lease.
	checkIdle = time.Second
)

// patient reports whether the committer is to try again to reach the server before it tells those who wait.
func (c *committer) patient(err error) bool {
	if !mayPass(err) || codeOf(err) == readOnly {
		return false
	}
	if c.downSince.IsZero() {
		c.downSince = time.Now()
	}
	return time.Since(c.downSince) < c.store.timeout
}

// await waits until requests wait or the session has another lock; it returns false once the store is closed.
func (c *committer) await() bool {
	for {
		c.mu.Lock()
		n, stopped := len(c.waiting), c.stopped
		c.mu.Unlock()
		if n > 0 || !stopped && (len(c.former) > 0 || c.holder != c.store.session.name()) {
			return true
		}
		if stopped {
			return false
		}
		<-c.wake
	}
}

// take returns up to n of the requests that wait, as many as have a total size of up to size, and without those that nobody
// waits for any more. Zeros are no limits.
func (c *committer) take(n, size int) []*request {
	c.mu.Lock()
	batch := c.batch[:0]
	i, bytes := 0, 0
	for ; i < len(c.waiting) && (i < n || n == 0); i++ {
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
	rest := copy(c.waiting, c.waiting[i:])
	clear(c.waiting[rest:])
	c.waiting = c.waiting[:rest]
	arrivals := c.arrivals
	c.arrivals = nil
	c.mu.Unlock()
	c.welcome(arrivals)
	c.batch = batch
	return batch
}

// ready makes sure of the connection, as far as that can be, and that all leases name the lock that the session has now.
func (c *committer) ready() error {
	if c.conn != nil && (c.conn.IsClosed() || time.Since(c.used) > checkIdle && c.ping() != nil) {
		c.drop()
	}
	if c.conn == nil {
		conn, err := c.store.connect(context.Background())
		if err != nil {
			return err
		}
		c.conn, c.used = conn, time.Now()
	}
	if lock := c.store.session.name(); lock != c.holder {
		c.former = append(c.former, c.holder)
		c.holder = lock
	}
	for len(c.former) > 0 {
		c.deadline()
		if err := c.tx.rename(c.conn, c.former[0], c.holder); err != nil {
			return err
		}
		c.former = c.former[1:]
	}
	return nil
}

func (c *committer) ping() error {
	c.deadline()
	return c.conn.Ping(context.Background())
}

// deadline bounds what is to be sent and read from here on. A context that can end would cost more.
func (c *committer) deadline() {
	_ = c.conn.PgConn().Conn().SetDeadline(time.Now().Add(c.store.timeout))
}

// work does a batch: the appends of which all is known with one statement, and the rest in a transaction, which locks each run
// in the order of their keys. Were they one transaction, two processes could wait for each other.
func (c *committer) work(batch []*request) {
	c.crowd = len(batch) > 1
	c.fast, c.slow = c.fast[:0], c.slow[:0]
	for i, r := range batch {
		switch o := r.operation.(type) {
		case *appending:
			if o.known(c.tx) {
				c.fast = append(c.fast, r)
				continue
			}
		case loner:
			c.transact(batch[i : i+1])
			continue
		}
		c.slow = append(c.slow, r)
	}
	c.tx.unmark()
	if len(c.fast) > 0 {
		c.slow = append(c.slow, c.appendKnown(c.fast)...)
	}
	if len(c.slow) > 0 {
		c.transact(c.slow)
	}
	if c.conn != nil {
		c.used = time.Now()
	}
}

// transact does requests in one transaction and tells the callers. One that breaks it is left out.
func (c *committer) transact(batch []*request) {
	const tries = 3
	slices.SortStableFunc(batch, inOrder)
	for try := 1; ; try++ {
		unknown, err := c.attempt(batch)
		if err == nil {
			return
		}
		code := codeOf(err)
		switch {
		case !unknown && try < tries && (errors.Is(err, errAgain) || code == deadlock || code == serialization):
			if err := c.ready(); err == nil {
				continue
			}
		case !unknown && len(batch) > 1 && !mayPass(err) && !isCorrupt(err):
			// Nobody has been told anything yet. Each has its own transaction now, so the bad one fails alone.
			for i := range batch {
				c.transact(batch[i : i+1])
			}
			return
		}
		if errors.Is(err, errAgain) {
			err = errSession
		}
		c.failAs(batch, unknown, err)
		return
	}
}

// inOrder puts what makes runs last, in one order for all processes: who makes a run that another is making waits for the other,
// holding the locks it has.
func inOrder(a, b *request) int {
	first, isFirst := a.operation.(*creation)
	second, isSecond := b.operation.(*creation)
	switch {
	case isFirst && isSecond:
		return strings.Compare(first.Run.ID, second.Run.ID)
	case isFirst:
		return 1
	case isSecond:
		return -1
	}
	return 0
}

// attempt does requests in one transaction. If it fails, it also says whether they may have been done all the same.
func (c *committer) attempt(batch []*request) (unknown bool, err error) {
	if o, ok := batch[0].operation.(loner); ok {
		if unknown, err = o.attempt(c); err == nil {
			c.conclude(batch)
		}
		return unknown, err
	}
	if c.conn == nil || c.conn.IsClosed() {
		return false, errLost
	}
	c.deadline()
	if err = c.tx.begin(c.conn, c.holder, batch); err != nil {
		c.rollback()
		return false, err
	}
	if c.tx.claims && !c.tx.alive {
		c.rollback()
		return false, c.replaceSession()
	}
	for _, r := range batch {
		if r.err = r.apply(c.tx); c.tx.fault != nil {
			err = c.tx.fault
			c.rollback()
			return false, err
		}
	}
	if !c.tx.writes() {
		c.rollback()
		c.conclude(batch)
		return false, nil
	}
	if err = c.store.at(beforeEnd); err != nil {
		c.rollback()
		return false, err
	}
	if err = c.tx.commit(); err != nil {
		if definite(err) {
			c.rollback()
			return false, err
		}
		c.tx.distrust()
		c.drop()
		return true, err
	}
	if err = c.store.at(behindEnd); err != nil {
		c.tx.distrust()
		return true, err
	}
	c.conclude(batch)
	return false, nil
}

// replaceSession waits for another session where the server does not know this one any more.
func (c *committer) replaceSession() error {
	if err := c.store.session.replace(c.holder, c.store.timeout); err != nil {
		return err
	}
	return errAgain
}

// abort ends a transaction that was to be committed at once and has failed, and reports whether it may have been all the same.
func (c *committer) abort(err error) (unknown bool) {
	if definite(err) {
		c.rollback()
		return false
	}
	c.drop()
	return !pgconn.SafeToRetry(err)
}

// rollback ends a transaction that is not to be. A connection on which that fails is given up, which has the same effect.
func (c *committer) rollback() {
	c.tx.reset()
	if c.conn.IsClosed() {
		c.drop()
		return
	}
	c.deadline()
	if _, err := c.conn.Exec(context.Background(), "rollback", pgx.QueryExecModeSimpleProtocol); err != nil {
		c.drop()
	}
}

// conclude tells the callers of a batch that its transaction is over as it should be.
func (c *committer) conclude(batch []*request) {
	for _, r := range batch {
		if f, ok := r.operation.(finisher); ok && r.err == nil {
			r.err = f.finish(c.tx)
		}
	}
	c.tx.publish()
	for _, r := range batch {
		c.settle(r)
	}
}

func (c *committer) fail(batch []*request, err error) { c.failAs(batch, false, err) }

func (c *committer) failAs(batch []*request, unknown bool, err error) {
	for _, r := range batch {
		r.err = c.store.fault(r.op(), r.run(), unknown, err)
		if l, ok := r.operation.(lost); ok {
			l.lost(c)
		}
		c.settle(r)
	}
}

// settle tells a caller the outcome, if it waits still.
func (c *committer) settle(r *request) {
	if r.state.CompareAndSwap(taken, settled) {
		r.done <- struct{}{}
		return
	}
	if l, ok := r.operation.(lost); ok {
		l.lost(c)
	}
}
