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
const cancelKey = ownKeys + "cancel"

// Cancel ends a run for good, and the runs it has started with RunChild and that were not detached. If nobody is at work on
// the run it is cancelled when Cancel returns; if somebody is, in this process or another, its context ends with a
// *RunCancelledError, and that owner cancels it. A run that was continued as new is cancelled where it goes on. The reason
// is for people, and may be empty. Cancelling a cancelled run is a success.
//
// Errors: a *journal.NotFoundError, a *journal.RefusedError with journal.ErrEnded if the run has ended in another way, a
// *ContinuationChainError, and those of the store.
func Cancel(ctx context.Context, store journal.Store, id, reason string, opts ...CommonOption) error {
	o, err := newSendOptions(store, opts)
	if err != nil {
		return err
	}
	c := canceller{settings: o.settings, reason: reason, seen: map[string]bool{}}
	return c.cancel(ctx, id)
}

// canceller cancels a run and what it has started.
type canceller struct {
	settings Settings
	reason   string
	seen     map[string]bool // runs that were cancelled, or are about to be: children may form a cycle
}

// cancel cancels a run, or what it goes on as.
func (c *canceller) cancel(ctx context.Context, id string) error {
	for seen := (chain{}); !c.seen[id]; {
		c.seen[id] = true
		err := c.run(ctx, id)
		if !errors.Is(err, journal.ErrEnded) {
			return err
		}
		next, nerr := seen.next(ctx, c.settings, id)
		switch {
		case nerr != nil:
			return nerr
		case next == "":
			return c.ended(ctx, id, err)
		}
		id = next
	}
	return nil
}

// ended is the cancel of a run that has ended already: if that was a cancel, its children may be left.
func (c *canceller) ended(ctx context.Context, id string, ended error) error {
	run, err := c.settings.Store.Load(ctx, id)
	if err != nil {
		return err
	}
	if run.Status != journal.Cancelled {
		return ended
	}
	return c.children(ctx, id)
}

// run cancels a run that nobody holds, or tells whoever holds it.
func (c *canceller) run(ctx context.Context, id string) error {
	s := c.settings
	payload, err := s.Encode("reason", c.reason)
	if err != nil {
		return err
	}
	message := journal.Message{Kind: journal.CancelMessage, Key: cancelKey, Time: Now(), Payload: payload}
	for told := false; ; told = true {
		lease, err := s.Store.Acquire(ctx, id, journal.Claim{Owner: "cancel/" + rand.Text()[:8], TTL: s.LeaseTTL})
		switch {
		case err == nil:
			if err := c.end(ctx, lease, payload); err != nil {
				c.letGo(ctx, lease)
				return err
			}
			return c.children(ctx, id)
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

// end cancels a run that is held for that, and tells its parent.
func (c *canceller) end(ctx context.Context, lease journal.Lease, reason []byte) error {
	parent, err := parentOf(ctx, c.settings.Store, lease.Run)
	if err != nil {
		return err
	}
	return c.settings.Store.Append(ctx, lease, journal.Append{
		After: lease.Head, Events: []journal.Event{{Kind: journal.RunCancelled, Time: Now(), Payload: reason}},
		Outbox: childEnded(lease.Run, parent),
	})
}

// parentOf is the run that has started another one; empty if none has, or if that cannot be read any more.
func parentOf(ctx context.Context, store journal.Store, id string) (string, error) {
	run, err := store.Load(ctx, id)
	if err != nil {
		return "", err
	}
	return parentOfRun(ctx, store, run)
}

func parentOfRun(ctx context.Context, store journal.Store, run journal.Run) (string, error) {
	if run.Link.Kind == journal.ChildOf {
		return run.Link.Run, nil
	}
	r := record{run: run}
	for e, err := range store.Events(ctx, run.ID, 0) {
		switch {
		case errors.Is(err, journal.ErrCorrupt):
			return "", nil
		case err != nil:
			return "", err
		}
		r.start = e
		break
	}
	parent, err := r.parent()
	if err != nil {
		parent = ""
	}
	return parent, nil
}

// letGo gives up the lease of a run that could not be cancelled.
func (c *canceller) letGo(ctx context.Context, lease journal.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storePatience)
	defer cancel()
	if _, err := c.settings.Store.Renew(ctx, lease, 0); err != nil && !errors.Is(err, journal.ErrEnded) {
		c.settings.Logger.Warn("pawl: a lease could not be given up; it ends by itself", "run", lease.Run, "error", err)
	}
}

// children cancels what a cancelled run has started and not seen the end of.
func (c *canceller) children(ctx context.Context, id string) error {
	c.seen[id] = true
	r, err := readRecord(ctx, c.settings, id, true)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range r.openChildren() {
		if m.Detached {
			continue
		}
		err := c.cancel(ctx, m.Child)
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
