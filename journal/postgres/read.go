package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawl-go/pawl/journal"
)

// text is a string of any bytes on its way to or from a bytea column.
type text string //nolint:recvcheck // a value is written, a variable read into

// BytesValue implements pgtype.BytesValuer.
func (t text) BytesValue() ([]byte, error) { return []byte(t), nil }

// ScanBytes implements pgtype.BytesScanner.
func (t *text) ScanBytes(b []byte) error {
	*t = text(b)
	return nil
}

const (
	headOf     = `(SELECT seq + n - 1 FROM events WHERE run = runs.key ORDER BY seq DESC LIMIT 1)`
	runColumns = `key, id, kind, name, version, fingerprint, thread, link_kind, link_run, link_step, queue, dedup, created, status,
	updated, due, checkpoint, owner, until, coalesce(` + headOf + `, 0),
	CASE WHEN until > clock_timestamp() THEN NOT pg_try_advisory_xact_lock_shared(holder) ELSE false END`
	selectRun = "SELECT " + runColumns + " FROM runs WHERE hash = $1"
)

// scanRun reads the columns of runColumns. A lease that has lapsed, or whose session is gone, is nobody's.
// What is behind them goes to more.
func scanRun(row pgx.Row, more ...any) (r journal.Run, key int64, err error) {
	var created, updated, due, until *time.Time
	var held bool
	err = row.Scan(append([]any{
		&key, (*text)(&r.ID), texted(&r.Kind), (*text)(&r.Name), (*text)(&r.Version), (*text)(&r.Fingerprint),
		(*text)(&r.Thread), texted(&r.Link.Kind), (*text)(&r.Link.Run), &r.Link.SuperStep, (*text)(&r.Queue), (*text)(&r.Dedup),
		&created, &r.Status, &updated, &due, &r.Checkpoint, (*text)(&r.Owner), &until, &r.Head, &held,
	}, more...)...)
	r.Created, r.Updated, r.Due, r.Until = fromTime(created), fromTime(updated), fromTime(due), fromTime(until)
	if !held {
		r.Owner, r.Until = "", time.Time{}
	}
	return r, key, err
}

// texted is where a bytea column goes that has a string of a type of its own.
func texted[T ~string](s *T) *typed[T] { return &typed[T]{s} }

type typed[T ~string] struct{ to *T }

// ScanBytes implements pgtype.BytesScanner.
func (t *typed[T]) ScanBytes(b []byte) error {
	*t.to = T(b)
	return nil
}

// toTime is a time as the database has it: NULL is none.
func toTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func fromTime(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// Load implements journal.Store.
func (s *Store) Load(ctx context.Context, run string) (r journal.Run, err error) {
	id := hashOf(run)
	err = s.reading(ctx, "load", run, func(ctx context.Context) error {
		r, _, err = scanRun(s.pool.QueryRow(ctx, selectRun, id[:]))
		return err
	})
	return r, err
}

// reading does what reads of one run have in common.
func (s *Store) reading(ctx context.Context, op, run string, f func(context.Context) error) error {
	if err := journal.CheckID(run); err != nil {
		return err
	}
	err := s.asking(ctx, op, run, f)
	if isMissing(err) {
		return &journal.NotFoundError{Run: run}
	}
	return err
}

// asking does what all reads have in common. One that fails for want of a connection is done again, for as long as calls wait
// for the server.
func (s *Store) asking(ctx context.Context, op, run string, f func(context.Context) error) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.end()
	return s.ask(ctx, op, run, f)
}

// ask is asking within a call that has begun.
func (s *Store) ask(ctx context.Context, op, run string, f func(context.Context) error) error {
	within, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	for {
		err := f(within)
		if err == nil || isMissing(err) {
			return err
		}
		if isOurs(err) || !mayPass(err) && ctx.Err() == nil {
			return s.fault(op, run, false, err)
		}
		if within.Err() == nil {
			rest(within, readPause)
		}
		if ended := ctx.Err(); errors.Is(ended, context.DeadlineExceeded) {
			return &journal.UnavailableError{Op: op + " in " + s.place, Err: ended}
		} else if ended != nil {
			return ended
		}
		if within.Err() != nil {
			return s.fault(op, run, false, err)
		}
	}
}

const readPause = 20 * time.Millisecond

// Events implements journal.Store. It reads a part of the journal at a time, and holds nothing while the loop's body runs.
func (s *Store) Events(ctx context.Context, run string, after int64) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		at, after := runRef{id: run}, min(max(after, 0), math.MaxInt64-1)
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

// runRef is how a run is found once its id has been looked up.
type runRef struct {
	id  string
	key int64
}

func (s *Store) page(ctx context.Context, at *runRef, after int64) (page []journal.Event, err error) {
	err = s.reading(ctx, "read events", at.id, func(ctx context.Context) error {
		if at.key == 0 {
			id := hashOf(at.id)
			if err := s.pool.QueryRow(ctx, "SELECT key FROM runs WHERE hash = $1", id[:]).Scan(&at.key); err != nil {
				return err
			}
		}
		page, err = readPage(ctx, s.pool, *at, after)
		return err
	})
	return page, err
}

// selectRows finds the row that has the event behind a number, and those behind it, up to a size.
const selectRows = `SELECT seq, n, data FROM (
		SELECT seq, n, data, sum(octet_length(data)) OVER (ORDER BY seq ROWS UNBOUNDED PRECEDING) - octet_length(data) AS before
		FROM (SELECT seq, n, data FROM events WHERE run = $1 AND seq >= coalesce(
			(SELECT max(seq) FROM events WHERE run = $1 AND seq <= $2), 0) ORDER BY seq LIMIT 256) AS behind
	) AS sized WHERE before < $3 ORDER BY seq`

// pageBytes is how much is read at a time, beyond the last row.
const pageBytes = 1 << 20

// querier is a connection or a pool.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// readPage returns the events behind a number, or some of them, or none if there are none. What could be read before a fault
// is returned beside it.
func readPage(ctx context.Context, db querier, run runRef, after int64) (page []journal.Event, err error) {
	next := after + 1
	rows, err := db.Query(ctx, selectRows, run.key, next, pageBytes)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var first, n int64
		var row pgtype.DriverBytes
		if err := rows.Scan(&first, &n, &row); err != nil {
			return page, err
		}
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
