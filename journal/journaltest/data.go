package journaltest

import (
	"bytes"
	"math"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

func dataRules() []rule {
	return []rule{
		{"ids of any bytes are data", dataIDs},
		{"an id is as long as MaxIDLength at most, and not empty", dataLength},
		{"payloads of a megabyte come back whole", dataLarge},
		{"a batch of a thousand events is written whole", dataBatch},
		{"empty and no payload are the same", dataEmpty},
		{"numbers and times come back from the ends of their ranges", dataRanges},
	}
}

// ids are pairwise different, however alike some file system or collation may find them.
func ids() []string {
	return []string{
		"a", "A", "a ", " a", "a\n", "a\r\n", "\ta", "ä", "a\u0308", "a\x00", "a\x00b", "\x00", "\xff\xfe", "\xc3",
		"../../etc/passwd", "/", "//", ".", "..", "C:\\run", "a/b", "a\\b", "a%2Fb", "%", "_", "a*", "a?b#c",
		"'", "\"", "`", "'; DROP TABLE runs; --", "\\'", "$1", "?1", "{}", "${HOME}", "null", "0", "00", "1e3", "-1",
		"運行-42", "прогон", "تشغيل", "🦀🏳️‍🌈", "\u202eabc", "\ufeffa", "ß", "SS", "ﬁ", "fi", "İ", "i",
		strings.Repeat("x", 10<<10), strings.Repeat("x", 10<<10) + "y", strings.Repeat("\n", 300), strings.Repeat("語", 3000),
	}
}

func dataIDs(s *subject) {
	for i, id := range ids() {
		lease := s.hold(id, step(i))
		assert.Equal(s.t, id, lease.Run)
		s.append(lease, 2, step(i+1000))
		s.send(id, signal(id, id, id))
	}
	for i, id := range ids() {
		assert.Equal(s.t, id, s.load(id).ID)
		want := stored(0, started(step(i), step(i+1000))...)
		assert.Equal(s.t, want, s.events(id, 0), "%.50q", id)
		inbox := s.inbox(id, 0)
		require.Len(s.t, inbox, 1)
		assert.Equal(s.t, []string{id, id, id}, []string{inbox[0].Name, inbox[0].Key, string(inbox[0].Payload)})
		s.absent(id + "'")
	}
}

func dataLength(s *subject) {
	longest := strings.Repeat("n", journal.MaxIDLength)
	s.append(s.hold(longest), 1, step(1))
	assert.Len(s.t, s.events(longest, 0), 2)
	for _, id := range []string{"", longest + "n"} {
		_, err := s.store.Create(s.t.Context(), begun(id))
		require.Error(s.t, err)
		require.NotErrorIs(s.t, err, journal.ErrUnavailable, "another time would not help")
		require.NotErrorIs(s.t, err, journal.ErrExists)
		assert.Less(s.t, len(err.Error()), 1000)
		_, err = s.store.Load(s.t.Context(), id)
		require.Error(s.t, err)
		require.NotErrorIs(s.t, err, journal.ErrUnavailable)
	}
}

func dataLarge(s *subject) {
	large := make([]byte, 1<<20)
	for i := range large {
		large[i] = byte(i * i >> 8 & 0xff)
	}
	big := step(1)
	big.Payload = large
	lease := s.hold("r", big)
	for after := int64(2); after < 6; after++ {
		s.append(lease, after, big)
	}
	s.append(lease, 6, big, step(2), big)
	m := signal("a", "", "")
	m.Payload = large
	s.send("r", m)
	got := s.events("r", 0)
	require.Len(s.t, got, 9)
	for _, e := range got {
		assert.True(s.t, e.Seq == 1 || e.N == 2 || bytes.Equal(large, e.Payload), "event %d", e.Seq)
	}
	assert.True(s.t, bytes.Equal(large, s.inbox("r", 0)[0].Payload))
	s.append(lease, 9, step(3))
}

func dataBatch(s *subject) {
	lease := s.hold("r")
	batch := steps(1, 1000)
	s.append(lease, 1, batch...)
	assert.Equal(s.t, stored(1, batch...), s.events("r", 1))
	assert.EqualValues(s.t, 1001, s.load("r").Head)
}

func dataEmpty(s *subject) {
	lease := s.hold("r")
	empty := step(1)
	empty.Payload, empty.Meta = []byte{}, []byte{}
	s.append(lease, 1, empty)
	none := step(1)
	none.Payload = nil
	s.append(lease, 1, none)
	assert.Equal(s.t, stored(1, none), s.events("r", 1))
	m := signal("a", "", "")
	s.send("r", m)
	m.Seq, m.Time, m.Payload = 1, kept(m.Time), nil
	assert.Equal(s.t, []journal.Message{m}, s.inbox("r", 0))
}

func dataRanges(s *subject) {
	events := append(started(),
		journal.Event{Kind: journal.StepDone},
		journal.Event{Kind: journal.StepDone, N: math.MaxInt, Took: math.MaxInt64, Attempts: math.MaxInt, Time: noon().AddDate(3000, 0, 0)},
		journal.Event{Kind: journal.StepDone, N: math.MinInt, Took: math.MinInt64, Time: noon().AddDate(-1900, 0, 0)},
		journal.Event{Kind: journal.StepDone, Time: time.Unix(0, 0)},
		journal.Event{Kind: journal.StepDone, Time: time.Unix(-1, 999)},
	)
	_, err := s.store.Create(s.t.Context(), journal.NewRun{Run: journal.Run{ID: "r"}, Events: events})
	require.NoError(s.t, err)
	assert.Equal(s.t, stored(0, events...), s.events("r", 0))

	lease, err := s.store.Acquire(s.t.Context(), "r", journal.Claim{Owner: strings.Repeat("ö", 1000), TTL: 100 * 365 * 24 * time.Hour})
	require.NoError(s.t, err)
	assert.Equal(s.t, lease.Until, s.load("r").Until)
	due := noon().AddDate(5000, 0, 0)
	s.appendDue(lease, 6, due, journal.RunSuspended)
	assert.Equal(s.t, kept(due), s.load("r").Due)
}
