package journal

import (
	"context"
	"iter"
	"time"
)

// Store keeps runs. All methods are safe for concurrent use, by several processes too where the store can be shared.
//
// What has been acknowledged is durable. Errors are those of this package: a *NotFoundError, *ExistsError, *LockedError,
// *RefusedError or *CorruptError, and *UnavailableError where the store could not be reached, ran out of time or space, or
// may not be written to; an error that is none of these is a fault of the call or of the store.
//
// If ctx ends before a write has been begun, nothing is written and the error is ctx's. If it ends later, the outcome is
// unknown: the error is an *UnavailableError that says so. The same holds for a write whose acknowledgement was lost. It
// must not be sent again: take a new lease, which fences it off, and read what is there.
type Store interface {
	// Create makes a run with its first events, numbered from 1, and its first messages, all or nothing. With a Claim the
	// caller holds the run at once, else the lease is zero and the run is pending. A run of that id that exists already is
	// an *ExistsError, and another one that has the Dedup key and has not ended a *DuplicateError.
	Create(ctx context.Context, n NewRun) (Lease, error)
	// Load returns the record of a run.
	Load(ctx context.Context, run string) (Run, error)
	// Acquire takes a run that has not ended and that nobody holds, or whose holder has not renewed its lease in time or is
	// known to be gone. It fences off whoever held the run before and makes the run Running. An owner that holds the run
	// already takes it again: it cannot know that it does, if the outcome of an earlier call was lost. A run that somebody
	// else holds is a *LockedError, an ended one a *RefusedError with ErrEnded.
	Acquire(ctx context.Context, run string, c Claim) (Lease, error)
	// Renew prolongs a lease: it ends ttl from now. With a ttl of 0 the lease is given up, and a run that is Running
	// becomes Pending. A lease that is no longer valid, since another owner has the run or it has ended, is a *RefusedError
	// with ErrFenced or ErrEnded.
	Renew(ctx context.Context, l Lease, ttl time.Duration) (Lease, error)
	// Append writes events behind the run's last one, all or nothing. It is refused, with a *RefusedError, if the lease's
	// token is not the run's latest (ErrFenced), if the run has ended (ErrEnded), if a.After is not the run's last event
	// (ErrConflict), or if an event of the batch stands behind a terminal one (ErrEnded). A lease that nobody else has
	// taken is valid after its time, too. Writing again what stands behind a.After already is a success and writes
	// nothing. A terminal event ends the lease.
	Append(ctx context.Context, l Lease, a Append) error
	// Events returns the events of a run behind the one numbered after, in order. It yields at most one error, as the last
	// thing. An event that cannot be read as it was written is a *CorruptError.
	Events(ctx context.Context, run string, after int64) iter.Seq2[Event, error]
	// Send puts a message into a run's inbox and returns it as it stands there. A message with a Key that one of the run's
	// messages has already is not added: what is returned is the first one. An ended run is a *RefusedError with ErrEnded.
	Send(ctx context.Context, run string, m Message) (Message, error)
	// Inbox returns the messages of a run behind the one numbered after, in order.
	Inbox(ctx context.Context, run string, after int64) ([]Message, error)
}

// NewRun is what Create makes.
type NewRun struct {
	Run    Run
	Events []Event // the first is a RunStart
	// Messages are the inbox it starts with.
	Messages []Message
	// Claim is who holds the run at once; its zero value: nobody.
	Claim Claim
	// Due becomes the run's Due, if nobody holds it at once.
	Due time.Time
}

// Claim is who wants to hold a run, and for how long.
type Claim struct {
	// Owner is who: a name that nobody else uses.
	Owner string
	// TTL is how long the lease lasts unless it is renewed.
	TTL time.Duration
}

// Lease is the right to write a run's journal. It is used with the store value that gave it.
type Lease struct {
	Run string
	// Token is larger than that of every lease of the run before.
	Token int64
	Owner string
	Until time.Time
	// Head is the number of the run's last event when the lease was taken.
	Head int64
}

// Append is what an owner adds to a journal.
type Append struct {
	// After is the number of the last event the owner knows.
	After  int64
	Events []Event
	// Due becomes the run's Due if the events suspend or requeue it.
	Due time.Time
	// Seen is the number of the last message of the run that the owner knows. A run of a queue that is suspended while its
	// inbox has later ones is due at once.
	Seen int64
	// Outbox are messages to other runs, written along with the events. One to a run that is not there, or has ended, or has
	// a message of that key, is dropped.
	Outbox []Letter
}

// Letter is a message to a run.
type Letter struct {
	Run     string
	Message Message
}

// Lister is a store that can list its runs.
type Lister interface {
	// List returns runs, newest first.
	List(ctx context.Context, q Query) (Page, error)
}

// Query says which runs to list; the zero Query lists the newest of all.
type Query struct {
	// Status, Kind, Name, Thread and Queue restrict the list where they are not empty; several statuses are an or.
	Status []Status
	Kind   RunKind
	Name   string
	Thread string
	Queue  string
	// LinkedTo restricts the list to runs that come from this one.
	LinkedTo string
	// Limit bounds the page; 0 is 100.
	Limit int
	// Cursor is a Page's Next.
	Cursor string
}

// Page is a part of a list.
type Page struct {
	Runs []Run
	// Next is the cursor of the page behind this one; empty if there is none.
	Next string
}

// Deleter is a store that can forget runs.
type Deleter interface {
	// Delete removes a run with its events, messages and timers, not those linked to it. A run that somebody holds is a
	// *LockedError.
	Delete(ctx context.Context, run string) error
	// Prune deletes the runs of these statuses, all terminal ones if there are none, that changed last before a time and
	// that nobody holds, and returns how many they were.
	Prune(ctx context.Context, before time.Time, statuses ...Status) (int, error)
}

// Watcher is a store that can say when a run gets a message, so that its owner need not ask again and again.
type Watcher interface {
	// Watch returns a channel that has a value whenever messages may have come since it was last read. Stop ends it.
	Watch(run string) (changed <-chan struct{}, stop func())
}
