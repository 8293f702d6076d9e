package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// Delete implements journal.Deleter.
func (s *Store) Delete(ctx context.Context, run string) error {
	if err := journal.CheckID(run); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.end()
	return s.committer.do(ctx, &deletion{id: run}, 0)
}

type deletion struct{ id string }

func (*deletion) op() string    { return "delete" }
func (o *deletion) run() string { return o.id }

func (o *deletion) apply(t *tx) error {
	st, err := t.run(o.id)
	if err != nil {
		return err
	}
	if t.held(st, time.Now()) {
		return locked(st)
	}
	return t.remove(st)
}

// remove deletes a run.
func (t *tx) remove(st *runState) error {
	t.pending[st.id] = nil
	for _, stmt := range []*sql.Stmt{t.deleteEvents, t.deleteInbox, t.deleteRun} {
		if err := t.exec(stmt, st.key); err != nil {
			return err
		}
	}
	return t.exec(t.raiseFloor, st.token)
}

// pruneBatch is how many runs are deleted in a transaction, so that nobody's append waits for long.
const pruneBatch = 64

// Prune implements journal.Deleter. It deletes some runs at a time: if it fails or ctx ends, those that are counted are
// gone.
func (s *Store) Prune(ctx context.Context, before time.Time, statuses ...journal.Status) (int, error) {
	if err := s.begin(ctx); err != nil {
		return 0, err
	}
	defer s.end()
	if len(statuses) == 0 {
		statuses = []journal.Status{journal.Completed, journal.Failed, journal.Cancelled, journal.Continued}
	}
	deleted := 0
	for o := (&pruning{before: before, statuses: statuses}); ; {
		o.deleted = 0
		if err := s.committer.do(ctx, o, 0); err != nil {
			return deleted, err
		}
		deleted += o.deleted
		if o.done {
			return deleted, nil
		}
		next := *o // the committer may still look at the one before
		o = &next
	}
}

type pruning struct {
	before   time.Time
	statuses []journal.Status
	after    int64 // the key of the last run that was looked at
	deleted  int
	done     bool
}

func (*pruning) op() string  { return "prune" }
func (*pruning) run() string { return "" }

func (o *pruning) apply(t *tx) error {
	ids, last, err := o.candidates(t)
	if err != nil {
		return t.broken(err)
	}
	now := time.Now()
	deleted := 0
	for _, id := range ids {
		st, err := t.run(id)
		switch {
		case errors.Is(err, journal.ErrNotFound): // deleted by another call of this transaction
			continue
		case err != nil:
			return err
		case t.held(st, now):
			continue
		}
		if err := t.remove(st); err != nil {
			return err
		}
		deleted++
	}
	o.deleted, o.after, o.done = deleted, last, len(ids) < pruneBatch
	return nil
}

func (o *pruning) candidates(t *tx) (ids []string, last int64, err error) {
	//nolint:gosec // only the number of question marks varies
	query := "SELECT id, key FROM runs WHERE status IN (?" + strings.Repeat(", ?", len(o.statuses)-1) +
		") AND updated < ? AND key > ? ORDER BY key LIMIT ?"
	args := make([]any, 0, len(o.statuses))
	for _, status := range o.statuses {
		args = append(args, string(status))
	}
	rows, err := t.conn.QueryContext(context.Background(), query, append(args, o.before.UnixMicro(), o.after, pruneBatch)...)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id, &last); err != nil {
			return nil, 0, err
		}
		ids = append(ids, id)
	}
	return ids, last, rows.Err()
}
