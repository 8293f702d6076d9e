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

// sift looks through what has come since the last time. The caller holds mu.
func (x *Execution) sift() {
	for ; x.sifted < len(x.inbox); x.sifted++ {
		switch m := x.inbox[x.sifted]; m.Kind {
		case journal.PauseMessage, journal.ResumeMessage:
			x.paused = pausing(x.paused, m)
		case journal.UpdateMessage, journal.QueryMessage:
			if !x.taken[m.Seq] {
				x.guests = append(x.guests, m)
			}
		}
	}
}

// asked reports whether there are updates or queries to handle.
func (x *Execution) asked() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sift()
	return len(x.guests) > 0
}

// nextGuest consumes the first update or query that accept takes; nil takes any.
func (x *Execution) nextGuest(accept func(journal.Message) bool) (journal.Message, bool) {
	x.mu.Lock()
	x.sift()
	guests := slices.Clone(x.guests)
	x.mu.Unlock()
	for _, m := range guests { // which nobody else takes
		if accept != nil && !accept(m) {
			continue
		}
		x.admit(m)
		return m, true
	}
	return journal.Message{}, false
}

// admit consumes an update or a query.
func (x *Execution) admit(m journal.Message) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.taken[m.Seq] = true
	x.guests = slices.DeleteFunc(x.guests, func(other journal.Message) bool { return other.Seq == m.Seq })
}

// seen is the number of the last message that the run's code has had its chance to see. What it was too late for has it
// taken up again. The caller holds mu.
func (x *Execution) seen() int64 {
	var last int64
	for i, m := range x.inbox {
		if m.Seq > x.known && x.tooLate(i) {
			break
		}
		last = m.Seq
	}
	return last
}

// tooLate reports whether a message has come behind the last look for its kind. The caller holds mu.
func (x *Execution) tooLate(i int) bool {
	m := x.inbox[i]
	switch m.Kind {
	case journal.SignalMessage, journal.AnswerMessage:
		return !x.taken[m.Seq] && slices.ContainsFunc(x.waits, func(w Wait) bool { return w.wants(m) })
	case journal.ChildMessage:
		return slices.ContainsFunc(x.waits, func(w Wait) bool { return w.Child != "" })
	case journal.UpdateMessage, journal.QueryMessage:
		return !x.taken[m.Seq]
	case journal.PauseMessage, journal.ResumeMessage:
		return i >= x.looked
	case journal.CancelMessage:
		return true // whoever has looked does not suspend
	}
	return false
}

// wants reports whether a message is what is waited for.
func (w Wait) wants(m journal.Message) bool {
	switch m.Kind {
	case journal.AnswerMessage:
		return m.Name == w.Question && w.Question != ""
	case journal.SignalMessage:
		return m.Name == w.Signal && w.Signal != ""
	}
	return false
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
