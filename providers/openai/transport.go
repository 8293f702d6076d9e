package openai

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/internal/wire"
	"github.com/pawl-go/pawl/task"
)

// errorLimit bounds what is read of a failed response. A longer body is cut, not refused.
const errorLimit = 64 << 10

// exchange is what the transport tells the client of one call, past go-openai.
type exchange struct {
	sent   bool    // the request was made and handed to the HTTP client
	frames *frames // the stream, if it is one
}

type exchangeKey struct{}

func newExchange(ctx context.Context) (context.Context, *exchange) {
	x := new(exchange)
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// doer stands between go-openai and the HTTP client. What it returns as an error, after the request was sent, is a
// *providers.CallError; what it returns as a response has status 2xx, a bounded body, and no error object in it.
type doer struct {
	cfg    Config
	source wire.Source
}

// Do makes one request.
func (d *doer) Do(req *http.Request) (*http.Response, error) {
	x, ok := req.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		x = new(exchange)
	}
	if err := d.prepare(req); err != nil {
		return nil, err
	}
	x.sent = true
	resp, err := d.cfg.HTTPClient.Do(req)
	if err != nil {
		return nil, transportError(d.source, err)
	}
	resp.Header.Del("Set-Cookie") // answers keep their headers, and a cookie is a credential
	switch {
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return nil, d.failed(resp)
	case req.Header.Get("Accept") == "text/event-stream":
		x.frames = newFrames(resp, d.source, d.cfg.MaxResponseBytes)
		resp.Body = x.frames
		return resp, nil
	default:
		return d.whole(resp)
	}
}

// prepare sets the headers and makes sure that the request is sent once.
func (d *doer) prepare(req *http.Request) error {
	for name, values := range d.cfg.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	if key := task.Info(req.Context()).IdempotencyKey(); key != "" && d.cfg.IdempotencyHeader != "" {
		sum, err := hashBody(req)
		if err != nil {
			return err
		}
		req.Header.Set(d.cfg.IdempotencyHeader, key+"-"+sum)
	}
	// With a body that can be had again, net/http sends a POST that carries an idempotency key a second time if a reused
	// connection breaks: one attempt would be two requests.
	req.GetBody = nil
	return nil
}

// hashBody tells the calls of one task apart: a node that calls twice must not be given the first answer twice.
func hashBody(req *http.Request) (string, error) {
	if req.GetBody == nil {
		return "", nil
	}
	body, err := req.GetBody()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	if _, err := io.Copy(h, body); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), body.Close()
}

// failed reads a failed response. What a deadline or a broken connection leaves of its body is enough: the status and the
// headers have come.
func (d *doer) failed(resp *http.Response) error {
	defer resp.Body.Close() //nolint:errcheck // nothing is left to lose
	body, _ := io.ReadAll(io.LimitReader(resp.Body, errorLimit))
	return d.source.Failure(resp.StatusCode, resp.Header, body)
}

// whole reads the answer of a plain call and looks for an error in it.
func (d *doer) whole(resp *http.Response) (*http.Response, error) {
	defer resp.Body.Close() //nolint:errcheck // nothing is left to lose
	body, err := io.ReadAll(io.LimitReader(resp.Body, d.cfg.MaxResponseBytes+1))
	if int64(len(body)) > d.cfg.MaxResponseBytes {
		return nil, tooLong(d.source, d.cfg.MaxResponseBytes)
	}
	if obj := wire.FindError(body); obj != nil {
		return nil, d.source.Embedded(resp.Header, body, obj)
	}
	if err != nil {
		return nil, transportError(d.source, err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

func tooLong(source wire.Source, limit int64) *providers.CallError {
	e := source.Broken(fmt.Sprintf("the answer is longer than MaxResponseBytes (%d): raise it if that is meant", limit), nil)
	e.Class = classifier.InvalidResponse
	return e
}
