package client

import (
	"context"

	"github.com/pawl-go/pawl/durable"
)

// Signal sends a value to whoever waits for the signal of that name in a run, now or later. durable.SendKey makes sending it
// twice harmless. Of a run that was continued as new, the last one of the chain gets it.
//
// Errors: a *RunNotFoundError, a *RunFinishedError, a *durable.OptionError if name or key is not usable or the client has not
// the run's Codec, a *journal.NotSerializableError or *journal.PayloadTooLargeError, a *durable.ContinuationChainError, and
// those of the store.
func (c *Client) Signal(ctx context.Context, id, name string, value any, opts ...durable.SendOption) error {
	opts = append([]durable.SendOption{c.using()}, opts...)
	return c.explained(ctx, id, durable.Signal(ctx, c.store, id, name, value, opts...))
}

// Questions returns what a run has asked, in the order in which it has, answered or not: that run itself, also if it was
// continued as new. Errors: a *RunNotFoundError, a *durable.ReplayError if a question cannot be read, and those of the store.
func (c *Client) Questions(ctx context.Context, id string) ([]durable.Question, error) {
	questions, err := durable.Questions(ctx, c.store, id, c.using())
	return questions, c.explained(ctx, id, err)
}

// Answer answers a question that a run has asked with durable.Interrupt. A run of a queue goes on with it at once. A run that was
// continued as new takes no answers: what it has asked is over.
//
// Errors: a *RunNotWaitingError if the run has not asked this question, or it is answered; a *durable.AnswerError with
// durable.WrongType if the value does not fit, and then the question is still open; a *RunNotFoundError, a
// *RunFinishedError, a *journal.NotSerializableError or *journal.PayloadTooLargeError, a *durable.ReplayError if the question
// cannot be read, and those of the store.
func (c *Client) Answer(ctx context.Context, id, question string, value any) error {
	return c.explained(ctx, id, durable.Answer(ctx, c.store, id, question, value, c.using()))
}
