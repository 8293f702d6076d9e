// Package wire turns what stands on the wire of an OpenAI-compatible endpoint into errors. It is shared by the client
// and by the script, so that both say the same of the same bytes.
package wire

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/sashabaranov/go-openai"
)

// Source says whose errors are made, and what they may show.
type Source struct {
	// Provider is the name for the errors.
	Provider string
	// ShowMessages keeps the server's messages and bodies.
	ShowMessages bool
	// Secrets are never shown, wherever a server may quote them.
	Secrets []string
}

// Failure is the error of a response whose status is no success. The body may be cut.
func (s Source) Failure(status int, header http.Header, body []byte) *providers.CallError {
	if status < http.StatusBadRequest {
		return s.redirect(status, header)
	}
	obj, raw := parse(body)
	var below error
	if obj != nil {
		obj.api.HTTPStatusCode, obj.api.HTTPStatus = status, http.StatusText(status)
		below = obj.api
	} else {
		below = &openai.RequestError{HTTPStatusCode: status, HTTPStatus: http.StatusText(status), Err: raw, Body: body}
	}
	e := s.build(obj, below, header, body)
	e.Status = status
	return e
}

// Embedded is the error that stands in a body of status 200 or in a frame of a stream.
func (s Source) Embedded(header http.Header, body []byte, obj *Object) *providers.CallError {
	if status := obj.status(); status != 0 {
		obj.api.HTTPStatusCode, obj.api.HTTPStatus = status, http.StatusText(status)
	}
	e := s.build(obj, obj.api, header, body)
	e.Status = obj.api.HTTPStatusCode
	e.Detail = "the server sent an error instead of an answer"
	return e
}

// Broken is the error of an answer that did not arrive whole or cannot be read.
func (s Source) Broken(detail string, err error) *providers.CallError {
	return &providers.CallError{Provider: s.Provider, Class: classifier.ProviderError, Detail: detail, Err: err}
}

func (s Source) build(obj *Object, below error, header http.Header, body []byte) *providers.CallError {
	e := &providers.CallError{
		Provider:  s.Provider,
		Class:     classifier.Default().Classify(below).Class,
		RequestID: s.requestID(header),
		Hint:      providers.ServerHint(header, body, time.Now()),
		NoRetry:   strings.EqualFold(strings.TrimSpace(header.Get("X-Should-Retry")), "false"),
	}
	if obj != nil {
		e.Code, e.Type, e.Param = s.identifier(obj.code()), s.identifier(obj.api.Type), s.identifier(obj.param())
		if s.ShowMessages {
			e.Message = s.censor(obj.api.Message)
		}
	}
	e.Err = s.redact(below)
	return e
}

// redirect is the error of a 3xx (or 1xx): the endpoint is somewhere else, which no retry changes.
func (s Source) redirect(status int, header http.Header) *providers.CallError {
	return &providers.CallError{
		Provider:  s.Provider,
		Class:     classifier.InvalidRequest,
		Status:    status,
		Detail:    "the endpoint answers with a redirect or no answer at all: set BaseURL to where it points",
		RequestID: s.requestID(header),
	}
}

// redact returns what the error may wrap: the typed error with its status and codes, without what the server wrote.
func (s Source) redact(below error) error {
	switch e := below.(type) { //nolint:errorlint // made a few lines above, never wrapped
	case *openai.APIError:
		c := *e
		if in := e.InnerError; in != nil { // what a filter found is kept, a name only if it is one
			c.InnerError = &openai.InnerError{Code: s.identifier(in.Code), ContentFilterResults: in.ContentFilterResults}
		}
		if s.ShowMessages {
			c.Message = s.censor(e.Message)
			return &c
		}
		c.Message, c.Param = "", nil
		c.Type = s.identifier(e.Type)
		if code, ok := e.Code.(string); ok {
			c.Code = s.identifier(code)
		}
		return &c
	case *openai.RequestError:
		c := *e
		c.Body = nil
		if s.ShowMessages {
			c.Body = []byte(s.censor(string(e.Body)))
		}
		return &c
	}
	return below
}

// identifier returns v if it looks like a name that programs give to things. A prompt or a key does not belong where
// codes stand, and a server that puts it there must not get it into a log.
func (s Source) identifier(v string) string {
	const longest = 64
	if v == "" || len(v) > longest || s.censor(v) != v {
		return ""
	}
	for _, r := range v {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.:[]", r)) {
			return ""
		}
	}
	return v
}

func (s Source) censor(text string) string {
	for _, secret := range s.Secrets {
		text = strings.ReplaceAll(text, secret, "[secret]")
	}
	return text
}

// requestID is the server's name for the request.
func (s Source) requestID(h http.Header) string {
	return s.identifier(cmp.Or(h.Get("X-Request-ID"), h.Get("Request-Id")))
}

// jsonKind returns the first byte of a JSON text, or 0.
func jsonKind(raw json.RawMessage) byte {
	for _, b := range raw {
		switch b {
		case ' ', '\t', '\r', '\n':
		default:
			return b
		}
	}
	return 0
}

// What the client and the script say of the same failures.
const (
	DetailCut        = "the answer ended before it was whole"
	DetailUnreadable = "the answer cannot be read: it is no JSON of a chat completion"
	DetailMarshal    = "the request was not sent: it cannot be written as JSON"
)
