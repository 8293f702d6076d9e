package postgres

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
func (s *Store) List(ctx context.Context, q journal.Query) (page journal.Page, err error) {
	if q.Limit <= 0 {
		q.Limit = pageLimit
	}
	query, args, err := listing(&q)
	if err != nil {
		return journal.Page{}, err
	}
	err = s.asking(ctx, "list runs", "", func(ctx context.Context) error {
		page, err = s.list(ctx, query, args, q.Limit)
		return err
	})
	if err != nil {
		return journal.Page{}, err
	}
	return page, nil
}

// listing is the statement of a query, and its arguments.
func listing(q *journal.Query) (query string, args []any, err error) {
	where := "true"
	add := func(condition string, value any) {
		args = append(args, value)
		where += " AND " + strings.ReplaceAll(condition, "?", "$"+strconv.Itoa(len(args)))
	}
	if q.Kind != "" {
		add("kind = ?", text(q.Kind))
	}
	if q.Name != "" {
		add("name = ?", text(q.Name))
	}
	if q.Thread != "" {
		add("thread <> '' AND sha256(thread) = sha256(?) AND thread = ?", text(q.Thread))
	}
	if q.Queue != "" {
		add("queue <> '' AND sha256(queue) = sha256(?) AND queue = ?", text(q.Queue))
	}
	if q.LinkedTo != "" {
		add("link_run <> '' AND sha256(link_run) = sha256(?) AND link_run = ?", text(q.LinkedTo))
	}
	if len(q.Status) > 0 {
		add("status = ANY(?)", statusNames(q.Status))
	}
	if q.Cursor != "" {
		key, err := strconv.ParseInt(q.Cursor, 10, 64)
		if err != nil || key < 1 {
			return "", nil, fmt.Errorf("pawl: cursor %s: not one of this store: take Next of one of its pages", quote(q.Cursor))
		}
		add("key < ?", key)
	}
	args = append(args, q.Limit+1)
	return "SELECT " + runColumns + " FROM runs WHERE " + where + " ORDER BY key DESC LIMIT $" + strconv.Itoa(len(args)), args, nil
}

// statusNames are statuses as the database compares them. What is no text it has is no status either.
func statusNames(statuses []journal.Status) []string {
	names := make([]string, 0, len(statuses))
	for _, status := range statuses {
		names = append(names, strings.ReplaceAll(strings.ToValidUTF8(string(status), "?"), "\x00", "?"))
	}
	return names
}

func (s *Store) list(ctx context.Context, query string, args []any, limit int) (page journal.Page, err error) {
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return page, err
	}
	defer rows.Close()
	var last int64
	for rows.Next() {
		if len(page.Runs) == limit {
			page.Next = strconv.FormatInt(last, 10)
			break
		}
		r, key, err := scanRun(rows)
		if err != nil {
			return page, err
		}
		page.Runs, last = append(page.Runs, r), key
	}
	rows.Close()
	return page, rows.Err()
}
