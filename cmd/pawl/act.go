package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

type retryCmd struct {
	ID text `arg:"" help:"The failed run."`

	New text `help:"The id of the new run. Default: the failed one's with -retry behind it, then -retry-2." name:"id" placeholder:"NEW"`
}

// Help implements kong.HelpProvider.
func (c *retryCmd) Help() string {
	return "The new run has all that is recorded of the failed one, answers included; what failed runs again. A worker of the same " +
		"queue takes it or, if there is none, your program runs it. Done twice with the same ids, it is made once."
}

// prepared is a retry as JSON.
type prepared struct {
	Run journal.Run `json:"run"`
	// Made is false if the run was there already.
	Made bool `json:"made"`
	// Call is the Go code that runs it; empty if a worker does.
	Call string `json:"call,omitempty"`
}

// Run makes the new run.
func (c *retryCmd) Run(ctx context.Context, s *session) error {
	failed, id := string(c.ID), string(c.New)
	if id == "" {
		id = durable.RetryID(failed)
	}
	return s.withStore(ctx, func(db store) error {
		_, before := db.Load(ctx, id)
		run, err := durable.PrepareRetry(ctx, db, failed, id)
		if conflict, ok := errors.AsType[*durable.RunConflictError](err); ok {
			return isAnother(ctx, db, conflict, failed)
		}
		if err != nil {
			return s.explained(err)
		}
		p := prepared{Run: run, Made: errors.Is(before, journal.ErrNotFound)}
		if run.Queue == "" {
			p.Call = resumeCall(run)
		}
		switch {
		case s.json:
			s.out.json(p)
		case run.Status.Terminal():
			s.out.printf("run %s is there already, and is %s; for another one give an --id\n", printable(run.ID), run.Status)
		default:
			s.out.printf("run %s is %s; %s\n", printable(run.ID), run.Status, whoGoesOn(&run))
		}
		return nil
	})
}

// isAnother says what the run is that has the id of a new one.
func isAnother(ctx context.Context, db store, conflict *durable.RunConflictError, failed string) error {
	other, err := db.Load(ctx, conflict.RunID)
	if err != nil {
		return fmt.Errorf("%w: give the new run one with --id", conflict)
	}
	what := fmt.Sprintf("%s %s", printable(string(other.Kind)), printable(other.Name))
	if other.Link.Kind != "" {
		what += " (" + linkText(other.Link) + ")"
	}
	return &exitError{code: exitRefused, err: conflict, text: fmt.Sprintf("run %s is there already, and is no retry of %s but a run of "+
		"%s: give the new run another id with --id", quoted(other.ID), quoted(failed), what)}
}

// whoGoesOn says who goes on with a run.
func whoGoesOn(r *journal.Run) string {
	if r.Queue == "" {
		return "your program goes on with it: " + resumeCall(*r)
	}
	return "a worker of queue " + printable(r.Queue) + " goes on with it"
}

// resumeCall is the code that goes on with a run.
func resumeCall(r journal.Run) string {
	if r.Kind == journal.GraphRun {
		return fmt.Sprintf("runner.Resume(ctx, %s), of a runner of graph %s with this store", strconv.Quote(r.ID), quoted(r.Name))
	}
	return fmt.Sprintf("durable.Resume(ctx, store, workflow, %s), with workflow %s and this store", strconv.Quote(r.ID), quoted(r.Name))
}

type cancelCmd struct {
	ID text `arg:"" help:"The run."`

	Reason text `help:"Why, for people. It is recorded." placeholder:"TEXT"`
}

// Help implements kong.HelpProvider.
func (c *cancelCmd) Help() string {
	return "The runs that it has started are cancelled, too, unless they were detached. If nobody is at work on the run it is cancelled " +
		"at once; if somebody is, that owner is told, and cancels it as soon as its code has returned. Cancelling a cancelled run is a " +
		"success. A cancelled run cannot be retried."
}

// cancelled is a cancel as JSON.
type cancelled struct {
	Run journal.Run `json:"run"`
	// Done is false if the run's owner was told and has not cancelled it yet.
	Done bool `json:"done"`
}

// Run cancels a run.
func (c *cancelCmd) Run(ctx context.Context, s *session) error {
	id := string(c.ID)
	return s.withClient(ctx, func(_ store, runs *client.Client) error {
		if err := runs.Cancel(ctx, id, string(c.Reason)); err != nil {
			return s.explained(err)
		}
		run, err := runs.Get(ctx, id)
		switch id := printable(id); {
		case err != nil:
			return err
		case s.json:
			s.out.json(cancelled{Run: run, Done: run.Status.Terminal()})
		case run.Status == journal.Continued:
			s.out.printf("run %s was continued as a new one, and is cancelled where it goes on\n", id)
		case run.Status.Terminal():
			s.out.printf("run %s is %s\n", id, run.Status)
		case run.Owner == "": // which it had a moment ago
			s.out.printf("run %s is cancelled %s\n", id, takenWhen(&run))
		default:
			s.out.printf("run %s is held by %s, who is told to cancel it\n", id, printable(run.Owner))
		}
		return nil
	})
}
