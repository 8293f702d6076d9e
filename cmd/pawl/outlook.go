package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

// outlook is what a run that has not ended waits for, and what has come meanwhile.
type outlook struct {
	waits []durable.Wait
	// given is true if the run was given up for now, and reason is why.
	given  bool
	reason string
	// inbox are the messages that the run has not taken.
	inbox []journal.Message
	// pause is set if the run is paused, or is told to.
	pause *pause
	// unread is true if the journal cannot be read.
	unread bool
}

// outlookOf looks at the last event of a run, and at its inbox if it waits for a message.
func outlookOf(ctx context.Context, db store, r *journal.Run) (outlook, error) {
	if r.Head < 2 || r.Status != journal.Suspended && r.Status != journal.Pending {
		return outlook{}, nil
	}
	o, err := readOutlook(ctx, db, r)
	switch {
	case errors.Is(err, journal.ErrNotFound): // it was deleted meanwhile
		return outlook{}, nil
	case errors.Is(err, journal.ErrCorrupt):
		return outlook{unread: true}, nil
	}
	return o, err
}

func readOutlook(ctx context.Context, db store, r *journal.Run) (outlook, error) {
	var o outlook
	last, err := eventBehind(ctx, db, r.ID, r.Head-1)
	if err != nil {
		return o, err
	}
	o.last(last)
	wanted := false
	for _, w := range o.waits {
		wanted = wanted || w.Question != "" || w.Signal != "" || w.Await || w.Paused
	}
	if !wanted {
		return o, nil
	}
	inbox, err := db.Inbox(ctx, r.ID, 0)
	if err != nil || len(inbox) == 0 {
		return o, err
	}
	t, err := readTaken(ctx, db, r)
	if err != nil {
		return o, err
	}
	o.inbox, o.pause = t.left(inbox), pauseIn(inbox)
	return o, nil
}

// eventBehind is the event behind a number.
func eventBehind(ctx context.Context, db store, id string, after int64) (journal.Event, error) {
	for e, err := range db.Events(ctx, id, after) {
		return e, err
	}
	return journal.Event{}, nil
}

// last takes the run's last event.
func (o *outlook) last(e journal.Event) {
	switch e.Kind {
	case journal.RunSuspended:
		var m durable.SuspendedMeta
		readMeta(e, &m)
		o.waits = m.Waits
	case journal.RunRequeued:
		o.given, o.reason = true, requeueReason(e)
	}
}

// requeueReason is why a run was given up for now; empty if nothing is recorded.
func requeueReason(e journal.Event) string {
	var m struct {
		Reason string `json:"reason"`
	}
	readMeta(e, &m)
	return m.Reason
}

// taken are the messages that a run has taken.
type taken struct {
	copied  int64 // the number of the last event that was copied; what those have taken was another run's
	numbers map[int64]bool
}

func newTaken() *taken { return &taken{numbers: map[int64]bool{}} }

// readTaken reads what a run has taken: its last checkpoint says what older events would.
func readTaken(ctx context.Context, db store, r *journal.Run) (*taken, error) {
	t := newTaken()
	after := int64(0)
	if r.Checkpoint > 1 {
		start, err := eventBehind(ctx, db, r.ID, 0)
		if err != nil {
			return nil, err
		}
		t.add(start)
		after = r.Checkpoint - 1
	}
	for e, err := range db.Events(ctx, r.ID, after) {
		if err != nil {
			return nil, err
		}
		t.add(e)
	}
	return t, nil
}

// add takes an event.
func (t *taken) add(e journal.Event) {
	switch e.Kind {
	case journal.RunStart:
		var m durable.StartMeta
		readMeta(e, &m)
		if m.Copied > 0 {
			t.copied = m.Copied + 1
		}
	case journal.SignalReceived, journal.QuestionAnswered,
		journal.UpdateDone, journal.UpdateError, journal.UpdateRejected, journal.QueryAnswered:
		var m struct {
			Message int64 `json:"message"`
		}
		if readMeta(e, &m); e.Seq > t.copied {
			t.numbers[m.Message] = true
		}
	case journal.Checkpoint:
		var m struct {
			Taken []int64 `json:"taken"`
		}
		if readMeta(e, &m); e.Seq > t.copied {
			for _, n := range m.Taken {
				t.numbers[n] = true
			}
		}
	}
}

// left are the messages that were not taken.
func (t *taken) left(inbox []journal.Message) []journal.Message {
	var left []journal.Message
	for _, m := range inbox {
		if !t.numbers[m.Seq] {
			left = append(left, m)
		}
	}
	return left
}

// outlook says what else is worth knowing of a run's status; empty if there is nothing.
func (s *session) outlook(r *journal.Run, o *outlook) string {
	switch {
	case r.Status == journal.Running && r.Owner == "" && r.Queue != "":
		return "its worker is gone: another one takes it"
	case r.Status == journal.Running && r.Owner == "":
		return "its process is gone: " + again(r)
	case o.unread:
		return "its journal cannot be read"
	case o.pause != nil && r.Status == journal.Running:
		return "to be " + o.pause.text()
	case o.pause != nil && !r.Status.Terminal():
		return o.pause.text()
	case o.given:
		return s.givenUp(r, o)
	case r.Status == journal.Pending && len(o.waits) == 0 && r.Due.After(s.now):
		return "starts " + s.until(r.Due)
	case r.Status == journal.Pending && len(o.waits) == 0 && r.Queue != "":
		return again(r)
	case r.Status == journal.Suspended, r.Status == journal.Pending:
		return s.waits(r, o)
	}
	return ""
}

// givenUp says why an attempt was given up, and when the next one may begin.
func (s *session) givenUp(r *journal.Run, o *outlook) string {
	text := "given up for now"
	if o.reason != "" {
		text += ": " + printable(o.reason)
	}
	if r.Due.After(s.now) {
		text += ", again " + s.until(r.Due)
	}
	return text
}

// waits says what a run waits for, and whether it is there.
func (s *session) waits(r *journal.Run, o *outlook) string {
	w := o.wanted(r.Due)
	come, open := w.come, w.asked > 0 || w.updates > 0 || len(w.signals) > 0 || len(w.children) > 0
	switch {
	case w.answered > 0 && w.asked == 0:
		come = append([]string{"answered"}, come...)
	case w.answered > 0:
		come = append([]string{"has " + count(w.answered, "answer")}, come...)
	}
	parts := come
	add := func(n int, text string) {
		if n > 0 {
			parts = append(parts, text)
		}
	}
	add(w.asked, "asks "+count(w.asked, "question"))
	add(len(w.signals), "waits for "+plural("signal", w.signals))
	add(len(w.children), "waits for "+plural("run", w.children))
	add(w.updates, "waits for an update")
	over := !w.due.IsZero() && !w.due.After(s.now)
	if !w.due.IsZero() && (open || over || len(come) == 0) {
		parts = append(parts, "due "+s.until(w.due))
	}
	text := strings.Join(parts, ", ")
	if over || len(come) > 0 && !open {
		text += ": " + again(r)
	}
	return text
}

// wanted is what a run waits for, and what of it has come.
type wanted struct {
	due                      time.Time
	asked, answered, updates int
	signals, children        []string
	come                     []string // in words
}

func (o *outlook) wanted(due time.Time) (all wanted) {
	all.due = due
	arrived := o.arrived()
	for _, w := range o.waits {
		if all.due.IsZero() || !w.Due.IsZero() && w.Due.Before(all.due) {
			all.due = w.Due
		}
		switch {
		case w.Question != "" && arrived(w) != nil:
			all.answered++
		case w.Question != "":
			all.asked++
		case w.Signal != "" && arrived(w) != nil:
			all.come = append(all.come, fmt.Sprintf("signal %s is there", printable(w.Signal)))
		case w.Signal != "":
			all.signals = append(all.signals, w.Signal)
		case w.Child != "":
			all.children = append(all.children, w.Child)
		case w.Await:
			all.updates++
		case w.Paused: // else it would be said that it is
			all.come = append(all.come, "resumed")
		}
	}
	return all
}

// again is what lets a run go on that waits for nothing any more.
func again(r *journal.Run) string {
	if r.Queue == "" {
		return "run it again"
	}
	return "waits for a worker"
}

// plural is a noun with the one name, the few names, or the number of names.
func plural(noun string, names []string) string {
	const most = 3
	switch n := len(names); {
	case n == 1:
		return noun + " " + printable(names[0])
	case n <= most:
		return noun + "s " + list(names)
	}
	return count(len(names), noun)
}

// arrived returns a function that returns the message a wait is for, each message once; nil if it has not come.
func (o *outlook) arrived() func(w durable.Wait) *journal.Message {
	gone := make([]bool, len(o.inbox))
	return func(w durable.Wait) *journal.Message {
		for i := range o.inbox {
			m := &o.inbox[i]
			answers := m.Kind == journal.AnswerMessage && w.Question != "" && m.Name == w.Question
			signals := m.Kind == journal.SignalMessage && w.Signal != "" && m.Name == w.Signal
			if !gone[i] && (answers || signals) {
				gone[i] = true
				return m
			}
		}
		return nil
	}
}
