package sqlite

import (
	"time"

	"github.com/pawl-go/pawl/journal"
)

// ready returns from when on workers may take the run; zero if that is not known, or it is in no queue.
func (st *runState) ready() time.Time {
	var from time.Time
	switch {
	case st.queue == "":
		return from
	case st.status == journal.Running:
		return st.until
	case st.status == journal.Suspended:
		from = st.due
	case st.status == journal.Pending:
		from = st.due
		if from.IsZero() {
			from = st.updated
		}
	}
	if !from.IsZero() && from.Before(st.until) {
		return st.until // until it is given up
	}
	return from
}

// rouse makes a suspended run of a queue due if it has messages that were not seen, and reports whether it was not due yet.
func (st *runState) rouse(unseen bool, now time.Time) bool {
	if !unseen || st.queue == "" || st.status != journal.Suspended || st.isDue(now) {
		return false
	}
	st.due = now
	return true
}

func (st *runState) isDue(now time.Time) bool { return !st.due.IsZero() && !now.Before(st.due) }

// wake tells who watches a run's queue, if the run can be taken but for the time and a lease.
func (t *tx) wake(st *runState, now time.Time) error {
	waits := st.status == journal.Pending || st.status == journal.Suspended && st.isDue(now)
	if st.queue == "" || !waits || t.woken[st.queue] > 0 {
		return nil
	}
	var changes int64
	t.wrote = true
	if _, err := t.one(t.wakeQueue, []any{st.queue}, &changes); err != nil {
		return err
	}
	t.woken[st.queue] = changes
	return nil
}
