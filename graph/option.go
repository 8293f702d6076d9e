package graph

import (
	"time"

	"github.com/pawl-go/pawl/retrypolicy"
)

// Option sets something of one node. Of two that set the same the later one counts.
type Option func(*settings)

// settings are what options of a node set. Nil and zero mean "not given".
type settings struct {
	retry          *retrypolicy.WorkflowNodeRetryPolicy
	timeout        *time.Duration
	maxConcurrency *int
	maxSuperSteps  *int
	deferred       bool
}

// Retry gives a function node a retry policy of its own, in place of the executor's default. Compile refuses an invalid
// policy, naming each bad field, and any policy on a Sub or SubTask, whose nodes have their own. To switch the default
// off for a node, give it retrypolicy.New().
func Retry(p retrypolicy.WorkflowNodeRetryPolicy) Option {
	return func(s *settings) { s.retry = &p }
}

// Timeout bounds each attempt of a function node. It must be positive; without it an attempt may last as long as the run.
// A call that ignores its context cannot be stopped, only abandoned, so Compile refuses a timeout together with retries
// on a Func node: the abandoned call would overlap the next one.
func Timeout(d time.Duration) Option {
	return func(s *settings) { s.timeout = &d }
}

// MaxConcurrency bounds how many tasks of the node run at once in one run. It must be at least 1; without it only the
// executor's own limit holds. What is over the limit waits; nothing is dropped.
func MaxConcurrency(n int) Option {
	return func(s *settings) { s.maxConcurrency = &n }
}

// Defer makes a node wait, once activated, until nothing else in its graph is active. If it activates other nodes, the
// run goes on.
func Defer() Option {
	return func(s *settings) { s.deferred = true }
}

// MaxSuperSteps gives a Sub or SubTask a limit of its own for each run of the child, in place of the executor's. It must
// be at least 1; Compile refuses it on other nodes.
func MaxSuperSteps(n int) Option {
	return func(s *settings) { s.maxSuperSteps = &n }
}
