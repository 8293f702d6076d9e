package durable

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-go/pawl/journal"
)

// ChainReason says why a continuation chain cannot be followed. The strings are stable.
type ChainReason string

// The reasons.
const (
	ChainMissing ChainReason = "missing" // the next run is not in the store: it was deleted
	ChainForeign ChainReason = "foreign" // a run of the next one's id is there, and does not continue this one
	ChainCycle   ChainReason = "cycle"   // the chain leads back to where it was
)

// ContinuationChainError says that a run was continued as new, and that where it goes on cannot be found.
type ContinuationChainError struct {
	// RunID is the run that was continued, and Next what it says is the next one.
	RunID, Next string
	Reason      ChainReason
}

// Error names both runs and the reason.
func (e *ContinuationChainError) Error() string {
	return fmt.Sprintf("pawl: run %q was continued as %q, which cannot be followed: %s: start it again under another id",
		e.RunID, e.Next, e.Reason)
}

// Unretryable is true.
func (e *ContinuationChainError) Unretryable() bool { return true }

// continuedMeta is the Meta of a RunContinued.
type continuedMeta struct {
	Next string `json:"next"`
}

// chain is the runs of a continuation chain that were visited.
type chain map[string]bool

// next returns the run that a run goes on as; empty if it was not continued. What was sent to the run and not consumed is
// sent on.
func (c chain) next(ctx context.Context, s Settings, id string) (string, error) {
	run, err := s.Store.Load(ctx, id)
	if err != nil || run.Status != journal.Continued {
		return "", err
	}
	m, err := continuation(ctx, s, run)
	if err != nil {
		return "", err
	}
	broken := func(reason ChainReason) error {
		return &ContinuationChainError{RunID: id, Next: m.Next, Reason: reason}
	}
	c[id] = true
	if c[m.Next] {
		return "", broken(ChainCycle)
	}
	there, err := s.Store.Load(ctx, m.Next)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return "", broken(ChainMissing)
	case err != nil:
		return "", err
	case there.Link != journal.Link{Kind: journal.Continuation, Run: id}:
		return "", broken(ChainForeign)
	case there.Status.Terminal() && there.Status != journal.Continued:
		return m.Next, nil // and takes no messages
	}
	return m.Next, forward(ctx, s, id, m.Next)
}

// continuation reads the last event of a run that was continued, and no other one.
func continuation(ctx context.Context, s Settings, run journal.Run) (m continuedMeta, err error) {
	for e, err := range s.Store.Events(ctx, run.ID, run.Head-1) {
		if err != nil {
			return m, err
		}
		if err = readMeta(e, &m); err != nil {
			return m, &ReplayError{RunID: run.ID, Seq: e.Seq, Err: err}
		}
	}
	if m.Next == "" {
		return m, &ReplayError{RunID: run.ID, Seq: run.Head, Err: errGap}
	}
	return m, nil
}

// Last returns the run that a run goes on as in the end: itself, if it was not continued as new. Signals that were not
// consumed are sent on.
//
// Errors: a *journal.NotFoundError, a *ContinuationChainError, a *ReplayError if an event cannot be read, and those of the
// store.
func Last(ctx context.Context, store journal.Store, id string, opts ...CommonOption) (journal.Run, error) {
	o, err := newSendOptions(store, opts)
	if err != nil {
		return journal.Run{}, err
	}
	return last(ctx, o.settings, id)
}

// last returns the run that a run goes on as in the end: itself, if it was not continued.
func last(ctx context.Context, s Settings, id string) (journal.Run, error) {
	for seen := (chain{}); ; {
		run, err := s.Store.Load(ctx, id)
		if err != nil || run.Status != journal.Continued {
			return run, err
		}
		if id, err = seen.next(ctx, s, id); err != nil {
			return journal.Run{}, err
		}
	}
}

// forward sends on what a run has not consumed: signals, updates, queries, and a cancel or a pause that came too late for it.
// Keys make sure that each message gets there once.
func forward(ctx context.Context, s Settings, id, next string) error {
	inbox, err := s.Store.Inbox(ctx, id, 0)
	if err != nil || len(inbox) == 0 {
		return err
	}
	paused := false
	for _, m := range inbox {
		paused = pausing(paused, m)
	}
	var along []journal.Message
	for i, m := range inbox {
		switch {
		case m.Kind == journal.AnswerMessage, m.Kind == journal.ChildMessage, m.Kind == journal.ChainMessage,
			m.Kind == journal.ResumeMessage:
		case m.Kind == journal.PauseMessage && (!paused || laterPause(inbox[i+1:])):
		default:
			along = append(along, m)
		}
	}
	if len(along) == 0 {
		return nil // without reading the journal
	}
	r, err := readRecord(ctx, s, id, true)
	if err != nil {
		return err
	}
	for _, m := range along {
		if r.taken[m.Seq] {
			continue
		}
		if m.Key == "" {
			m.Key = fmt.Sprintf("%sforward:%d:%s", ownKeys, m.Seq, id)
		}
		if _, err := s.Store.Send(ctx, next, m); err != nil && !errors.Is(err, journal.ErrEnded) {
			return err
		}
	}
	return nil
}

// laterPause reports whether there is another pause among messages.
func laterPause(messages []journal.Message) bool {
	return slices.ContainsFunc(messages, func(m journal.Message) bool { return m.Kind == journal.PauseMessage })
}
