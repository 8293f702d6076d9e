package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// Append implements journal.Store. The events are one row, in one transaction with the appends of other runs that wait at
// the same time.
func (s *Store) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	if err := journal.CheckID(l.Run); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.end()
	o := &appending{lease: l, Append: a, row: journal.EncodeRow(l.Run, a.After+1, a.Events)}
	o.special = len(a.Events) == 0 || len(a.Outbox) > 0 || journal.CheckpointIn(a.Events) >= 0 || journal.StatusAfter(a.Events) != ""
	return s.committer.do(ctx, o, len(o.row)+o.seal())
}

// seal makes the outbox one that the caller may change, and returns how large it is.
func (o *appending) seal() (size int) {
	o.Outbox = slices.Clone(o.Outbox)
	for i := range o.Outbox {
		m := &o.Outbox[i].Message
		m.Payload = slices.Clone(m.Payload)
		size += len(m.Payload)
	}
	return size
}

type appending struct {
	lease journal.Lease
	journal.Append
	row []byte
	// special is true if more changes than the head.
	special bool
}

func (*appending) op() string    { return "append" }
func (o *appending) run() string { return o.lease.Run }

// known returns the lease that makes an append one insertion: one that this store has given and knows all about. It is nil
// if more must be read, or written, than that.
func (o *appending) known(t *tx) *lease {
	l := t.given(o.lease.Run)
	if l == nil || o.special || l.token != o.lease.Token || l.head != o.After {
		return nil
	}
	return l
}

func (o *appending) apply(t *tx) error {
	if l := o.known(t); l != nil {
		if wrote, err := t.insert(l.key, l.token, o.After+1, len(o.Events), o.row); wrote || err != nil {
			t.raise(l, l.head+int64(len(o.Events)))
			return err
		}
	}
	st, err := t.run(o.lease.Run)
	if err != nil {
		return err
	}
	if !st.has(o.lease) {
		return fenced(st, o.lease)
	}
	if o.After != st.head || len(o.Events) == 0 {
		if there, err := t.has(st, o.Append); there || err != nil {
			return t.broken(err)
		}
	}
	switch {
	case st.status.Terminal():
		return ended(st)
	case o.After != st.head:
		return conflict(st, o.Append)
	}
	if err := journal.CheckEnd(st.id, o.Events); err != nil {
		return err
	}
	return o.write(t, st)
}

// write puts the events behind the run's last one.
func (o *appending) write(t *tx, st *runState) error {
	if _, err := t.insert(st.key, st.token, o.After+1, len(o.Events), o.row); err != nil {
		return err
	}
	if i := journal.CheckpointIn(o.Events); i >= 0 {
		st.checkpoint = o.After + 1 + int64(i)
	}
	now := journal.Stamp(time.Now())
	status := journal.StatusAfter(o.Events)
	if status != "" {
		st.become(status, o.Due, now)
	}
	if err := o.look(t, st, status, now); err != nil {
		return err
	}
	l := t.given(st.id)
	switch {
	case l != nil && st.status.Terminal():
		t.pending[st.id] = nil
	case l != nil:
		t.raise(l, st.head+int64(len(o.Events)))
	}
	if !o.special {
		return nil
	}
	if err := t.save(st); err != nil {
		return err
	}
	for _, letter := range o.Outbox {
		if err := t.deliver(letter); err != nil {
			return err
		}
	}
	if status == "" {
		return nil
	}
	return t.wake(st, now)
}

// look makes a run that was suspended just now due, if it has messages that its owner has not seen.
func (o *appending) look(t *tx, st *runState, status journal.Status, now time.Time) error {
	if status != journal.Suspended || st.queue == "" {
		return nil
	}
	var next int64
	if _, err := t.one(t.nextMessage, []any{st.key}, &next); err != nil {
		return err
	}
	st.rouse(next-1 > o.Seen, now)
	return nil
}

// has reports whether these events stand behind a.After already.
func (t *tx) has(st *runState, a journal.Append) (bool, error) {
	if a.After < 0 || a.After > st.head {
		return false, nil
	}
	if int64(len(a.Events)) > st.head-a.After {
		return false, nil
	}
	next := 0
	for next < len(a.Events) {
		from := a.After + int64(next)
		there, err := readPage(context.Background(), t.rows, runRef{id: st.id, key: st.key}, from)
		if err != nil {
			return false, err
		}
		if len(there) == 0 {
			return false, nil
		}
		for i := range min(len(there), len(a.Events)-next) {
			if !journal.Same(&there[i], &a.Events[next+i]) {
				return false, nil
			}
		}
		next += len(there)
	}
	return true, nil
}
