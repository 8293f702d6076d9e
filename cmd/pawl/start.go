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
	"github.com/pawl-go/pawl/journal"
)

type startCmd struct {
	Name text `arg:"" help:"The workflow's name."`

	Input text `arg:"" default:"null" help:"The input, as JSON; - reads it from standard input. Default: null." optional:""`

	Version text `help:"The workflow's version, if it has one." placeholder:"VERSION"`

	Queue text `default:"default" help:"The queue whose workers take it." placeholder:"NAME"`

	startFlags
}

type startLikeCmd struct {
	Like text `arg:"" help:"The other run." name:"id"`

	Input text `arg:"" help:"The input, as JSON; - reads it from standard input. Default: that of the other run." optional:""`

	Queue text `help:"The queue whose workers take it. Default: that of the other run, or else default." placeholder:"NAME"`

	startFlags
}

// startFlags are what both ways to start a run have.
type startFlags struct {
	String bool `help:"The input is a string, and needs no quotes of JSON." short:"s"`

	New text `help:"The id of the new run. Default: a random one. If it is there already, nothing is started." name:"id" placeholder:"ID"`

	Delay time.Duration `help:"No worker takes the run before this has passed." placeholder:"DURATION"`

	At time.Time `help:"No worker takes the run before this time: 2006-01-02T15:04:05Z." placeholder:"TIME"`

	Dedup text `help:"If a run has this key that has not ended, nothing is started." placeholder:"KEY"`
}

// Validate implements kong.Validatable.
func (f *startFlags) Validate() error {
	switch {
	case f.Delay < 0:
		return fmt.Errorf("--delay %v: it is not negative", f.Delay)
	case f.Delay > 0 && !f.At.IsZero():
		return errors.New("--delay and --at exclude each other")
	}
	return nil
}

func (f *startFlags) options(queue text) []client.StartOption {
	opts := []client.StartOption{client.Dedup(string(f.Dedup))}
	if f.New != "" {
		opts = append(opts, client.ID(string(f.New)))
	}
	if queue != "" {
		opts = append(opts, client.Queue(string(queue)))
	}
	if f.Delay > 0 {
		opts = append(opts, client.Delay(f.Delay))
	}
	if !f.At.IsZero() {
		opts = append(opts, client.StartAt(f.At))
	}
	return opts
}

// Help implements kong.HelpProvider.
func (c *startCmd) Help() string {
	return `Examples:

	pawl runs start sync '{"account": "acme"}' --id sync-acme
	pawl runs start report --string acme --queue night --delay 2h

A worker of the queue that has the workflow takes the run. Nobody checks the input before: a run whose input is not what
the workflow takes fails. Of a graph, use "runs start-like".`
}

// Help implements kong.HelpProvider.
func (c *startLikeCmd) Help() string {
	return "The new run is of the same workflow or graph, in the same version. It goes its own way, from the beginning: to go on " +
		"where a failed run failed, use \"runs retry\"."
}

// started is a start as JSON.
type started struct {
	Run journal.Run `json:"run"`
	// Existing is true if the run was there already.
	Existing bool `json:"existing"`
}

// Run starts a run of a workflow.
func (c *startCmd) Run(ctx context.Context, s *session) error {
	input, err := givenJSON(string(c.Input), c.String, "input", s.in)
	if err != nil {
		return err
	}
	return s.withClient(ctx, func(_ store, runs *client.Client) error {
		p := journal.Program{Kind: journal.WorkflowRun, Name: string(c.Name), Version: string(c.Version)}
		h, err := runs.StartRaw(ctx, p, input, c.options(c.Queue)...)
		return s.started(ctx, h, err)
	})
}

// Run starts a run like another one.
func (c *startLikeCmd) Run(ctx context.Context, s *session) error {
	var input json.RawMessage
	if c.Input != "" || c.String {
		var err error
		if input, err = givenJSON(string(c.Input), c.String, "input", s.in); err != nil {
			return err
		}
	}
	return s.withClient(ctx, func(db store, runs *client.Client) error {
		like := string(c.Like)
		if err := takesJSON(ctx, db, like, "start"); err != nil {
			return s.explained(err)
		}
		h, err := runs.StartLike(ctx, like, input, c.options(c.Queue)...)
		return s.started(ctx, h, s.explained(err))
	})
}

func (s *session) started(ctx context.Context, h *client.Handle[json.RawMessage], err error) error {
	if err != nil {
		return err
	}
	run, err := h.Get(ctx)
	switch {
	case err != nil:
		return s.explained(err)
	case s.json:
		s.out.json(started{Run: run, Existing: h.Existing()})
	case h.Existing():
		s.out.printf("run %s is there already, and is %s\n", printable(run.ID), run.Status)
	default:
		text := fmt.Sprintf("started run %s in queue %s", printable(run.ID), printable(run.Queue))
		if run.Due.After(s.now) {
			text += ", not before " + clock(run.Due)
		}
		s.out.printf("%s\n", text)
	}
	return nil
}

type resultCmd struct {
	ID text `arg:"" help:"The run."`

	Timeout time.Duration `help:"How long to wait at most. Default: as long as it takes." placeholder:"DURATION"`
}

// Help implements kong.HelpProvider.
func (c *resultCmd) Help() string {
	return "It prints the result as JSON. Of a run that was continued as new it is that of the run that it goes on as in the end. " +
		"The exit code tells whether the run has failed, was cancelled, or has not ended in time."
}

// outcome is a result as JSON.
type outcome struct {
	Run    string          `json:"run"`
	Result json.RawMessage `json:"result"`
}

// Run waits for a run.
func (c *resultCmd) Run(ctx context.Context, s *session) error {
	id := string(c.ID)
	return s.withClient(ctx, func(_ store, runs *client.Client) error {
		ctx, cancel := within(ctx, c.Timeout)
		defer cancel()
		result, err := runs.Handle(id).Result(ctx)
		if err != nil {
			return s.explained(unreadable(err, "result", id))
		}
		if s.json {
			s.out.json(outcome{Run: id, Result: result})
			return nil
		}
		s.out.printf("%s\n", strings.TrimSpace(oneLine(result)))
		return nil
	})
}

// within bounds a context, unless d is 0.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

// unreadable says of what cannot be read why that may be.
func unreadable(err error, what, id string) error {
	if has[*durable.ReplayError](err) {
		return fmt.Errorf("the %s of run %s cannot be read: if its payloads are encoded by a codec, read it from a program that has the "+
			"codec: %w", what, quoted(id), err)
	}
	return err
}
