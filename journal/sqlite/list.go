package sqlite

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawl-go/pawl/journal"
)

// pageLimit is how many runs a page has where the query does not say.
const pageLimit = 100

// List implements journal.Lister.
func (s *Store) List(ctx context.Context, q journal.Query) (journal.Page, error) {
	if err := s.begin(ctx); err != nil {
		return journal.Page{}, err
	}
	defer s.end()
	where, args, err := conditions(&q)
	if err != nil {
		return journal.Page{}, err
	}
	if q.Limit <= 0 {
		q.Limit = pageLimit
	}
	page, err := s.list(ctx, where, append(args, q.Limit+1), q.Limit)
	if err != nil {
		return journal.Page{}, s.fault("list runs", "", false, err)
	}
	return page, nil
}

// conditions are those of a query, and their arguments.
func conditions(q *journal.Query) (where string, args []any, err error) {
	where = "true"
	add := func(condition, value string) {
		if value != "" {
			where += " AND " + condition
			args = append(args, value)
		}
	}
	add("kind = ?", string(q.Kind))
	add("name = ?", q.Name)
	add("thread <> '' AND thread = ?", q.Thread)
	add("queue = ?", q.Queue)
	add("link_run <> '' AND link_run = ?", q.LinkedTo)
	if len(q.Status) > 0 {
		where += " AND status IN (?" + strings.Repeat(", ?", len(q.Status)-1) + ")"
		for _, status := range q.Status {
			args = append(args, string(status))
		}
	}
	if q.Cursor != "" {
		key, err := strconv.ParseInt(q.Cursor, 10, 64)
		if err != nil || key < 1 {
			return "", nil, fmt.Errorf("pawl: cursor %s: not one of this store: take Next of one of its pages", quote(q.Cursor))
		}
		where += " AND key < ?"
		args = append(args, key)
	}
	return where, args, nil
}

func (s *Store) list(ctx context.Context, where string, args []any, limit int) (page journal.Page, err error) {
	if err := s.committer.files.checkMain(); err != nil {
		return page, err
	}
	//nolint:gosec // only the texts of conditions above are part of the statement; all values are arguments
	query := "SELECT " + runColumns + " FROM runs WHERE " + where + " ORDER BY key DESC LIMIT ?"
	rows, err := s.reader.QueryContext(ctx, query, args...)
	if err != nil {
		return page, err
	}
	defer func() { _ = rows.Close() }()
	var last int64
	v := s.view()
	for rows.Next() {
		if len(page.Runs) == limit {
			page.Next = strconv.FormatInt(last, 10)
			break
		}
		r, key, err := v.scan(rows.Scan)
		if err != nil {
			return page, err
		}
		page.Runs, last = append(page.Runs, r), key
	}
	return page, rows.Err()
}
