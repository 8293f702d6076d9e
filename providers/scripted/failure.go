package scripted

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Failure is a way in which a call fails, for Rule.Fail. Each behaves as a real server does, on plain calls and streams.
type Failure struct{ step step }

// HTTP is a response with any status, headers and body. header may be nil.
func HTTP(status int, header http.Header, body string) Failure {
	return Failure{step{status: status, header: header.Clone(), body: body}}
}

// Status is a well-formed error with the HTTP status; its type and code are those that OpenAI sends with it, if any.
func Status(status int) Failure {
	kind := "invalid_request_error"
	switch {
	case status >= http.StatusInternalServerError:
		kind = "server_error"
	case status == http.StatusTooManyRequests:
		kind = "requests"
	}
	return failure(status, kind, "", http.StatusText(status))
}

// RateLimited is a 429. A hint above 0 is sent as Retry-After, in seconds.
func RateLimited(hint time.Duration) Failure {
	f := failure(http.StatusTooManyRequests, "requests", "rate_limit_exceeded", "Rate limit reached")
	if hint > 0 {
		f.step.header.Set("Retry-After", strconv.FormatFloat(hint.Seconds(), 'f', -1, 64))
	}
	return f
}

// Quota is a 429 that says the account's quota is used up.
func Quota() Failure {
	return failure(http.StatusTooManyRequests, "insufficient_quota", "insufficient_quota", "You exceeded your current quota")
}

// Overloaded is the 529 of an overloaded provider (Anthropic).
func Overloaded() Failure {
	const body = `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`
	return HTTP(529, http.Header{"Content-Type": {"application/json"}}, body)
}

// Page is a page of HTML in place of an answer, as gateways send it: Page(524).
func Page(status int) Failure {
	body := fmt.Sprintf("<!DOCTYPE html><html><body><h1>Error %d</h1></body></html>", status)
	return HTTP(status, http.Header{"Content-Type": {"text/html"}}, body)
}

// ErrorIn200 is a 200 whose body is an error object with the code, as gateways send it.
func ErrorIn200(code string) Failure {
	return failure(http.StatusOK, "server_error", code, "Provider returned error")
}

// NoChoices is an answer without choices.
func NoChoices() Failure { return Failure{step{noChoices: true}} }

// PromptFiltered is an answer without choices that says that the prompt was filtered (Azure).
func PromptFiltered() Failure { return Failure{step{noChoices: true, promptFiltered: true}} }

// Refusal is an answer in which the model refuses.
func Refusal(text string) Failure { return Failure{step{refusal: text}} }

// Filtered is an answer that was cut by a content filter after the tokens.
func Filtered(tokens ...string) Failure {
	return Failure{step{tokens: slices.Clone(tokens), finish: "content_filter"}}
}

// Truncated is an answer that was cut by the token limit after the tokens.
func Truncated(tokens ...string) Failure {
	return Failure{step{tokens: slices.Clone(tokens), finish: "length"}}
}

// Cut is an answer that ends after the tokens with a cleanly closed connection, as a gateway closes it.
func Cut(tokens ...string) Failure { return Failure{step{tokens: slices.Clone(tokens), end: endCut}} }

// Reset is an answer whose connection breaks after the tokens.
func Reset(tokens ...string) Failure {
	return Failure{step{tokens: slices.Clone(tokens), end: endReset}}
}

// Stall is an answer that stops after the tokens and keeps the connection open until the caller gives up.
func Stall(tokens ...string) Failure {
	return Failure{step{tokens: slices.Clone(tokens), end: endStall}}
}

// StreamError is an answer in which an error object with the code follows after the tokens. A plain call gets the object
// alone.
func StreamError(code string, tokens ...string) Failure {
	return Failure{step{tokens: slices.Clone(tokens), end: endError, body: errorBody("server_error", code, "Provider disconnected")}}
}

// failure is a well-formed error.
func failure(status int, kind, code, message string) Failure {
	return HTTP(status, http.Header{"Content-Type": {"application/json"}}, errorBody(kind, code, message))
}

func errorBody(kind, code, message string) string {
	type object struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Code    *string `json:"code"`
	}
	o := object{Message: message, Type: kind}
	if code != "" {
		o.Code = &code
	}
	raw, err := json.Marshal(map[string]object{"error": o})
	if err != nil { // strings always marshal
		return "{}"
	}
	return string(raw)
}
