package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// pageLimit is how many runs a page has where the query does not say.
const pageLimit = 100

// List implements journal.Lister.
func (s *Store) List(ctx context.Context, q journal.Query) (journal.Page, error) {
	if err := ctx.Err(); err != nil {
		return journal.Page{}, err
	}
	before, err := parseCursor(q.Cursor)
	if err != nil {
		return journal.Page{}, err
	}
	limit := q.Limit
	if limit <= 0 {
		limit = pageLimit
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var page journal.Page
	var last int64
	now := time.Now()
	for _, e := range slices.Backward(s.order[:s.position(before)]) {
		if !matches(&e.run, &q) {
			continue
		}
		if len(page.Runs) == limit {
			page.Next = strconv.FormatInt(last, 10)
			break
		}
		page.Runs = append(page.Runs, e.record(now))
		last = e.serial
	}
	return page, nil
}

// parseCursor returns the serial that a page stands before; 0 if it is the first one.
func parseCursor(cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	serial, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil || serial < 1 {
		return 0, fmt.Errorf("pawl: cursor %s: not one of this store: take Next of one of its pages", quote(cursor))
	}
	return serial, nil
}

// position returns the index of the first run in s.order whose serial is not smaller; 0 asks for the end.
func (s *Store) position(serial int64) int {
	if serial == 0 {
		return len(s.order)
	}
	i, _ := slices.BinarySearchFunc(s.order, serial, func(e *entry, serial int64) int { return cmp.Compare(e.serial, serial) })
	return i
}

func matches(r *journal.Run, q *journal.Query) bool {
	return (len(q.Status) == 0 || slices.Contains(q.Status, r.Status)) &&
		(q.Kind == "" || q.Kind == r.Kind) &&
		(q.Name == "" || q.Name == r.Name) &&
		(q.Thread == "" || q.Thread == r.Thread) &&
		(q.Queue == "" || q.Queue == r.Queue) &&
		(q.LinkedTo == "" || q.LinkedTo == r.Link.Run)
}

// Delete implements journal.Deleter.
func (s *Store) Delete(ctx context.Context, run string) error {
	if err := check(ctx, run); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.find(run)
	if err != nil {
		return err
	}
	if e.held(time.Now()) {
		return locked(e)
	}
	i := s.position(e.serial)
	s.order = slices.Delete(s.order, i, i+1)
	delete(s.runs, run)
	s.leave(e)
	return nil
}

// Prune implements journal.Deleter.
func (s *Store) Prune(ctx context.Context, before time.Time, statuses ...journal.Status) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	kept := len(s.order)
	s.order = slices.DeleteFunc(s.order, func(e *entry) bool {
		chosen := e.run.Status.Terminal()
		if len(statuses) > 0 {
			chosen = slices.Contains(statuses, e.run.Status)
		}
		if !chosen || !e.run.Updated.Before(before) || e.held(now) {
			return false
		}
		delete(s.runs, e.run.ID)
		s.leave(e)
		return true
	})
	return kept - len(s.order), nil
}
