package classifier

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"

	"github.com/pawl-go/pawl/task"
	"github.com/sashabaranov/go-openai"
	"github.com/sony/gobreaker/v2"
)

// ownAnswer is what one error says by itself, without the errors it wraps.
func ownAnswer(err error) answer {
	if class := classOf(err); class != "" {
		return answer{class: class, weight: explicit}
	}
	switch e := original(err).(type) {
	case *openai.APIError:
		return answer{class: apiClass(e), weight: weak}
	case *openai.RequestError:
		if e.HTTPStatusCode != 0 {
			return answer{class: requestClass(e), weight: weak}
		}
	}
	if status := statusOf(err); status >= 400 {
		return answer{class: statusClass(status), weight: weak}
	}
	if class := plainClass(err); class != "" {
		return answer{class: class, weight: weak}
	}
	return answer{}
}

// classOf is the class of an error that knows it, of a recovered panic or of a cancellation; empty for all else.
func classOf(err error) RunErrorClass {
	if c, is := err.(Classed); is {
		if class, _ := ask(c.RunErrorClass); class.Known() && class != Unknown {
			return class
		}
	}
	if class, is := recordedClass(err); is && class != Unknown {
		return class
	}
	if _, is := original(err).(*task.PanicError); is {
		return Panic
	}
	if isA(err, context.Canceled) {
		return Canceled
	}
	return ""
}

// isA is errors.Is for one error of a tree.
func isA(err, target error) bool {
	if err == target {
		return true
	}
	m, has := err.(interface{ Is(error) bool })
	if !has {
		return false
	}
	is, _ := ask(func() bool { return m.Is(target) })
	return is
}

// statusClass is the class of an HTTP status from 400 up.
func statusClass(status int) RunErrorClass {
	switch status {
	case http.StatusTooManyRequests:
		return RateLimited
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return Timeout
	case http.StatusPaymentRequired:
		return QuotaExceeded
	case http.StatusUnauthorized, http.StatusForbidden:
		return Unauthorized
	}
	if permanent(status) {
		return InvalidRequest
	}
	return ProviderError
}

// plainClass is the class of an error that no API made.
func plainClass(err error) RunErrorClass {
	switch {
	case isValue(err, gobreaker.ErrOpenState, gobreaker.ErrTooManyRequests): // the latter reads like a 429
		return ProviderUnavailable
	case isValue(err, io.EOF, io.ErrUnexpectedEOF, openai.ErrTooManyEmptyStreamMessages):
		return ProviderError
	}
	switch {
	case isTimeout(err):
		return Timeout
	case isConnection(err):
		return ProviderError
	case isRefusedBySDK(err):
		return InvalidRequest
	}
	return limiterClass(err)
}

func isTimeout(err error) bool {
	if isA(err, context.DeadlineExceeded) || isA(err, os.ErrDeadlineExceeded) {
		return true
	}
	t, has := timeouterOf(err)
	if !has {
		return false
	}
	is, _ := ask(t.Timeout)
	return is
}

// isConnection reports whether err is a failure of the way to the provider, or an answer that cannot be read.
func isConnection(err error) bool {
	switch e := original(err).(type) {
	case *net.OpError, *net.DNSError, *json.SyntaxError, *json.UnmarshalTypeError:
		return true
	case syscall.Errno:
		switch e {
		case syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, syscall.EHOSTUNREACH,
			syscall.ENETUNREACH, syscall.ENETDOWN:
			return true
		}
	}
	return isTransport(err)
}

// isTransport recognises the errors of net/http that have neither a type nor a name of their own.
func isTransport(err error) bool {
	if !isLeaf(err) {
		return false
	}
	text := textOf(err)
	for _, prefix := range [...]string{"http2: ", "stream error: stream ID ", "http: server closed idle connection",
		"net/http: HTTP/1.x transport connection broken"} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}

// isRefusedBySDK reports whether a request was refused before it was sent.
func isRefusedBySDK(err error) bool {
	switch original(err).(type) {
	case *json.UnsupportedTypeError, *json.UnsupportedValueError, *json.MarshalerError:
		return true
	}
	return isValue(err,
		openai.ErrChatCompletionInvalidModel, openai.ErrChatCompletionStreamNotSupported,
		openai.ErrContentFieldsMisused, openai.ErrCompletionUnsupportedModel, openai.ErrCompletionStreamNotSupported,
		openai.ErrCompletionRequestPromptTypeNotSupported, openai.ErrModerationInvalidModel,
		openai.ErrReasoningEffortUnsupported, openai.ErrReasoningToolsRequireResponses,
		openai.ErrReasoningSamplingUnsupported, openai.ErrReasoningModelMaxTokensDeprecated,
		openai.ErrReasoningModelLimitationsLogprobs, openai.ErrReasoningModelLimitationsOther,
		openai.ErrO1BetaLimitationsMessageTypes, openai.ErrO1BetaLimitationsTools,
		openai.ErrO1MaxTokensDeprecated,     //nolint:staticcheck // older releases return it
		openai.ErrO1BetaLimitationsLogprobs, //nolint:staticcheck // the same
		openai.ErrO1BetaLimitationsOther, openai.ErrVectorLengthMismatch,
	)
}

// limiterClass is the class of the two errors that x/time/rate makes without a type.
func limiterClass(err error) RunErrorClass {
	if !isLeaf(err) {
		return ""
	}
	text := textOf(err)
	switch {
	case !strings.HasPrefix(text, "rate: Wait(n="):
		return ""
	case strings.HasSuffix(text, "would exceed context deadline"):
		return RateLimited
	case strings.Contains(text, "exceeds limiter's burst"):
		return InvalidRequest
	}
	return ""
}

// apiClass is the class of an APIError that is not part of a RequestError.
func apiClass(e *openai.APIError) RunErrorClass {
	return factsOf(e).class(statusOf(e))
}

// requestClass is the class of a RequestError with a status. What it wraps may know more: an APIError whose status is
// lost, or a body that go-openai could not read.
func requestClass(e *openai.RequestError) RunErrorClass {
	f := bodyFacts(e.Body)
	for inner := range Tree(e.Err) {
		if api, is := original(inner).(*openai.APIError); is {
			f = f.plus(factsOf(api))
			break
		}
	}
	return f.class(statusOf(e))
}
