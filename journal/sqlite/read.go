package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"

	"github.com/pawl-go/pawl/journal"
)

// reads are the statements of the readers.
type reads struct {
	run, key, rows, messages, news, newest *sql.Stmt

	ready, running, queues, queue *sql.Stmt
}

func prepareReads(db *sql.DB) (*reads, error) {
	r := &reads{}
	for _, p := range []struct {
		stmt  **sql.Stmt
		query string
	}{
		{&r.run, "SELECT " + runColumns + " FROM runs WHERE id = ?"},
		{&r.key, "SELECT key FROM runs WHERE id = ?"},
		{&r.rows, selectRows},
		{&r.messages, selectMessages + " AND seq > ?2 ORDER BY seq"},
		{&r.newest, "SELECT coalesce(max(id), 0) FROM inbox"},
		{&r.news, "SELECT runs.id, max(inbox.id) FROM inbox JOIN runs ON runs.key = inbox.run WHERE inbox.id > ? GROUP BY runs.id"},
		{&r.ready, selectReady},
		{&r.running, selectRunning},
		{&r.queues, "SELECT name, changes FROM queues"},
		{&r.queue, "SELECT coalesce(max(changes), 0) FROM queues WHERE name = ?"},
	} {
		var err error
		//nolint:sqlclosecheck // closing the pool does it
		if *p.stmt, err = db.PrepareContext(context.Background(), p.query); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Load implements journal.Store.
func (s *Store) Load(ctx context.Context, run string) (r journal.Run, err error) {
	err = s.reading(ctx, "load", run, func() error {
		r, _, err = s.view().scan(s.read.run.QueryRowContext(ctx, run).Scan)
		return err
	})
	return r, err
}

// reading does what reads of one run have in common.
func (s *Store) reading(ctx context.Context, op, run string, f func() error) error {
	if err := journal.CheckID(run); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.end()
	err := s.committer.files.checkMain()
	if err == nil {
		err = f()
	}
	if errors.Is(err, sql.ErrNoRows) {
		return &journal.NotFoundError{Run: run}
	}
	return s.fault(op, run, false, err)
}

// Events implements journal.Store. It reads a part of the journal at a time, and holds nothing while the loop's body runs.
func (s *Store) Events(ctx context.Context, run string, after int64) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		at, after := runRef{id: run}, max(after, 0)
		for {
			page, err := s.page(ctx, &at, after)
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
				after = e.Seq
			}
			if err != nil {
				yield(journal.Event{}, err)
			}
			if err != nil || len(page) == 0 {
				return
			}
		}
	}
}

func (s *Store) page(ctx context.Context, at *runRef, after int64) (page []journal.Event, err error) {
	err = s.reading(ctx, "read events", at.id, func() error {
		if at.key == 0 {
			if err := s.read.key.QueryRowContext(ctx, at.id).Scan(&at.key); err != nil {
				return err
			}
		}
		page, err = readPage(ctx, s.read.rows, *at, after)
		return err
	})
	return page, err
}

// pageBytes is how much is read at a time, beyond the last row.
const pageBytes = 1 << 20

// readPage returns the events behind a number, or some of them, or none if there are none. What could be read before a fault
// is returned beside it.
func readPage(ctx context.Context, stmt *sql.Stmt, run runRef, after int64) (page []journal.Event, err error) {
	rows, err := stmt.QueryContext(ctx, run.key, after)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	next := after + 1
	for size := 0; size < pageBytes && rows.Next(); {
		var first, n int64
		var row sql.RawBytes
		if err := rows.Scan(&first, &n, &row); err != nil {
			return page, err
		}
		size += len(row)
		events, err := decode(run.id, first, n, row)
		if err != nil {
			return page, err
		}
		if len(page) == 0 && first <= next {
			// The first row may begin before the event that is asked for, or, behind the run's last one, have no event of it.
			events = events[min(next-first, n):]
			first = next
		}
		if first != next {
			return page, &journal.CorruptError{Run: run.id, Seq: next, Err: errors.New("it is missing")}
		}
		page = append(page, events...)
		next += int64(len(events))
	}
	if err := rows.Err(); err != nil {
		return page, err
	}
	if next == 1 {
		return nil, &journal.CorruptError{Run: run.id, Seq: next, Err: errors.New("the run has no events")}
	}
	return page, nil
}

func decode(run string, first, n int64, row []byte) ([]journal.Event, error) {
	events, err := journal.DecodeRow(run, first, row)
	if err == nil && int64(len(events)) != n {
		err = &journal.CorruptError{Run: run, Seq: first, Err: fmt.Errorf("a row of %d events has %d", n, len(events))}
	}
	return events, err
}
