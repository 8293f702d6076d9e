package providers

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ServerHint returns how long a server asks to wait before another attempt, by the headers and the body of its failed
// answer; 0 if it does not ask. The first that is there and makes sense counts:
//
//   - Retry-After-Ms, in milliseconds (OpenAI, Azure)
//   - Retry-After, in seconds, also fractional, or an HTTP date in any of its three layouts (RFC 9110, 10.2.3)
//   - RetryInfo in the body, "36s" (Google, google.rpc.RetryInfo)
//   - X-Ratelimit-Reset-Requests and -Tokens, a Go duration (OpenAI), and Anthropic-Ratelimit-*-Reset, in RFC 3339
//     (Anthropic), each only if the matching remaining header says 0; of several the longest
//
// What is no time is ignored: text, NaN, infinities, negative waits, dates in the past, more than 292 years.
func ServerHint(h http.Header, body []byte, now time.Time) time.Duration {
	if d, ok := number(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	if d, ok := retryAfter(h.Get("Retry-After"), now); ok {
		return d
	}
	if d, ok := retryInfo(body); ok {
		return d
	}
	return resetHint(h, now)
}

// number reads a non-negative decimal number of units.
func number(s string, unit time.Duration) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	if s == "" || strings.Trim(s, "0123456789.eE+-") != "" { // no Inf, NaN, hex or underscores
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, false
	}
	f *= float64(unit)
	if math.IsNaN(f) || f <= 0 || f >= math.MaxInt64 {
		return 0, false
	}
	return time.Duration(f), time.Duration(f) > 0
}

func retryAfter(s string, now time.Time) (time.Duration, bool) {
	if d, ok := number(s, time.Second); ok {
		return d, true
	}
	t, err := http.ParseTime(strings.TrimSpace(s))
	if err != nil {
		return 0, false
	}
	return until(t, now)
}

// until returns the time left to t. A difference that saturates is no time.
func until(t, now time.Time) (time.Duration, bool) {
	d := t.Sub(now)
	return d, d > 0 && d < math.MaxInt64
}

// retryInfo reads Google's hint; the body is an error, or a list of one.
func retryInfo(body []byte) (time.Duration, bool) {
	if !bytes.Contains(body, []byte("RetryInfo")) {
		return 0, false
	}
	type envelope struct {
		Error struct {
			Details []struct {
				Type  string `json:"@type"`
				Delay string `json:"retryDelay"` //nolint:tagliatelle // Google's name
			} `json:"details"`
		} `json:"error"`
	}
	var list []envelope
	if json.Unmarshal(body, &list) != nil {
		list = make([]envelope, 1)
		if json.Unmarshal(body, &list[0]) != nil {
			return 0, false
		}
	}
	for _, e := range list {
		for _, d := range e.Error.Details {
			seconds, isSeconds := strings.CutSuffix(d.Delay, "s")
			if !isSeconds || !strings.HasSuffix(d.Type, "google.rpc.RetryInfo") {
				continue
			}
			if wait, ok := number(seconds, time.Second); ok {
				return wait, true
			}
		}
	}
	return 0, false
}

// resetHint reads when an exhausted limit is refilled.
func resetHint(h http.Header, now time.Time) time.Duration {
	var longest time.Duration
	for _, what := range [...]string{"Requests", "Tokens"} {
		if strings.TrimSpace(h.Get("X-Ratelimit-Remaining-"+what)) != "0" {
			continue
		}
		if d, err := time.ParseDuration(strings.TrimSpace(h.Get("X-Ratelimit-Reset-" + what))); err == nil {
			longest = max(longest, d)
		}
	}
	for _, what := range [...]string{"Requests", "Tokens", "Input-Tokens", "Output-Tokens"} {
		if strings.TrimSpace(h.Get("Anthropic-Ratelimit-"+what+"-Remaining")) != "0" {
			continue
		}
		t, err := time.Parse(time.RFC3339, strings.TrimSpace(h.Get("Anthropic-Ratelimit-"+what+"-Reset")))
		if err != nil {
			continue
		}
		if d, ok := until(t, now); ok {
			longest = max(longest, d)
		}
	}
	return longest
}
