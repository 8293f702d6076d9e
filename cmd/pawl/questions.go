package main

import (
	"context"

	"github.com/pawl-go/pawl/journal"
)

type questionsCmd struct {
	ID text `arg:"" help:"The run."`

	Open bool `help:"Only those that wait for an answer."`
}

// Help implements kong.HelpProvider.
func (c *questionsCmd) Help() string {
	return "A question is open, sent if it has an answer that the run has not taken yet, or answered. With --json there is one " +
		"object for each, on a line of its own."
}

// Run prints questions.
func (c *questionsCmd) Run(ctx context.Context, s *session) error {
	id := string(c.ID)
	return s.withStore(ctx, func(db store) error {
		v, err := look(ctx, db, id)
		if err != nil {
			return s.explained(err)
		}
		for _, q := range v.Questions {
			switch {
			case c.Open && (q.State != open || v.Run.Status.Terminal()):
			case s.json:
				s.out.json(q)
			default:
				s.out.printf("%s: %s\n", printable(q.ID), questionState(q, &v.Run))
				for _, line := range q.lines() {
					s.out.printf("    %s\n", line)
				}
			}
		}
		return nil
	})
}

// questionState says what has become of a question.
func questionState(q *question, r *journal.Run) string {
	switch {
	case q.State == open && r.Status.Terminal():
		return "never answered"
	case q.State == sent && !r.Status.Terminal():
		return "has an answer, which the run takes " + takenWhen(r)
	}
	return q.State
}

// takenWhen says when a run goes on that waits for nothing any more.
func takenWhen(r *journal.Run) string {
	if r.Queue == "" {
		return "when your program runs it again"
	}
	return "when a worker of queue " + printable(r.Queue) + " goes on with it"
}
