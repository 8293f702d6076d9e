package journaltest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

func corruptRules() []rule {
	return []rule{
		{"a damaged event is a CorruptError that names run and event, behind all that is whole", corruptEvent},
		{"a damaged event in a batch is found too", corruptBatch},
		{"a run without damage is not concerned", corruptOther},
	}
}

// corrupted holds that reading fails at an event, or at the one that it was written together with.
func (s *subject) corrupted(run string, after, earliest, seq int64) {
	s.t.Helper()
	events, err := s.read(run, after)
	var corrupt *journal.CorruptError
	require.ErrorAs(s.t, err, &corrupt)
	require.ErrorIs(s.t, err, journal.ErrCorrupt)
	assert.Equal(s.t, run, corrupt.Run)
	assert.GreaterOrEqual(s.t, corrupt.Seq, earliest)
	assert.LessOrEqual(s.t, corrupt.Seq, seq)
	assert.Len(s.t, events, int(corrupt.Seq-after-1))
	for i, e := range events {
		assert.Equal(s.t, after+int64(i)+1, e.Seq)
	}
}

func corruptEvent(s *subject) {
	lease := s.hold("r")
	for n := range 9 {
		s.append(lease, int64(n)+1, step(n))
	}
	s.h.Corrupt(s.t, s.store, "r", 6)
	s.corrupted("r", 0, 6, 6)
	s.corrupted("r", 5, 6, 6)
	assert.Len(s.t, s.events("r", 6), 4, "what stands behind it can be read")
	s.append(lease, 10, step(10))
}

func corruptBatch(s *subject) {
	lease := s.hold("r")
	s.append(lease, 1, step(1))
	s.append(lease, 2, steps(2, 6)...)
	s.append(lease, 8, step(8))
	s.h.Corrupt(s.t, s.store, "r", 5)
	s.corrupted("r", 0, 3, 5)
}

func corruptOther(s *subject) {
	for _, run := range []string{"r", "other"} {
		s.append(s.hold(run), 1, steps(1, 5)...)
	}
	before := s.picture("other")
	s.h.Corrupt(s.t, s.store, "r", 3)
	s.unchanged("other", before)
}
