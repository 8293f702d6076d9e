package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

// StartRaw is Start without the workflow's code: p names it, with its version, and the input is JSON. Whether there is such a
// workflow, and whether it takes the input, only a worker can tell. A graph's run records more than its input at its start:
// of a graph StartRaw is an *OptionError, and StartLike starts one like another. All other errors are those of Start.
func (c *Client) StartRaw(
	ctx context.Context, p journal.Program, input json.RawMessage, opts ...StartOption,
) (*Handle[json.RawMessage], error) {
	switch {
	case p.Kind != "" && p.Kind != journal.WorkflowRun, p.Fingerprint != "":
		return nil, &OptionError{Option: "StartRaw", Err: fmt.Errorf("%s %q is no workflow: use StartLike", p.Kind, p.Name)}
	case p.Name == "":
		return nil, &OptionError{Option: "StartRaw", Err: errors.New("the program has no name")}
	}
	n := journal.NewRun{
		Run:    journal.Run{Kind: journal.WorkflowRun, Name: p.Name, Version: p.Version},
		Events: []journal.Event{{Kind: journal.RunStart, Time: durable.Now()}},
	}
	return c.startJSON(ctx, n, input, opts)
}

// StartLike is Start of the program that another run is of, without its code: the new run has the same program, version and
// fingerprint, and waits in the same queue, unless Queue says another. The input is JSON; nil is that of the other run. The
// runs are not linked: the other one may be deleted, and a parent of it hears nothing of the new one.
//
// Errors besides those of Start: a *RunNotFoundError, and a *durable.ReplayError if the client cannot read the start of the other
// run, since it has not the Codec say; the new run's program could not read its start then.
func (c *Client) StartLike(
	ctx context.Context, like string, input json.RawMessage, opts ...StartOption,
) (*Handle[json.RawMessage], error) {
	run, err := c.Get(ctx, like)
	if err != nil {
		return nil, err
	}
	start, err := c.event(ctx, like, 1)
	if err != nil {
		return nil, err
	}
	was, err := journal.DecodeJSON(c.cfg.Codec, start.Payload)
	if err != nil {
		return nil, &durable.ReplayError{RunID: like, Seq: start.Seq, Err: err}
	}
	if input == nil {
		input = was
	}
	meta, err := c.freshMeta(start.Meta)
	if err != nil {
		return nil, &durable.ReplayError{RunID: like, Seq: start.Seq, Err: err}
	}
	if run.Queue != "" {
		opts = append([]StartOption{Queue(run.Queue)}, opts...)
	}
	n := journal.NewRun{
		Run:    journal.Run{Kind: run.Kind, Name: run.Name, Version: run.Version, Fingerprint: run.Fingerprint},
		Events: []journal.Event{{Kind: journal.RunStart, Time: durable.Now(), Meta: meta}},
	}
	return c.startJSON(ctx, n, input, opts)
}

// freshMeta is what a run's start says of its program, without what it says of where the run comes from. The salt of a run is
// its own: with another one's it would show which values the two have in common.
func (c *Client) freshMeta(meta json.RawMessage) (json.RawMessage, error) {
	if len(meta) == 0 {
		return nil, nil
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(meta, &fields); err != nil {
		return nil, err
	}
	for _, own := range []string{"copied", "first", "part", "parent"} {
		delete(fields, own)
	}
	if _, salted := fields["salt"]; salted {
		salt, err := c.settings.Encode("salt", rand.Text())
		if err != nil {
			return nil, err
		}
		if fields["salt"], err = json.Marshal(salt); err != nil {
			return nil, err
		}
	}
	return json.Marshal(fields)
}

func (c *Client) startJSON(
	ctx context.Context, n journal.NewRun, input json.RawMessage, opts []StartOption,
) (*Handle[json.RawMessage], error) {
	o, err := newStartOptions(opts)
	if err != nil {
		return nil, err
	}
	if n.Events[0].Payload, err = c.settings.Encode("Input", input); err != nil {
		return nil, err
	}
	id, existing, err := c.start(ctx, n, o)
	if err != nil {
		return nil, err
	}
	h := c.Handle(id)
	h.existing = existing
	return h, nil
}
