package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-go/pawl/journal"
)

// Store is a journal.Store, journal.Queue, journal.Lister, journal.Deleter and journal.Watcher in a schema of a PostgreSQL
// database. It is safe for concurrent use. Make one with Open; any number of processes of any number of machines may have the
// schema open.
//
// All errors are those that package journal's interfaces name, or say what is wrong with the call. A connection that is lost
// is made again by the next call. After Close every call fails with an error that matches fs.ErrClosed.
type Store struct {
	settings

	name       string // tells its notifications from those of others
	pool       *pgxpool.Pool
	committers []*committer
	taker      taker
	session    *session
	watchers   watchers
	queues     queueWatchers
	seed       maphash.Seed

	// hook lets tests cut writes off.
	hook atomic.Pointer[func(place) error]

	// use is held for reading by every call, so that Close can wait for them.
	use    sync.RWMutex
	closed bool
}

var (
	_ journal.Store   = (*Store)(nil)
	_ journal.Queue   = (*Store)(nil)
	_ journal.Lister  = (*Store)(nil)
	_ journal.Deleter = (*Store)(nil)
	_ journal.Watcher = (*Store)(nil)
)

// settings are what the DSN and the options say.
type settings struct {
	place   string // where the runs are, for errors
	schema  string
	timeout time.Duration
	poll    time.Duration
	writers int
	config  *pgxpool.Config
}

// Option changes how Open opens a schema.
type Option func(*settings)

// Schema is the name of the schema that all tables are in; "pawl" if it is not given. It is made if it is not there. Each
// schema is a store of its own.
func Schema(name string) Option { return func(s *settings) { s.schema = name } }

// Timeout is how long a call waits for the server, which may be starting or out of reach, before it fails with a
// *journal.UnavailableError; 10 s if it is not given or not positive.
func Timeout(d time.Duration) Option {
	return func(s *settings) {
		if d > 0 {
			s.timeout = d
		}
	}
}

// WatchEvery is how often the store looks for messages itself, while a run is watched, should a notification of the server be
// lost; 1 s if it is not given. As a rule messages are seen at once.
func WatchEvery(d time.Duration) Option {
	return func(s *settings) {
		if d > 0 {
			s.poll = d
		}
	}
}

// Committers is how many connections write; 1 if it is not given, which is best below about a thousand runs at once. Each run
// is written through one of them.
func Committers(n int) Option { return func(s *settings) { s.writers = max(n, 1) } }

const (
	defaultSchema  = "pawl"
	defaultTimeout = 10 * time.Second
	defaultPoll    = time.Second
)

// Open opens the runs in a PostgreSQL database, which the DSN names as an URL (postgres://user@host:5432/database) or as pairs
// (host=... dbname=...); what it does not say, the environment does (PGHOST, PGPASSWORD, ...), as with psql. Pool settings of
// pgxpool such as pool_max_conns hold for the connections that read. There are up to three connections more, see the package comment.
//
// It makes or migrates the schema, if that is needed and the user may. It fails, with an error that names server and schema
// and what to do, if the server cannot be reached or refuses the user, if a later release has written the schema, or if the
// server is older than PostgreSQL 15. The context is for opening only.
func Open(ctx context.Context, dsn string, opts ...Option) (*Store, error) {
	set, err := configure(dsn, opts)
	if err != nil {
		return nil, err
	}
	s := &Store{settings: set, seed: maphash.MakeSeed(), name: rand.Text()}
	if err := s.open(ctx); err != nil {
		return nil, s.openError(errors.Join(err, s.release())) //nolint:contextcheck // it closes what has a bound of its own
	}
	return s, nil
}

// Close waits for the calls under way and closes the connections. Leases that were not given up end at once. It may be called
// more than once.
func (s *Store) Close() error {
	s.use.Lock()
	defer s.use.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.watchers.close()
	s.queues.close()
	return s.release()
}

// release gives up what open has got, as far as it got.
func (s *Store) release() error {
	s.taker.close() // it gives what it has taken for nobody to the others
	for _, c := range s.committers {
		c.close()
	}
	if s.session != nil {
		s.session.close()
	}
	if s.pool != nil {
		s.pool.Close()
	}
	return nil
}

// begin is what every call begins with; end is what it ends with, unless there was an error.
func (s *Store) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.use.RLock()
	if s.closed {
		s.use.RUnlock()
		return s.errClosed()
	}
	if err := s.at(atCall); err != nil {
		s.use.RUnlock()
		return s.fault("begin", "", false, err)
	}
	return nil
}

func (s *Store) end() { s.use.RUnlock() }

// turnOf is the number of the advisory lock whose holder's turn it is. It is none that a session has.
func (s *settings) turnOf(of, name string) int64 { return -1 - s.lockID(of+"\x00"+name)&math.MaxInt64 }

// committer returns the one that writes a run.
func (s *Store) committer(run string) *committer {
	if len(s.committers) == 1 {
		return s.committers[0]
	}
	return s.committers[maphash.String(s.seed, run)%uint64(len(s.committers))]
}

// place is where a write may be cut off.
type place string

const (
	atCall      place = "at the call"
	beforeWrite place = "before the transaction"
	beforeEnd   place = "before the commit"
	behindEnd   place = "behind the commit"
)

func (s *Store) at(p place) error {
	if hook := s.hook.Load(); hook != nil {
		return (*hook)(p)
	}
	return nil
}

// connect makes a connection outside the pool.
func (s *settings) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return pgx.ConnectConfig(ctx, s.config.ConnConfig.Copy())
}
