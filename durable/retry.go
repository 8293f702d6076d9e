package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-go/pawl/journal"
)

// RetryCode says why a run cannot be retried. The strings are stable.
type RetryCode string

// The codes.
const (
	RetryCancelled RetryCode = "retry_cancelled"  // somebody has cancelled it, for good
	RetryNotFailed RetryCode = "retry_not_failed" // it has completed, was continued, or is not over
)

// RetryError says that a run cannot be retried.
type RetryError struct {
	RunID  string
	Code   RetryCode
	Status journal.Status
}

// Error names the run and what it is.
func (e *RetryError) Error() string {
	return fmt.Sprintf("pawl: run %q cannot be retried (%s): it is %s, and only failed runs can be", e.RunID, e.Code, e.Status)
}

// PrepareRetry makes a new run that goes on where a failed one failed, and leaves it pending, in the queue of the failed one if
// that had one: a worker, or Resume, or Run with the input of the failed one, works on it. Everything recorded is copied and
// served, handled failures and answers included. What failed and was not handled is called again, and so are the steps behind
// it in its scope: what the workflow's error wraps counts as not handled, even if it has cleaned up before it returned. Signals
// that were not consumed are copied, too.
//
// The new run is complete in itself, and linked to the failed one with journal.RetryOf. It is made in one step, and made
// once: with the same ids again, PrepareRetry returns what is there. Of a run that was continued as new the last one of the
// chain is retried.
//
// Errors: a *RetryError for a run that has not failed, a *journal.NotFoundError, a *RunConflictError if a run of the
// new id is there and is another one, a *ContinuationChainError, a *ReplayError if an event cannot be read, and those of the
// store.
func PrepareRetry(ctx context.Context, store journal.Store, failedID, newID string) (journal.Run, error) {
	return prepareRetry(ctx, store, failedID, newID, "")
}

// prepareRetry is PrepareRetry; parent is the run that wants the new one as its child, empty if none does.
func prepareRetry(ctx context.Context, store journal.Store, failedID, newID, parent string) (journal.Run, error) {
	s := Settings{Store: store}
	run, err := last(ctx, s, failedID)
	if err != nil {
		return journal.Run{}, err
	}
	switch run.Status {
	case journal.Failed:
	case journal.Cancelled:
		return journal.Run{}, &RetryError{RunID: run.ID, Code: RetryCancelled, Status: run.Status}
	default:
		return journal.Run{}, &RetryError{RunID: run.ID, Code: RetryNotFailed, Status: run.Status}
	}
	fresh, err := s.retryOf(ctx, run, newID, parent)
	if err != nil {
		return journal.Run{}, err
	}
	if _, err = store.Create(ctx, fresh); err != nil && !errors.Is(err, journal.ErrExists) {
		return journal.Run{}, err
	}
	made, err := store.Load(ctx, newID)
	if err == nil && made.Link != fresh.Run.Link {
		err = &RunConflictError{RunID: newID, What: "origin", Detail: fmt.Sprintf("it is no retry of %q", run.ID)}
	}
	if err != nil {
		return journal.Run{}, err
	}
	return made, nil
}

// retryOf describes the new run.
func (s Settings) retryOf(ctx context.Context, run journal.Run, newID, parent string) (journal.NewRun, error) {
	var events []journal.Event
	for e, err := range s.Store.Events(ctx, run.ID, 0) {
		if err != nil {
			return journal.NewRun{}, err
		}
		events = append(events, e)
	}
	r, err := newRecord(run, events, nil)
	if err != nil {
		return journal.NewRun{}, err
	}
	inbox, err := s.Store.Inbox(ctx, run.ID, 0)
	if err != nil {
		return journal.NewRun{}, err
	}
	copied, err := served(events[1:], r.last)
	if err != nil {
		return journal.NewRun{}, &ReplayError{RunID: run.ID, Seq: r.last.Seq, Err: err}
	}
	start := r.start
	if start.Meta, err = copiedMeta(start.Meta, len(copied), parent); err != nil {
		return journal.NewRun{}, &ReplayError{RunID: run.ID, Seq: start.Seq, Err: err}
	}
	start.Time = Now()
	n := journal.NewRun{
		Run: journal.Run{
			ID: newID, Kind: run.Kind, Name: run.Name, Version: run.Version, Fingerprint: run.Fingerprint, Thread: run.Thread,
			Link: journal.Link{Kind: journal.RetryOf, Run: run.ID}, Queue: run.Queue,
		},
		Events: append([]journal.Event{start}, copied...),
	}
	for _, m := range inbox {
		switch m.Kind {
		case journal.SignalMessage, journal.AnswerMessage: // whoever has sent anything else was told that the run has ended
			if !r.taken[m.Seq] {
				n.Messages = append(n.Messages, m)
			}
		}
	}
	return n, nil
}

// served are the events that a retry serves: all but how the run has stopped and ended. What ended it is reopened.
func served(events []journal.Event, last journal.Event) ([]journal.Event, error) {
	m, err := FailureOf(last)
	if err != nil {
		return nil, err
	}
	kept := withoutStops(events)
	for _, c := range m.Failed {
		kept = append(kept, reopened(c))
	}
	return kept, nil
}

// withoutStops leaves out the events that are about one run's stops and end.
func withoutStops(events []journal.Event) []journal.Event {
	return slices.DeleteFunc(events, func(e journal.Event) bool {
		return e.Kind.Terminal() || e.Kind == journal.RunSuspended || e.Kind == journal.RunRequeued || e.Kind == journal.RunTaken
	})
}

func placeOf(e journal.Event) place { return place{e.Scope, callKey{e.Name, e.N}} }

// copiedMeta is a run's own StartMeta, with all that others have put there, for a copy of it.
func copiedMeta(object json.RawMessage, copied int, parent string) (json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	if len(object) > 0 {
		if err := json.Unmarshal(object, &fields); err != nil {
			return nil, err
		}
	}
	fields["copied"] = meta(copied)
	delete(fields, "first") // it begins a chain of its own
	delete(fields, "part")
	delete(fields, "parent")
	if parent != "" {
		fields["parent"] = meta(parent)
	}
	return meta(fields), nil
}
