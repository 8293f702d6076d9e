package classifier

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/sashabaranov/go-openai"
)

// PermanentHTTPStatus reports whether err carries a permanent HTTP status, and which: any 4xx except 408 (request timeout)
// and 429 (rate limit). The same request would get the same answer again, so such an error is never retried, whatever a
// classifier, mark or policy says (the rule is that of Tracon's WorkflowNodeRetryPolicy).
//
// The status is found as HTTPStatus finds it. If several are found, a permanent one counts.
func PermanentHTTPStatus(err error) (status int, ok bool) {
	if status, ok = HTTPStatus(err); ok && permanent(status) {
		return status, true
	}
	return 0, false
}

// HTTPStatus returns the HTTP status that err carries, anywhere in its tree.
//
// Typed statuses come first: go-openai's APIError and RequestError (0 is no status; an APIError without a status counts
// with a numeric Code from 400 to 599) and any error with a method HTTPStatusCode() int. Only if the tree holds no typed
// status, texts are read: "HTTP 404", "HTTP/1.1 404 Not Found", "HTTP status 404", "HTTP error 404" and go-openai's "status
// code: 404", three digits from 100 to 599 at word boundaries, in upper or lower case. What a server sent (the body of a
// RequestError, the message of an APIError) is never read, also not where it is part of a wrapping error's text.
//
// Of several statuses a permanent one counts, then the outermost error status, then the outermost. It takes time linear in
// the length of the texts: of a tree, the outer 1024 texts are read, and no more than 64 MiB of them.
func HTTPStatus(err error) (status int, ok bool) {
	var buf [8]node
	return statusOfTree(flatten(err, buf[:0]))
}

func statusOfTree(nodes []node) (status int, ok bool) {
	if status = typedStatus(nodes); status == 0 {
		status = textStatus(nodes)
	}
	return status, status != 0
}

// permanent reports whether a status means that the same request would fail again.
func permanent(status int) bool {
	return status >= 400 && status < 500 && status != http.StatusRequestTimeout && status != http.StatusTooManyRequests
}

// better returns the one of two statuses that counts; 0 is no status, and a is the outer one.
func better(a, b int) int {
	rank := func(s int) int {
		switch {
		case permanent(s):
			return 3
		case s >= 400:
			return 2
		case s > 0:
			return 1
		}
		return 0
	}
	if rank(b) > rank(a) {
		return b
	}
	return a
}

func typedStatus(nodes []node) int {
	status := 0
	for _, n := range nodes {
		status = better(status, statusOf(n.err))
	}
	return status
}

// statusOf returns the status that one error, not its tree, carries by its type, or 0.
func statusOf(err error) int {
	status := 0
	switch e := err.(type) {
	case *openai.APIError:
		if status = e.HTTPStatusCode; status == 0 {
			status = codeStatus(e.Code)
		}
	case *openai.RequestError:
		status = e.HTTPStatusCode
	case HTTPStatusCoder:
		status, _ = ask(e.HTTPStatusCode)
	case Recorded:
		return recordedStatus(e)
	}
	return plausible(status)
}

// plausible returns a status, or 0 if it cannot be one.
func plausible(status int) int {
	if status < 100 || status > 999 {
		return 0
	}
	return status
}

// codeStatus reads an APIError's Code, which gateways fill with the status of a failure inside a stream: a number, or a
// string of three digits.
func codeStatus(code any) int {
	var n int
	switch c := code.(type) {
	case int:
		n = c
	case float64:
		if c != float64(int(c)) {
			return 0
		}
		n = int(c)
	case json.Number:
		return codeStatus(c.String())
	case string:
		if len(c) != 3 {
			return 0
		}
		n, _ = strconv.Atoi(c) // 0 if it is no number
	}
	if n < 400 || n > 599 {
		return 0
	}
	return n
}
