package journaltest

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

// inQueue is the queue of a test that is about one.
const inQueue = "q"

// ago is a time that is over whatever the store's clock says, and so long ago that those of one test can be told apart.
func ago(hours int) time.Time { return time.Now().Add(-time.Duration(hours) * time.Hour) }

// ahead is a time that does not come in a test.
func ahead() time.Time { return time.Now().Add(time.Hour) }

// queued is a new run of the queue that nobody holds.
func queued(run string, events ...journal.Event) journal.NewRun {
	n := begun(run, events...)
	n.Run.Queue = inQueue
	return n
}

func (s *subject) make(n journal.NewRun) journal.Lease {
	s.t.Helper()
	lease, err := s.store.Create(s.t.Context(), n)
	require.NoError(s.t, err)
	return lease
}

// enqueue makes runs of the queue, one after the other.
func (s *subject) enqueue(runs ...string) {
	s.t.Helper()
	for _, run := range runs {
		s.make(queued(run))
	}
}

// enqueueDue makes a run of the queue that is to start at a time.
func (s *subject) enqueueDue(run string, due time.Time) {
	s.t.Helper()
	n := queued(run)
	n.Due = due
	s.make(n)
}

// holdQueued makes a run of the queue and holds it.
func (s *subject) holdQueued(run string, ttl time.Duration) journal.Lease {
	s.t.Helper()
	n := queued(run)
	n.Claim = journal.Claim{Owner: "first", TTL: ttl}
	return s.make(n)
}

// restQueued makes a run of the queue that is suspended until a time, and that nobody holds.
func (s *subject) restQueued(run string, due time.Time) {
	s.t.Helper()
	s.suspend(s.holdQueued(run, long), 1, due)
}

// program is that of begun's runs.
func program() journal.Program { return begun("").Run.Program() }

// upTo is what workers want unless a test is about something else.
func upTo(limit int) journal.Take {
	return journal.Take{Claim: claim("taker"), Queue: inQueue, Programs: []journal.Program{program()}, Limit: limit}
}

func (s *subject) queue() journal.Queue { return able[journal.Queue](s) }

func (s *subject) take(t journal.Take) []journal.Taken {
	s.t.Helper()
	taken, err := s.queue().Take(s.t.Context(), t)
	require.NoError(s.t, err)
	require.LessOrEqual(s.t, len(taken), max(t.Limit, 0))
	return taken
}

// takes holds that these runs are ready, in this order, and no others, and takes them.
func (s *subject) takes(runs ...string) []journal.Taken {
	s.t.Helper()
	taken := s.take(upTo(len(runs) + 100))
	require.Equal(s.t, append([]string{}, runs...), takenIDs(taken))
	return taken
}

// takesSoon takes runs until there are n, which time alone will make ready.
func (s *subject) takesSoon(t journal.Take, n int) []journal.Taken {
	s.t.Helper()
	return s.soon(n, func() []journal.Taken { return s.take(t) })
}

// soon calls a function until it has returned n runs, and no more.
func (s *subject) soon(n int, take func() []journal.Taken) []journal.Taken {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), s.patience())
	defer cancel()
	var all []journal.Taken
	for {
		all = append(all, take()...)
		if len(all) >= n {
			require.Len(s.t, all, n)
			return all
		}
		require.NoError(s.t, ctx.Err(), "%d of %d runs were taken", len(all), n)
		wait(ctx, short)
	}
}

func takenIDs(taken []journal.Taken) []string {
	list := make([]string, 0, len(taken))
	for i := range taken {
		list = append(list, taken[i].Run.ID)
	}
	return list
}

// lapsed waits until the store says that nobody holds a run.
func (s *subject) lapsed(run string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), s.patience())
	defer cancel()
	for s.load(run).Owner != "" {
		require.NoError(s.t, ctx.Err(), "run %q is held still", run)
		wait(ctx, short)
	}
}

func queueRules() []rule {
	return []rule{
		{"a run that nobody holds gives the channel a value", func(s *subject) {
			s.toldWhen(func() { s.enqueue("r") })
		}},
		{"a run that is given up does", func(s *subject) {
			lease := s.holdQueued("r", long)
			s.toldWhen(func() { s.release(lease) })
		}},
		{"a run that is requeued does, at the latest once it is given up", func(s *subject) {
			lease := s.holdQueued("r", long)
			s.toldWhen(func() { s.append(lease, 1, end(journal.RunRequeued)); s.release(lease) })
		}},
		{"a message to a suspended run does", func(s *subject) {
			s.restQueued("r", time.Time{})
			s.toldWhen(func() { s.send("r", signal("a", "", "1")) })
		}},
		{"a letter to a suspended run does", func(s *subject) {
			s.restQueued("r", ahead())
			from := s.hold("from")
			s.toldWhen(func() { s.post(from, 1, letter("r", "", "1")) })
		}},
		{"a run that is suspended with messages that were not seen does, at the latest once it is given up", func(s *subject) {
			lease := s.holdQueued("r", long)
			s.send("r", signal("a", "", "1"))
			s.toldWhen(func() { s.suspend(lease, 1, time.Time{}) })
		}},
		{"every watcher of a queue is told, and those of others are not", watchQueueAll},
		{"who takes all that is there and then waits to be told misses nothing", watchQueueMany},
		{"stop ends it, may be called twice, and leaves other watchers alone", watchQueueStop},
	}
}

// watchQueue returns the channel of a queue, for the length of the test.
func (s *subject) watchQueue(queue string) <-chan struct{} {
	s.t.Helper()
	changed, stop := s.queue().WatchQueue(queue)
	s.t.Cleanup(stop)
	return changed
}

// toldWhen holds that who watches the queue, through this handle or another, is told of what makes the run "r" ready.
func (s *subject) toldWhen(do func()) {
	s.t.Helper()
	both := s.handles()
	changed := [2]<-chan struct{}{both[0].watchQueue(inQueue), both[1].watchQueue(inQueue)}
	do()
	for _, c := range changed {
		s.told(c)
	}
	s.takes("r")
}

func watchQueueAll(s *subject) {
	first, second, other := s.watchQueue(inQueue), s.watchQueue(inQueue), s.watchQueue("q2")
	s.enqueue("r")
	s.create("of no queue")
	s.told(first)
	s.told(second)
	select {
	case <-other:
		assert.Fail(s.t, "the watcher of another queue was told")
	default:
	}
	n := queued("other")
	n.Run.Queue = "q2"
	s.make(n)
	s.told(other)
}

func watchQueueMany(s *subject) {
	const runs = 50
	both := s.handles()
	changed := s.watchQueue(inQueue)
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		for n := range runs {
			_, err := both[1].store.Create(s.t.Context(), queued(name(n)))
			assert.NoError(s.t, err)
		}
	})
	for seen := 0; seen < runs; {
		s.told(changed)
		seen += len(s.take(upTo(runs)))
	}
}

func watchQueueStop(s *subject) {
	other := s.watchQueue(inQueue)
	changed, stop := s.queue().WatchQueue(inQueue)
	stop()
	stop()
	s.enqueue("r")
	s.told(other)
	select {
	case _, open := <-changed:
		assert.False(s.t, open, "a value after stop")
	default:
	}
}
