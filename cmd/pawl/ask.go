package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
)

type updateCmd struct {
	askFlags

	Key text `help:"Of the updates of a run with the same key only the first counts: asking again is harmless." placeholder:"KEY"`
}

type queryCmd struct{ askFlags }

// askFlags are what updates and queries have in common.
type askFlags struct {
	ID text `arg:"" help:"The run."`

	Name text `arg:"" help:"The name that the workflow's handler has."`

	Arg text `arg:"" default:"null" help:"The argument, as JSON; - reads it from standard input. Default: null." optional:""`

	String bool `help:"The argument is a string, and needs no quotes of JSON." short:"s"`

	Timeout time.Duration `default:"30s" help:"How long to wait at most; 0 is as long as it takes."`
}

// Help implements kong.HelpProvider.
func (c *updateCmd) Help() string {
	return `Example:

	pawl runs update cart-7 add --string tea --key tea-1

It prints what the workflow's handler has returned, as JSON. Somebody must run the run meanwhile: a worker of its queue takes a
run that waits. What has not been handled in time may still be; ask again with the same key. The exit code tells apart what
the run has rejected, and is as it was, and what has failed.`
}

// Help implements kong.HelpProvider.
func (c *queryCmd) Help() string {
	return "It prints what the workflow's handler has answered, as JSON, and changes nothing. Somebody must run the run meanwhile: a " +
		"worker of its queue takes a run that waits."
}

// answerTo is what has come of an update or a query, as JSON.
type answerTo struct {
	Run    string          `json:"run"`
	Update string          `json:"update,omitempty"`
	Query  string          `json:"query,omitempty"`
	Result json.RawMessage `json:"result"`
}

// Run sends an update.
func (c *updateCmd) Run(ctx context.Context, s *session) error {
	return c.ask(ctx, s, "update", func(ctx context.Context, run client.Target, arg json.RawMessage) (*answerTo, error) {
		var opts []durable.SendOption
		if c.Key != "" {
			opts = append(opts, durable.SendKey(string(c.Key)))
		}
		result, err := client.Update[json.RawMessage](ctx, run, string(c.Name), arg, opts...)
		return &answerTo{Run: run.ID(), Update: string(c.Name), Result: result}, err
	})
}

// Run asks a query.
func (c *queryCmd) Run(ctx context.Context, s *session) error {
	return c.ask(ctx, s, "query", func(ctx context.Context, run client.Target, arg json.RawMessage) (*answerTo, error) {
		result, err := client.Query[json.RawMessage](ctx, run, string(c.Name), arg)
		return &answerTo{Run: run.ID(), Query: string(c.Name), Result: result}, err
	})
}

func (c *askFlags) ask(
	ctx context.Context, s *session, what string,
	do func(ctx context.Context, run client.Target, arg json.RawMessage) (*answerTo, error),
) error {
	arg, err := givenJSON(string(c.Arg), c.String, "argument", s.in)
	if err != nil {
		return err
	}
	id := string(c.ID)
	return s.withClient(ctx, func(db store, runs *client.Client) error {
		if err := takesJSON(ctx, db, id, what); err != nil {
			return s.explained(err)
		}
		ctx, cancel := within(ctx, c.Timeout)
		defer cancel()
		a, err := do(ctx, runs.Handle(id), arg)
		switch {
		case err != nil:
			return s.explained(err)
		case s.json:
			s.out.json(a)
		default:
			s.out.printf("%s\n", strings.TrimSpace(oneLine(a.Result)))
		}
		return nil
	})
}

// askExit is the exit code for an update or a query that has no result; 0 if the error is another one.
func askExit(err error) int {
	reason := durable.Refusal("")
	if rejected, ok := errors.AsType[*durable.UpdateRejectedError](err); ok {
		reason = rejected.Reason
	}
	if unanswered, ok := errors.AsType[*durable.QueryError](err); ok {
		reason = unanswered.Reason
	}
	if late, ok := errors.AsType[*durable.UpdateTimeoutError](err); ok && late.Timeout() {
		return exitLate
	}
	if has[*durable.UpdateFailedError](err) {
		return exitFailure
	}
	switch reason {
	case "":
		return 0
	case durable.RefusedUnknown:
		return exitNotFound
	case durable.QueryFailed:
		return exitFailure
	case durable.QueryTimeout:
		return exitLate
	}
	return exitRefused
}

// lateUpdate says how to ask again.
func lateUpdate(e *durable.UpdateTimeoutError) error {
	return &exitError{code: exitLate, err: e, text: fmt.Sprintf("update %s was not handled by run %s in time: it may still be: ask again "+
		"with --key %s, which does not send it twice", quoted(e.Name), quoted(e.RunID), shellWord(e.Key))}
}
