package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

// Start makes a run of a program that begins with in, and returns at once. A worker that serves the run's queue and has the
// program takes it from there.
//
// If a run of the id that ID gives is there already, and is of this program and has the same input, Start attaches to it,
// whatever has become of it meanwhile; so Start may be tried again. One that is something else is a
// *durable.RunConflictError. If the key of Dedup is taken by a run of this program, Start attaches to that one;
// if by another program's, that is a *durable.RunConflictError, too. Handle.Existing tells what has happened.
//
// Errors besides: an *OptionError, an *UnsupportedError if the store has no queues, a *durable.OptionError if the program is
// not usable, a *journal.NotSerializableError or *journal.PayloadTooLargeError if the input is not, a *StartUnknownError if
// the store has not said whether the run was made, and those of the store.
func Start[I, O any](ctx context.Context, c *Client, program durable.Starter[I, O], in I, opts ...StartOption) (*Handle[O], error) {
	o, err := newStartOptions(opts)
	if err != nil {
		return nil, err
	}
	n, err := program.NewRun(c.settings, in)
	if err != nil {
		return nil, err
	}
	id, existing, err := c.start(ctx, n, o)
	if err != nil {
		return nil, err
	}
	h := Attach(c, program, id)
	h.existing = existing
	return h, nil
}

// Run is Start, and then Result. Its errors are those of both. When ctx ends the run goes on: with ID, Run can be called again
// and waits for the same run.
func Run[I, O any](ctx context.Context, c *Client, program durable.Starter[I, O], in I, opts ...StartOption) (O, error) {
	h, err := Start(ctx, c, program, in, opts...)
	if err != nil {
		var zero O
		return zero, err
	}
	return h.Result(ctx)
}

// start makes a run, or finds the one that is meant: existing says that another call has made it.
func (c *Client) start(ctx context.Context, n journal.NewRun, o *startOptions) (id string, existing bool, err error) {
	n.Run.ID, n.Run.Queue, n.Run.Dedup, n.Due = o.id, o.queue, o.dedup, o.due
	if _, ok := c.store.(journal.Queue); !ok && o.queue != "" {
		return "", false, c.unsupported("Start", queueAbility)
	}
	_, err = c.store.Create(ctx, n)
	unknown := isUnknown(err)
	if unknown && ctx.Err() == nil { // making it again is harmless: there is one run of an id
		_, err = c.store.Create(ctx, n)
	}
	duplicate, isDuplicate := errors.AsType[*journal.DuplicateError](err)
	switch {
	case err == nil:
		return o.id, false, nil
	case errors.Is(err, journal.ErrExists):
		return o.id, !unknown || o.named, c.isThis(ctx, o.id, n)
	case isDuplicate && duplicate.Other == o.id:
		return o.id, !unknown || o.named, c.isThis(ctx, o.id, n)
	case isDuplicate:
		return duplicate.Other, true, c.isOfProgram(ctx, duplicate.Other, n.Run.Program())
	case unknown || isUnknown(err):
		return "", false, &StartUnknownError{RunID: o.id, Err: err}
	}
	return "", false, err
}

// isUnknown reports whether a write may have been done though it has failed.
func isUnknown(err error) bool {
	away, ok := errors.AsType[*journal.UnavailableError](err)
	return ok && away.Unknown
}

// isThis reports how the run of an id differs from the one that is to be made.
func (c *Client) isThis(ctx context.Context, id string, n journal.NewRun) error {
	if err := c.isOfProgram(ctx, id, n.Run.Program()); err != nil {
		return err
	}
	start, err := c.event(ctx, id, 1)
	if err != nil {
		return err
	}
	there, err := journal.DecodeJSON(c.cfg.Codec, start.Payload)
	if err != nil {
		return &durable.ReplayError{RunID: id, Seq: start.Seq, Err: err}
	}
	want, err := journal.DecodeJSON(c.cfg.Codec, n.Events[0].Payload)
	if err != nil {
		return err
	}
	if !bytes.Equal(there, want) {
		return &durable.RunConflictError{RunID: id, What: "input", Detail: fmt.Sprintf(
			"%d bytes of JSON that are not these %d", len(there), len(want))}
	}
	return nil
}

// isOfProgram reports why a run is none of a program.
func (c *Client) isOfProgram(ctx context.Context, id string, p journal.Program) error {
	run, err := c.store.Load(ctx, id)
	if err != nil {
		return c.explained(ctx, id, err)
	}
	conflict := func(what, format string, args ...any) error {
		return &durable.RunConflictError{RunID: id, What: what, Detail: fmt.Sprintf(format, args...)}
	}
	switch {
	case run.Kind != p.Kind:
		return conflict("kind", "it is a %s, not a %s", run.Kind, p.Kind)
	case run.Name != p.Name:
		return conflict("name", "%q, not %q", run.Name, p.Name)
	case run.Fingerprint != p.Fingerprint:
		return conflict("graph", "one of the same name with other nodes, edges or fields")
	case run.Version != p.Version && !run.Status.Terminal(): // how an older version has ended is the outcome all the same
		return conflict("version", "%q, not %q", run.Version, p.Version)
	}
	return nil
}

// event reads one event of a run.
func (c *Client) event(ctx context.Context, id string, seq int64) (journal.Event, error) {
	for e, err := range c.store.Events(ctx, id, seq-1) {
		return e, c.explained(ctx, id, err)
	}
	return journal.Event{}, &durable.ReplayError{RunID: id, Seq: seq, Err: errNoEvent}
}

var errNoEvent = errors.New("it is not there")
