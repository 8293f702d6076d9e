package postgres

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// session is a connection that shows that this store lives: it holds an advisory lock, which PostgreSQL lets go of when the
// process dies, however it does. A lease names the lock, so others can tell a holder that is gone from one that is slow. The
// same connection listens for messages.
//
// A session that is lost is followed by one with another lock, since the server may not know yet that the first has ended.
// The committers then rename the leases that nobody has taken meanwhile.
type session struct {
	store *Store
	conn  *pgx.Conn

	mu      sync.Mutex
	lock    int64
	changed chan struct{} // closed when the lock is followed by another
	kick    context.CancelFunc

	stop context.CancelFunc
	done chan struct{}
}

// newSession connects, so that Open fails if that is not possible.
func newSession(ctx context.Context, s *Store) (*session, error) {
	se := &session{store: s, changed: make(chan struct{}), kick: func() {}}
	conn, lock, err := se.enter(ctx)
	se.conn, se.lock = conn, lock
	return se, err
}

func (se *session) start() {
	ctx, stop := context.WithCancel(context.Background())
	se.stop, se.done = stop, make(chan struct{})
	go se.loop(ctx)
}

// close ends the session, and with it all leases that name its lock.
func (se *session) close() {
	if se.stop != nil {
		se.stop()
		<-se.done
	}
	if se.conn != nil {
		hangUp(se.conn)
	}
}

// hangUp closes a connection without waiting for long for a server that may be out of reach.
func hangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// enter makes a connection, locks a lock that nobody else has, and listens.
func (se *session) enter(ctx context.Context) (conn *pgx.Conn, lock int64, err error) {
	if conn, err = se.store.connect(ctx); err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, se.store.timeout)
	defer cancel()
	for got := false; err == nil && !got; {
		lock = rand.Int64() + 1
		err = conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", lock).Scan(&got)
	}
	if err == nil {
		_, err = conn.Exec(ctx, "LISTEN "+pgx.Identifier{se.store.channel()}.Sanitize())
	}
	if err != nil {
		hangUp(conn) //nolint:contextcheck // it has to be said also where the context has ended
		return nil, 0, err
	}
	return conn, lock, nil
}

// channel is the name under which the messages of this schema are told.
func (s *settings) channel() string { return fmt.Sprintf("pawl_%016x", uint64(s.lockID("inbox"))) } //nolint:gosec // bits

// loop is the goroutine. It has the connection.
func (se *session) loop(ctx context.Context) {
	defer close(se.done)
	for {
		if se.conn != nil {
			se.listen(ctx)
			hangUp(se.conn) //nolint:contextcheck // the same
			se.conn = nil
		}
		if ctx.Err() != nil {
			return
		}
		conn, lock, err := se.enter(ctx)
		if err != nil {
			rest(ctx, sessionPause)
			continue
		}
		se.conn = conn
		se.follow(lock)
		// What was told while nobody listened.
		se.store.watchers.pollNow()
		se.store.queues.tellAll()
	}
}

const (
	sessionPause = 100 * time.Millisecond
	// sessionCheck is how often a silent session is asked whether it is there still.
	sessionCheck = 5 * time.Second
)

func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// listen passes notifications on until the session is lost.
func (se *session) listen(ctx context.Context) {
	ctx, kick := context.WithCancel(ctx)
	defer kick()
	se.mu.Lock()
	se.kick = kick
	se.mu.Unlock()
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, sessionCheck)
		n, err := se.conn.WaitForNotification(wait)
		late := wait.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			se.store.heard(n.Payload)
		case !late || se.ping(ctx) != nil:
			return
		}
	}
}

func (se *session) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, se.store.timeout)
	defer cancel()
	return se.conn.Ping(ctx)
}

// follow makes another lock the one that leases name.
func (se *session) follow(lock int64) {
	se.mu.Lock()
	se.lock = lock
	close(se.changed)
	se.changed = make(chan struct{})
	se.mu.Unlock()
	for _, c := range se.store.committers {
		c.nudge()
	}
}

// name returns the lock that leases are to name.
func (se *session) name() int64 {
	se.mu.Lock()
	defer se.mu.Unlock()
	return se.lock
}

// replace is called by who has found that the server does not know the session of a lock any more. It waits for another.
func (se *session) replace(lock int64, d time.Duration) error {
	se.mu.Lock()
	changed := se.changed
	if se.lock != lock {
		se.mu.Unlock()
		return nil
	}
	se.kick()
	se.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-changed:
		return nil
	case <-timer.C:
		return errSession
	}
}

// word is a notification: which run has a message, and the message's id.
func word(run hash, id int64) string {
	return hex.EncodeToString(run[:]) + " " + strconv.FormatInt(id, 10)
}

func parseWord(payload string) (run hash, id int64, err error) {
	name, number, _ := strings.Cut(payload, " ")
	b, err := hex.DecodeString(name)
	if err != nil || len(b) != len(run) {
		return run, 0, errNoWord
	}
	id, err = strconv.ParseInt(number, 10, 64)
	return hash(b), id, err
}

// heard tells watchers of a notification.
func (s *Store) heard(payload string) {
	if run, id, err := parseWord(payload); err == nil {
		s.watchers.notify(run, id)
		return
	}
	if queue, store, err := parseCall(payload); err == nil && store != s.name {
		s.queues.tell(queue)
	}
}
