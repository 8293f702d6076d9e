package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

type answerCmd struct {
	ID text `arg:"" help:"The run."`

	Question text `arg:"" help:"The question's id, as \"runs show\" prints it; - if there is only one open question."`

	Value text `arg:"" help:"The answer, as JSON; - reads it from standard input."`

	String bool `help:"The value is a string, and needs no quotes of JSON." short:"s"`
}

// Help implements kong.HelpProvider.
func (c *answerCmd) Help() string {
	return `Examples:

	pawl runs answer tides-42 - true
	pawl runs answer tides-42 2/review[0]/ask1 --string "Shorter, please"
	pawl runs answer tides-42 ask1 '{"approved": true, "note": null}'
	pawl runs answer tides-42 ask1 -- -5

An answer that is of another type than the question's is refused, and the question stays open. The run goes on with the
answer when a worker takes it, or your program runs it again.`
}

// answered is an answer as JSON.
type answered struct {
	Run      string `json:"run"`
	Question string `json:"question"`
	// Open are the ids of questions that are still open.
	Open []string `json:"open"`
}

// Run sends an answer.
func (c *answerCmd) Run(ctx context.Context, s *session) error {
	run := string(c.ID)
	value, err := givenJSON(string(c.Value), c.String, "answer", s.in)
	if err != nil {
		return err
	}
	return s.withClient(ctx, func(_ store, runs *client.Client) error {
		questions, err := runs.Questions(ctx, run)
		if errors.As(err, new(*durable.ReplayError)) {
			return fmt.Errorf("the questions of run %s cannot be read: if its payloads are encoded by a codec, answer it from a program "+
				"that has the codec: %w", quoted(run), err)
		}
		if err != nil {
			return s.explained(err)
		}
		id, err := c.question(questions)
		if err != nil {
			return err
		}
		if err := runs.Answer(ctx, run, id, value); err != nil {
			return s.explained(wrongType(err, questions))
		}
		record, err := runs.Get(ctx, run)
		if err != nil {
			return err
		}
		s.sent(answered{Run: run, Question: id, Open: openBut(questions, id)}, &record)
		return nil
	})
}

func (s *session) sent(a answered, r *journal.Run) {
	switch {
	case s.json:
		s.out.json(a)
	case len(a.Open) > 0:
		s.out.printf("answered %s of run %s, which still asks %s\n", printable(a.Question), printable(a.Run), few(a.Open))
	default:
		s.out.printf("answered %s of run %s, which goes on %s\n", printable(a.Question), printable(a.Run), takenWhen(r))
	}
}

// question is the id of the question that is meant.
func (c *answerCmd) question(questions []durable.Question) (string, error) {
	if c.Question != "-" {
		return string(c.Question), nil
	}
	run := quoted(string(c.ID))
	open := openBut(questions, "")
	switch {
	case len(open) == 1:
		return open[0], nil
	case len(open) > 1:
		return "", &exitError{code: exitUsage, text: fmt.Sprintf("run %s asks %d questions: say which: %s", run, len(open), few(open))}
	case len(questions) > 0:
		return "", &exitError{code: exitRefused, text: fmt.Sprintf("run %s has no open question: all are answered", run)}
	}
	return "", &exitError{code: exitNotFound, text: fmt.Sprintf("run %s has asked no question", run)}
}

// openBut are the ids of the open questions, without one of them.
func openBut(questions []durable.Question, id string) []string {
	open := []string{}
	for _, q := range questions {
		if !q.Answered && q.ID != id {
			open = append(open, q.ID)
		}
	}
	return open
}

// wrongType adds to a refused answer what the question wants.
func wrongType(err error, questions []durable.Question) error {
	var refused *durable.AnswerError
	if !errors.As(err, &refused) || refused.Reason != durable.WrongType {
		return err
	}
	for _, q := range questions {
		if q.ID == refused.Question {
			text := fmt.Sprintf("the answer does not fit question %s of run %s, which wants %s: nothing was sent, and the question is "+
				"open (%v)", quoted(q.ID), quoted(refused.RunID), wants(q.Schema), refused.Err)
			return &exitError{code: exitRefused, err: err, text: text}
		}
	}
	return err
}

// list is names on one line.
func list(names []string) string {
	shown := make([]string, len(names))
	for i, n := range names {
		shown[i] = printable(n)
	}
	return strings.Join(shown, ", ")
}
