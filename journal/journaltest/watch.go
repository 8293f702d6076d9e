package journaltest

import (
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

func watchRules() []rule {
	return []rule{
		{"a message gives the channel a value", watchSend},
		{"a message sent through another handle does too", watchSecond},
		{"several messages may be one value, and none is missed", watchMany},
		{"every watcher of a run is told", watchAll},
		{"a run need not be there yet", watchUnknown},
		{"stop ends it, may be called twice, and leaves other watchers alone", watchStop},
	}
}

// watch returns the channel of the run "r", for the length of the test.
func (s *subject) watch() <-chan struct{} {
	changed, stop := able[journal.Watcher](s).Watch("r")
	s.t.Cleanup(stop)
	return changed
}

// told waits for a value.
func (s *subject) told(changed <-chan struct{}) {
	s.t.Helper()
	select {
	case <-changed:
	case <-time.After(s.patience()):
		require.FailNow(s.t, "nobody was told")
	}
}

func watchSend(s *subject) {
	s.create("r")
	changed := s.watch()
	for range 3 {
		s.send("r", signal("a", "", "1"))
		s.told(changed)
	}
}

func watchSecond(s *subject) {
	s.create("r")
	changed := s.watch()
	s.second().send("r", signal("a", "", "1"))
	s.told(changed)
}

func watchMany(s *subject) {
	const messages = 50
	s.create("r")
	changed := s.watch()
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		for range messages {
			_, err := s.store.Send(s.t.Context(), "r", signal("a", "", "1"))
			assert.NoError(s.t, err)
		}
	})
	for seen := 0; seen < messages; {
		s.told(changed)
		seen += len(s.inbox("r", int64(seen)))
	}
}

func watchAll(s *subject) {
	s.create("r")
	first, second := s.watch(), s.watch()
	s.send("r", signal("a", "", "1"))
	s.told(first)
	s.told(second)
}

func watchUnknown(s *subject) {
	changed := s.watch()
	n := begun("r")
	n.Messages = []journal.Message{signal("a", "", "1")}
	_, err := s.store.Create(s.t.Context(), n)
	require.NoError(s.t, err)
	s.told(changed)
}

func watchStop(s *subject) {
	s.create("r")
	other := s.watch()
	changed, stop := able[journal.Watcher](s).Watch("r")
	stop()
	stop()
	s.send("r", signal("a", "", "1"))
	s.told(other)
	select {
	case _, open := <-changed:
		assert.False(s.t, open, "a value after stop")
	default:
	}
}
