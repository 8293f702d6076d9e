package durable

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/journal"
)

// continuing is what ContinueAsNew returns and the body is to return.
type continuing struct{ input []byte }

func (e *continuing) Error() string { return "pawl: the run is to continue as new: return this error" }

// Unretryable is true: nothing has failed.
func (e *continuing) Unretryable() bool { return true }

// ContinueAsNew ends the run and goes on with a new one of the same workflow, whose journal is empty and whose input is in.
// It is for workflows that loop for ever. The workflow returns the error that ContinueAsNew returns:
//
//	return State{}, durable.ContinueAsNew(ctx, state)
//
// The new run has the id of the first one with a number behind it, "poll~2", and is linked to the run it continues. Run goes
// on with it at once, and whoever runs, signals or cancels the first id is led to the last run of the chain. Signals that
// were not consumed go along; goroutines of the workflow should have ended.
//
// Only a workflow's body can continue as new: in a step, a branch or a node of a graph it is a *PlacementError, and in a
// context that belongs to no run a *NoJournalError. An input that JSON cannot hold, or that is not what the workflow takes,
// ends the run. All other errors are those of Step.
func ContinueAsNew[I any](ctx context.Context, in I) error {
	s, inside := scopeOf(ctx)
	switch {
	case inside != nil:
		return insideStep("ContinueAsNew", inside)
	case s == nil:
		return &NoJournalError{Call: "ContinueAsNew"}
	case !s.body:
		return &PlacementError{Call: "ContinueAsNew", Why: fmt.Sprintf(
			"scope %q is not the body of a workflow: return to the body and call it there", s.path)}
	}
	s.mu.Lock()
	err := s.ended()
	if err == nil {
		err = s.mayBegin(ctx)
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err := s.left(); err != nil {
		return s.broken(err)
	}
	payload, err := s.x.Encode("Input", in)
	if err != nil {
		return s.broken(err)
	}
	return s.broken(&continuing{input: payload})
}

// continued makes the next run and ends this one. Should the process die in between, the next attempt finds the run there.
func (r *inline) continued(ctx context.Context, x *Execution, c *continuing) (more bool, err error) {
	if err := r.program.takes(x.settings, c.input); err != nil {
		return false, r.failed(ctx, x, err)
	}
	var start StartMeta
	if err := readMeta(x.record.start, &start); err != nil {
		return false, x.BrokenAttempt(ctx, x.replayError(x.record.start, err))
	}
	if start.First == "" {
		start.First, start.Part = x.id, 1
	}
	own := StartMeta{First: start.First, Part: start.Part + 1, Parent: x.parent}
	link := journal.Link{Kind: journal.Continuation, Run: x.id}
	id := fmt.Sprintf("%s~%d", own.First, own.Part)
	next := journal.NewRun{
		Run: journal.Run{
			ID: id, Kind: journal.WorkflowRun, Name: r.program.name, Version: r.program.version, Link: link, Queue: x.Run().Queue,
		},
		Events: []journal.Event{{Kind: journal.RunStart, Time: Now(), Meta: meta(own), Payload: c.input}},
	}
	if next.Run.Queue != "" { // no worker is to take it before this one has ended, which is what wakes it
		next.Events = append(next.Events, journal.Event{Kind: journal.RunSuspended, Time: Now(), Meta: meta(SuspendedMeta{})})
	}
	_, err = x.settings.Store.Create(ctx, next)
	if errors.Is(err, journal.ErrExists) {
		var there journal.Run
		if there, err = x.settings.Store.Load(ctx, id); err == nil && there.Link != link {
			return false, r.failed(ctx, x, &ContinuationChainError{RunID: x.id, Next: id, Reason: ChainForeign})
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return false, stopped(ctx, x.id)
	case err != nil:
		_ = x.unread(ctx, err) // finish returns it
		return false, r.finish(ctx, x, journal.Event{Kind: journal.RunRequeued})
	}
	x.next = id
	last := journal.Event{Kind: journal.RunContinued, Meta: meta(continuedMeta{Next: id})}
	return true, r.finish(ctx, x, last)
}
