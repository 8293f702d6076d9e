package journal_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
	"github.com/sashabaranov/go-openai"
	"github.com/sony/gobreaker/v2"
)

// The errors below are of kinds that users define.
type (
	codeError   struct{ Code int } // comparable, a value
	textError   string             // no struct
	numberError int                // no struct
	listError   []string           // not comparable
	mapError    map[string]int     // not comparable
	wrapsError  struct {
		error
		Op string
	} // embeds an error
	secretError         struct{ Shown, hidden string } // an unexported field
	genericError[T any] struct{ Value T }              // generic
	base                struct {
		Code int
		Tags []string
	} // embedded below
	embedding struct {
		base
		*Detail
		Note string
	} // embedded fields
	Detail struct {
		Reason string `json:"-"`
		At     time.Time
	}
	liveError struct {
		C    chan int
		F    func()
		Resp *http.Response
		Body io.Reader
		Op   string
	}
	matching    struct{ Kind, Detail string } // its own Is
	asking      struct{ Err error }           // pointer, Is for a well-known value
	kinds       struct{ A, B, C, D, E, F, G, H, I any }
	coded       struct{ Status int }
	sentinelErr struct{ msg string }
	nested      struct {
		Inner struct {
			X int `json:"renamed"`
			M map[string][]int
			P *Detail
		}
		Raw json.RawMessage
	}
)

func (e codeError) Error() string        { return fmt.Sprintf("code %d", e.Code) }
func (e textError) Error() string        { return string(e) }
func (e numberError) Error() string      { return fmt.Sprintf("number %d", int(e)) }
func (e listError) Error() string        { return fmt.Sprintf("list %q", []string(e)) }
func (e mapError) Error() string         { return fmt.Sprintf("map of %d", len(e)) }
func (e *wrapsError) Unwrap() error      { return e.error }
func (e *secretError) Error() string     { return "secret: " + e.Shown }
func (e genericError[T]) Error() string  { return fmt.Sprintf("generic %v", e.Value) }
func (e *embedding) Error() string       { return "embedding " + e.Note }
func (e *liveError) Error() string       { return "live " + e.Op }
func (e *matching) Error() string        { return e.Kind + ": " + e.Detail }
func (e *matching) Is(target error) bool { m, is := target.(*matching); return is && m.Kind == e.Kind }
func (e *asking) Error() string          { return "asking: " + e.Err.Error() }
func (e *asking) Is(target error) bool   { return target == fs.ErrNotExist }
func (e *kinds) Error() string           { return "kinds" }
func (e *coded) Error() string           { return "coded" }
func (e *coded) HTTPStatusCode() int     { return e.Status }
func (e *sentinelErr) Error() string     { return e.msg }
func (e *nested) Error() string          { return "nested" }

var (
	errMine  = errors.New("mine: something")
	errTyped = &sentinelErr{"typed: something"}
	errInUse = codeError{409}
)

// local is an error whose type is defined inside a function.
func local() error {
	type here struct{ codeError }
	return here{codeError{7}}
}

func numErr() error { _, err := strconv.Atoi("12x"); return err }

// realErrors are errors as code really gets them.
func realErrors() map[string]error {
	_, pathErr := os.Open("/no/such/file")
	_, execErr := exec.LookPath("no-such-program-anywhere")
	_, parseErr := time.Parse(time.RFC3339, "yesterday")
	_, urlErr := url.Parse("http://[::1") //nolint:staticcheck // the error is wanted
	_, hexErr := hex.DecodeString("zz")
	_, base64Err := base64.StdEncoding.DecodeString("!")
	syntaxErr := json.Unmarshal([]byte("{"), new(any))
	badJSON := json.Unmarshal([]byte(`{"a":`+"\x01}"), new(any))
	typeErr := json.Unmarshal([]byte(`{"Code":"x"}`), new(codeError)) //nolint:musttag // the error is wanted
	namedTypeErr := json.Unmarshal([]byte(`[1]`), new(codeError))     //nolint:musttag // the error is wanted
	_, chanErr := json.Marshal(make(chan int))                        //nolint:staticcheck // the error is wanted
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	deadline, cancel := context.WithTimeoutCause(context.Background(), -1, errMine)
	defer cancel()
	inner := &retrypolicy.AttemptsError{MaxAttempts: 3, Attempts: 3, Class: classifier.ProviderError, Reason: retrypolicy.ReasonAttemptsUsedUp, Err: A(503)}
	call := &providers.CallError{Provider: "openai", Model: "m", Class: classifier.RateLimited, Status: 429, Code: "rate_limit", Hint: 7 * time.Second, NoRetry: true, Err: A(429)}
	return map[string]error{
		// context
		"canceled":              context.Canceled,
		"deadline":              context.DeadlineExceeded,
		"deadline of a context": deadline.Err(),
		"cause of a context":    context.Cause(deadline),
		"wrapped cancel":        fmt.Errorf("node: %w", context.Canceled),
		"cancel and failure":    errors.Join(A(503), context.Canceled),
		// io, fs, os
		"EOF":              io.EOF,
		"cut stream":       fmt.Errorf("stream: %w", io.ErrUnexpectedEOF),
		"closed pipe":      io.ErrClosedPipe,
		"path":             pathErr,
		"path, permission": &fs.PathError{Op: "open", Path: "/x", Err: syscall.EACCES},
		"path, exists":     &os.PathError{Op: "mkdir", Path: "/x", Err: syscall.EEXIST},
		"path, closed":     &os.PathError{Op: "read", Path: "/x", Err: os.ErrClosed},
		"path, deadline":   &os.PathError{Op: "read", Path: "/x", Err: os.ErrDeadlineExceeded},
		"link":             &os.LinkError{Op: "rename", Old: "a", New: "b", Err: syscall.EXDEV},
		"system call":      os.NewSyscallError("fsync", syscall.ENOSPC),
		"errno":            syscall.EAGAIN,
		"errno, no entry":  syscall.ENOENT,
		"wrapped errno":    fmt.Errorf("disk: %w", syscall.ENOSPC),
		"exec":             execErr,
		"exec exit":        &exec.ExitError{Stderr: []byte("boom")},
		"process done":     os.ErrProcessDone,
		// net
		"refused":          refused,
		"refused in a URL": &url.Error{Op: "Post", URL: "http://127.0.0.1:1/v1", Err: refused},
		"DNS":              &net.DNSError{Err: "no such host", Name: "x.invalid", Server: "1.1.1.1:53", IsNotFound: true},
		"DNS, timeout":     &net.DNSError{Err: "i/o timeout", Name: "x.invalid", IsTimeout: true, IsTemporary: true},
		"URL, deadline":    &url.Error{Op: "Get", URL: "http://x", Err: context.DeadlineExceeded},
		"URL, EOF":         &url.Error{Op: "Post", URL: "http://x", Err: io.EOF},
		"URL, parse":       urlErr,
		"closed":           &net.OpError{Op: "read", Net: "tcp", Source: &net.UnixAddr{Name: "/s", Net: "unix"}, Err: net.ErrClosed},
		"net timeout":      &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded},
		"net address":      &net.AddrError{Err: "missing port in address", Addr: "x"},
		"net parse":        &net.ParseError{Type: "IP address", Text: "x"},
		"unknown network":  net.UnknownNetworkError("tcp9"),
		"invalid address":  net.InvalidAddrError("bad"),
		// http, sql, tls, x509
		"server closed":       http.ErrServerClosed,
		"body too large":      &http.MaxBytesError{Limit: 10},
		"handler timeout":     http.ErrHandlerTimeout,
		"no rows":             fmt.Errorf("load: %w", sql.ErrNoRows),
		"tx done":             sql.ErrTxDone,
		"bad conn":            driver.ErrBadConn,
		"tls record":          tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake", RecordHeader: [5]byte{'H', 'T', 'T', 'P', '/'}},
		"tls alert":           tls.AlertError(40),
		"tls verification":    &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
		"unknown authority":   x509.UnknownAuthorityError{},
		"certificate invalid": x509.CertificateInvalidError{Reason: x509.Expired, Detail: "long ago"},
		"system roots":        x509.SystemRootsError{Err: errMine},
		// encoding, strconv, time
		"number":          numErr(),
		"JSON syntax":     syntaxErr,
		"JSON character":  badJSON,
		"JSON type":       typeErr,
		"JSON named type": namedTypeErr,
		"JSON channel":    chanErr,
		"time":            parseErr,
		"hex":             hexErr,
		"base64":          base64Err,
		// go-openai
		"API 404":               A(404),
		"API 503":               fmt.Errorf("node draft: %w", A(503)),
		"API, code text":        &openai.APIError{HTTPStatusCode: 429, Code: "insufficient_quota", Type: "insufficient_quota", Message: "You exceeded your quota", Param: new("model")},
		"API, code int":         &openai.APIError{Code: 502, Message: "bad gateway"},
		"API, code float":       &openai.APIError{Code: 502.0, Message: "bad gateway"},
		"API, code nil":         &openai.APIError{HTTPStatusCode: 500, Message: "x"},
		"API, stream":           &openai.APIError{Type: "overloaded_error", Message: "Overloaded"},
		"API, inner":            &openai.APIError{HTTPStatusCode: 400, Code: "content_filter", Message: "x", InnerError: &openai.InnerError{Code: "ResponsibleAIPolicyViolation", ContentFilterResults: openai.ContentFilterResults{Hate: openai.Hate{Filtered: true, Severity: "high"}}}},
		"API, nil":              fmt.Errorf("error, %w", (*openai.APIError)(nil)),
		"request 502":           R(502, syntaxErr, "<html>HTTP 404 Bad Gateway</html>"),
		"request 400, no error": R(400, nil, `{"message":"x"}`),
		"request 429, array":    R(429, typeErr, `[{"error":{"status":"RESOURCE_EXHAUSTED","message":"try again in 3s"}}]`),
		"request, inner":        fmt.Errorf("call: %w", R(401, &openai.APIError{Message: "bad key", Code: "invalid_api_key"}, `{"error":"x"}`)),
		"empty stream":          openai.ErrTooManyEmptyStreamMessages,
		"model refused by SDK":  openai.ErrChatCompletionInvalidModel,
		// gobreaker
		"breaker open":    gobreaker.ErrOpenState,
		"breaker probing": fmt.Errorf("call: %w", gobreaker.ErrTooManyRequests),
		// ours
		"transient":             classifier.Transient(A(503), classifier.Code("card.busy")),
		"poison":                fmt.Errorf("step: %w", classifier.Poison(errMine, classifier.Code("card.declined"))),
		"fatal with a bad code": classifier.Fatal(errMine, classifier.Code("no code!")),
		"marks joined":          errors.Join(classifier.Transient(errMine), classifier.Fatal(io.EOF, classifier.Code("x.y"))),
		"attempts":              inner,
		"attempt timeout":       &retrypolicy.TimeoutError{After: time.Second, Err: A(404)},
		"policy field":          &retrypolicy.FieldError{Field: "Jitter", Value: "2", Remedy: "use 0 to 1"},
		"node":                  &superstep.NodeError{Node: "research/search[3]", SuperStep: 4, Task: 3, Attempts: 3, Class: classifier.ProviderError, Err: inner},
		"node, poison":          &superstep.NodeError{Node: "draft", SuperStep: 1, Attempts: 1, Err: classifier.Poison(errMine, classifier.Code("a.b"))},
		"catch":                 &superstep.CatchError{Handler: A(404), First: A(503)},
		"too many super-steps":  &superstep.MaxSuperStepsError{Limit: 9, Active: []string{"a", "b"}},
		"route":                 &superstep.RouteError{SuperStep: 2, Source: "a", Target: "b", Foreign: true},
		"reduce":                &superstep.ReduceError{SuperStep: 2, Nodes: []string{"a", "b"}, Err: &graph.ConflictError{Field: "Draft", Nodes: [2]string{"a", "b"}}},
		"run timeout":           &superstep.RunTimeoutError{After: time.Minute},
		"panic":                 &task.PanicError{Whose: `node "draft"`, Value: "boom", Stack: []byte("goroutine 1")},
		"panic of an error":     fmt.Errorf("x: %w", &task.PanicError{Whose: "tool", Value: io.EOF}),
		"provider call":         call,
		"provider unavailable":  &providers.ProviderUnavailableError{Provider: "openai", RetryAfter: time.Minute, Probing: true},
		"fallback":              &providers.FallbackError{Failures: []providers.ProviderFailure{{Provider: "a", Class: classifier.RateLimited, Text: "x", Err: call}, {Provider: "b", Err: A(401)}}, NotAsked: []string{"c"}},
		"provider config":       &providers.ConfigError{Config: "providers.Breaker", Problems: []providers.Problem{{Field: "F", Value: "1", Remedy: "no"}}},
		"not serializable":      &journal.NotSerializableError{Type: "chan int", Path: "Result.C", Reason: "a channel", Err: chanErr},
		// custom
		"plain":                   errMine,
		"wrapped plain":           fmt.Errorf("a: %w", fmt.Errorf("b: %w", errMine)),
		"pointer sentinel":        fmt.Errorf("a: %w", errTyped),
		"two wrapped":             fmt.Errorf("%w and %w", errMine, codeError{5}),
		"joined":                  errors.Join(errMine, nil, codeError{6}, errors.Join(io.EOF, A(404))),
		"value":                   errInUse,
		"pointer to a value type": &codeError{3},
		"text type":               textError("disk HTTP 404"),
		"number type":             fmt.Errorf("x: %w", numberError(-3)),
		"list type":               listError{"a", "b"},
		"map type":                mapError{"a": 1},
		"embedded error":          &wrapsError{error: &codeError{8}, Op: "op"},
		"embedded error, value":   struct{ wrapsError }{wrapsError{error: errMine, Op: "op"}},
		"unexported field":        &secretError{Shown: "s", hidden: "h"},
		"generic":                 genericError[int]{Value: 3},
		"generic of ours":         fmt.Errorf("g: %w", genericError[codeError]{Value: codeError{4}}),
		"embedding":               &embedding{base: base{Code: 4, Tags: []string{"a"}}, Detail: &Detail{Reason: "r", At: time.Unix(100, 7).UTC()}, Note: "n"},
		"live":                    &liveError{C: make(chan int), F: func() {}, Resp: &http.Response{Status: "x"}, Body: http.NoBody, Op: "op"},
		"own Is":                  &matching{Kind: "k", Detail: "d"},
		"Is of a known value":     &asking{Err: errMine},
		"kinds":                   &kinds{A: 1, B: 2.5, C: "s", D: true, E: nil, F: json.Number("3"), G: []any{1, 2.0, "x", nil}, H: map[string]any{"a": int64(4)}, I: io.EOF},
		"status":                  fmt.Errorf("x: %w", &coded{Status: 409}),
		"status of none":          &coded{},
		"nested":                  &nested{Raw: json.RawMessage(`{"a":1}`)},
		"local type":              local(),
		"text of a status":        errors.New("upstream failed: status code: 400, message: bad id"),
		"no UTF-8":                errors.New("bad \xff\xfe bytes"),
		"long":                    fmt.Errorf("%01000d: %w", 7, errMine),
	}
}

// A is an APIError with a status.
func A(status int) *openai.APIError { return &openai.APIError{HTTPStatusCode: status, Message: "x"} }

// R is a RequestError with a status.
func R(status int, err error, body string) *openai.RequestError {
	return &openai.RequestError{HTTPStatusCode: status, HTTPStatus: fmt.Sprint(status), Err: err, Body: []byte(body)}
}
