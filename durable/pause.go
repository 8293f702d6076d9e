package durable

import (
	"context"

	"github.com/pawl-go/pawl/journal"
)

// Pause has a run rest until Unpause: a workflow from its next durable call on, a graph from its next super-step on, whose
// tasks under way finish first and are recorded. The run is suspended meanwhile, and no timer of it wakes it; whoever runs it
// gets a *SuspendedError whose Wait is Paused, and none of its code is called. Updates and queries wait, too; Cancel does not.
// What the run has started with RunChild is not paused. A step, a child or a Sleep that is under way is finished first.
//
// Of several calls to Pause and Unpause the last one counts. The reason is for people, and may be empty. If the run was
// continued as new, the last run of the chain is paused. Errors: a *journal.NotFoundError, a *journal.RefusedError with
// journal.ErrEnded if the run has ended, a *ContinuationChainError, and those of the store.
func Pause(ctx context.Context, store journal.Store, id, reason string, opts ...CommonOption) error {
	return sendPause(ctx, store, id, journal.PauseMessage, reason, opts)
}

// Unpause lets a run go on that Pause has stopped: a worker takes it at once, and any other run goes on when it is run again.
// A run that is not paused stays as it is. Its errors are those of Pause.
func Unpause(ctx context.Context, store journal.Store, id string, opts ...CommonOption) error {
	return sendPause(ctx, store, id, journal.ResumeMessage, "", opts)
}

func sendPause(
	ctx context.Context, store journal.Store, id string, kind journal.MessageKind, reason string, opts []CommonOption,
) error {
	o, err := newSendOptions(store, opts)
	if err != nil {
		return err
	}
	m := journal.Message{Kind: kind}
	if reason != "" {
		if m.Payload, err = o.settings.Encode("reason", reason); err != nil {
			return err
		}
	}
	return send(ctx, o.settings, id, m)
}

// pausing is what a message makes of a run that is paused or not.
func pausing(paused bool, m journal.Message) bool {
	switch m.Kind {
	case journal.PauseMessage:
		return true
	case journal.ResumeMessage:
		return false
	}
	return paused
}

// Paused reports whether the run is to rest, as far as it is known.
func (x *Execution) Paused() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sift()
	return x.paused
}

// Rested is for executors: the suspension of a run that is paused, before more of its code is called; nil if it is not.
func (x *Execution) Rested() *SuspendedError {
	if !x.Paused() {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	waits := []Wait{{Paused: true}}
	if x.head == x.lease.Head { // nothing has happened, so it still waits for what it waited for
		for _, w := range x.record.resting {
			if !w.Paused {
				waits = append(waits, w)
			}
		}
	}
	x.waits = append(x.waits, waits...)
	return &SuspendedError{RunID: x.id, Waits: waits}
}

// rests suspends a workflow's code at a call if the run is paused; nil if it is not. What failed before the call was handled.
// The caller holds mu.
func (s *Scope) rests() error {
	if s.task || s.handler || !s.x.Paused() {
		return nil
	}
	s.settleAll(handledMeta{})
	w := Wait{Scope: s.path, Paused: true}
	s.x.wait(w)
	s.stopped = &SuspendedError{RunID: s.x.id, Waits: []Wait{w}}
	return s.stopped
}

// wait notes what the run is suspended on.
func (x *Execution) wait(w Wait) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.waits = append(x.waits, w)
}
