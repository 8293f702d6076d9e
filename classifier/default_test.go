package classifier_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/task"
	"github.com/sashabaranov/go-openai"
	"github.com/sony/gobreaker/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
)

// row is an error and the class it must get, bare and inside other errors.
type row struct {
	name string
	err  error
	want classifier.RunErrorClass
}

func check(t *testing.T, rows []row) {
	t.Helper()
	for _, tc := range rows {
		t.Run(tc.name, func(t *testing.T) {
			c := classifier.Default()
			require.Equal(t, tc.want, c.Classify(tc.err).Class)
			if tc.err == nil {
				return
			}
			require.Equal(t, tc.want, c.Classify(fmt.Errorf("node: %w", tc.err)).Class, "wrapped")
			require.Equal(t, tc.want, c.Classify(errors.Join(errors.New("x"), tc.err)).Class, "joined")
			require.Equal(t, tc.want, c.Classify(classifier.Transient(tc.err)).Class, "a mark is no class")
			require.Equal(t, tc.want, c.Classify(&hiding{text: "hidden", err: tc.err}).Class, "hidden")
			require.Len(t, c.Classify(tc.err).Fingerprint, 64)
			if tc.want != classifier.Canceled {
				require.Equal(t, classifier.Canceled, c.Classify(errors.Join(tc.err, context.Canceled)).Class,
					"a cancel joined with any error is a cancel")
			}
		})
	}
}

func TestStatusesHaveClasses(t *testing.T) {
	classes := map[int]classifier.RunErrorClass{
		401: classifier.Unauthorized, 402: classifier.QuotaExceeded, 403: classifier.Unauthorized, 408: classifier.Timeout,
		429: classifier.RateLimited, 504: classifier.Timeout,
	}
	for _, status := range []int{
		400, 401, 402, 403, 404, 405, 408, 409, 413, 415, 422, 425, 429, 498, 499, 500, 501, 502, 503,
		504, 520, 521, 522, 523, 524, 529,
	} {
		want, special := classes[status]
		switch {
		case special:
		case status < 500:
			want = classifier.InvalidRequest
		default:
			want = classifier.ProviderError
		}
		check(t, []row{
			{fmt.Sprint("APIError ", status), A(status), want},
			{fmt.Sprint("RequestError ", status), R(status, &json.SyntaxError{}, "<html>"), want},
			{fmt.Sprint("coder ", status), &coded{status: status}, want},
			{fmt.Sprint("coder around the same ", status), &coded{status: status, err: A(status)}, want},
			{fmt.Sprint("text ", status), fmt.Errorf("HTTP %d", status), want},
			{fmt.Sprint("flattened ", status), errors.New(A(status).Error()), want},
			{fmt.Sprint("a typed status beats text ", status), fmt.Errorf("HTTP 418: %w", A(status)), want},
		})
	}
}

func TestReadingProviderErrors(t *testing.T) {
	html := "<html>" + strings.Repeat("HTTP 404 ", 100) + "</html>"
	check(t, []row{
		{"stream frame, code null", &openai.APIError{Message: "x", Type: "server_error", Code: 0}, classifier.ProviderError},
		{"stream frame, no code", &openai.APIError{Message: "x"}, classifier.ProviderError},
		{"overloaded", &openai.APIError{Type: "overloaded_error", Message: "Overloaded"}, classifier.ProviderError},
		{"api_error", &openai.APIError{Type: "api_error", Message: "Internal server error"}, classifier.ProviderError},
		{"code 502 as int", api(0, 502, "x"), classifier.ProviderError},
		{"code 502 as float64", api(0, float64(502), "x"), classifier.ProviderError},
		{"code 502 as string", api(0, "502", "x"), classifier.ProviderError},
		{"code 429 in a stream", api(0, 429, "x"), classifier.RateLimited},
		{"rate limit in a stream", api(0, "rate_limit_exceeded", "x"), classifier.RateLimited},
		{"rate limit type in a stream", &openai.APIError{Type: "rate_limit_error"}, classifier.RateLimited},
		{"invalid request in a stream", &openai.APIError{Type: "invalid_request_error"}, classifier.InvalidRequest},
		{"bad key in a stream", &openai.APIError{Type: "authentication_error"}, classifier.Unauthorized},
		{"no permission in a stream", &openai.APIError{Type: "permission_error"}, classifier.Unauthorized},
		{"timeout in a stream", &openai.APIError{Type: "timeout_error"}, classifier.Timeout},
		{"status 200 with an error object", api(200, nil, "x"), classifier.ProviderError},
		{"empty stream messages", openai.ErrTooManyEmptyStreamMessages, classifier.ProviderError},
		{"SyntaxError", &json.SyntaxError{}, classifier.ProviderError},
		{"UnmarshalTypeError", &json.UnmarshalTypeError{Value: "array"}, classifier.ProviderError},
		{"unexpected EOF", io.ErrUnexpectedEOF, classifier.ProviderError},
		{"EOF", io.EOF, classifier.ProviderError},
		{"status code in a text", errors.New("upstream failed: status code: 400, message: bad id"), classifier.InvalidRequest},
		{"RequestError without Err", R(400, nil, `{"message":"bad id"}`), classifier.InvalidRequest},
		{"RequestError around a type error", R(429, &json.UnmarshalTypeError{}, `[{"error":{}}]`), classifier.RateLimited},
		{"RequestError with a page", R(524, &json.SyntaxError{}, html), classifier.ProviderError},
		{"RequestError around APIError(0)", R(500, &openai.APIError{}, `{"error":{}}`), classifier.ProviderError},
		{"RequestError around nil APIError", R(500, (*openai.APIError)(nil), ""), classifier.ProviderError},
		{"RequestError(0)", R(0, nil, html), classifier.Unknown},
		{"RequestError(0) around another", R(0, A(401), html), classifier.Unauthorized},
		{"RequestError around another", R(503, A(401), ""), classifier.Unauthorized},
		{"the first of two branches", errors.Join(A(503), A(429)), classifier.ProviderError},
		{"the first of two branches", errors.Join(A(429), A(503)), classifier.RateLimited},
		{"the first of two that no retry helps", errors.Join(A(401), A(404)), classifier.Unauthorized},
		{"both permanent and not", errors.Join(A(503), A(404)), classifier.InvalidRequest},
		{"text says permanent, APIError has no status", fmt.Errorf("HTTP 404: %w", A(0)), classifier.InvalidRequest},
	})
}

func TestWhatIsNoProviderErrorIsNotGuessed(t *testing.T) {
	check(t, []row{
		{"nil", nil, classifier.Unknown},
		{"text", errors.New("x"), classifier.Unknown},
		{"port 5000", errors.New("connection refused on port 5000"), classifier.Unknown},
		{"port 4000", errors.New("port 4000"), classifier.Unknown},
		{"words", errors.New("too many requests, timeout, unauthorized, insufficient_quota"), classifier.Unknown},
		{"HTTP 302", errors.New("HTTP 302"), classifier.Unknown},
		{"a file", &os.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}, classifier.Unknown},
		{"a bad URL", &url.Error{Op: "parse", URL: ":", Err: errors.New("missing protocol scheme")}, classifier.Unknown},
		{"coder with a success", &coded{status: 204}, classifier.Unknown},
		{"unknown by its own word", classed("unknown"), classifier.Unknown},
		{"a class that is none", classed("made up"), classifier.Unknown},
		{"empty class", classed(""), classifier.Unknown},
	})
	require.Equal(t, classifier.Unknown, classifier.Default().Classify(fmt.Errorf("error, %w", (*openai.APIError)(nil))).Class)
	require.Equal(t, classifier.Unknown, classifier.Default().Classify((*openai.APIError)(nil)).Class)
	require.Equal(t, classifier.Classification{Class: classifier.Unknown}, classifier.Default().Classify(nil))
}

func TestQuotaSizeAndContent(t *testing.T) {
	const (
		tooLarge = "Request too large for gpt-4 on tokens per min (TPM): Limit 30000, Requested 30182."
		reached  = "Rate limit reached for gpt-4 on tokens per min (TPM): Limit 10000, Used 9000, Requested 2000. Please try again in 6s."
		perDay   = "Rate limit reached for gpt-4 on requests per day (RPD): Limit 200, Used 200, Requested 1."
		gemini   = "You exceeded your current quota. Quota exceeded for metric: GenerateRequestsPerDayPerProjectPerModel-FreeTier"
	)
	rows := []row{
		{"billing type", &openai.APIError{HTTPStatusCode: 429, Type: "insufficient_quota"}, classifier.QuotaExceeded},
		{"too large", api(429, "rate_limit_exceeded", tooLarge), classifier.InvalidRequest},
		{"too large, no numbers", api(429, nil, "Request too large."), classifier.InvalidRequest},
		{"above the limit, other words", api(429, nil, "TPM: Limit: 10, Requested: 11"), classifier.InvalidRequest},
		{"not above the limit", api(429, nil, reached), classifier.RateLimited},
		{"above a limit that no int holds", api(429, nil, "limit 1, requested 99999999999999999999"), classifier.RateLimited},
		{"per day, but no quota", api(429, nil, perDay), classifier.RateLimited},
		{"too large, but an outage", api(500, nil, "Request too large."), classifier.ProviderError},
		{"bad key, but an outage", api(500, nil, "Incorrect API key provided"), classifier.ProviderError},
		{"bad key, but a rate limit", api(429, "invalid_api_key", ""), classifier.RateLimited},
		{"context length", api(400, "context_length_exceeded", "x"), classifier.InvalidRequest},
		{"context length as 500", api(500, "context_length_exceeded", "x"), classifier.InvalidRequest},
		{"bad key as 400", api(400, nil, "API key not valid. Please pass a valid API key."), classifier.Unauthorized},
		{"bad key as 400", api(400, nil, "Incorrect API key provided: xa***"), classifier.Unauthorized},
		{"bad key as 400 by code", api(400, "invalid_api_key", ""), classifier.Unauthorized},
		{"quota per day", api(429, nil, gemini), classifier.QuotaExceeded},
		{"quota per day with a wait", api(429, nil, gemini+" Please retry in 36.5s."), classifier.RateLimited},
		{"nothing left", api(402, nil, "x"), classifier.QuotaExceeded},
		{
			"Azure's content filter",
			&openai.APIError{HTTPStatusCode: 400, Code: "content_filter", InnerError: &openai.InnerError{Code: "ResponsibleAIPolicyViolation"}},
			classifier.ContentFiltered,
		},
		{
			"Azure's inner code alone",
			&openai.APIError{HTTPStatusCode: 400, InnerError: &openai.InnerError{Code: "ResponsibleAIPolicyViolation"}},
			classifier.ContentFiltered,
		},
		{"policy", api(400, "content_policy_violation", ""), classifier.ContentFiltered},
		{"moderation", api(403, "moderation_blocked", ""), classifier.ContentFiltered},
		{"inside a custom error", &coded{status: 429, err: api(429, "insufficient_quota", "")}, classifier.QuotaExceeded},
		{"inside a RequestError", R(429, api(0, "insufficient_quota", ""), ""), classifier.QuotaExceeded},
	}
	for _, code := range []string{
		"insufficient_quota", "billing_hard_limit_reached", "credit_balance_exhausted", "project_spend_limit_exceeded",
		"org_usage_limit_reached", "enforced_spend_limit_reached",
	} {
		for _, status := range []int{0, 400, 403, 429} {
			rows = append(rows, row{fmt.Sprint(code, status), api(status, code, "x"), classifier.QuotaExceeded})
		}
	}
	for _, text := range []string{"Budget has been exceeded!", "Your credit balance is too low to access the API"} {
		for _, status := range []int{400, 429} {
			rows = append(rows, row{fmt.Sprint(text, status), api(status, fmt.Sprint(status), text), classifier.QuotaExceeded})
		}
		rows = append(rows, row{text + " in a 500", api(500, nil, text), classifier.ProviderError})
	}
	check(t, rows)
}

func TestBodiesThatGoOpenAICannotRead(t *testing.T) {
	gemini := func(details string) string {
		return `[{"error":{"code":429,"message":"Quota exceeded","status":"RESOURCE_EXHAUSTED","details":[` + details + `]}}]`
	}
	const (
		perDay = `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"RequestsPerDay-FreeTier"}]}`
		perMin = `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"RequestsPerMinute"}]}`
		retry  = `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"36s"}`
		badKey = `[{"error":{"code":400,"message":"x","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}]`
	)
	typeErr := &json.UnmarshalTypeError{Value: "array"}
	check(t, []row{
		{"per day", R(429, typeErr, gemini(perDay)), classifier.QuotaExceeded},
		{"per day with a wait", R(429, typeErr, gemini(perDay+","+retry)), classifier.RateLimited},
		{"per minute", R(429, typeErr, gemini(perMin)), classifier.RateLimited},
		{"bad key", R(400, typeErr, badKey), classifier.Unauthorized},
		{"flat object", R(400, nil, `{"message":"Budget has been exceeded!","code":400}`), classifier.QuotaExceeded},
		{"flat code", R(429, nil, `{"code":"insufficient_quota"}`), classifier.QuotaExceeded},
		{"error is a text", R(429, A(0), `{"error":"Your credit balance is too low"}`), classifier.QuotaExceeded},
		{"type is a number", R(400, A(0), `{"error":{"message":"x","type":1,"code":"content_filter"}}`), classifier.ContentFiltered},
		{"too long", R(429, nil, `{"code":"insufficient_quota","x":"`+strings.Repeat("x", 1<<17)+`"}`), classifier.RateLimited},
		{"no JSON", R(429, nil, `insufficient_quota`), classifier.RateLimited},
		{"null", R(429, nil, `null`), classifier.RateLimited},
		{"many", R(429, nil, "["+strings.Repeat("{},", 10_000)+"{}]"), classifier.RateLimited},
	})
}

type netTimeout struct{}

func (netTimeout) Error() string { return "slow" }
func (netTimeout) Timeout() bool { return true }

func TestTimeoutsAndConnections(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	post := func(err error) error { return &url.Error{Op: "Post", URL: "http://127.0.0.1:4000/v1", Err: err} }
	check(t, []row{
		{"deadline", context.DeadlineExceeded, classifier.Timeout},
		{"client deadline", post(context.DeadlineExceeded), classifier.Timeout},
		{"I/O deadline", os.ErrDeadlineExceeded, classifier.Timeout},
		{"Timeout()", netTimeout{}, classifier.Timeout},
		{"OpError with a timeout", &net.OpError{Op: "read", Err: netTimeout{}}, classifier.Timeout},
		{"DNS timeout", &net.DNSError{IsTimeout: true}, classifier.Timeout},
		{"ETIMEDOUT", syscall.ETIMEDOUT, classifier.Timeout},
		{"a deadline inside a 503", &coded{status: 503, err: context.DeadlineExceeded}, classifier.ProviderError},
		{"refused", post(refused), classifier.ProviderError},
		{"reset", syscall.ECONNRESET, classifier.ProviderError},
		{"broken pipe", &net.OpError{Op: "write", Err: syscall.EPIPE}, classifier.ProviderError},
		{"unreachable", syscall.EHOSTUNREACH, classifier.ProviderError},
		{"DNS", post(&net.DNSError{Err: "no such host", IsNotFound: true}), classifier.ProviderError},
		{"EOF", post(io.EOF), classifier.ProviderError},
		{"GOAWAY", post(errors.New("http2: server sent GOAWAY and closed the connection")), classifier.ProviderError},
		{"stream reset", errors.New("stream error: stream ID 7; INTERNAL_ERROR; received from peer"), classifier.ProviderError},
		{"idle connection", post(errors.New("http: server closed idle connection")), classifier.ProviderError},
		{"canceled", context.Canceled, classifier.Canceled},
		{"canceled call", post(context.Canceled), classifier.Canceled},
		{"canceled dial", &net.OpError{Op: "dial", Err: context.Canceled}, classifier.Canceled},
		{"canceled and transient", errors.Join(A(503), context.Canceled), classifier.Canceled},
		{"canceled beside a permanent one", errors.Join(A(401), context.Canceled), classifier.Canceled},
		{"stopped", stopped{}, classifier.Canceled},
		{"open circuit", gobreaker.ErrOpenState, classifier.ProviderUnavailable},
		{"half-open circuit", gobreaker.ErrTooManyRequests, classifier.ProviderUnavailable},
	})
}

// stopped is a cancel cause of an executor.
type stopped struct{}

func (stopped) Error() string        { return "stopped with its sibling" }
func (stopped) Is(target error) bool { return target == context.Canceled }

func TestLimiterErrors(t *testing.T) {
	limiter := rate.NewLimiter(1, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.NoError(t, limiter.Wait(ctx))
	check(t, []row{
		{"would exceed the deadline", limiter.Wait(ctx), classifier.RateLimited},
		{"exceeds the burst", limiter.WaitN(t.Context(), 2), classifier.InvalidRequest},
		{"reads alike", errors.New("rate: Wait(n=1) is odd"), classifier.Unknown},
	})
}

func TestRequestsRefusedBeforeTheyAreSent(t *testing.T) {
	_, unsupported := json.Marshal(make(chan int)) //nolint:staticcheck // the error is what is wanted
	_, marshaler := json.Marshal(badJSON{})
	check(t, []row{
		{"model", openai.ErrChatCompletionInvalidModel, classifier.InvalidRequest},
		{"content", openai.ErrContentFieldsMisused, classifier.InvalidRequest},
		{"reasoning model", openai.ErrReasoningModelLimitationsOther, classifier.InvalidRequest},
		{"type", unsupported, classifier.InvalidRequest},
		{"marshaler", marshaler, classifier.InvalidRequest},
	})
}

type badJSON struct{}

func (badJSON) MarshalJSON() ([]byte, error) { return nil, errors.New("no") }

// classed is an error that knows its class.
type classed classifier.RunErrorClass

func (c classed) Error() string                           { return "classed" }
func (c classed) RunErrorClass() classifier.RunErrorClass { return classifier.RunErrorClass(c) }

type classedWrapper struct {
	class classifier.RunErrorClass
	error
}

func (c classedWrapper) RunErrorClass() classifier.RunErrorClass { return c.class }
func (c classedWrapper) Unwrap() error                           { return c.error }

func TestErrorsSpeakForThemselves(t *testing.T) {
	rows := []row{
		{"panic", &task.PanicError{Whose: "node", Value: "x"}, classifier.Panic},
		{"panic with a transient value", &task.PanicError{Value: A(503)}, classifier.Panic},
		{"around another", classedWrapper{classifier.ToolError, A(503)}, classifier.ToolError},
		{"transient around another", classedWrapper{classifier.RateLimited, A(401)}, classifier.RateLimited},
		{"beats a text", classedWrapper{classifier.Timeout, errors.New("HTTP 404")}, classifier.Timeout},
		{"unknown leaves it to what is inside", classedWrapper{classifier.Unknown, A(401)}, classifier.Unauthorized},
		{"a cancel inside belongs to the word outside", classedWrapper{classifier.Timeout, context.Canceled}, classifier.Timeout},
	}
	for _, class := range []classifier.RunErrorClass{
		classifier.ProviderError, classifier.ProviderUnavailable, classifier.RateLimited, classifier.Timeout,
		classifier.QuotaExceeded, classifier.InvalidRequest, classifier.Unauthorized, classifier.ContentFiltered,
		classifier.InvalidResponse, classifier.ToolError, classifier.ToolTimeout, classifier.ToolBlocked,
		classifier.BudgetExceeded, classifier.CompilationFailed, classifier.Panic, classifier.Canceled,
	} {
		rows = append(rows, row{string(class), classed(class), class})
	}
	check(t, rows)
}

func TestOnlyFourClassesAreTransient(t *testing.T) {
	var transient []classifier.RunErrorClass
	for _, class := range []classifier.RunErrorClass{
		"provider_error", "provider_unavailable", "rate_limited", "timeout", "quota_exceeded", "invalid_request",
		"unauthorized", "content_filtered", "invalid_response", "tool_error", "tool_timeout", "tool_blocked",
		"budget_exceeded", "compilation_failed", "panic", "canceled", "unknown",
	} {
		require.True(t, class.Known(), class)
		if class.Transient() {
			transient = append(transient, class)
		}
	}
	require.Equal(t, []classifier.RunErrorClass{
		classifier.ProviderError, classifier.ProviderUnavailable, classifier.RateLimited, classifier.Timeout,
	}, transient)
	require.False(t, classifier.RunErrorClass("made up").Known())
	require.False(t, classifier.RunErrorClass("").Known())
}
