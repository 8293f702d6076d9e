package worker

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

// Config is how a worker works. All but the Store may be zero. New copies it.
type Config struct {
	// Store is where the runs are. It must be a journal.Queue: those of journal/memory, journal/sqlite and journal/postgres
	// are.
	Store journal.Store
	// Queues are those to take runs from; none is journal.DefaultQueue alone. Each has its turn: none starves another.
	Queues []Queue
	// Concurrency is how many runs the worker has under way at once, of all queues; 0 is 100.
	Concurrency int
	// LockTTL is how long a run is held without a word from this worker: so long it takes others to notice that its process
	// hangs or its machine is gone. Where the store can tell that a process is dead, its runs are taken sooner. 0 is 30 s; 50 ms
	// is the least, or leases would end while they are renewed.
	LockTTL time.Duration
	// Heartbeat is how often leases are renewed; 0 is a third of LockTTL. It must be shorter than LockTTL.
	Heartbeat time.Duration
	// Poll is how often a queue is looked at for runs that have become due. Stores tell of new runs and of messages at once;
	// 0 is 500 ms, which is also how late a timer may be.
	Poll time.Duration
	// Grace is how long runs may go on to their next durable call or super-step when the context of Run ends; 0 is 10 s,
	// negative is none.
	Grace time.Duration
	// Budgets bound how often a run may be begun again.
	Budgets durable.Budgets
	// Versions are, by the name of a workflow, further versions whose runs the registered code goes on with. A graph that
	// was migrated is registered once more for each older fingerprint: see superstep.Runner.Older.
	Versions map[string][]string
	// Stranded says what becomes of runs that no worker serves; zero: they wait.
	Stranded Stranded
	// StrandedTimeout is how long such a run may wait if Stranded is Fail; 0 is 5 minutes, and 30 s is the least, since workers
	// say every 10 s that they are there. This worker must have been there as long itself, so that others that are started
	// along with it have their chance.
	StrandedTimeout time.Duration
	// Name names the worker in leases, for people; empty is the host's name and the process id.
	Name string
	// Codec, PayloadLimit and Classifier are those of the workflows; see durable.Settings. Graphs have those of their runner.
	Codec        journal.Codec
	PayloadLimit int
	Classifier   classifier.RunErrorClassifier
	// Logger takes what is worth knowing of runs, without any value of theirs, and warnings; nil is slog.Default().
	Logger *slog.Logger
}

// Queue is a queue of runs.
type Queue struct {
	// Name is the queue's name; not empty.
	Name string
	// Concurrency is how many of its runs this worker has under way at once; 0: no bound beside the worker's own.
	Concurrency int
	// Held is how many of its runs all workers together have under way at once; 0: no bound. Workers that say different
	// numbers each heed their own. A place that another process has freed is noticed within Poll.
	Held int
}

// Stranded says what becomes of a run whose name, version or fingerprint no worker of its queue serves.
type Stranded string

// The policies.
const (
	Wait Stranded = "wait" // it waits until a worker serves it; the zero value means it, too
	Fail Stranded = "fail" // it fails, with durable.CodeNoWorker, when it has waited for StrandedTimeout
)

const (
	defaultConcurrency     = 100
	defaultLockTTL         = 30 * time.Second
	defaultPoll            = 500 * time.Millisecond
	defaultGrace           = 10 * time.Second
	defaultStrandedTimeout = 5 * time.Minute
	leastLockTTL           = 50 * time.Millisecond
	leastStrandedTimeout   = 3 * announceEvery
	renewals               = 3
)

// validate reports every bad field at once.
func (c Config) validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("pawl: worker.Config."+format, args...))
	}
	switch _, is := c.Store.(journal.Queue); {
	case c.Store == nil:
		bad("Store is nil: open one, of journal/sqlite or journal/postgres say")
	case !is:
		bad("Store is a %T, which has no queues: use a store that implements journal.Queue", c.Store)
	}
	names := map[string]bool{}
	for i, q := range c.Queues {
		switch {
		case q.Name == "":
			bad("Queues[%d].Name is empty: name it, or leave Queues out for %q", i, journal.DefaultQueue)
		case names[q.Name]:
			bad("Queues[%d]: %q is there twice: remove one", i, q.Name)
		}
		names[q.Name] = true
		if q.Concurrency < 0 || q.Held < 0 {
			bad("Queues[%d] (%q): Concurrency %d and Held %d must not be negative; 0 is no bound", i, q.Name, q.Concurrency, q.Held)
		}
	}
	for _, d := range []struct {
		field string
		value int64
	}{
		{"Concurrency", int64(c.Concurrency)}, {"LockTTL", int64(c.LockTTL)}, {"Heartbeat", int64(c.Heartbeat)},
		{"Poll", int64(c.Poll)}, {"PayloadLimit", int64(c.PayloadLimit)}, {"StrandedTimeout", int64(c.StrandedTimeout)},
		{"Budgets.PoisonTTL", int64(c.Budgets.PoisonTTL)},
	} {
		if d.value < 0 {
			bad("%s is negative: 0 is the default", d.field)
		}
	}
	if c.LockTTL > 0 && c.LockTTL < leastLockTTL {
		bad("LockTTL is %v: leases would end while they are renewed: %v is the least, 0 is %v", c.LockTTL, leastLockTTL, defaultLockTTL)
	}
	if c.StrandedTimeout > 0 && c.StrandedTimeout < leastStrandedTimeout {
		bad("StrandedTimeout is %v: workers that are there may not have said so: %v is the least, 0 is %v", c.StrandedTimeout,
			leastStrandedTimeout, defaultStrandedTimeout)
	}
	if ttl := cmp.Or(c.LockTTL, defaultLockTTL); c.Heartbeat >= ttl {
		bad("Heartbeat %v is no shorter than LockTTL %v: leases would end between two; 0 is a third of it", c.Heartbeat, ttl)
	}
	if !slices.Contains([]Stranded{"", Wait, Fail}, c.Stranded) {
		bad("Stranded is %q: use %q or %q", c.Stranded, Wait, Fail)
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	c.Queues = slices.Clone(c.Queues)
	if len(c.Queues) == 0 {
		c.Queues = []Queue{{Name: journal.DefaultQueue}}
	}
	c.Concurrency = cmp.Or(c.Concurrency, defaultConcurrency)
	c.LockTTL = cmp.Or(c.LockTTL, defaultLockTTL)
	c.Heartbeat = cmp.Or(c.Heartbeat, max(c.LockTTL/renewals, time.Millisecond))
	c.Poll = cmp.Or(c.Poll, defaultPoll)
	c.Grace = max(cmp.Or(c.Grace, defaultGrace), 0)
	c.StrandedTimeout = cmp.Or(c.StrandedTimeout, defaultStrandedTimeout)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "worker"
		}
		c.Name = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	return c
}

// settings are how the worker's runs are kept.
func (c Config) settings() durable.Settings {
	return durable.Settings{
		Store: c.Store, Codec: c.Codec, PayloadLimit: c.PayloadLimit, LeaseTTL: c.LockTTL, Heartbeat: c.Heartbeat, Owner: c.Name,
		Classifier: c.Classifier, Logger: c.Logger,
	}
}
