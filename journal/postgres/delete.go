package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

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
	return s.committer(run).do(ctx, &deletion{id: run}, 0)
}

type deletion struct{ id string }

func (*deletion) op() string      { return "delete" }
func (o *deletion) run() string   { return o.id }
func (o *deletion) need(n *needs) { n.addRun(o.id) }

func (o *deletion) apply(t *tx) error {
	st, err := t.run(o.id)
	if err != nil {
		return err
	}
	if t.held(st) {
		return locked(st)
	}
	t.remove(st)
	return nil
}

// remove deletes a run.
func (t *tx) remove(st *runState) {
	st.gone = true
	t.pending[st.id] = nil
	for _, query := range []string{
		"DELETE FROM events WHERE run = $1", "DELETE FROM inbox WHERE run = $1", "DELETE FROM runs WHERE key = $1",
	} {
		t.write(query, st.key)
	}
}

// pruneBatch is how many runs are deleted in a transaction, so that nobody's append waits for long.
const pruneBatch = 64

// Prune implements journal.Deleter. It deletes some runs at a time: if it fails or ctx ends, those that are counted are gone.
func (s *Store) Prune(ctx context.Context, before time.Time, statuses ...journal.Status) (deleted int, err error) {
	if err := s.begin(ctx); err != nil {
		return 0, err
	}
	defer s.end()
	if len(statuses) == 0 {
		statuses = []journal.Status{journal.Completed, journal.Failed, journal.Cancelled, journal.Continued}
	}
	var after int64
	for {
		ids, last, err := s.candidates(ctx, before, statuses, after)
		if err != nil {
			return deleted, err
		}
		n, err := s.prune(ctx, ids, before, statuses)
		deleted += n
		if err != nil || len(ids) < pruneBatch {
			return deleted, err
		}
		after = last
	}
}

const selectOld = "SELECT key, id FROM runs WHERE status = ANY($1) AND updated < $2 AND key > $3 ORDER BY key LIMIT $4"

// candidates returns the runs that are to be deleted as it seems, some at a time.
func (s *Store) candidates(
	ctx context.Context, before time.Time, statuses []journal.Status, after int64,
) (ids []string, last int64, err error) {
	err = s.ask(ctx, "prune", "", func(ctx context.Context) error {
		ids, last = nil, after
		rows, err := s.pool.Query(ctx, selectOld, statusNames(statuses), before, after, pruneBatch)
		if err != nil {
			return err
		}
		var id text
		_, err = pgx.ForEachRow(rows, []any{&last, &id}, func() error {
			ids = append(ids, string(id))
			return nil
		})
		return err
	})
	return ids, last, err
}

// prune deletes those of some runs that it finds as they are to be, under their locks.
func (s *Store) prune(ctx context.Context, ids []string, before time.Time, statuses []journal.Status) (deleted int, err error) {
	parts := map[*committer]*pruning{}
	for _, id := range ids {
		c := s.committer(id)
		if parts[c] == nil {
			parts[c] = &pruning{before: before, statuses: statuses}
		}
		parts[c].ids = append(parts[c].ids, id)
	}
	for c, o := range parts {
		if err := c.do(ctx, o, 0); err != nil {
			return deleted, err
		}
		deleted += o.deleted
	}
	return deleted, nil
}

type pruning struct {
	ids      []string
	before   time.Time
	statuses []journal.Status
	deleted  int
}

func (*pruning) op() string  { return "prune" }
func (*pruning) run() string { return "" }

func (o *pruning) need(n *needs) {
	for _, id := range o.ids {
		n.addRun(id)
	}
}

func (o *pruning) apply(t *tx) error {
	o.deleted = 0
	for _, id := range o.ids {
		st, err := t.run(id)
		if err != nil || t.held(st) || !slices.Contains(o.statuses, st.status) || !st.updated.Before(o.before) {
			continue // it is gone, or has changed since
		}
		t.remove(st)
		o.deleted++
	}
	return nil
}
