package journaltest

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

func outboxRules() []rule {
	return []rule{
		{"letters are in the inboxes that they are for, in order and as they were given", outboxOrder},
		{"letters to who is not there, or has ended, are dropped", outboxDropped},
		{"a letter with a key that is there is dropped", outboxKeys},
		{"the same append again sends nothing again", outboxAgain},
		{"a refused append sends nothing", outboxRefused},
		{"a run may send with its last event", outboxLast},
		{"a run may write to itself, until it has ended", outboxSelf},
		{"a letter tells who watches its run", outboxWatch},
		{"what the caller changes later is not changed in the store", outboxCopies},
		{"of many that send to one run nothing is lost", outboxMany},
		{"runs that write to each other at once do not stop each other", outboxCrossed},
	}
}

func letter(run, key, payload string) journal.Letter {
	return journal.Letter{Run: run, Message: signal("a", key, payload)}
}

// posting is an append that sends letters.
func posting(after int64, letters ...journal.Letter) journal.Append {
	return journal.Append{After: after, Events: []journal.Event{step(int(after))}, Outbox: letters}
}

// post appends an event and sends letters with it.
func (s *subject) post(l journal.Lease, after int64, letters ...journal.Letter) {
	s.t.Helper()
	require.NoError(s.t, s.store.Append(s.t.Context(), l, posting(after, letters...)))
}

// payloads are what a run was sent, in order.
func (s *subject) payloads(run string) []string {
	s.t.Helper()
	inbox := s.inbox(run, 0)
	list := make([]string, 0, len(inbox))
	for i, m := range inbox {
		assert.EqualValues(s.t, i+1, m.Seq)
		list = append(list, string(m.Payload))
	}
	return list
}

func outboxOrder(s *subject) {
	s.create("a")
	s.hold("b")
	s.suspend(s.hold("c"), 1, noon())
	lease := s.hold("r")
	s.send("a", signal("a", "", "before"))
	before := s.load("c")
	m := journal.Message{Seq: 99, Kind: journal.ChildMessage, Name: "näme'\x00", Key: "k\xff", Time: noon(), Payload: []byte("\x00\xff")}
	s.post(lease, 1, letter("a", "", "1"), letter("b", "", "2"), journal.Letter{Run: "a", Message: m}, letter("c", "", "4"),
		letter("a", "", "5"))
	require.Equal(s.t, []string{"before", "1", "\x00\xff", "5"}, s.payloads("a"))
	assert.Equal(s.t, []string{"2"}, s.payloads("b"))
	assert.Equal(s.t, []string{"4"}, s.payloads("c"))
	m.Seq, m.Time = 3, kept(m.Time)
	assert.Equal(s.t, m, s.inbox("a", 0)[2])
	assert.Equal(s.t, stored(0, started(step(1))...), s.events("r", 0))
	assert.Equal(s.t, before, s.load("c"), "a run of no queue is due when it was")
	assert.EqualValues(s.t, 5, s.send("a", signal("a", "", "after")).Seq)
}

func outboxDropped(s *subject) {
	for kind := range terminals() {
		s.create(string(kind), end(kind))
	}
	s.create("b")
	lease := s.hold("r")
	tooLong := strings.Repeat("n", journal.MaxIDLength+1)
	to := append(slices.Collect(maps.Keys(terminals())), "nobody", "", journal.Kind(tooLong), "b")
	letters := make([]journal.Letter, 0, len(to))
	for _, run := range to {
		letters = append(letters, letter(string(run), "", "1"))
	}
	s.post(lease, 1, letters...)
	assert.EqualValues(s.t, 2, s.load("r").Head)
	assert.Equal(s.t, []string{"1"}, s.payloads("b"))
	s.absent("nobody")
	for kind := range terminals() {
		assert.Empty(s.t, s.inbox(string(kind), 0))
	}
}

func outboxKeys(s *subject) {
	s.create("a")
	s.create("b")
	s.send("a", signal("a", "k", "first"))
	lease := s.hold("r")
	s.post(lease, 1, letter("a", "k", "again"), letter("b", "k", "1"), letter("b", "k", "2"), letter("b", "", "3"))
	s.post(lease, 2, letter("b", "k", "4"), letter("a", "K", "5"))
	assert.Equal(s.t, []string{"first", "5"}, s.payloads("a"))
	assert.Equal(s.t, []string{"1", "3"}, s.payloads("b"))
	assert.EqualValues(s.t, 1, s.send("b", signal("a", "k", "6")).Seq)
}

func outboxAgain(s *subject) {
	s.create("a")
	lease := s.hold("r")
	s.post(lease, 1, letter("a", "", "1"))
	s.post(lease, 2, letter("a", "", "2"))
	s.post(lease, 1, letter("a", "", "1"))
	s.post(lease, 2, letter("a", "", "another"))
	over := journal.Append{After: 3, Events: []journal.Event{end(journal.RunComplete)}, Outbox: []journal.Letter{letter("a", "", "3")}}
	for range 2 {
		require.NoError(s.t, s.store.Append(s.t.Context(), lease, over))
	}
	assert.Equal(s.t, []string{"1", "2", "3"}, s.payloads("a"))
}

func outboxRefused(s *subject) {
	s.create("a")
	old := s.hold("r")
	s.release(old)
	lease := s.acquire("r", "second")
	post := func(l journal.Lease, after int64, events ...journal.Event) error {
		a := journal.Append{After: after, Events: events, Outbox: []journal.Letter{letter("a", "", "1")}}
		return s.store.Append(s.t.Context(), l, a)
	}
	s.refused("r", journal.ErrFenced, post(old, 1, step(1)))
	s.refused("r", journal.ErrConflict, post(lease, 7, step(1)))
	s.refused("r", journal.ErrEnded, post(lease, 1, end(journal.RunComplete), step(1)))
	s.notFound("nobody", post(journal.Lease{Run: "nobody", Token: 1}, 0, step(1)))
	s.append(lease, 1, end(journal.RunComplete))
	s.refused("r", journal.ErrEnded, post(lease, 2, step(1)))
	assert.Empty(s.t, s.inbox("a", 0))
}

func outboxLast(s *subject) {
	for kind := range terminals() {
		s.create("of " + string(kind))
		a := journal.Append{After: 1, Events: []journal.Event{step(1), end(kind)}}
		a.Outbox = []journal.Letter{letter("of "+string(kind), "", "1")}
		require.NoError(s.t, s.store.Append(s.t.Context(), s.hold(string(kind)), a))
		assert.Equal(s.t, []string{"1"}, s.payloads("of "+string(kind)))
	}
}

func outboxSelf(s *subject) {
	lease := s.hold("r")
	s.post(lease, 1, letter("r", "", "1"))
	s.post(lease, 2, letter("r", "", "2"))
	a := posting(3, letter("r", "", "3"))
	a.Events = append(a.Events, end(journal.RunComplete))
	require.NoError(s.t, s.store.Append(s.t.Context(), lease, a))
	assert.Equal(s.t, []string{"1", "2"}, s.payloads("r"))
	assert.EqualValues(s.t, 5, s.load("r").Head)
}

func outboxWatch(s *subject) {
	if _, ok := s.store.(journal.Watcher); !ok {
		return
	}
	s.create("r")
	lease := s.hold("from")
	changed, other := s.watch(), s.second().watch()
	s.post(lease, 1, letter("r", "", "1"))
	s.told(changed)
	s.told(other)
}

func outboxCopies(s *subject) {
	s.create("a")
	lease := s.hold("r")
	l := letter("a", "", "payload")
	s.post(lease, 1, l)
	before := s.picture("a")
	clear(l.Message.Payload)
	s.unchanged("a", before)
}

func outboxMany(s *subject) {
	const children = 40
	both := s.handles()
	s.create("parent")
	var all sync.WaitGroup
	for n := range children {
		mine := both[n%2]
		lease := mine.hold(name(n))
		all.Go(func() {
			a := journal.Append{After: 1, Events: []journal.Event{end(journal.RunComplete)}}
			a.Outbox = []journal.Letter{letter("parent", name(n), name(n))}
			assert.NoError(s.t, mine.store.Append(s.t.Context(), lease, a))
			_, err := mine.store.Send(s.t.Context(), "parent", signal("a", "", "by the way"))
			assert.NoError(s.t, err)
		})
	}
	all.Wait()
	payloads := s.payloads("parent")
	assert.Len(s.t, payloads, 2*children)
	for n := range children {
		assert.Contains(s.t, payloads, name(n))
	}
}

func outboxCrossed(s *subject) {
	each := size(20, 5)
	both := s.handles()
	names := [2]string{"a", "b"}
	leases := [2]journal.Lease{both[0].hold("a"), both[1].hold("b")}
	var all sync.WaitGroup
	for i, mine := range both {
		all.Go(func() {
			for n := range each {
				a := posting(int64(n)+1, letter(names[1-i], "", "1"), letter(names[i], "", "1"))
				if !assert.NoError(s.t, mine.store.Append(s.t.Context(), leases[i], a)) {
					return
				}
			}
		})
	}
	all.Wait()
	for _, run := range names {
		assert.Len(s.t, s.payloads(run), 2*each)
		assert.EqualValues(s.t, each+1, s.load(run).Head)
	}
}
