package durable

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// Executable is code that a worker runs: a *Definition, or a *superstep.Runner.
type Executable interface {
	// Program names it. Its runs are those of this program.
	Program() journal.Program
	// Execute goes on with a run that was taken, until it ends or waits, or ctx ends, and gives up its lease. The error is
	// that of Run, and is for logs: what the run has come to is in its journal.
	Execute(ctx context.Context, a *Assignment) error
}

// Starter is code whose runs a client starts, and whose results it reads: a *Definition, or a *superstep.Runner.
type Starter[I, O any] interface {
	// Program names it.
	Program() journal.Program
	// NewRun describes a run that begins with in.
	NewRun(s Settings, in I) (journal.NewRun, error)
	// Result reads the RunComplete of a run.
	Result(s Settings, run string, last journal.Event) (O, error)
}

// Assignment is a run that a worker has taken, and how it is to be run.
type Assignment struct {
	// Taken is the run.
	Taken journal.Taken
	// Settings are the worker's. A *superstep.Runner has a Codec, a PayloadLimit and a Classifier of its own.
	Settings Settings
	// Budgets bound how often the run may be begun again.
	Budgets Budgets
	// Grace is how long code whose context has ended may ignore that before the run is taken from it; see Attend.
	Grace time.Duration
}

// Budgets bound how often a run may be begun again before it fails. The numbers count since the run has last made progress:
// since its last step:done or update:done.
type Budgets struct {
	// MaxRetries is how many owners a run may lose; one more fails it with CodeMaxRetries. 0 is 3, negative none.
	MaxRetries int
	// MaxStoreRequeues is how often a run may be requeued because of the store; once more fails it with CodeStoreDown. 0 is
	// 20, negative none.
	MaxStoreRequeues int
	// PoisonRetries is how many attempts within PoisonTTL may break before they can record anything: because the run cannot
	// be replayed, or is none of this program, or because its code ignored the end of its context. One more fails it. 0 is 3,
	// negative none; a PoisonTTL of 0 is 1 hour.
	PoisonRetries int
	PoisonTTL     time.Duration
}
