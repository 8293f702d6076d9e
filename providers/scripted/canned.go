package scripted

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"strings"

	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/openai"
	"github.com/pawl-go/pawl/task"
)

// canned is a response given as bytes. It is read by the client that would read it off a connection, so that the same bytes
// mean the same.
type canned struct {
	client *openai.Client
	err    error
	why    string // of a request that no rule answers
}

func (s step) canned(name string) *canned {
	client, err := openai.New(openai.Config{Name: name, HTTPClient: &http.Client{Transport: s}})
	return &canned{client: client, err: err, why: s.unmatched}
}

// RoundTrip makes the step an http.RoundTripper that knows one response.
func (s step) RoundTrip(r *http.Request) (*http.Response, error) {
	header := s.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	body := io.NopCloser(strings.NewReader(s.body))
	return &http.Response{StatusCode: s.status, Header: header, Body: body, Request: r}, nil
}

// Chat reads the response as that of a plain call.
func (c *canned) Chat(ctx context.Context, req providers.Request) (*providers.Response, error) {
	if c.err != nil {
		return nil, c.err
	}
	resp, err := c.client.Chat(ctx, req)
	return resp, c.explain(err)
}

// Stream reads the response as a stream.
func (c *canned) Stream(ctx context.Context, req providers.Request) iter.Seq2[*providers.Delta, error] {
	return func(yield func(*providers.Delta, error) bool) {
		if c.err != nil {
			yield(nil, c.err)
			return
		}
		for d, err := range c.client.Stream(ctx, req) {
			if !yield(d, c.explain(err)) {
				return
			}
		}
	}
}

func (c *canned) explain(err error) error {
	if e, ok := errors.AsType[*providers.CallError](err); ok && c.why != "" {
		e.Detail = c.why
	}
	return err
}

// quiet is ctx without its task: the script itself reports what was used.
func quiet(ctx context.Context) context.Context { return task.NewContext(ctx, nil) }
