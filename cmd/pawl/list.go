package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-go/pawl/journal"
)

type listCmd struct {
	Status []journal.Status `help:"Only runs of these statuses: ${statuses}." placeholder:"STATUS"`

	Kind journal.RunKind `help:"Only runs of a graph, or only of a workflow." placeholder:"graph|workflow"`

	Name text `help:"Only runs of the graph or workflow of this name." placeholder:"NAME"`

	Thread text `help:"Only turns of this conversation." placeholder:"NAME"`

	Queue text `help:"Only runs of this queue." placeholder:"NAME"`

	LinkedTo text `help:"Only runs that come from this one: retries, forks, children, next turns." placeholder:"ID"`

	Limit int `default:"100" help:"How many at most."`

	Cursor string `help:"Go on behind the page that ended with this." placeholder:"CURSOR"`
}

// Validate implements kong.Validatable.
func (c *listCmd) Validate() error {
	for _, status := range c.Status {
		if !slices.Contains(statuses(), status) {
			return fmt.Errorf("--status %s: it is one of %s", quoted(string(status)), statusList())
		}
	}
	switch {
	case c.Kind != "" && c.Kind != journal.GraphRun && c.Kind != journal.WorkflowRun:
		return fmt.Errorf("--kind %s: it is graph or workflow", quoted(string(c.Kind)))
	case c.Limit < 1:
		return fmt.Errorf("--limit %d: it is at least 1", c.Limit)
	case strings.Trim(c.Cursor, "0123456789") != "":
		return fmt.Errorf("--cursor %s: it is none that a page has ended with", quoted(c.Cursor))
	}
	return nil
}

// statuses are those that a run can have.
func statuses() []journal.Status {
	return []journal.Status{
		journal.Pending, journal.Running, journal.Suspended, journal.Completed, journal.Failed, journal.Cancelled, journal.Continued,
	}
}

func statusList() string {
	all := statuses()
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

// page is a list as JSON.
type page struct {
	Runs []journal.Run `json:"runs"`
	// Next is what --cursor takes for the next page.
	Next string `json:"next,omitempty"`
}

// Run lists runs.
func (c *listCmd) Run(ctx context.Context, s *session) error {
	return s.withStore(ctx, func(db store) error {
		p, err := db.List(ctx, journal.Query{
			Status: c.Status, Kind: c.Kind, Name: string(c.Name), Thread: string(c.Thread), Queue: string(c.Queue),
			LinkedTo: string(c.LinkedTo), Limit: c.Limit, Cursor: c.Cursor,
		})
		switch {
		case err != nil:
			return err
		case s.json:
			s.out.json(page{Runs: append([]journal.Run{}, p.Runs...), Next: p.Next})
		case len(p.Runs) == 0:
			s.notes.printf("no runs\n")
		default:
			return s.listed(ctx, db, p)
		}
		return nil
	})
}

func (s *session) listed(ctx context.Context, db store, p journal.Page) error {
	queues := slices.ContainsFunc(p.Runs, func(r journal.Run) bool { return r.Queue != "" })
	t := s.out.table()
	row := func(queue string, cells ...string) {
		if queues {
			cells = slices.Insert(cells, 3, queue) // before the status
		}
		t.row(cells...)
	}
	row("QUEUE", "ID", "KIND", "NAME", "STATUS", "CREATED", "UPDATED", "NOTE")
	for i := range p.Runs {
		r := &p.Runs[i]
		o, err := outlookOf(ctx, db, r)
		if err != nil {
			return err
		}
		queue := ""
		if r.Queue != "" {
			queue = printable(r.Queue)
		}
		row(queue, printable(r.ID), printable(string(r.Kind)), printable(r.Name), printable(string(r.Status)),
			s.ago(r.Created), s.ago(r.Updated), s.note(r, &o))
	}
	t.end()
	if p.Next != "" {
		s.notes.printf("more with --cursor %s\n", p.Next)
	}
	return nil
}

// note says what else is worth knowing of a run in a list.
func (s *session) note(r *journal.Run, o *outlook) string {
	var parts []string
	if r.Link.Kind != "" {
		parts = append(parts, linkText(r.Link))
	}
	if text := s.outlook(r, o); text != "" {
		parts = append(parts, text)
	}
	if r.Owner != "" {
		parts = append(parts, s.leaseText(r))
	}
	return strings.Join(parts, "; ")
}

// linkText says where a run comes from.
func linkText(l journal.Link) string {
	from := printable(l.Run)
	switch l.Kind {
	case journal.RetryOf:
		return "retry of " + from
	case journal.ForkOf:
		return fmt.Sprintf("fork of %s behind super-step %d", from, l.SuperStep)
	case journal.TurnAfter:
		return "turn after " + from
	case journal.ChildOf:
		return "child of " + from
	case journal.Continuation:
		return "continues " + from
	}
	return printable(string(l.Kind)) + " of " + from
}

func (s *session) leaseText(r *journal.Run) string {
	return fmt.Sprintf("held by %s, lease ends in %s", printable(r.Owner), age(r.Until.Sub(s.now)))
}
