package journaltest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

func acquireRules() []rule {
	return []rule{
		{"a pending run can be taken, and is running then", acquirePending},
		{"a suspended run can be taken, and is due no more", acquireSuspended},
		{"a run whose lease has lapsed can be taken", acquireLapsed},
		{"a run that has been given up can be taken", acquireReleased},
		{"a run that another owner holds is a LockedError", acquireHeld},
		{"an owner that holds a run takes it again, and fences off its own old lease", acquireAgain},
		{"an ended run is refused with ErrEnded", acquireEnded},
		{ruleUnknown, func(s *subject) {
			_, err := s.store.Acquire(s.t.Context(), "nobody", claim("a"))
			s.notFound("nobody", err)
		}},
		{"tokens grow", acquireTokens},
		{"the lease knows the last event", acquireHead},
	}
}

func acquirePending(s *subject) {
	s.create("r")
	lease := s.acquire("r", "a")
	assert.Equal(s.t, "r", lease.Run)
	assert.Equal(s.t, "a", lease.Owner)
	assert.WithinDuration(s.t, time.Now().Add(long), lease.Until, near)
	r := s.load("r")
	assert.Equal(s.t, journal.Running, r.Status)
	assert.Equal(s.t, "a", r.Owner)
	assert.Equal(s.t, lease.Until, r.Until)
	assert.False(s.t, r.Updated.Before(r.Created))
}

// suspend suspends a run that is held and gives it up.
func (s *subject) suspend(l journal.Lease, after int64, due time.Time) {
	s.t.Helper()
	a := journal.Append{After: after, Events: []journal.Event{end(journal.RunSuspended)}, Due: due}
	require.NoError(s.t, s.store.Append(s.t.Context(), l, a))
	s.release(l)
}

func acquireSuspended(s *subject) {
	s.suspend(s.hold("r"), 1, noon())
	require.Equal(s.t, journal.Suspended, s.load("r").Status)
	lease := s.acquire("r", "a")
	r := s.load("r")
	assert.Equal(s.t, journal.Running, r.Status)
	assert.Zero(s.t, r.Due)
	s.append(lease, 2, step(1))
}

func acquireLapsed(s *subject) {
	old := s.holdFor("r", short)
	lease := s.takeOver("r", "second")
	assert.Greater(s.t, lease.Token, old.Token)
	assert.Equal(s.t, journal.Running, s.load("r").Status)
	s.append(lease, 1, step(1))
	s.refused("r", journal.ErrFenced, s.try(old, 2, step(2)))
}

func acquireReleased(s *subject) {
	old := s.hold("r")
	s.release(old)
	lease := s.acquire("r", "second")
	assert.Greater(s.t, lease.Token, old.Token)
}

func acquireHeld(s *subject) {
	lease := s.hold("r")
	before := s.picture("r")
	for _, owner := range []string{"second", "First", "first ", ""} {
		got, err := s.store.Acquire(s.t.Context(), "r", claim(owner))
		s.locked(lease, err)
		assert.Zero(s.t, got)
	}
	s.unchanged("r", before)
	s.append(lease, 1, step(1))
}

func acquireAgain(s *subject) {
	lost := s.hold("r")
	s.append(lost, 1, step(1))
	before := s.load("r")
	lease, err := s.store.Acquire(s.t.Context(), "r", journal.Claim{Owner: lost.Owner, TTL: time.Hour})
	require.NoError(s.t, err)
	assert.Greater(s.t, lease.Token, lost.Token)
	assert.EqualValues(s.t, 2, lease.Head)
	assert.WithinDuration(s.t, time.Now().Add(time.Hour), lease.Until, near)
	want := before
	want.Until = lease.Until
	assert.Equal(s.t, want, s.load("r"))

	s.refused("r", journal.ErrFenced, s.try(lost, 2, step(2)))
	_, err = s.store.Renew(s.t.Context(), lost, 0)
	s.refused("r", journal.ErrFenced, err)
	s.appendDue(lease, 2, noon(), journal.RunSuspended)
	lease = s.acquire("r", lost.Owner)
	r := s.load("r")
	assert.Equal(s.t, journal.Running, r.Status)
	assert.Zero(s.t, r.Due)
	s.append(lease, 3, step(2))
}

func acquireEnded(s *subject) {
	for kind := range terminals() {
		run := string(kind)
		s.append(s.hold(run), 1, end(kind))
		before := s.picture(run)
		_, err := s.store.Acquire(s.t.Context(), run, claim("a"))
		s.refused(run, journal.ErrEnded, err)
		s.unchanged(run, before)
	}
}

func acquireTokens(s *subject) {
	s.create("r")
	last := int64(0)
	for range 5 {
		lease := s.acquire("r", "a")
		assert.Greater(s.t, lease.Token, last)
		last = lease.Token
		s.release(lease)
	}
}

func acquireHead(s *subject) {
	lease := s.hold("r", steps(1, 3)...)
	s.append(lease, 4, steps(4, 2)...)
	s.release(lease)
	assert.EqualValues(s.t, 6, s.acquire("r", "a").Head)
}

func renewRules() []rule {
	return []rule{
		{"a lease ends ttl from then, and is the same otherwise", renewProlongs},
		{"a lapsed lease that nobody has taken can be renewed", renewLapsed},
		{"a lease that another owner has taken is refused with ErrFenced", renewTaken},
		{"the lease of an ended run is refused with ErrEnded", renewEnded},
		{"given up, a running run is pending", renewReleases},
		{"given up, a suspended run stays suspended and due", renewSuspended},
		{"a lease that was given up is refused with ErrFenced", renewReleased},
		{ruleUnknown, func(s *subject) {
			_, err := s.store.Renew(s.t.Context(), journal.Lease{Run: "nobody", Token: 1}, long)
			s.notFound("nobody", err)
		}},
	}
}

func renewProlongs(s *subject) {
	lease := s.hold("r")
	s.append(lease, 1, step(1))
	updated := s.load("r").Updated
	renewed, err := s.store.Renew(s.t.Context(), lease, time.Hour)
	require.NoError(s.t, err)
	assert.WithinDuration(s.t, time.Now().Add(time.Hour), renewed.Until, near)
	r := s.load("r")
	assert.Equal(s.t, renewed.Until, r.Until)
	assert.Equal(s.t, updated, r.Updated)

	want := lease
	want.Until = renewed.Until
	assert.Equal(s.t, want, renewed)
	s.append(renewed, 2, step(2))
	s.append(lease, 3, step(3))
}

func renewLapsed(s *subject) {
	lease := s.holdFor("r", short)
	s.lapse(lease)
	renewed, err := s.store.Renew(s.t.Context(), lease, long)
	require.NoError(s.t, err)
	_, err = s.store.Acquire(s.t.Context(), "r", claim("second"))
	s.locked(renewed, err)
}

func renewTaken(s *subject) {
	old := s.holdFor("r", short)
	s.takeOver("r", "second")
	before := s.picture("r")
	for _, ttl := range []time.Duration{long, 0} {
		_, err := s.store.Renew(s.t.Context(), old, ttl)
		s.refused("r", journal.ErrFenced, err)
	}
	s.unchanged("r", before)
}

func renewEnded(s *subject) {
	lease := s.hold("r")
	s.append(lease, 1, end(journal.RunComplete))
	before := s.picture("r")
	for _, ttl := range []time.Duration{long, 0} {
		_, err := s.store.Renew(s.t.Context(), lease, ttl)
		s.refused("r", journal.ErrEnded, err)
	}
	s.unchanged("r", before)
}

func renewReleases(s *subject) {
	s.release(s.hold("r"))
	r := s.load("r")
	assert.Equal(s.t, journal.Pending, r.Status)
	assert.Empty(s.t, r.Owner)
	assert.Zero(s.t, r.Until)
}

func renewSuspended(s *subject) {
	s.suspend(s.hold("r"), 1, noon())
	r := s.load("r")
	assert.Equal(s.t, journal.Suspended, r.Status)
	assert.Equal(s.t, kept(noon()), r.Due)
	assert.Empty(s.t, r.Owner)
	assert.Zero(s.t, r.Until)
}

func renewReleased(s *subject) {
	lease := s.hold("r")
	s.release(lease)
	before := s.picture("r")
	for _, ttl := range []time.Duration{long, 0} {
		_, err := s.store.Renew(s.t.Context(), lease, ttl)
		s.refused("r", journal.ErrFenced, err)
	}
	s.refused("r", journal.ErrFenced, s.try(lease, 1, step(1)))
	s.unchanged("r", before)
}
