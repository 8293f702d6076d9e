package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

type showCmd struct {
	ID text `arg:"" help:"The run."`
}

// Help implements kong.HelpProvider.
func (c *showCmd) Help() string {
	return "The timeline shows when each thing began, counted from the run's start. It shows the texts of errors and questions, but no " +
		"inputs, results or answers: \"runs events --payloads\" prints those."
}

// shown is a run as JSON.
type shown struct {
	Run journal.Run `json:"run"`
	// Linked are runs that come from this one, the newest first, at most 100.
	Linked []journal.Run `json:"linked"`
	// Left are the tasks of SuperStep, planned and without an outcome, of a run that has not completed.
	SuperStep int         `json:"super_step,omitempty"`
	Left      []string    `json:"left,omitempty"`
	Timeline  []*item     `json:"timeline"`
	Questions []*question `json:"questions"`
}

// Run shows a run.
func (c *showCmd) Run(ctx context.Context, s *session) error {
	id := string(c.ID)
	return s.withStore(ctx, func(db store) error {
		v, err := look(ctx, db, id)
		if err != nil {
			return s.explained(err, id)
		}
		if s.json {
			s.out.json(v)
			return nil
		}
		s.header(v)
		s.out.printf("\n")
		s.timeline(v.Timeline)
		s.questions(v)
		return nil
	})
}

// look reads all that is shown of a run.
func look(ctx context.Context, db store, id string) (*shown, error) {
	run, err := db.Load(ctx, id)
	if err != nil {
		return nil, err
	}
	linked, err := db.List(ctx, journal.Query{LinkedTo: id})
	if err != nil {
		return nil, err
	}
	t := newTimeline()
	for e, err := range db.Events(ctx, id, 0) {
		if err != nil {
			return nil, err
		}
		t.add(e)
	}
	if err := t.lookForAnswers(ctx, db, id); err != nil {
		return nil, err
	}
	v := &shown{
		Run: run, Linked: append([]journal.Run{}, linked.Runs...),
		Timeline: t.top, Questions: append([]*question{}, t.questions...),
	}
	switch run.Status {
	case journal.Completed, journal.Cancelled, journal.Continued:
	default:
		v.SuperStep, v.Left = t.left()
	}
	return v, nil
}

// lookForAnswers finds the questions whose answers were sent and not taken yet.
func (t *timeline) lookForAnswers(ctx context.Context, db store, id string) error {
	answered := map[string]bool{}
	questions, err := durable.Questions(ctx, db, id)
	switch {
	case err == nil:
		for _, q := range questions {
			answered[q.ID] = q.Answered
		}
	case errors.As(err, new(*durable.ReplayError)): // they are encoded, so that nobody can tell whether an answer fits
		inbox, err := db.Inbox(ctx, id, 0)
		if err != nil {
			return err
		}
		for _, m := range inbox {
			answered[m.Name] = answered[m.Name] || m.Kind == journal.AnswerMessage
		}
	default:
		return err
	}
	for _, q := range t.questions {
		if q.State == open && answered[q.ID] {
			q.State = sent
		}
	}
	return nil
}

// header prints the record.
func (s *session) header(v *shown) {
	r := &v.Run
	t := s.out.table()
	row := func(name, value string) {
		if value != "" {
			t.row(name, value)
		}
	}
	row("run", printable(r.ID))
	what := fmt.Sprintf("%s %s", printable(string(r.Kind)), printable(r.Name))
	if r.Version != "" {
		what += ", version " + printable(r.Version)
	}
	row("of", what)
	row("status", s.statusText(r))
	row("created", fmt.Sprintf("%s (%s)", clock(r.Created), s.ago(r.Created)))
	if r.Thread != "" {
		row("thread", printable(r.Thread))
	}
	if r.Link.Kind != "" {
		row("from", linkText(r.Link))
	}
	if r.Owner != "" {
		row("owner", s.leaseText(r))
	}
	row("events", strconv.FormatInt(r.Head, 10))
	if len(v.Left) > 0 {
		row("to do", fmt.Sprintf("%s, in super-step %d", few(v.Left), v.SuperStep))
	}
	for i := range v.Linked {
		l := &v.Linked[i]
		row(linkNames[l.Link.Kind], fmt.Sprintf("%s (%s)", printable(l.ID), l.Status))
	}
	t.end()
}

// linkNames say what a run that comes from another one is to that.
var linkNames = map[journal.LinkKind]string{ //nolint:gochecknoglobals // a constant table
	journal.RetryOf: "retried as", journal.ForkOf: "forked as", journal.TurnAfter: "next turn", journal.ChildOf: "child",
	journal.Continuation: "continued as",
}

func (s *session) statusText(r *journal.Run) string {
	text := fmt.Sprintf("%s, since %s (%s)", printable(string(r.Status)), clock(r.Updated), s.ago(r.Updated))
	if !r.Due.IsZero() && r.Status == journal.Suspended {
		text += ", due " + s.until(r.Due)
	}
	return text
}

// few are names, of which there may be many.
func few(names []string) string {
	const most = 10
	if len(names) <= most {
		return list(names)
	}
	return fmt.Sprintf("%s and %d more", list(names[:most]), len(names)-most)
}

// questions prints the questions that can be answered, and what else can be done.
func (s *session) questions(v *shown) {
	r := &v.Run
	if r.Status == journal.Failed {
		s.out.printf("\nGo on where it failed: %s\n", s.command("runs retry", r.ID))
	}
	if r.Status.Terminal() {
		return
	}
	for _, q := range v.Questions {
		switch q.State {
		case open:
			s.out.printf("\nopen question %s\n", printable(q.ID))
		case sent:
			s.out.printf("\nquestion %s has an answer, which the run takes when your program runs it again\n", printable(q.ID))
			continue
		default:
			continue
		}
		if q.Encoded {
			s.out.printf("    %s: answer it from a program that has the codec\n", encoded)
			continue
		}
		for _, line := range textLines(asText(q.Question)) {
			s.out.printf("    %s\n", line)
		}
		s.out.printf("    Answer it with %s: %s %s\n", q.Wants, s.command("runs answer", r.ID, q.ID), "VALUE")
	}
}
