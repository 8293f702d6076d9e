package providers

import (
	"context"
	"iter"

	"github.com/pawl-go/pawl/task"
)

// Conform holds a provider that makes calls itself to the promises of Provider, so that its author need not:
//
//   - a call under an ended context is not made, and an error of a call whose context has ended is errors.Is(ctx.Err())
//     and hides whatever the provider returned (an HTTP client returns the context's cause, which may look like a 503)
//   - an answer names the provider, and one that is no success is an error: see Check
//   - what a failed stream had given is in the *CallError's Partial
//   - calls and tokens are reported to the run, once each (task.AddUsage)
//
// The providers of packages openai and scripted have been through it. Do not use it around middleware, which would
// report the usage a second time.
func Conform(p Provider) Provider {
	if c, ok := p.(*conformed); ok {
		return c
	}
	return &conformed{next: p}
}

type conformed struct{ next Provider }

func (c *conformed) Name() string { return c.next.Name() }

func (c *conformed) Chat(ctx context.Context, req Request) (*Response, error) {
	if ctx.Err() != nil {
		return nil, notStarted(ctx, c.Name(), req, "")
	}
	resp, err := c.next.Chat(ctx, req)
	if err != nil {
		reportUsage(ctx, nil, err)
		return nil, c.failure(ctx, req, err, nil)
	}
	if resp != nil {
		setOnce(&resp.Provider, c.Name())
	}
	reportUsage(ctx, resp, nil)
	if err := Check(resp); err != nil {
		return nil, c.failure(ctx, req, err, nil)
	}
	return resp, nil
}

func (c *conformed) Stream(ctx context.Context, req Request) iter.Seq2[*Delta, error] {
	return func(yield func(*Delta, error) bool) {
		if ctx.Err() != nil {
			yield(nil, notStarted(ctx, c.Name(), req, ""))
			return
		}
		var f Fold
		left, err := c.pass(ctx, req, &f, yield)
		if left {
			return
		}
		if err == nil {
			err = Check(f.orEmpty())
		}
		if err != nil {
			yield(nil, c.failure(ctx, req, err, f.Response()))
		}
	}
}

// pass hands on the pieces of a stream until it ends, fails or is left. However it ends, what it used is reported.
func (c *conformed) pass(ctx context.Context, req Request, f *Fold, yield func(*Delta, error) bool) (left bool, err error) {
	defer func() { reportUsage(ctx, f.Response(), err) }()
	for d, err := range c.next.Stream(ctx, req) {
		if err != nil {
			return false, err
		}
		if d == nil {
			continue
		}
		setOnce(&d.Provider, c.Name())
		f.Add(d)
		if !yield(d, nil) {
			return true, nil
		}
	}
	return false, nil
}

// failure completes an error on its way out.
func (c *conformed) failure(ctx context.Context, req Request, err error, partial *Response) error {
	if ctx.Err() != nil {
		return contextError(ctx, c.Name(), req, partial)
	}
	if e, ok := err.(*CallError); ok && e != nil { //nolint:errorlint // only an error that is the provider's own is completed
		setOnce(&e.Provider, c.Name())
		setOnce(&e.Model, req.Model)
		if e.Partial == nil {
			e.Partial = partial
		}
	}
	return err
}

// orEmpty is Response for a stream that has ended: one that gave nothing is an answer without choices.
func (f *Fold) orEmpty() *Response {
	if r := f.Response(); r != nil {
		return r
	}
	return &Response{}
}

// reportUsage tells the run what a call has used. A call that never reached the provider used nothing.
func reportUsage(ctx context.Context, resp *Response, err error) {
	if neverSent(err) {
		return
	}
	u := task.Usage{Calls: 1}
	if resp != nil {
		u.PromptTokens, u.CompletionTokens = resp.Usage.PromptTokens, resp.Usage.CompletionTokens
	}
	task.AddUsage(ctx, u)
}
