package classifier_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-go/pawl/classifier"
	"github.com/sashabaranov/go-openai"
	"github.com/sony/gobreaker/v2"
)

// typical returns ten errors as providers and networks make them.
func typical() []error {
	return []error{
		A(503),
		api(429, "rate_limit_exceeded", "Rate limit reached: Limit 10000, Used 9000, Requested 2000. Please try again in 6s."),
		api(429, "insufficient_quota", "You exceeded your current quota."),
		api(400, "context_length_exceeded", "This model's maximum context length is 8192 tokens."),
		R(502, &json.SyntaxError{}, "<html><body>Bad Gateway</body></html>"),
		&url.Error{Op: "Post", URL: "http://127.0.0.1:1/v1", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}},
		fmt.Errorf("node %q: %w", "draft", context.DeadlineExceeded),
		fmt.Errorf("stream: %w", io.ErrUnexpectedEOF),
		gobreaker.ErrOpenState,
		errors.Join(errors.New("first"), errors.New("upstream failed: status code: 400, message: bad id")),
	}
}

// One operation classifies ten errors. The floor is what one would write by hand: errors.As for go-openai's types and a
// switch over the status, the same fingerprint, and none of the rules for codes, texts and trees.
func BenchmarkClassify(b *testing.B) {
	c, errs := classifier.Default(), typical()
	b.Run("pawl", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, err := range errs {
				c.Classify(err)
			}
		}
	})
	b.Run("floor", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, err := range errs {
				byHand(err)
			}
		}
	})
}

func byHand(err error) classifier.Classification {
	var api *openai.APIError
	var request *openai.RequestError
	status := 0
	switch {
	case errors.As(err, &api):
		status = api.HTTPStatusCode
	case errors.As(err, &request):
		status = request.HTTPStatusCode
	}
	class := classifier.Unknown
	switch {
	case status >= 500 || errors.Is(err, io.ErrUnexpectedEOF):
		class = classifier.ProviderError
	case status == 429:
		class = classifier.RateLimited
	case status >= 400:
		class = classifier.InvalidRequest
	case errors.Is(err, context.DeadlineExceeded):
		class = classifier.Timeout
	}
	return classifier.Classification{Class: class, Fingerprint: classifier.Fingerprint(err.Error())}
}

func BenchmarkPermanentHTTPStatus(b *testing.B) {
	for name, err := range map[string]error{
		"typed":      fmt.Errorf("node: %w", A(404)),
		"short text": errors.New("upstream failed: status code: 400, message: bad id"),
		"10 MB text": errors.New(strings.Repeat("the quick status of HTTP ", 10<<20/25)),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				classifier.PermanentHTTPStatus(err)
			}
		})
	}
}

func BenchmarkFingerprint(b *testing.B) {
	msg := "error, status code: 429, status: 429 Too Many Requests, message: Rate limit reached for gpt-4 in organization org-x " +
		"on tokens per min (TPM): Limit 10000, Used 9000, Requested 2000. Please try again in 6s."
	b.ReportAllocs()
	for b.Loop() {
		classifier.Fingerprint(msg)
	}
}
