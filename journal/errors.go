package journal

import (
	"errors"
	"fmt"
	"time"
)

// What the errors of this package match, with errors.Is.
var (
	ErrNotFound    = errors.New("run not found")
	ErrExists      = errors.New("run exists already")
	ErrDuplicate   = errors.New("deduplication key is taken")
	ErrLocked      = errors.New("run is held by another owner")
	ErrFenced      = errors.New("lease lost")
	ErrEnded       = errors.New("run has ended")
	ErrConflict    = errors.New("not the next event")
	ErrUnavailable = errors.New("store unavailable")
	ErrCorrupt     = errors.New("journal corrupt")
)

// NotFoundError says that a store has no such run.
type NotFoundError struct{ Run string }

// Error names the run.
func (e *NotFoundError) Error() string {
	return fmt.Sprintf("pawl: run %s: %v: check the id, and that this is the store it was started in", quote(e.Run), ErrNotFound)
}

// Unwrap returns ErrNotFound.
func (e *NotFoundError) Unwrap() error { return ErrNotFound }

// ExistsError says that a run of this id was there already.
type ExistsError struct{ Run string }

// Error names the run.
func (e *ExistsError) Error() string { return fmt.Sprintf("pawl: run %s: %v", quote(e.Run), ErrExists) }

// Unwrap returns ErrExists.
func (e *ExistsError) Unwrap() error { return ErrExists }

// DuplicateError says that another run has the deduplication key, and has not ended.
type DuplicateError struct {
	// Run is the run that was not made, Other the one that has the key.
	Run, Other string
	Key        string
}

// Error names the runs and the key.
func (e *DuplicateError) Error() string {
	return fmt.Sprintf("pawl: run %s: %v: run %s has %s and has not ended", quote(e.Run), ErrDuplicate, quote(e.Other), quote(e.Key))
}

// Unwrap returns ErrDuplicate.
func (e *DuplicateError) Unwrap() error { return ErrDuplicate }

// LockedError says that somebody else holds a run.
type LockedError struct {
	Run   string
	Owner string
	Until time.Time // when the lease ends unless it is renewed
}

// Error names the run and its owner.
func (e *LockedError) Error() string {
	return fmt.Sprintf("pawl: run %s: %v (%s, until %s unless it renews its lease)",
		quote(e.Run), ErrLocked, e.Owner, e.Until.Format(time.RFC3339))
}

// Unwrap returns ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }

// RefusedError says that a store has not taken a write, and would not take it again.
type RefusedError struct {
	Run string
	// Reason is ErrFenced, ErrEnded or ErrConflict.
	Reason error
	// Detail says more, for people.
	Detail string
}

// Error names the run and the reason.
func (e *RefusedError) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("pawl: run %s: write refused: %v", quote(e.Run), e.Reason)
	}
	return fmt.Sprintf("pawl: run %s: write refused: %v: %s", quote(e.Run), e.Reason, e.Detail)
}

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Reason }

// UnavailableError says that a store could not do its work for reasons that may pass: it was out of reach, out of time or
// space, or could only be read.
type UnavailableError struct {
	// Op is what was tried.
	Op string
	// Unknown is true if it may have been done all the same: what is there must be read before anything is written.
	Unknown bool
	Err     error
}

// Error says what was tried, and the store's reason.
func (e *UnavailableError) Error() string {
	if e.Unknown {
		return fmt.Sprintf("pawl: %v: %s, with unknown outcome: %v", ErrUnavailable, e.Op, e.Err)
	}
	return fmt.Sprintf("pawl: %v: %s: %v", ErrUnavailable, e.Op, e.Err)
}

// Unwrap returns ErrUnavailable and the store's error.
func (e *UnavailableError) Unwrap() []error { return []error{ErrUnavailable, e.Err} }

// CorruptError says that what is stored is not what was written.
type CorruptError struct {
	Run string
	Seq int64 // the number of the event, or of the first of those that were written with it; 0 if it is not known
	Err error
}

// Error names the run and the event.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("pawl: run %s: event %d: %v: %v: restore the store from a backup", quote(e.Run), e.Seq, ErrCorrupt, e.Err)
}

// Unwrap returns ErrCorrupt and the fault.
func (e *CorruptError) Unwrap() []error { return []error{ErrCorrupt, e.Err} }

// quote makes an id fit for a message, whatever it is made of.
func quote(id string) string {
	const most = 100
	if len(id) > most {
		return fmt.Sprintf("%q... (%d bytes)", id[:most], len(id))
	}
	return fmt.Sprintf("%q", id)
}
