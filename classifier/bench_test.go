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

// One operation classifies ten errors.
func BenchmarkClassify(b *testing.B) {
	c, errs := classifier.Default(), typical()
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range errs {
			c.Classify(err)
		}
	}
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
