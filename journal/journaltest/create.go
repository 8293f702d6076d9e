package journaltest

import (
	"encoding/json"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

func createRules() []rule {
	return []rule{
		{"the record is as given, and what is the store's to say is ignored", createRecord},
		{"without a claim the lease is zero and the run is pending", createPending},
		{"with a claim the caller holds the run at once", createClaimed},
		{"events come back as they were given, numbered from 1", createEvents},
		{"messages are numbered from 1, and of those with one key only the first counts", createMessages},
		{"a run that exists is an ExistsError, and stays as it is", createExists},
		{"the first event must be a run:start", createWithoutStart},
		{"a terminal event ends the run, whoever claims it", createEnded},
		{"an event behind a terminal one is refused with ErrEnded", createBehindEnd},
		{"what the caller changes later is not changed in the store", createCopies},
	}
}

func loadRules() []rule {
	return []rule{
		{ruleUnknown, func(s *subject) {
			s.create("other")
			s.absent("nobody")
		}},
		{"a run whose lease has lapsed has no owner, and is running still", loadLapsed},
	}
}

func loadLapsed(s *subject) {
	s.holdFor("held", long)
	lease := s.holdFor("r", short)
	s.lapse(lease)
	r := s.load("r")
	assert.Equal(s.t, journal.Running, r.Status)
	assert.Empty(s.t, r.Owner)
	assert.Zero(s.t, r.Until)
	assert.Equal(s.t, "first", s.load("held").Owner)
	if _, ok := s.store.(journal.Lister); ok {
		assert.Equal(s.t, []journal.Run{r, s.load("held")}, s.list(journal.Query{}).Runs)
	}
	lease, err := s.store.Renew(s.t.Context(), lease, long)
	require.NoError(s.t, err)
	assert.Equal(s.t, lease.Owner, s.load("r").Owner, "it was the owner's all the time")
}

// full is a record that has everything, the store's own fields too.
func full(id string) journal.Run {
	return journal.Run{
		ID: id, Kind: journal.GraphRun, Name: "it's a \"name\"", Version: "v1\x00", Fingerprint: "f\xff", Thread: "/thread\n",
		Link:  journal.Link{Kind: journal.ForkOf, Run: "parent'; --", SuperStep: 7},
		Queue: "queue'\x00", Dedup: "key\xff",
		Status: journal.Failed, Created: noon(), Updated: noon(), Due: noon(), Head: 99, Checkpoint: 98, Owner: "nobody", Until: noon(),
	}
}

func createRecord(s *subject) {
	before := time.Now()
	given := full("r")
	events := started(step(1), end(journal.Checkpoint), step(2))
	_, err := s.store.Create(s.t.Context(), journal.NewRun{Run: given, Events: events})
	require.NoError(s.t, err)

	got := s.load("r")
	assert.WithinDuration(s.t, before, got.Created, near)
	assert.Equal(s.t, kept(got.Created), got.Created, "to the microsecond, in UTC")
	want := journal.Run{
		ID: "r", Kind: given.Kind, Name: given.Name, Version: given.Version, Fingerprint: given.Fingerprint, Thread: given.Thread,
		Link: given.Link, Queue: given.Queue, Dedup: given.Dedup,
		Status: journal.Pending, Created: got.Created, Updated: got.Created, Head: 4, Checkpoint: 3,
	}
	assert.Equal(s.t, want, got)
}

func createPending(s *subject) {
	s.create("r")
	r := s.load("r")
	assert.Equal(s.t, journal.Pending, r.Status)
	assert.Empty(s.t, r.Owner)
	assert.Zero(s.t, r.Until)
}

func createClaimed(s *subject) {
	lease := s.hold("r", step(1))
	assert.Equal(s.t, "r", lease.Run)
	assert.Equal(s.t, "first", lease.Owner)
	assert.Positive(s.t, lease.Token)
	assert.EqualValues(s.t, 2, lease.Head)
	assert.WithinDuration(s.t, time.Now().Add(long), lease.Until, near)

	r := s.load("r")
	assert.Equal(s.t, journal.Running, r.Status)
	assert.Equal(s.t, lease.Owner, r.Owner)
	assert.Equal(s.t, lease.Until, r.Until)
	_, err := s.store.Acquire(s.t.Context(), "r", claim("second"))
	s.locked(lease, err)
	s.append(lease, 2, step(2))
}

// everything is an event that has all there is.
func everything() journal.Event {
	return journal.Event{
		Seq: 77, Kind: "a kind of another release", Scope: "3/search[2]", Name: "näme'\x00", N: -5, Time: noon(), Took: time.Hour + 1,
		Attempts: 3, Meta: json.RawMessage(`{"a": [1,  2]}`), Payload: []byte("\x00\xff not JSON"),
	}
}

func createEvents(s *subject) {
	events := started(everything(), step(1))
	_, err := s.store.Create(s.t.Context(), journal.NewRun{Run: journal.Run{ID: "r"}, Events: events})
	require.NoError(s.t, err)
	assert.Equal(s.t, stored(0, events...), s.events("r", 0))
	assert.EqualValues(s.t, 77, events[1].Seq, "the caller's events are left alone")
}

func createMessages(s *subject) {
	n := begun("r")
	n.Messages = []journal.Message{signal("a", "k", "1"), signal("b", "k", "2"), signal("a", "", "3"), signal("a", "", "3")}
	n.Messages[0].Seq = 44
	_, err := s.store.Create(s.t.Context(), n)
	require.NoError(s.t, err)

	want := []journal.Message{signal("a", "k", "1"), signal("a", "", "3"), signal("a", "", "3")}
	for i := range want {
		want[i].Seq, want[i].Time = int64(i)+1, kept(noon())
	}
	assert.Equal(s.t, want, s.inbox("r", 0))
	assert.EqualValues(s.t, 4, s.send("r", signal("a", "", "4")).Seq)
	assert.EqualValues(s.t, 1, s.send("r", signal("c", "k", "5")).Seq, "the first of its key")
}

func createExists(s *subject) {
	s.hold("held")
	s.create("free", step(1))
	s.create("over", end(journal.RunComplete))
	for _, run := range []string{"held", "free", "over"} {
		before := s.picture(run)
		n := begun(run, step(9))
		n.Messages = []journal.Message{signal("a", "", "1")}
		n.Claim = claim("second")
		lease, err := s.store.Create(s.t.Context(), n)
		var exists *journal.ExistsError
		require.ErrorAs(s.t, err, &exists)
		require.ErrorIs(s.t, err, journal.ErrExists)
		assert.Equal(s.t, run, exists.Run)
		assert.Zero(s.t, lease)
		s.unchanged(run, before)
	}
}

func createWithoutStart(s *subject) {
	for _, events := range [][]journal.Event{nil, {step(1)}, {step(1), {Kind: journal.RunStart}}} {
		_, err := s.store.Create(s.t.Context(), journal.NewRun{Run: journal.Run{ID: "r"}, Events: events})
		require.Error(s.t, err)
		require.NotErrorIs(s.t, err, journal.ErrUnavailable, "another time would not help")
		s.absent("r")
	}
}

func createEnded(s *subject) {
	for kind, status := range terminals() {
		run := string(kind)
		n := begun(run, end(kind))
		n.Claim = claim("first")
		lease, err := s.store.Create(s.t.Context(), n)
		require.NoError(s.t, err)
		assert.Zero(s.t, lease)
		r := s.load(run)
		assert.Equal(s.t, status, r.Status)
		assert.Empty(s.t, r.Owner)
		assert.Zero(s.t, r.Until)
		_, err = s.store.Acquire(s.t.Context(), run, claim("second"))
		s.refused(run, journal.ErrEnded, err)
	}
}

func createBehindEnd(s *subject) {
	_, err := s.store.Create(s.t.Context(), begun("r", end(journal.RunError), step(1)))
	s.refused("r", journal.ErrEnded, err)
	s.absent("r")
}

func createCopies(s *subject) {
	n := begun("r", everything())
	n.Messages = []journal.Message{signal("a", "", "payload")}
	_, err := s.store.Create(s.t.Context(), n)
	require.NoError(s.t, err)
	before := s.picture("r")
	clear(n.Events[1].Payload)
	clear(n.Events[1].Meta)
	clear(n.Messages[0].Payload)
	n.Events[1].Name = "changed"
	s.unchanged("r", before)

	seen := s.picture("r")
	clear(seen.events[1].Payload)
	clear(seen.events[1].Meta)
	clear(seen.inbox[0].Payload)
	s.unchanged("r", before)
}
