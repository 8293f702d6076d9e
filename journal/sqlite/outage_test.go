package sqlite_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/sqlite"
)

// down holds that a call failed for a reason that may pass, and said what to do.
func down(t *testing.T, err error, unknown bool, parts ...string) {
	t.Helper()
	var e *journal.UnavailableError
	require.ErrorAs(t, err, &e)
	require.Equal(t, unknown, e.Unknown, "%v", err)
	for _, part := range parts {
		require.ErrorContains(t, err, part)
	}
}

// lock locks a file as another process's transaction does.
func lock(t *testing.T, path string) (unlock func()) {
	t.Helper()
	tx, err := attach(t, path).Begin()
	require.NoError(t, err)
	return func() { require.NoError(t, tx.Rollback()) }
}

func big(kind journal.Kind) []journal.Event {
	return []journal.Event{{Kind: kind, Payload: make([]byte, 1<<20)}}
}

// A full disk fails the write, and nothing that was acknowledged is lost.
func TestAFullDisk(t *testing.T) {
	for _, kind := range []journal.Kind{journal.StepDone, journal.Checkpoint} { // one statement, and a transaction
		t.Run(string(kind), func(t *testing.T) {
			s := open(t, file(t))
			l := held(t, s, "r")
			require.NoError(t, add(t, s, l, 1))
			pages, err := s.Pages()
			require.NoError(t, err)
			require.NoError(t, s.MaxPages(pages+10))
			err = s.Append(t.Context(), l, journal.Append{After: 2, Events: big(kind)})
			down(t, err, false, s.Path(), "the disk is full", "free some space")
			_, err = s.Send(t.Context(), "r", journal.Message{Payload: make([]byte, 1<<20)})
			down(t, err, false, "the disk is full")
			require.Len(t, read(t, s, "r"), 2)

			require.NoError(t, s.MaxPages(0))
			require.NoError(t, s.Append(t.Context(), l, journal.Append{After: 2, Events: big(kind)}))
			require.NoError(t, s.Close())
			require.Len(t, read(t, open(t, s.Path()), "r"), 3)
		})
	}
}

// While another process has the file locked, calls wait, and then fail; the end of a caller's context does not wait.
func TestALockedFile(t *testing.T) {
	path := file(t)
	s := open(t, path, sqlite.BusyTimeout(100*time.Millisecond))
	l := held(t, s, "r")
	unlock := lock(t, path)

	down(t, add(t, s, l, 1), false, path, "another process has had the database locked for 100ms")
	_, err := s.Renew(t.Context(), l, time.Minute)
	down(t, err, false, "locked")
	require.Len(t, read(t, s, "r"), 1, "who reads does not wait")

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err = s.Append(ctx, l, journal.Append{After: 1, Events: stepOf(1)})
	require.Equal(t, context.DeadlineExceeded, err, "nothing was begun")

	later := make(chan error)
	go func() { later <- add(t, s, l, 1) }()
	unlock()
	require.NoError(t, <-later)
	require.Len(t, read(t, s, "r"), 2, "and what was given up is not there")
}

// A lease that could not be given up is this store's to give again, and nobody else's before its time.
func TestALeaseThatCouldNotBeGivenUp(t *testing.T) {
	path := file(t)
	s := open(t, path, sqlite.BusyTimeout(20*time.Millisecond))
	other := open(t, path)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ctx := range map[string]context.Context{"outage": t.Context(), "context": cancelled} {
		l := held(t, s, name)
		unlock := lock(t, path)
		_, err := s.Renew(ctx, l, 0)
		require.Error(t, err)
		unlock()
		_, err = other.Acquire(t.Context(), name, journal.Claim{TTL: time.Minute})
		require.ErrorIs(t, err, journal.ErrLocked)
		next, err := s.Acquire(t.Context(), name, journal.Claim{Owner: "next", TTL: time.Minute})
		require.NoError(t, err)
		require.Greater(t, next.Token, l.Token)
		require.ErrorIs(t, add(t, s, l, 1), journal.ErrFenced)
		_, err = s.Acquire(t.Context(), name, journal.Claim{TTL: time.Minute})
		require.ErrorIs(t, err, journal.ErrLocked, "the next one is held")
	}
}

// A lease whose caller has left before it got it is nobody's.
func TestALeaseThatNobodyGot(t *testing.T) {
	s := open(t, file(t))
	_, err := s.Create(t.Context(), newRun("r"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	goOn := make(chan struct{})
	s.At("before the commit", func() error { cancel(); <-goOn; return nil })
	_, err = s.Acquire(ctx, "r", journal.Claim{Owner: "gone", TTL: time.Hour})
	down(t, err, true)
	require.ErrorIs(t, err, context.Canceled)
	s.At("", nil)
	close(goOn)
	l, err := s.Acquire(t.Context(), "r", journal.Claim{TTL: time.Hour})
	require.NoError(t, err)
	require.NoError(t, add(t, s, l, 1))
}

// A caller whose context ends while its write is under way does not know what became of it.
func TestAContextThatEndsInAWrite(t *testing.T) {
	s := open(t, file(t))
	l := held(t, s, "r")
	ctx, cancel := context.WithCancel(t.Context())
	goOn := make(chan struct{})
	s.At("behind the commit", func() error { cancel(); <-goOn; return nil })
	err := s.Append(ctx, l, journal.Append{After: 1, Events: stepOf(1)})
	down(t, err, true)
	require.ErrorIs(t, err, context.Canceled)
	s.At("", nil)
	close(goOn)
	require.NoError(t, add(t, s, l, 2), "it was written")
	require.Len(t, read(t, s, "r"), 3)
}

// After a commit of which nobody knows, what is there is read before anything is written.
func TestACommitOfUnknownOutcome(t *testing.T) {
	for _, place := range []string{"before the commit", "behind the commit"} {
		for _, kind := range []journal.Kind{journal.StepDone, journal.Checkpoint} {
			t.Run(place+" "+string(kind), func(t *testing.T) {
				s := open(t, file(t))
				l := held(t, s, "r")
				a := journal.Append{After: 1, Events: []journal.Event{{Kind: kind, Name: "x"}}}
				s.At(place, func() error { s.At("", nil); return os.ErrDeadlineExceeded })
				err := s.Append(t.Context(), l, a)
				if place == "before the commit" && kind == journal.StepDone {
					require.NoError(t, err, "a lone append is one statement")
				} else {
					down(t, err, true)
				}
				require.NoError(t, s.Append(t.Context(), l, a), "the same again is a success either way")
				require.NoError(t, add(t, s, l, 2))
				require.Len(t, read(t, s, "r"), 3)
				_, err = s.Acquire(t.Context(), "r", journal.Claim{TTL: time.Minute})
				require.ErrorIs(t, err, journal.ErrLocked, "the lease is held still")
			})
		}
	}
}

// What is written to a file that is gone from its path would be lost without a word.
func TestADeletedFile(t *testing.T) {
	for name, remove := range map[string]func(path string) error{
		"deleted":  os.Remove,
		"replaced": func(path string) error { return os.Rename(copied(t, path), path) },
	} {
		t.Run(name, func(t *testing.T) {
			path := file(t)
			s := open(t, path)
			l := held(t, s, "r")
			require.NoError(t, os.Link(path, path+".kept"))
			require.NoError(t, remove(path))
			down(t, add(t, s, l, 1), true, path, "deleted, moved or replaced", "open it again")
			down(t, add(t, s, l, 1), false, "deleted, moved or replaced")
			_, err := s.Load(t.Context(), "r")
			down(t, err, false, "deleted, moved or replaced")
			_, err = s.List(t.Context(), journal.Query{})
			down(t, err, false, "deleted, moved or replaced")

			require.NoError(t, os.Rename(path+".kept", path), "put back")
			require.NoError(t, add(t, s, l, 2), "the first one was written, to the file that is back")
			require.Len(t, read(t, s, "r"), 3)
		})
	}
}

// A write that SQLite refuses for itself fails alone, not those that share its transaction.
func TestAWriteThatFailsAlone(t *testing.T) {
	s := open(t, file(t))
	good, bad := held(t, s, "good"), held(t, s, "bad")
	_, err := attach(t, s.Path()).Exec("CREATE TRIGGER no BEFORE INSERT ON events WHEN new.run = 2 BEGIN SELECT raise(ABORT, 'no'); END")
	require.NoError(t, err)
	reached, goOn := make(chan struct{}), make(chan struct{})
	s.At("before the transaction", func() error { s.At("", nil); close(reached); <-goOn; return nil })
	errs := map[string]chan error{"first": make(chan error, 1), "good": make(chan error, 1), "bad": make(chan error, 1)}
	go func() { errs["first"] <- s.Delete(t.Context(), "none") }()
	<-reached
	go func() { errs["bad"] <- add(t, s, bad, 1) }()
	go func() { errs["good"] <- add(t, s, good, 1) }()
	time.Sleep(20 * time.Millisecond)
	close(goOn)
	assert.ErrorIs(t, <-errs["first"], journal.ErrNotFound)
	assert.NoError(t, <-errs["good"])
	err = <-errs["bad"]
	assert.ErrorContains(t, err, "no")
	assert.NotErrorIs(t, err, journal.ErrUnavailable)
	assert.Len(t, read(t, s, "good"), 2)
	assert.Len(t, read(t, s, "bad"), 1)
}

// Leases that nobody has given up do not pile up.
func TestLeasesThatHaveRunOutAreForgotten(t *testing.T) {
	s := open(t, file(t))
	const runs = 1500
	var last journal.Lease
	for i := range runs {
		n := newRun(string(rune('a'+i%26)) + time.Duration(i).String())
		n.Claim = journal.Claim{TTL: time.Microsecond}
		var err error
		last, err = s.Create(t.Context(), n)
		require.NoError(t, err)
	}
	require.Less(t, s.Leases(), runs)
	require.NoError(t, add(t, s, last, 1))
}
