package sqlite

import (
	"bytes"
	"context"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// Append implements journal.Store. The events are one row, in one transaction with the appends of other runs that wait at the
// same time.
func (s *Store) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	if err := checkID(l.Run); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.end()
	o := &appending{lease: l, Append: a, row: journal.EncodeRow(l.Run, a.After+1, a.Events)}
	return s.do(ctx, o, len(o.row))
}

type appending struct {
	lease journal.Lease
	journal.Append
	row []byte
}

func (*appending) op() string    { return "append" }
func (o *appending) run() string { return o.lease.Run }

func (o *appending) apply(t *tx) error {
	st, err := t.run(o.lease.Run)
	if err != nil {
		return err
	}
	if st.token != o.lease.Token {
		return fenced(st, o.lease)
	}
	if o.After != st.head || len(o.Events) == 0 {
		if there, err := t.has(st, o.Append); there || err != nil {
			return err
		}
	}
	switch {
	case st.status.Terminal():
		return ended(st)
	case o.After != st.head:
		return conflict(st, o.Append)
	}
	if err := checkEnd(st.id, o.Events); err != nil {
		return err
	}
	return t.append(st, o.Events, o.row, o.Due)
}

// append writes a row behind the run's last one.
func (t *tx) append(st *runState, events []journal.Event, row []byte, due time.Time) error {
	t.touch(st)
	if err := t.exec(t.insertEvents, st.key, st.head+1, len(events), row); err != nil {
		return err
	}
	first := st.head + 1
	st.head += int64(len(events))
	checkpoint, status := journal.CheckpointIn(events), journal.StatusAfter(events)
	if checkpoint < 0 && status == "" {
		return nil
	}
	if checkpoint >= 0 {
		st.checkpoint = first + int64(checkpoint)
	}
	if status != "" {
		st.become(status, stamp(time.Now()))
		if status == journal.Suspended {
			st.due = stamp(due)
		}
	}
	return t.save(st)
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
			t.fault = err
			if isOurs(err) {
				t.fault = nil // the run's own trouble
			}
			return false, err
		}
		if len(there) == 0 {
			return false, nil
		}
		for i := range min(len(there), len(a.Events)-next) {
			if !same(&there[i], &a.Events[next+i]) {
				return false, nil
			}
		}
		next += len(there)
	}
	return true, nil
}

// same reports whether an event is the one that is stored.
func same(stored, e *journal.Event) bool {
	return stored.Kind == e.Kind && stored.Scope == e.Scope && stored.Name == e.Name && stored.N == e.N &&
		stored.Time.Equal(stamp(e.Time)) && stored.Took == e.Took && stored.Attempts == e.Attempts &&
		bytes.Equal(stored.Meta, e.Meta) && bytes.Equal(stored.Payload, e.Payload)
}
