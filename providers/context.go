package providers

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl/classifier"
)

// contextError is what a call returns whose context has ended; partial is what had arrived of its answer. It is the one
// place where the end of a context becomes an error of a provider. It takes ctx.Err() and never the cause: the cause is
// whatever the one who cancelled had at hand, often another call's failure, and would be taken for this call's.
func contextError(ctx context.Context, provider string, req Request, partial *Response) *CallError {
	class, detail := classifier.Canceled, "the call's context was cancelled"
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		class, detail = classifier.Timeout, "the deadline of the call's context has passed"
	}
	return &CallError{Provider: provider, Model: req.Model, Class: class, Detail: detail, Partial: partial, Err: ctx.Err()}
}

// notStarted is the error of a call whose context ended before it was made; where says what it waited for, if for anything.
func notStarted(ctx context.Context, provider string, req Request, where string) *CallError {
	e := contextError(ctx, provider, req, nil)
	e.Detail, e.NotSent = e.Detail+where, true
	return e
}
