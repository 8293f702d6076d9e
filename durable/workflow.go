package durable

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/task"
)

// Definition is a workflow: a function with a name, whose durable calls are recorded. Make one with Workflow. It is
// immutable, and safe for any number of runs at once.
type Definition[I, O any] struct {
	name, version string
	fn            func(ctx context.Context, in I) (O, error)
	fault         error // why it cannot be run
}

// WorkflowOption is an option of Workflow: SetVersion.
type WorkflowOption interface{ applyWorkflow(o *workflowOptions) }

type workflowOptions struct{ version string }

type workflowOption func(o *workflowOptions)

func (f workflowOption) applyWorkflow(o *workflowOptions) { f(o) }

// SetVersion says which version of the code this is. It is recorded with each run, and a run of another version is not gone
// on with: Run returns a *RunConflictError, unless it is told AnyVersion. Change it when the workflow makes other durable
// calls than before, or put the change behind Gate and leave the version as it is.
func SetVersion(version string) WorkflowOption {
	return workflowOption(func(o *workflowOptions) { o.version = version })
}

// Workflow gives a function a name under which it runs durably:
//
//	var sync = durable.Workflow("sync", func(ctx context.Context, account string) (string, error) {
//		rows, err := durable.Step(ctx, "pull", func(ctx context.Context) ([]Row, error) { return fetch(ctx, account) })
//		...
//	})
//
// Its input and result go through JSON. Whatever it does besides durable calls is done again whenever a run goes on, so
// between these calls it must be deterministic. It may start goroutines that make durable calls, each in a Branch, and waits
// for them before it returns. A name that is empty, or a nil fn, is an *OptionError of every Run.
func Workflow[I, O any](name string, fn func(ctx context.Context, in I) (O, error), opts ...WorkflowOption) *Definition[I, O] {
	var o workflowOptions
	for _, opt := range opts {
		if opt != nil {
			opt.applyWorkflow(&o)
		}
	}
	var bad []error
	if name == "" {
		bad = append(bad, errNoName)
	}
	if fn == nil {
		bad = append(bad, errNoFunction)
	}
	d := &Definition[I, O]{name: name, version: o.version, fn: fn}
	if len(bad) > 0 {
		d.fault = &OptionError{Call: "Workflow", Name: name, Err: errors.Join(bad...)}
	}
	return d
}

// Name is the workflow's name.
func (d *Definition[I, O]) Name() string { return d.name }

// Version is what SetVersion has set.
func (d *Definition[I, O]) Version() string { return d.version }

// Program names the workflow's runs.
func (d *Definition[I, O]) Program() journal.Program {
	return journal.Program{Kind: journal.WorkflowRun, Name: d.name, Version: d.version}
}

// Execute implements Executable.
func (d *Definition[I, O]) Execute(ctx context.Context, a *Assignment) error {
	r := inline{settings: a.Settings, program: d.program()}
	x, err := a.Open(ctx, a.Settings)
	if err != nil {
		return openError(ctx, a.Taken.Lease.Run, err)
	}
	defer x.Close(ctx)
	if err := r.matches(x.Run(), x.Start(), nil); err != nil {
		return x.BrokenAttempt(ctx, err)
	}
	r.settings = x.settings
	_, err = r.execute(ctx, x, new(O))
	if err == errAgain { //nolint:errorlint // just what conclude has returned
		return nil // it is in its queue
	}
	return err
}

// whose names a workflow when it panics.
func whose(name string) string { return fmt.Sprintf("workflow %q", name) }

// Validate reports why the workflow cannot be run, with an *OptionError: it has no name, or no function.
func (d *Definition[I, O]) Validate() error { return d.fault }

// NewRun describes a run of the workflow that begins with in. It implements Starter; Run makes runs by itself. Errors: an
// *OptionError if the workflow is not usable, a *journal.NotSerializableError or *journal.PayloadTooLargeError if in is not,
// and those of a codec.
func (d *Definition[I, O]) NewRun(s Settings, in I) (journal.NewRun, error) {
	if d.fault != nil {
		return journal.NewRun{}, d.fault
	}
	input, err := journal.Marshal("Input", in)
	if err != nil {
		return journal.NewRun{}, err
	}
	return (&inline{settings: s.withDefaults(), program: d.program()}).fresh(input)
}

// Result reads the last event of a run that has completed. It implements Starter. A result that cannot be read is a
// *ReplayError.
func (d *Definition[I, O]) Result(s Settings, run string, last journal.Event) (O, error) {
	var out, zero O
	if err := s.Decode(last.Payload, &out); err != nil {
		return zero, &ReplayError{RunID: run, Seq: last.Seq, Err: err}
	}
	return out, nil
}

// identity names the runs of the program.
func (p *program) identity() journal.Program {
	return journal.Program{Kind: journal.WorkflowRun, Name: p.name, Version: p.version}
}

// program is a workflow without its types.
type program struct {
	name, version string
	fault         error
	// call decodes an input and calls the function.
	call func(ctx context.Context, body *Scope, input []byte) (result any, err error)
	// takes reports why an input cannot be decoded.
	takes func(s Settings, input []byte) error
}

func (d *Definition[I, O]) program() program {
	return program{
		name: d.name, version: d.version, fault: d.fault,
		call: func(ctx context.Context, body *Scope, input []byte) (result any, err error) {
			if rest := body.x.Rested(); rest != nil {
				return nil, body.broken(rest)
			}
			var in I
			if err := body.x.decode(input, &in); err != nil {
				return nil, body.broken(body.x.replayError(body.x.record.start, err))
			}
			body.exited = true
			defer func() { body.exited = body.exited && err == nil }() // Recover has set it
			defer task.Recover(whose(d.name), &err)
			out, err := d.fn(ctx, in)
			body.exited = false
			return out, err
		},
		takes: func(s Settings, input []byte) error { return s.Decode(input, new(I)) },
	}
}
