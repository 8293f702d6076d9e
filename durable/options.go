package durable

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/retrypolicy"
)

// StepOption is an option of Step, Call and Once: Retry or Timeout.
type StepOption interface{ applyStep(o *stepOptions) }

// Retry makes a call repeat its function under a policy. Without it there is one attempt. Between attempts nothing is
// recorded: only the final outcome is, and after a restart attempts count from 1 again.
func Retry(p retrypolicy.WorkflowNodeRetryPolicy) StepOption {
	return stepOption(func(o *stepOptions) { o.policy, o.retry = p, true })
}

// Timeout gives each attempt of a call a time. The function's context ends then, and whatever it returns later is a
// *retrypolicy.TimeoutError. More than 0.
func Timeout(d time.Duration) StepOption {
	return stepOption(func(o *stepOptions) { o.timeout, o.timed = d, true })
}

type stepOption func(o *stepOptions)

func (f stepOption) applyStep(o *stepOptions) { f(o) }

type stepOptions struct {
	policy  retrypolicy.WorkflowNodeRetryPolicy
	retry   bool
	timeout time.Duration
	timed   bool
}

var (
	errNoFunction = errors.New("the function is nil")
	errNoName     = errors.New("the name is empty: give each call a name, which is how it is found again")
	errTimeout    = errors.New("give it a time, or drop the option")
	errCallRetry  = errors.New("an abandoned call would overlap the next attempt: drop one of the two, or use durable.Step, " +
		"whose function gets a context")
)

// OptionError says that a durable call was made with arguments that cannot work. Nothing was called or recorded.
type OptionError struct {
	// Call is the function's name ("Step"), Name what the call was named.
	Call, Name string
	// Err says what is wrong; of a retry policy, a *retrypolicy.FieldError for each bad field.
	Err error
}

// Error names the call and what is wrong with it.
func (e *OptionError) Error() string {
	return fmt.Sprintf("pawl: durable.%s(%q): %v", e.Call, e.Name, e.Err)
}

// Unwrap returns Err.
func (e *OptionError) Unwrap() error { return e.Err }

// Unretryable is true: the same call would be refused again.
func (e *OptionError) Unretryable() bool { return true }

// newStepOptions checks the arguments that Step, Call and Once have in common.
func newStepOptions(call callKind, name string, noFunction bool, opts []StepOption) (*stepOptions, error) {
	o := &stepOptions{policy: retrypolicy.New()}
	for _, opt := range opts {
		if opt != nil {
			opt.applyStep(o)
		}
	}
	var bad []error
	if name == "" {
		bad = append(bad, errNoName)
	}
	if noFunction {
		bad = append(bad, errNoFunction)
	}
	if o.retry {
		bad = append(bad, o.policy.Validate())
	}
	if o.timed && o.timeout <= 0 {
		bad = append(bad, fmt.Errorf("timeout %v: %w", o.timeout, errTimeout))
	}
	if err := errors.Join(bad...); err != nil {
		return nil, &OptionError{Call: string(call), Name: name, Err: err}
	}
	return o, nil
}

// loop is how the function is called.
func (o *stepOptions) loop(s Settings) *retrypolicy.Loop {
	return &retrypolicy.Loop{Policy: o.policy, Timeout: o.timeout, Classifier: s.Classifier, Logger: s.Logger}
}

// plainSettings are those of a context without a run.
func plainSettings() Settings {
	return Settings{Classifier: classifier.Default(), Logger: slog.Default()}
}
