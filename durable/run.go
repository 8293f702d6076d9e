package durable

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/task"
)

type runOptions struct {
	settings   Settings
	anyVersion bool
}

type runOption func(o *runOptions)

func (f runOption) applyRun(o *runOptions) { f(o) }

// AnyVersion goes on with a run that another version of the workflow has begun, and so with the runs it starts.
func AnyVersion() RunOption { return runOption(func(o *runOptions) { o.anyVersion = true }) }

// Run runs a workflow in this process, on the caller's goroutine, and keeps in the store what it does. The id names the run.
// With the same id again Run goes on where the run was, whatever has stopped it, or returns the outcome that is recorded:
//
//	report, err := durable.Run(ctx, store, sync, "sync-"+account, account)
//	if waits := (*durable.SuspendedError)(nil); errors.As(err, &waits) {
//		return // run it again when there is an answer
//	}
//
// Errors of a run that has not ended, and goes on when it is run again:
//   - a *SuspendedError: it waits for a signal, an answer or a child
//   - a *RunStoppedError: ctx has ended
//   - a *StoreUnavailableError: the store went out of reach
//   - a *RunLockedError: another owner is at work on it; a *RunLostError: another owner has taken it away
//   - a *NonDeterminismError, *ReplayError or *journal.CorruptError: the recorded events and the code do not go together.
//     The fourth of these attempts within an hour fails the run, with the code replay_failed
//
// Errors of a run that has ended, the same each time: a *RunFailedError, which wraps what the workflow has returned; a
// *RunCancelledError; a *ContinuationChainError. A *RunConflictError says that a run of this id exists with another input,
// name or version, an *OptionError that wf is not usable, a *journal.NotSerializableError or *journal.PayloadTooLargeError
// that the input is not.
func Run[I, O any](ctx context.Context, store journal.Store, wf *Definition[I, O], id string, in I, opts ...RunOption) (O, error) {
	var out, zero O
	r := newInline(store, wf.program(), opts)
	var err error
	if r.input, err = journal.Marshal("Input", in); err != nil {
		return zero, err
	}
	if err := r.run(ctx, id, &out); err != nil {
		return zero, err
	}
	return out, nil
}

// Resume is Run for a run that is there, whatever its input: one that PrepareRetry has made, for one. A run that is not
// there is a *journal.NotFoundError.
func Resume[I, O any](ctx context.Context, store journal.Store, wf *Definition[I, O], id string, opts ...RunOption) (O, error) {
	var out, zero O
	if err := newInline(store, wf.program(), opts).run(ctx, id, &out); err != nil {
		return zero, err
	}
	return out, nil
}

// RunStoppedError says that the context given to Run has ended. The run has not: with the same id again it goes on.
type RunStoppedError struct {
	RunID string
	// Cause is what context.Cause said of the context.
	Cause error
	kind  error // context.Canceled or context.DeadlineExceeded
}

// Error names the run and the cause.
func (e *RunStoppedError) Error() string {
	return fmt.Sprintf("pawl: run %q was stopped: %v: run it again with the same id and it goes on", e.RunID, e.Cause)
}

// Is answers for the context's error. The cause is not unwrapped: it may be another call's failure.
func (e *RunStoppedError) Is(target error) bool { return target == e.kind }

// RunErrorClass is canceled.
func (e *RunStoppedError) RunErrorClass() classifier.RunErrorClass { return classifier.Canceled }

// Unretryable is true: the context has ended.
func (e *RunStoppedError) Unretryable() bool { return true }

// RunFailedError says that a run has failed, for good. PrepareRetry makes a new run that goes on where it failed.
type RunFailedError struct {
	RunID string
	// Code, Class and UserCode are those of the recorded run:error.
	Code     Code
	Class    classifier.RunErrorClass
	UserCode string
	// Err is the recorded error, as a *journal.RecordedError.
	Err error
}

// Error names the run, the code and the error.
func (e *RunFailedError) Error() string {
	return fmt.Sprintf("pawl: run %q failed (%s): %s", e.RunID, e.Code, classifier.Message(e.Err))
}

// Unwrap returns Err.
func (e *RunFailedError) Unwrap() error { return e.Err }

// RunErrorClass returns Class.
func (e *RunFailedError) RunErrorClass() classifier.RunErrorClass { return e.Class }

// Unretryable is true: the run would return the same again.
func (e *RunFailedError) Unretryable() bool { return true }

// FailureError is for executors: the error of a run that a RunError has ended.
func (s Settings) FailureError(id string, e journal.Event) *RunFailedError {
	failed := &RunFailedError{RunID: id}
	m, err := FailureOf(e)
	if err == nil {
		failed.Code, failed.Class, failed.UserCode = m.Code, classifier.RunErrorClass(m.Class), m.UserCode
		if len(e.Payload) == 0 { // its codec has failed
			failed.Err = (&journal.ErrorRecord{
				Type: m.Type, Text: fmt.Sprintf("an error of type %s, class %s, whose text could not be recorded", m.Type, m.Class),
				ErrorFacts: journal.ErrorFacts{Class: m.Class, UserCode: m.UserCode, Status: m.Status},
			}).Err()
			return failed
		}
		failed.Err, err = s.Recorded(e)
	}
	if err != nil {
		failed.Err = &ReplayError{RunID: id, Seq: e.Seq, Err: fmt.Errorf("%s: %w", e.Kind, err)}
	}
	return failed
}

// FailureError is for executors: the error of the run that this RunError has ended.
func (x *Execution) FailureError(e journal.Event) *RunFailedError {
	return x.settings.FailureError(x.id, e)
}

// inline runs workflows in this process.
type inline struct {
	settings Settings
	program  program
	// input is the JSON of the input; nil if the run must be there already.
	input []byte
	link  journal.Link // of a run that has to be created
}

func newInline(store journal.Store, p program, opts []RunOption) *inline {
	var o runOptions
	for _, opt := range opts {
		if opt != nil {
			opt.applyRun(&o)
		}
	}
	if p.fault == nil {
		p.fault = o.settings.fault()
	}
	o.settings.Store, o.settings.anyVersion = store, o.anyVersion
	return &inline{settings: o.settings.withDefaults(), program: p}
}

// run runs a run, and what it is continued as.
func (r *inline) run(ctx context.Context, id string, into any) error {
	if r.program.fault != nil {
		return r.program.fault
	}
	seen := chain{}
	for input := r.input; ; input = nil {
		more, err := r.one(ctx, id, input, into)
		for err == errAgain { //nolint:errorlint // just what conclude has returned
			more, err = r.one(ctx, id, nil, into)
		}
		if err == nil && more {
			var next string
			if next, err = seen.next(ctx, r.settings, id); err == nil {
				id = next
				continue
			}
			err = openError(ctx, id, err)
		}
		return err
	}
}

// openError is the error of a run that could not be taken, or whose chain could not be followed.
func openError(ctx context.Context, id string, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) { // whatever the store has made of that
		return stopped(ctx, id)
	}
	return storeError(id, err)
}

func isContextError(err error) bool {
	return err == context.Canceled || err == context.DeadlineExceeded //nolint:errorlint // the context's own
}

func stopped(ctx context.Context, id string) error {
	return &RunStoppedError{RunID: id, Cause: context.Cause(ctx), kind: ctx.Err()}
}

// one runs one run. More says that it was continued as another one.
func (r *inline) one(ctx context.Context, id string, input []byte, into any) (more bool, err error) {
	var fresh func() (journal.NewRun, error)
	if input != nil {
		fresh = func() (journal.NewRun, error) { return r.fresh(input) }
	}
	x, err := Open(ctx, r.settings, id, fresh)
	if ended, is := find[*EndedError](err); is {
		return r.recorded(ended, input, into)
	}
	if err != nil {
		return false, openError(ctx, id, err)
	}
	defer x.Close(ctx)
	if err := r.matches(x.Run(), x.Start(), input); err != nil {
		if brokenReplay(err) {
			err = x.BrokenAttempt(ctx, err)
		}
		return false, err
	}
	if v := x.Run().Version; v != r.program.version && !r.settings.anyVersion {
		if s := r.settings; s.assigned != nil && x.Run().Queue != "" && s.assigned.serves(x.Run().Program()) {
			return false, &SuspendedError{RunID: id} // it is for the code of its version, which takes it from its queue
		}
		return false, &RunConflictError{RunID: id, What: "version", Detail: fmt.Sprintf("%q, not %q", v, r.program.version)}
	}
	return r.execute(ctx, x, into)
}

// fresh describes a run that does not exist yet.
func (r *inline) fresh(input []byte) (journal.NewRun, error) {
	payload, err := r.settings.seal("Input", input)
	if err != nil {
		return journal.NewRun{}, err
	}
	return journal.NewRun{
		Run: journal.Run{
			Kind: journal.WorkflowRun, Name: r.program.name, Version: r.program.version, Link: r.link, Queue: r.settings.queue(),
		},
		Events: []journal.Event{{Kind: journal.RunStart, Time: Now(), Payload: payload}},
	}, nil
}

// matches reports what keeps a run from being this workflow's with this input.
func (r *inline) matches(run journal.Run, start journal.Event, input []byte) error {
	conflict := func(what, format string, args ...any) error {
		return &RunConflictError{RunID: run.ID, What: what, Detail: fmt.Sprintf(format, args...)}
	}
	switch {
	case run.Kind != journal.WorkflowRun:
		return conflict("kind", "it is a %s, not a workflow", run.Kind)
	case run.Name != r.program.name:
		return conflict("name", "%q, not %q", run.Name, r.program.name)
	case input == nil:
		return nil
	}
	there, err := journal.Decode(r.settings.Codec, start.Payload)
	if err != nil {
		return &ReplayError{RunID: run.ID, Seq: start.Seq, Err: err}
	}
	if !bytes.Equal(there, input) {
		return conflict("input", "%d bytes of JSON that are not these %d", len(there), len(input))
	}
	return nil
}

// recorded returns how a run has ended.
func (r *inline) recorded(e *EndedError, input []byte, into any) (more bool, err error) {
	if err := r.matches(e.Run, e.Start, input); err != nil {
		return false, err
	}
	switch e.Last.Kind {
	case journal.RunComplete:
		if err := r.settings.Decode(e.Last.Payload, into); err != nil {
			return false, &ReplayError{RunID: e.Run.ID, Seq: e.Last.Seq, Err: err}
		}
		return false, nil
	case journal.RunContinued:
		return true, nil
	}
	return false, r.settings.EndError(e)
}

// EndError is for executors: the error of a run that has ended without a result, as its last event has it.
func (s Settings) EndError(e *EndedError) error {
	switch e.Last.Kind {
	case journal.RunError:
		return s.FailureError(e.Run.ID, e.Last)
	case journal.RunCancelled:
		return s.cancelledError(e.Run.ID, e.Last)
	}
	return e
}

// cancelledError is the error of a run that a RunCancelled has ended.
func (s Settings) cancelledError(id string, e journal.Event) *RunCancelledError {
	var reason string
	if s.Decode(e.Payload, &reason) != nil {
		reason = ""
	}
	return &RunCancelledError{RunID: id, Reason: reason}
}

// execute calls the workflow's function and records how it ends.
func (r *inline) execute(ctx context.Context, x *Execution, into any) (more bool, err error) {
	inner, stop := x.Context(ctx)
	defer stop()
	body := x.newBody()
	closed := &ScopeEndedError{RunID: x.id}
	defer func() { // also if the function ends its goroutine, which a worker's run does not survive: it would do it again
		body.Close(closed)
		if body.exited && x.settings.assigned != nil {
			_, _ = r.conclude(ctx, x, body, nil, &task.PanicError{Whose: whose(r.program.name), Value: task.ErrGoexit}, into)
		}
	}()
	result, err := r.program.call(body.Context(inner), body, x.record.start.Payload)
	body.Close(closed)
	return r.conclude(ctx, x, body, result, err, into)
}
