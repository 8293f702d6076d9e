package durable

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"

	"github.com/pawl-go/pawl/journal"
)

// cancelKey makes cancelling a run twice harmless.
const cancelKey = "pawl:cancel"

// Cancel ends a run for good, and the runs it has started with RunChild and that were not detached. If nobody is at work on
// the run it is cancelled when Cancel returns; if somebody is, in this process or another, its context ends with a
// *RunCancelledError, and that owner cancels it. A run that was continued as new is cancelled where it goes on. The reason is
// for people, and may be empty. Cancelling a cancelled run is a success.
//
// Errors: a *journal.NotFoundError, a *journal.RefusedError with journal.ErrEnded if the run has ended in another way, a
// *ContinuationChainError, and those of the store.
func Cancel(ctx context.Context, store journal.Store, id, reason string, opts ...SendOption) error {
	o := newSendOptions(store, opts)
	for seen := (chain{}); ; {
		err := cancelRun(ctx, o.settings, id, reason)
		if !errors.Is(err, journal.ErrEnded) {
			return err
		}
		next, nerr := seen.next(ctx, o.settings, id)
		switch {
		case nerr != nil:
			return nerr
		case next == "":
			return cancelEnded(ctx, o.settings, id, reason, err)
		}
		id = next
	}
}

// cancelEnded is Cancel of a run that has ended already: if that was a cancel, its children may be left.
func cancelEnded(ctx context.Context, s Settings, id, reason string, ended error) error {
	run, err := s.Store.Load(ctx, id)
	if err != nil {
		return err
	}
	if run.Status != journal.Cancelled {
		return ended
	}
	return cancelChildren(ctx, s, id, reason)
}

// cancelRun cancels a run that nobody holds, or tells whoever holds it.
func cancelRun(ctx context.Context, s Settings, id, reason string) error {
	payload, err := s.Encode("reason", reason)
	if err != nil {
		return err
	}
	message := journal.Message{Kind: journal.CancelMessage, Key: cancelKey, Time: Now(), Payload: payload}
	for told := false; ; told = true {
		lease, err := s.Store.Acquire(ctx, id, journal.Claim{Owner: "cancel/" + rand.Text()[:8], TTL: s.LeaseTTL})
		switch {
		case err == nil:
			e := journal.Event{Kind: journal.RunCancelled, Time: Now(), Payload: payload}
			if err := s.Store.Append(ctx, lease, journal.Append{After: lease.Head, Events: []journal.Event{e}}); err != nil {
				return err
			}
			return cancelChildren(ctx, s, id, reason)
		case !errors.Is(err, journal.ErrLocked):
			return err
		case told: // and it has not let go of the run in between
			return nil
		}
		if _, err := s.Store.Send(ctx, id, message); err != nil {
			return err
		}
	}
}

// cancelChildren cancels what a cancelled run has started and not seen the end of.
func cancelChildren(ctx context.Context, s Settings, id, reason string) error {
	r, err := readRecord(ctx, s, id, true)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range r.openChildren() {
		if m.Detached {
			continue
		}
		err := Cancel(ctx, s.Store, m.Child, reason, Using(s))
		if err != nil && !errors.Is(err, journal.ErrEnded) && !errors.Is(err, journal.ErrNotFound) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// childMeta is the Meta of a ChildStart.
type childMeta struct {
	Child    string `json:"child"`
	Detached bool   `json:"detached,omitempty"`
	// Retried is true of a retry of the child of a run that was retried.
	Retried bool `json:"retried,omitempty"`
}

// openChildren are the children whose outcomes are not recorded.
func (r *record) openChildren() []childMeta {
	open := map[place]childMeta{}
	for _, events := range r.scopes {
		for _, e := range events {
			at := placeOf(e)
			switch e.Kind {
			case journal.ChildStart:
				var m childMeta
				if readMeta(e, &m) == nil {
					open[at] = m
				}
			case journal.StepDone, journal.StepError:
				delete(open, at)
			}
		}
	}
	return slices.Collect(maps.Values(open))
}
