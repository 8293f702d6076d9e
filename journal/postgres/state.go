package postgres

import (
	"time"

	"github.com/pawl-go/pawl/journal"
)

// runState is a run as it stands in the database, and is to stand there behind the transaction.
type runState struct {
	id                           string
	hash                         hash
	key, token, head, checkpoint int64
	messages                     int64 // the number of the last one
	status                       journal.Status
	owner                        string
	holder                       int64 // 0: nobody
	foreign                      bool  // another store holds it, which lives
	queue                        string
	updated, due, until          time.Time
	ready                        time.Time // as it stands in the database; see readyFrom
	changed, gone                bool
	rows                         []journal.Append // to be written
}

// run returns what there is of a run.
func (t *tx) run(id string) (*runState, error) {
	st := t.runs[hashOf(id)]
	if st == nil || st.gone {
		t.pending[id] = nil
		return nil, &journal.NotFoundError{Run: id}
	}
	return st, nil
}

// held reports whether somebody has the run's lease whose time has not run out, and who has not died.
func (t *tx) held(st *runState) bool {
	switch {
	case !t.now.Before(st.until):
		return false
	case st.holder == t.holder:
		return t.given(st.id) != nil || t.store.arriving(st)
	}
	return st.foreign
}

// has reports whether a lease is the run's latest. Nobody has that of a run that is free; of one that has ended, it was the
// last.
func (st *runState) has(l journal.Lease) bool {
	return st.token == l.Token && (st.holder != 0 || st.status.Terminal())
}

// become gives the run a status, and its Due where the status has one.
func (st *runState) become(s journal.Status, due, now time.Time) {
	st.changed = true
	if st.status != s {
		st.status, st.updated = s, now
	}
	st.due = time.Time{}
	switch {
	case s.Terminal():
		st.free()
	case s != journal.Running:
		st.due = journal.Stamp(due)
	}
}

// free ends the run's lease.
func (st *runState) free() {
	st.changed = true
	st.owner, st.holder, st.until = "", 0, time.Time{}
}

// readyFrom returns from when on workers may take the run; zero if it is of no queue, or no time brings that about.
func (st *runState) readyFrom() time.Time {
	if st.queue == "" {
		return time.Time{}
	}
	var from time.Time
	switch st.status {
	case journal.Running:
		return st.until
	case journal.Pending:
		from = st.due
		if from.IsZero() {
			from = st.updated
		}
	case journal.Suspended:
		from = st.due
	}
	if !from.IsZero() && from.Before(st.until) {
		return st.until // until it is given up
	}
	return from
}

func isReady(from, now time.Time) bool { return !from.IsZero() && !now.Before(from) }

// rouse makes a suspended run of a queue due that has messages which its owner has not seen.
func (st *runState) rouse(seen int64, now time.Time) {
	if st.queue == "" || st.status != journal.Suspended || st.messages <= seen || isReady(st.due, now) {
		return
	}
	st.due, st.changed = now, true
}
