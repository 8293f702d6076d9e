package journaltest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

func inboxRules() []rule {
	return []rule{
		{"messages are numbered from 1 in each run, and come back as they were sent", inboxOrder},
		{"a message with a key that is there is not added, and the first one returned", inboxKeys},
		{"keys of different runs have nothing to do with each other", inboxKeysOfRuns},
		{"anybody can send to a run that is pending, held or suspended", inboxStatuses},
		{"a message to an ended run is refused with ErrEnded", inboxEnded},
		{"sent again after the end a message with a key is the first one still", inboxAgainAfterEnd},
		{"an ended run has its messages still", inboxAfterEnd},
		{ruleUnknown, inboxUnknown},
		{"a message is not an event", inboxSeparate},
		{"what the caller changes later is not changed in the store", inboxCopies},
	}
}

func inboxOrder(s *subject) {
	s.create("r")
	s.create("other")
	assert.Empty(s.t, s.inbox("r", 0))
	sent := []journal.Message{
		{Seq: 99, Kind: journal.SignalMessage, Name: "näme'\x00", Key: "k\xff", Time: noon(), Payload: []byte("\x00\xff")},
		{Kind: journal.AnswerMessage, Name: "3/ask[2]", Time: noon()},
		{Kind: journal.CancelMessage, Payload: []byte(`"enough"`), Time: noon()},
		{Kind: "a kind of another release", Time: noon()},
	}
	want := make([]journal.Message, 0, len(sent))
	for i, m := range sent {
		got := s.send("r", m)
		s.send("other", m)
		m.Seq, m.Time = int64(i)+1, kept(m.Time)
		assert.Equal(s.t, m, got)
		want = append(want, m)
	}
	assert.Equal(s.t, want, s.inbox("r", 0))
	assert.Equal(s.t, want, s.inbox("other", -1))
	assert.Equal(s.t, want[1:], s.inbox("r", 1))
	assert.Equal(s.t, want[3:], s.inbox("r", 3))
	assert.Empty(s.t, s.inbox("r", 4))
	assert.Empty(s.t, s.inbox("r", 1<<62))
}

func inboxKeys(s *subject) {
	s.create("r")
	first := s.send("r", signal("a", "k", "first"))
	s.send("r", signal("a", "", "second"))
	assert.Equal(s.t, first, s.send("r", signal("a", "k", "first")))
	assert.Equal(s.t, first, s.send("r", journal.Message{Kind: journal.AnswerMessage, Name: "other", Key: "k", Payload: []byte("x")}))
	assert.EqualValues(s.t, 3, s.send("r", signal("a", "K", "third")).Seq)
	assert.EqualValues(s.t, 4, s.send("r", signal("a", "k ", "fourth")).Seq)
	assert.Len(s.t, s.inbox("r", 0), 4)
}

func inboxKeysOfRuns(s *subject) {
	for _, run := range []string{"a", "b"} {
		s.create(run)
		assert.EqualValues(s.t, 1, s.send(run, signal("x", "k", run)).Seq)
		assert.EqualValues(s.t, 2, s.send(run, signal("x", "k2", run)).Seq)
		assert.Equal(s.t, []byte(run), s.inbox(run, 0)[0].Payload)
	}
}

func inboxStatuses(s *subject) {
	s.create("pending")
	s.hold("running")
	s.suspend(s.hold("suspended"), 1, noon())
	for run, status := range map[string]journal.Status{
		"pending": journal.Pending, "running": journal.Running, "suspended": journal.Suspended,
	} {
		before := s.load(run)
		require.Equal(s.t, status, before.Status)
		s.send(run, signal("a", "", "1"))
		assert.Equal(s.t, before, s.load(run), "the record tells nothing of messages")
	}
}

func inboxEnded(s *subject) {
	for kind := range terminals() {
		run := string(kind)
		s.create(run, end(kind))
		_, err := s.store.Send(s.t.Context(), run, signal("a", "k", "1"))
		s.refused(run, journal.ErrEnded, err)
		assert.Empty(s.t, s.inbox(run, 0))
	}
}

func inboxAgainAfterEnd(s *subject) {
	lease := s.hold("r")
	first := s.send("r", signal("a", "k", "1"))
	s.append(lease, 1, end(journal.RunComplete))
	assert.Equal(s.t, first, s.send("r", signal("a", "k", "1")))
	_, err := s.store.Send(s.t.Context(), "r", signal("a", "k2", "1"))
	s.refused("r", journal.ErrEnded, err)
}

func inboxAfterEnd(s *subject) {
	lease := s.hold("r")
	m := s.send("r", signal("a", "", "1"))
	s.append(lease, 1, end(journal.RunComplete))
	assert.Equal(s.t, []journal.Message{m}, s.inbox("r", 0))
}

func inboxUnknown(s *subject) {
	_, err := s.store.Send(s.t.Context(), "nobody", signal("a", "", "1"))
	s.notFound("nobody", err)
	_, err = s.store.Inbox(s.t.Context(), "nobody", 0)
	s.notFound("nobody", err)
	s.absent("nobody")
}

func inboxSeparate(s *subject) {
	lease := s.hold("r")
	s.send("r", signal("a", "", "1"))
	s.append(lease, 1, step(1))
	s.send("r", signal("a", "", "2"))
	assert.Equal(s.t, []int64{1, 2}, seqs(s.events("r", 0)))
	assert.Len(s.t, s.inbox("r", 0), 2)
}

func inboxCopies(s *subject) {
	s.create("r")
	m := signal("a", "k", "payload")
	sent := s.send("r", m)
	before := s.picture("r")
	clear(m.Payload)
	clear(sent.Payload)
	clear(s.inbox("r", 0)[0].Payload)
	clear(s.send("r", signal("a", "k", "again")).Payload)
	s.unchanged("r", before)
}
