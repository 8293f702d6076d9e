package client

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

// Handle is one run, whose result is an O. It is immutable, holds nothing, and is safe for concurrent use. The run itself may
// be of any process.
type Handle[O any] struct {
	client   *Client
	id       string
	existing bool
	read     func(s durable.Settings, run string, last journal.Event) (O, error)
}

// Attach returns a handle for a run of a program that is there already. It does not look at the run: one that is not there, or
// is another program's, is an error of the calls.
func Attach[I, O any](c *Client, program durable.Starter[I, O], id string) *Handle[O] {
	return &Handle[O]{client: c, id: id, read: program.Result}
}

// Handle returns a handle for a run of any program: its result is JSON. It does not look at the run.
func (c *Client) Handle(id string) *Handle[json.RawMessage] {
	return &Handle[json.RawMessage]{client: c, id: id, read: rawResult}
}

func rawResult(s durable.Settings, run string, last journal.Event) (json.RawMessage, error) {
	data, err := journal.DecodeJSON(s.Codec, last.Payload)
	if err != nil {
		return nil, &durable.ReplayError{RunID: run, Seq: last.Seq, Err: err}
	}
	return data, nil
}

// ID is the run's id.
func (h *Handle[O]) ID() string { return h.id }

// Existing reports whether Start has found the run, and not made it.
func (h *Handle[O]) Existing() bool { return h.existing }

// Target is a run that Update and Query speak to: a *Handle. Client.Handle makes one of an id.
type Target interface {
	ID() string
	of() *Client
}

func (h *Handle[O]) of() *Client { return h.client }

// Get returns the run's record. See Client.Get.
func (h *Handle[O]) Get(ctx context.Context) (journal.Run, error) { return h.client.Get(ctx, h.id) }

// Events returns the run's events, and follows it until it has ended. See Client.Events.
func (h *Handle[O]) Events(ctx context.Context) iter.Seq2[journal.Event, error] {
	return h.client.Events(ctx, h.id, 0)
}

// Signal sends a value to whoever waits for the signal of that name in the run. See Client.Signal.
func (h *Handle[O]) Signal(ctx context.Context, name string, value any, opts ...durable.SendOption) error {
	return h.client.Signal(ctx, h.id, name, value, opts...)
}

// Questions returns what the run has asked. See Client.Questions.
func (h *Handle[O]) Questions(ctx context.Context) ([]durable.Question, error) {
	return h.client.Questions(ctx, h.id)
}

// Answer answers a question of the run. See Client.Answer.
func (h *Handle[O]) Answer(ctx context.Context, question string, value any) error {
	return h.client.Answer(ctx, h.id, question, value)
}

// Pause has the run rest until Resume. See Client.Pause.
func (h *Handle[O]) Pause(ctx context.Context, reason string) error {
	return h.client.Pause(ctx, h.id, reason)
}

// Resume lets the run go on after Pause. See Client.Resume.
func (h *Handle[O]) Resume(ctx context.Context) error { return h.client.Resume(ctx, h.id) }

// Cancel ends the run for good. See Client.Cancel.
func (h *Handle[O]) Cancel(ctx context.Context, reason string) error {
	return h.client.Cancel(ctx, h.id, reason)
}

// Retry makes a new run that goes on where this one has failed, and returns a handle for it. See Client.Retry.
func (h *Handle[O]) Retry(ctx context.Context, newID string) (*Handle[O], error) {
	run, err := h.client.Retry(ctx, h.id, newID)
	if err != nil {
		return nil, err
	}
	return &Handle[O]{client: h.client, id: run.ID, read: h.read}, nil
}
