package journaltest

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// Harness is how the suite gets at a kind of store. Open is required; what else is nil the store cannot do, and the suite
// leaves out. Of the store values it returns each is closed by t.Cleanup, unless Reopen has closed it before.
type Harness struct {
	// Open returns a store with no runs, in a place of its own.
	Open func(t *testing.T) journal.Store
	// Reopen ends a store, which may have been cut (see Cut), and opens its data again, as the next process would.
	Reopen func(t *testing.T, s journal.Store) journal.Store
	// Second opens the data of a store that stays open, as a second process would; in turn the suite takes s itself for
	// both.
	Second func(t *testing.T, s journal.Store) journal.Store
	// Kill ends a store that Second has returned, as the death of its process does. It is nil if stores cannot tell that the
	// owner of a lease is gone.
	Kill func(t *testing.T, s journal.Store)
	// Cuts are the places where a write of the store can be cut off. They need Reopen.
	Cuts []Cut
	// Fixtures are stores that earlier versions have written with WriteFixture.
	Fixtures []Fixture
	// Patience is how long the suite waits for what has to come, as the end of a lease or a watcher's word; 0 is 20 s.
	Patience time.Duration
	// Corrupt damages what the store has kept of an event.
	Corrupt func(t *testing.T, s journal.Store, run string, seq int64)
}

// Cut is a place where a write can be cut off, as by the death of the process.
type Cut struct {
	// Name says where, for the name of a subtest.
	Name string
	// When is Before if nothing of the write can be found afterwards, After if all of it must be, and Inside if it may
	// be either, but whole.
	When When
	// Arm makes the next write of s, or the transaction that it is part of, end here: it and every later call fail with
	// an *journal.UnavailableError.
	Arm func(t *testing.T, s journal.Store)
}

// Fixture is a store of an earlier version.
type Fixture struct {
	// Name is the version, for the name of a subtest.
	Name string
	// Open returns a copy that may be written to.
	Open func(t *testing.T) journal.Store
	// Queues is true if the version had queues.
	Queues bool
}

// rule is a sentence of the contract, and the test that holds it.
type rule struct {
	name string
	hold func(s *subject)
}

// ruleUnknown holds for most calls.
const ruleUnknown = "an unknown run is a NotFoundError"

// Run is the suite that every store passes. Each rule is a subtest with a store of its own. It waits for leases of some
// milliseconds to lapse, in real time. Run it with the race detector.
func Run(t *testing.T, h Harness) {
	t.Helper()
	group(t, h, "create", createRules())
	group(t, h, "load", loadRules())
	group(t, h, "acquire", acquireRules())
	group(t, h, "renew", renewRules())
	group(t, h, "append", appendRules())
	group(t, h, "record", recordRules())
	group(t, h, "events", eventsRules())
	group(t, h, "inbox", inboxRules())
	group(t, h, "outbox", outboxRules())
	group(t, h, "dedup", dedupRules())
	group(t, h, "data", dataRules())
	group(t, h, "context", contextRules())
	group(t, h, "concurrency", concurrencyRules())

	store := h.Open(t)
	if _, ok := store.(journal.Lister); ok {
		group(t, h, "list", listRules())
	}
	if _, ok := store.(journal.Deleter); ok {
		group(t, h, "delete", deleteRules())
	}
	if _, ok := store.(journal.Watcher); ok {
		group(t, h, "watch", watchRules())
	}
	if _, ok := store.(journal.Queue); ok {
		group(t, h, "take", takeRules())
		group(t, h, "ready", readyRules())
		group(t, h, "held", heldRules())
		group(t, h, "stranded", strandedRules())
		group(t, h, "queue", queueRules())
	}
	if h.Reopen != nil {
		group(t, h, "reopen", reopenRules())
		group(t, h, "cut", cutRules(h.Cuts))
	}
	if h.Corrupt != nil {
		group(t, h, "corrupt", corruptRules())
	}
	t.Run("fixture", func(t *testing.T) { fixtures(t, h) })
}

func group(t *testing.T, h Harness, name string, rules []rule) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		for _, r := range rules {
			t.Run(r.name, func(t *testing.T) {
				r.hold(&subject{t: t, h: h, store: h.Open(t)})
			})
		}
	})
}
