package durable

import (
	"context"
	"slices"

	"github.com/pawl-go/pawl/journal"
)

// What an execution knows of the messages that were sent to its run.

// heed reads the inbox and ends the execution's context if the run is to be cancelled.
func (x *Execution) heed() {
	if err := x.refreshInbox(x.ctx); err == nil { // else it will be read again
		x.heedCancel()
	}
}

func (x *Execution) heedCancel() {
	x.mu.Lock()
	i := slices.IndexFunc(x.inbox, func(m journal.Message) bool { return m.Kind == journal.CancelMessage })
	var m journal.Message
	if i >= 0 {
		m = x.inbox[i]
	}
	x.mu.Unlock()
	if i < 0 || x.ctx.Err() != nil {
		return
	}
	var reason string
	if err := x.decode(m.Payload, &reason); err != nil {
		reason = ""
	}
	x.cancel(&RunCancelledError{RunID: x.id, Reason: reason})
}

// refreshInbox reads the messages that have come.
func (x *Execution) refreshInbox(ctx context.Context) error {
	x.mu.Lock()
	var after int64
	if n := len(x.inbox); n > 0 {
		after = x.inbox[n-1].Seq
	}
	x.mu.Unlock()
	messages, err := x.settings.Store.Inbox(ctx, x.id, after)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, m := range messages {
		if n := len(x.inbox); n == 0 || m.Seq > x.inbox[n-1].Seq {
			x.inbox = append(x.inbox, m)
		}
	}
	return nil
}

// take consumes the first message of a kind and name that accept takes; nil takes any. One that it does not take is not
// looked at again by this execution. The caller records what it has taken, or gives it back.
func (x *Execution) take(kind journal.MessageKind, name string, accept func(journal.Message) bool) (journal.Message, bool) {
	for {
		m, ok := x.takeNext(kind, name)
		if !ok || accept == nil || accept(m) {
			return m, ok
		}
	}
}

func (x *Execution) takeNext(kind journal.MessageKind, name string) (journal.Message, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, m := range x.inbox {
		if m.Kind == kind && m.Name == name && !x.taken[m.Seq] {
			x.taken[m.Seq] = true
			return m, true
		}
	}
	return journal.Message{}, false
}

// giveBack makes a message that was taken as if it had not been.
func (x *Execution) giveBack(m journal.Message) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.taken, m.Seq)
}
