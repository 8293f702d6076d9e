package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// Store is a journal.Store, journal.Lister, journal.Deleter, journal.Watcher and journal.Queue in a SQLite file. It is safe
// for concurrent use. Make one with Open; the file may be open in several processes, and several times in one.
//
// All errors are those that package journal's interfaces name, or say what is wrong with the call. After Close every call
// fails with an error that matches fs.ErrClosed.
type Store struct {
	path      string
	busy      time.Duration
	poll      time.Duration
	owners    *owners
	writer    *sql.DB
	reader    *sql.DB
	read      *reads
	committer *committer
	watchers  watchers

	// use is held for reading by every call, so that Close can wait for them.
	use    sync.RWMutex
	closed bool
}

var (
	_ journal.Store   = (*Store)(nil)
	_ journal.Lister  = (*Store)(nil)
	_ journal.Deleter = (*Store)(nil)
	_ journal.Watcher = (*Store)(nil)
	_ journal.Queue   = (*Store)(nil)
)

// Option changes how Open opens a file.
type Option func(*Store)

// BusyTimeout is how long a call waits while another process has the file locked, before it fails with a
// *journal.UnavailableError; 5 s if it is not given. With 0 a call does not wait.
func BusyTimeout(d time.Duration) Option { return func(s *Store) { s.busy = max(d, 0) } }

// WatchEvery is how often the store looks for what other processes have sent or made ready, while a run or a queue is
// watched; 50 ms if it is not given. What this process does is seen at once.
func WatchEvery(d time.Duration) Option {
	return func(s *Store) {
		if d > 0 {
			s.poll = d
		}
	}
}

const (
	defaultBusy = 5 * time.Second
	defaultPoll = 50 * time.Millisecond
)

// Open opens the database at a path, or makes one if there is none. The folder must be there.
//
// It fails, with an error that names the path and what to do, if the file is no database, or another program's, or a later
// release's, or may only be read, or is locked, or if the folder is missing.
func Open(path string, opts ...Option) (*Store, error) {
	s := &Store{path: path, busy: defaultBusy, poll: defaultPoll}
	for _, opt := range opts {
		opt(s)
	}
	if err := s.open(); err != nil {
		return nil, s.openError(path, err)
	}
	return s, nil
}

// Path returns the path of the file: absolute, and without symbolic links.
func (s *Store) Path() string { return s.path }

// Close waits for the calls under way and closes the file. Leases that were not given up end at once. It may be called more
// than once.
func (s *Store) Close() error {
	s.use.Lock()
	defer s.use.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.watchers.close()
	s.committer.close()
	return s.release()
}

// release gives up what open has got, as far as it got.
func (s *Store) release() error {
	var errs []error
	if s.committer != nil {
		errs = append(errs, s.committer.tx.close(), s.committer.conn.Close())
	}
	for _, db := range []*sql.DB{s.reader, s.writer} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if s.owners != nil {
		errs = append(errs, s.owners.leave())
	}
	return errors.Join(errs...)
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
	if err := s.committer.at(atCall); err != nil {
		s.use.RUnlock()
		return s.fault("begin", "", false, err)
	}
	return nil
}

func (s *Store) end() { s.use.RUnlock() }
