package journal

import (
	"context"
	"time"
)

// DefaultQueue is the queue that runs are started in, and workers take runs from, unless another one is named.
const DefaultQueue = "default"

// Queue is a store from which workers take runs. A run of a queue is ready
//
//   - pending: from its Due on
//   - suspended: from its Due on, which a message brings about at once
//   - running: when its lease has run out
//
// and those that have been ready longest come first. While somebody holds a run it is not ready, whatever its status.
type Queue interface {
	// Take gives the caller leases on runs that are ready, as Acquire does, at most t.Limit. It does not wait for runs that
	// others take at the same moment: it passes them over. If its outcome is unknown, the runs it may have taken are ready
	// again when their leases have run out.
	Take(ctx context.Context, t Take) ([]Taken, error)
	// Announce says that a worker is there who takes runs of these programs from a queue, and has been until now.
	Announce(ctx context.Context, queue string, programs []Program) error
	// TakeStranded is Take for runs of any program that have been ready for longer than waited, while nobody has announced a
	// worker for their program and queue for as long. Programs and Orphans of t have no meaning.
	TakeStranded(ctx context.Context, t Take, waited time.Duration) ([]Taken, error)
	// WatchQueue returns a channel that has a value whenever runs of a queue may have become ready, other than by time,
	// since it was last read. Stop ends it.
	WatchQueue(queue string) (changed <-chan struct{}, stop func())
}

// Take says which runs are wanted.
type Take struct {
	// Claim is who takes them. Each run has a lease of its own.
	Claim Claim
	// Queue is the queue; it is not empty.
	Queue string
	// Programs are those that the caller can run: other runs are left alone.
	Programs []Program
	// Limit is the most runs to take; below 1 none is.
	Limit int
	// Held is the most runs of the queue that may be running under a lease that lasts, by all owners together; 0: any
	// number. Owners that give different numbers each heed their own.
	Held int
	// Orphans also takes runs that are running and whose owner is known to be gone, though their lease lasts.
	Orphans bool
}

// Taken is a run that was taken.
type Taken struct {
	Lease Lease
	// Run is its record, as Load would give it now.
	Run Run
	// Was is its status before: Running if its owner has gone without a word.
	Was Status
}
