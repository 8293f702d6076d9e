package durable

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/task"
)

// Once calls fn at most once, whatever happens: it records that it is about to, and then the outcome, as Step does. If the
// process dies in between, nobody can say what fn has done, and Once returns an *OutcomeUnknownError from then on. It never
// calls fn again.
//
//	id, err := durable.Once(ctx, "charge", func(ctx context.Context) (string, error) { return bank.Charge(ctx, order) })
//	if unknown := (*durable.OutcomeUnknownError)(nil); errors.As(err, &unknown) {
//		id, err = durable.Interrupt[string](ctx, "Was "+order.ID+" charged? Its receipt, please")
//	}
//
// An error that fn returns is final, too, whether it is handled or not: it is returned again to every further attempt of the
// code around. Only a Retry given to Once itself calls fn more than once. With a Timeout, an error that fn returns behind
// its time, or behind the end of its context, is an *OutcomeUnknownError as well, and is not retried; a result is taken
// however late it is.
//
// A Once cannot be inside a step: that is a *PlacementError. In a context that belongs to no run it just calls fn, with its
// options. All other errors are those of Step.
func Once[T any](ctx context.Context, name string, fn func(ctx context.Context) (T, error), opts ...StepOption) (T, error) {
	var result, recorded, zero T
	o, err := newStepOptions(onceCall, name, fn == nil, opts)
	if err != nil {
		return zero, err
	}
	w := work{
		name: name, options: o, into: &recorded,
		run: func(ctx context.Context) (err error) {
			result, err = fn(ctx)
			return err
		},
		result: func() any { return result },
	}
	s, inside := scopeOf(ctx)
	switch {
	case inside != nil:
		return zero, insideStep(onceCall, inside)
	case s == nil:
		w.run = w.onTime(OutcomeUnknownError{Name: name})
		if _, err := w.perform(ctx, plainSettings(), &inStep{name: name, n: 1}); err != nil {
			return zero, err
		}
		return result, nil
	}
	if err := s.once(ctx, &w); err != nil {
		return zero, err
	}
	return recorded, nil
}

// insideStep says that a call cannot be made inside a step.
func insideStep(call callKind, in *inStep) error {
	return &PlacementError{Call: string(call), Why: fmt.Sprintf(
		"it is called inside step %q, which is done as a whole or not at all: call it beside the step", in.name)}
}

func (s *Scope) once(ctx context.Context, w *work) error {
	c, err := s.enter(ctx, onceCall, w.name)
	if err != nil {
		return err
	}
	defer c.exit()
	if e, ok := c.outcome(); ok {
		return c.replay(ctx, e, w.into)
	}
	unknown := OutcomeUnknownError{RunID: s.x.id, Scope: s.path, Name: w.name}
	if len(c.recorded) > 0 {
		unknown.Reason = "the process ended before it was recorded"
		return c.fail(ctx, &unknown, 0)
	}
	if ctx.Err() != nil { // it has not begun: whoever comes here again may
		return c.cut(ctx, ctx.Err(), cutMeta{Once: true})
	}
	if err := c.write(ctx, journal.Event{Kind: journal.StepIntent}); err != nil {
		return err
	}
	w.run = w.onTime(unknown)
	attempts, err := w.perform(ctx, s.x.settings, c.inside())
	switch {
	case err == nil:
		return c.succeed(ctx, w, attempts)
	case cutShort(err) && !s.endedAlone(ctx):
		if attempts == 0 { // the run has ended between the intent and the call: whoever goes on may call it
			return cmp.Or(c.write(ctx, journal.Event{Kind: journal.StepReopened}), err)
		}
		return err
	case cutShort(err):
		unknown.Reason = "its context ended before it returned"
		err = &unknown
	}
	return c.fail(ctx, err, attempts)
}

// onTime is the function under a timeout of Once's kind: when the time is over nobody knows what has been done, unless it
// says that all has. The retry loop would repeat a timeout of its own.
func (w *work) onTime(unknown OutcomeUnknownError) func(ctx context.Context) error {
	run, d := w.run, w.options.timeout
	if !w.options.timed {
		return run
	}
	w.options.timeout, w.limit = 0, d
	return func(outer context.Context) error {
		deadline := time.Now().Add(d)
		ctx, cancel := context.WithDeadlineCause(outer, deadline, &retrypolicy.TimeoutError{After: d})
		defer cancel()
		err := run(ctx)
		if err == nil || time.Now().Before(deadline) || outer.Err() != nil || isPanic(err) {
			return err
		}
		unknown.Reason = fmt.Sprintf("it took longer than its timeout of %v", d)
		return &unknown
	}
}

func isPanic(err error) bool {
	_, is := err.(*task.PanicError) //nolint:errorlint // what Recover has made
	return is
}
