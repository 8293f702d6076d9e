package durable

import (
	"context"
	"errors"
	"fmt"

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
	return fmt.Sprintf("pawl: run %q was continued as %q, which cannot be followed: %s", e.RunID, e.Next, e.Reason)
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
	if err != nil {
		return "", err
	}
	if run.Status != journal.Continued {
		return "", nil
	}
	r, err := readRecord(ctx, s, id, true)
	if err != nil {
		return "", err
	}
	return c.follow(ctx, s, r)
}

// follow is next for a run whose record is known.
func (c chain) follow(ctx context.Context, s Settings, r *record) (string, error) {
	id := r.run.ID
	var m continuedMeta
	if err := readMeta(r.last, &m); err != nil {
		return "", &ReplayError{RunID: id, Seq: r.last.Seq, Err: err}
	}
	broken := func(reason ChainReason) error {
		return &ContinuationChainError{RunID: id, Next: m.Next, Reason: reason}
	}
	c[id] = true
	if c[m.Next] {
		return "", broken(ChainCycle)
	}
	run, err := s.Store.Load(ctx, m.Next)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return "", broken(ChainMissing)
	case err != nil:
		return "", err
	case run.Link != journal.Link{Kind: journal.Continuation, Run: id}:
		return "", broken(ChainForeign)
	}
	return m.Next, forward(ctx, s, r, m.Next)
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

// forward sends on what a run has not consumed. Keys make sure that each message gets there once.
func forward(ctx context.Context, s Settings, r *record, next string) error {
	inbox, err := s.Store.Inbox(ctx, r.run.ID, 0)
	if err != nil {
		return err
	}
	for _, m := range inbox {
		if m.Kind != journal.SignalMessage || r.taken[m.Seq] {
			continue
		}
		if m.Key == "" {
			m.Key = fmt.Sprintf("pawl:forward:%d:%s", m.Seq, r.run.ID)
		}
		if _, err := s.Store.Send(ctx, next, m); err != nil && !errors.Is(err, journal.ErrEnded) {
			return err
		}
	}
	return nil
}
