package superstep

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/task"
)

// Config is how graphs are run. The zero Config works. It is copied by NewRunner.
type Config struct {
	// MaxSuperSteps is how many super-steps a run may take; a subgraph has the same number for itself, unless
	// graph.MaxSuperSteps gives it another. 0 is 100; negative is refused.
	MaxSuperSteps int
	// RunTimeout bounds a whole run, from the moment it starts: the wait for one of the MaxConcurrentRuns does not count.
	// 0 is no bound; negative is refused.
	RunTimeout time.Duration
	// MaxConcurrentRuns bounds how many runs of the Runner are under way at once; further ones wait, in order, until
	// their context ends. 0 is no limit; negative is refused.
	MaxConcurrentRuns int
	// MaxConcurrency bounds how many function nodes of one run are called at once, those of subgraphs included. A task
	// waiting for its next attempt counts. 0 is no limit; negative is refused.
	MaxConcurrency int
	// Grace is how long a call whose context has ended is waited for before it is abandoned. 0 is 5 s; negative is
	// refused.
	Grace time.Duration
	// Classifier decides which failures another attempt can help. It takes the place of the default rules: chain them
	// behind your own with classifier.Chain(mine, classifier.Default()). nil is classifier.Default().
	Classifier classifier.RunErrorClassifier
	// Retry is the policy of function nodes that have none of their own. nil is one attempt. NewRunner refuses it where
	// Compile would have refused it on a node.
	Retry *retrypolicy.WorkflowNodeRetryPolicy
	// Logger takes warnings. nil is slog.Default().
	Logger *slog.Logger
	// Observers are called with every event of every run, one event of a run at a time, but from several goroutines if
	// there are several runs. They must not block for long: a run waits for them. A panic in one fails the run.
	Observers []func(task.Event)
	// Store keeps the runs: a run that was stopped goes on under the same RunID, in this process or another, and makes no
	// call again whose outcome was recorded. State, update and items must survive JSON, and what a run goes on with is what
	// JSON has kept of them. nil: runs are kept nowhere.
	Store journal.Store
	// Codec writes and reads states, updates, items and errors: to compress or encrypt them. nil is plain JSON. It must
	// not change while there are runs that it has written; what AESGCM writes, keys that are added can follow.
	Codec journal.Codec
	// PayloadLimit is the most bytes that one value may have as JSON. 0 is journal.DefaultPayloadLimit; negative is refused.
	PayloadLimit int
	// LeaseTTL is how long a run is held without a word from its process. 0 is 30 s; negative is refused.
	LeaseTTL time.Duration
	// Owner names this process to others that find a run held. Empty is "inline".
	Owner string
	// Capture says what events and log lines may show of values: journal.CaptureFull (the zero value), all of them, or
	// journal.CaptureShapes, none. Then a TokenDelta's text and a Custom event's value are what journal.ShapeOf says of them,
	// the text of a Failure is its class, and it has no Err; the state of the RunCompleted event that observers get is the
	// zero S. Names of graphs, nodes, runs, questions and signals stay. What a run's caller gets is never cut: results, errors,
	// and the state of a stream's last event. What is journaled does not depend on it: see Codec.
	Capture journal.Capture
	// CheckMutation finds nodes that change maps or slice elements of the state they are given, and fails the run with a
	// *MutationError. It runs tasks one at a time and copies the state for each: for tests.
	CheckMutation bool
}

const (
	defaultMaxSuperSteps = 100
	defaultGrace         = 5 * time.Second
)

// validate reports every bad field at once.
func (c Config) validate() error {
	var errs []error
	bad := func(field string, value any, zero string) {
		errs = append(errs, fmt.Errorf("pawl: superstep.Config.%s is %v: it must not be negative; 0 is %s", field, value, zero))
	}
	if c.MaxSuperSteps < 0 {
		bad("MaxSuperSteps", c.MaxSuperSteps, "100")
	}
	if c.RunTimeout < 0 {
		bad("RunTimeout", c.RunTimeout, "no bound")
	}
	if c.MaxConcurrentRuns < 0 {
		bad("MaxConcurrentRuns", c.MaxConcurrentRuns, "no limit")
	}
	if c.MaxConcurrency < 0 {
		bad("MaxConcurrency", c.MaxConcurrency, "no limit")
	}
	if c.Grace < 0 {
		bad("Grace", c.Grace, "5s")
	}
	if c.PayloadLimit < 0 {
		bad("PayloadLimit", c.PayloadLimit, "16 MiB")
	}
	if c.LeaseTTL < 0 {
		bad("LeaseTTL", c.LeaseTTL, "30s")
	}
	if err := c.Capture.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("pawl: superstep.Config.Capture: %w", err))
	}
	for i, o := range c.Observers {
		if o == nil {
			errs = append(errs, fmt.Errorf("pawl: superstep.Config.Observers[%d] is nil: remove it", i))
		}
	}
	if c.Retry != nil {
		if err := c.Retry.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("pawl: superstep.Config.Retry: %w", err))
		}
	}
	return errors.Join(errs...)
}

// withDefaults fills in what zero means.
func (c Config) withDefaults() Config {
	if c.MaxSuperSteps == 0 {
		c.MaxSuperSteps = defaultMaxSuperSteps
	}
	if c.Grace == 0 {
		c.Grace = defaultGrace
	}
	if c.Retry == nil {
		p := retrypolicy.New()
		c.Retry = &p
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if !c.Capture.Full() {
		c.Logger = slog.New(shapedLog{c.Logger.Handler()})
	}
	if c.Classifier == nil {
		c.Classifier = classifier.Default()
	}
	c.Classifier = classifier.Guard(c.Classifier, c.Logger)
	if c.CheckMutation {
		c.MaxConcurrency = 1 // one at a time, or the culprit could not be named
	}
	return c
}
