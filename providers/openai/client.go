package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/internal/wire"
	"github.com/sashabaranov/go-openai"
)

// Client is a providers.Provider. It is safe for concurrent use.
type Client struct {
	provider providers.Provider
	raw      *rawClient
}

// New returns a client. Its error is a *providers.ConfigError. It makes no request.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	raw := &rawClient{cfg: cfg, source: wire.Source{
		Provider: cfg.Name, ShowMessages: cfg.ShowServerMessages, Secrets: cfg.secrets(),
	}}
	api := openai.DefaultConfig(cfg.APIKey)
	api.BaseURL = cfg.BaseURL
	api.HTTPClient = &doer{cfg: cfg, source: raw.source}
	raw.api = openai.NewClientWithConfig(api)
	return &Client{provider: providers.Conform(raw), raw: raw}, nil
}

// Name returns Config.Name.
func (c *Client) Name() string { return c.raw.cfg.Name }

// Chat makes one request. Its error is a *providers.CallError.
func (c *Client) Chat(ctx context.Context, req providers.Request) (*providers.Response, error) {
	return c.provider.Chat(ctx, req)
}

// Stream makes one streaming request when it is ranged over. Its error is a *providers.CallError. An answer counts as
// whole if each choice has a finish reason or [DONE] came, even if the connection breaks behind that.
func (c *Client) Stream(ctx context.Context, req providers.Request) iter.Seq2[*providers.Delta, error] {
	return c.provider.Stream(ctx, req)
}

// String names the client. With it, fmt prints neither the key nor the headers.
func (c *Client) String() string { return fmt.Sprintf("openai client %q", c.raw.cfg.Name) }

// GoString is String, for %#v.
func (c *Client) GoString() string { return c.String() }

// CloseIdleConnections closes connections that are kept for later requests, also those of a given HTTPClient. The client
// can still be used.
func (c *Client) CloseIdleConnections() { c.raw.cfg.HTTPClient.CloseIdleConnections() }

// rawClient makes the requests; providers.Conform does the rest.
type rawClient struct {
	cfg    Config
	source wire.Source
	api    *openai.Client
}

func (c *rawClient) Name() string { return c.cfg.Name }

func (c *rawClient) Chat(ctx context.Context, req providers.Request) (*providers.Response, error) {
	setModel(&req, c.cfg.Model)
	req.Stream, req.StreamOptions = false, nil // servers refuse the options of a stream on a plain call
	ctx, x := newExchange(ctx)
	resp, err := c.api.CreateChatCompletion(ctx, req)
	if err != nil {
		return nil, c.failure(x, req, err)
	}
	return &providers.Response{ChatCompletionResponse: resp}, nil
}

func (c *rawClient) Stream(ctx context.Context, req providers.Request) iter.Seq2[*providers.Delta, error] {
	return func(yield func(*providers.Delta, error) bool) {
		req := req
		setModel(&req, c.cfg.Model)
		if req.StreamOptions == nil && !c.cfg.NoStreamUsage {
			req.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
		}
		ctx, x := newExchange(ctx)
		stream, err := c.api.CreateChatCompletionStream(ctx, req)
		if err != nil {
			yield(nil, c.failure(x, req, err))
			return
		}
		defer stream.Close() //nolint:errcheck // nothing is left to lose
		if err := c.receive(stream, x, req, yield); err != nil {
			yield(nil, c.failure(x, req, err))
		}
	}
}

// receive hands on the chunks. It returns nil if the answer was whole or nobody wants the rest.
func (c *rawClient) receive(
	stream *openai.ChatCompletionStream, x *exchange, req providers.Request, yield func(*providers.Delta, error) bool,
) error {
	whole := finishes{want: max(1, req.N)}
	for {
		chunk, err := stream.Recv()
		switch {
		case err == nil:
			whole.see(chunk)
			if !yield(&providers.Delta{ChatCompletionStreamResponse: chunk}, nil) {
				return nil
			}
		case x.frames.done:
			return nil
		case whole.all() && !x.frames.failed:
			return nil // only the end of the connection was lost; the server's own word counts whenever it comes
		case errors.Is(err, io.EOF):
			return c.source.Broken(wire.DetailCut, io.ErrUnexpectedEOF)
		default:
			return err
		}
	}
}

// failure turns what go-openai or the transport returned into a CallError.
func (c *rawClient) failure(x *exchange, req providers.Request, err error) error {
	e := c.callError(x, err)
	e.Model = req.Model
	return e
}

func (c *rawClient) callError(x *exchange, err error) *providers.CallError {
	var e *providers.CallError
	switch {
	case errors.As(err, &e):
		return e
	case !x.sent:
		return c.notSent(err)
	default: // the transport's errors are CallErrors: what is left is what does not decode
		return c.source.Broken(wire.DetailUnreadable, err)
	}
}

// notSent is a request that go-openai refused, or that is no JSON.
func (c *rawClient) notSent(err error) *providers.CallError {
	e := &providers.CallError{Provider: c.cfg.Name, Class: classifier.InvalidRequest, NotSent: true, Err: err}
	e.Detail = "the request was not sent: " + err.Error() // go-openai's sentinels
	var marshaler *json.MarshalerError
	var kind *json.UnsupportedTypeError
	var value *json.UnsupportedValueError
	if errors.As(err, &marshaler) || errors.As(err, &kind) || errors.As(err, &value) {
		e.Detail = wire.DetailMarshal // their texts may quote the request
	}
	return e
}

func setModel(req *providers.Request, model string) {
	if req.Model == "" {
		req.Model = model
	}
}

// finishes knows which choices of a stream have their finish reason.
type finishes struct {
	want int // how many choices were asked for
	open map[int]bool
}

func (f *finishes) see(chunk openai.ChatCompletionStreamResponse) {
	if f.open == nil {
		f.open = make(map[int]bool)
	}
	for i := range chunk.Choices {
		c := &chunk.Choices[i]
		if c.FinishReason != "" && c.FinishReason != openai.FinishReasonNull {
			f.open[c.Index] = false
		} else if _, known := f.open[c.Index]; !known {
			f.open[c.Index] = true
		}
	}
}

func (f *finishes) all() bool {
	for _, open := range f.open {
		if open {
			return false
		}
	}
	return len(f.open) >= f.want
}
