package memory

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// Store is a journal.Store, journal.Lister, journal.Deleter, journal.Watcher and journal.Queue. It is safe for concurrent
// use. Make one with New. It is never unavailable: a call fails with an error of package journal, with that of its context
// if that has ended before the call, or because of its arguments.
type Store struct {
	mu   sync.Mutex
	runs map[string]*entry
	// order has the runs by their serial, which is the order of their creation.
	order  []*entry
	serial int64
	// token is the last lease's. One count serves all runs, so that a lease of a deleted run is not taken for one of a later
	// run of the same id.
	token int64
	// queues has the runs of each queue that have not ended, dedup the one that has a key and has not ended.
	queues map[string]map[*entry]struct{}
	dedup  map[string]*entry
	// announced is when a worker was last said to be there.
	announced map[service]time.Time
	watchers  watchers // of runs
	queuers   watchers // of queues
}

var (
	_ journal.Store   = (*Store)(nil)
	_ journal.Lister  = (*Store)(nil)
	_ journal.Deleter = (*Store)(nil)
	_ journal.Watcher = (*Store)(nil)
	_ journal.Queue   = (*Store)(nil)
)

// New returns an empty store.
func New() *Store {
	return &Store{
		runs: map[string]*entry{}, queues: map[string]map[*entry]struct{}{}, dedup: map[string]*entry{},
		announced: map[service]time.Time{}, watchers: watchers{}, queuers: watchers{},
	}
}

// entry is a run. Its events and messages are never changed once they are in, so that a reader needs the lock only to get
// hold of the slices.
type entry struct {
	run    journal.Run
	serial int64
	token  int64 // the latest lease's; 0 before the first and once it was given up
	events []journal.Event
	inbox  []journal.Message
	keys   map[string]int64 // the numbers of the messages that have a key
}

// valid reports whether a lease is the run's latest, and was not given up.
func (e *entry) valid(l journal.Lease) bool { return l.Token > 0 && l.Token == e.token }

// held reports whether the run's lease is still running.
func (e *entry) held(now time.Time) bool { return now.Before(e.run.Until) }

// record is what is told of the run: nobody has a lease that has lapsed.
func (e *entry) record(now time.Time) journal.Run {
	r := e.run
	if !e.held(now) {
		r.Owner, r.Until = "", time.Time{}
	}
	return r
}

// free ends the run's lease.
func (e *entry) free() { e.run.Owner, e.run.Until = "", time.Time{} }

// become gives the run a status, and its Due where the status has one.
func (e *entry) become(s journal.Status, due, now time.Time) {
	if e.run.Status != s {
		e.run.Status, e.run.Updated = s, now
	}
	e.run.Due = time.Time{}
	switch {
	case s.Terminal():
		e.free()
	case s != journal.Running:
		e.run.Due = journal.Stamp(due)
	}
}

// lease gives the run to an owner.
func (s *Store) lease(e *entry, c journal.Claim, now time.Time) journal.Lease {
	e.become(journal.Running, time.Time{}, now)
	s.token++
	e.token = s.token
	e.run.Owner, e.run.Until = c.Owner, journal.Stamp(now.Add(c.TTL))
	return journal.Lease{Run: e.run.ID, Token: e.token, Owner: e.run.Owner, Until: e.run.Until, Head: e.run.Head}
}

// Create implements journal.Store.
func (s *Store) Create(ctx context.Context, n journal.NewRun) (journal.Lease, error) {
	if err := ctx.Err(); err != nil {
		return journal.Lease{}, err
	}
	if err := n.Check(); err != nil {
		return journal.Lease{}, err
	}
	now := journal.Stamp(time.Now())
	e := &entry{keys: map[string]int64{}, run: journal.Run{
		ID: n.Run.ID, Kind: n.Run.Kind, Name: n.Run.Name, Version: n.Run.Version, Fingerprint: n.Run.Fingerprint,
		Thread: n.Run.Thread, Link: n.Run.Link, Queue: n.Run.Queue, Dedup: n.Run.Dedup, Created: now,
	}}
	e.append(n.Events)
	e.become(journal.StatusAfter(n.Events), n.Due, now)
	for _, m := range n.Messages {
		e.receive(m)
	}
	e.rouse(0, now)

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[n.Run.ID] != nil {
		return journal.Lease{}, &journal.ExistsError{Run: n.Run.ID}
	}
	if other := s.dedup[n.Run.Dedup]; other != nil {
		return journal.Lease{}, &journal.DuplicateError{Run: n.Run.ID, Other: other.run.ID, Key: n.Run.Dedup}
	}
	s.serial++
	e.serial = s.serial
	s.runs[n.Run.ID] = e
	s.order = append(s.order, e)
	if len(e.inbox) > 0 {
		s.watchers.tell(n.Run.ID)
	}
	if e.run.Status.Terminal() {
		return journal.Lease{}, nil
	}
	s.enter(e)
	if n.Claim.TTL <= 0 {
		s.tellQueue(e, now)
		return journal.Lease{}, nil
	}
	return s.lease(e, n.Claim, now), nil
}

// Load implements journal.Store.
func (s *Store) Load(ctx context.Context, run string) (journal.Run, error) {
	if err := check(ctx, run); err != nil {
		return journal.Run{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.find(run)
	if err != nil {
		return journal.Run{}, err
	}
	return e.record(time.Now()), nil
}

// Acquire implements journal.Store.
func (s *Store) Acquire(ctx context.Context, run string, c journal.Claim) (journal.Lease, error) {
	if err := check(ctx, run); err != nil {
		return journal.Lease{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.find(run)
	if err != nil {
		return journal.Lease{}, err
	}
	now := journal.Stamp(time.Now())
	switch {
	case e.run.Status.Terminal():
		return journal.Lease{}, ended(e)
	case e.held(now) && e.run.Owner != c.Owner:
		return journal.Lease{}, locked(e)
	}
	return s.lease(e, c, now), nil
}

// Renew implements journal.Store.
func (s *Store) Renew(ctx context.Context, l journal.Lease, ttl time.Duration) (journal.Lease, error) {
	if err := check(ctx, l.Run); err != nil {
		return journal.Lease{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.find(l.Run)
	if err != nil {
		return journal.Lease{}, err
	}
	switch {
	case !e.valid(l):
		return journal.Lease{}, fenced(e, l)
	case e.run.Status.Terminal():
		return journal.Lease{}, ended(e)
	}
	now := journal.Stamp(time.Now())
	if ttl > 0 {
		e.run.Until = journal.Stamp(now.Add(ttl))
		l.Until = e.run.Until
		return l, nil
	}
	e.token = 0
	e.free()
	if e.run.Status == journal.Running {
		e.become(journal.Pending, time.Time{}, now)
	}
	s.tellQueue(e, now)
	return journal.Lease{}, nil
}

// find returns a run. The caller holds the lock.
func (s *Store) find(run string) (*entry, error) {
	if e := s.runs[run]; e != nil {
		return e, nil
	}
	return nil, &journal.NotFoundError{Run: run}
}

// check is what every call begins with.
func check(ctx context.Context, run string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return journal.CheckID(run)
}
