package providers_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/pawl-go/pawl/providers"
	"github.com/stretchr/testify/require"
)

func TestServerHint(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	h := func(pairs ...string) http.Header {
		out := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			out.Set(pairs[i], pairs[i+1])
		}
		return out
	}
	after := func(v string) http.Header { return h("Retry-After", v) }
	info := func(delay string) string {
		return `{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.Help"},{"@type":"type.googleapis.com/google.rpc.RetryInfo",` +
			`"retryDelay":"` + delay + `"}]}}`
	}
	for name, tc := range map[string]struct {
		header http.Header
		body   string
		want   time.Duration
	}{
		"none":                      {nil, "", 0},
		"seconds":                   {after("5"), "", 5 * time.Second},
		"seconds with blanks":       {after(" 5 "), "", 5 * time.Second},
		"fractional seconds":        {after("1.5"), "", 1500 * time.Millisecond},
		"seconds with an exponent":  {after("1e2"), "", 100 * time.Second},
		"a day":                     {after("86400"), "", 24 * time.Hour},
		"a date (IMF)":              {after("Sun, 01 Mar 2026 12:00:03 GMT"), "", 3 * time.Second},
		"a date (RFC 850)":          {after("Sunday, 01-Mar-26 12:00:03 GMT"), "", 3 * time.Second},
		"a date (asctime)":          {after("Sun Mar  1 12:00:03 2026"), "", 3 * time.Second},
		"milliseconds":              {h("Retry-After-Ms", "250"), "", 250 * time.Millisecond},
		"fractional milliseconds":   {h("Retry-After-Ms", "0.5"), "", 500 * time.Microsecond},
		"milliseconds first":        {h("Retry-After-Ms", "250", "Retry-After", "5"), "", 250 * time.Millisecond},
		"bad milliseconds, seconds": {h("Retry-After-Ms", "-1", "Retry-After", "5"), "", 5 * time.Second},
		"zero":                      {after("0"), "", 0},
		"negative":                  {after("-1"), "", 0},
		"NaN":                       {after("NaN"), "", 0},
		"infinity":                  {after("Inf"), "", 0},
		"an infinity of digits":     {after("1e999"), "", 0},
		"unrepresentable":           {after("1e300"), "", 0},
		"three hundred years":       {after("9460800000"), "", 0},
		"hex":                       {after("0x10"), "", 0},
		"underscores":               {after("1_000"), "", 0},
		"less than a nanosecond":    {after("1e-10"), "", 0},
		"text":                      {after("soon"), "", 0},
		"a unit":                    {after("5s"), "", 0},
		"a past date":               {after("Sun, 01 Mar 2026 11:59:59 GMT"), "", 0},
		"this very second":          {after("Sun, 01 Mar 2026 12:00:00 GMT"), "", 0},
		"the end of time":           {after("Fri, 31 Dec 9999 23:59:59 GMT"), "", 0},
		"a body":                    {nil, info("36s"), 36 * time.Second},
		"a fractional body":         {nil, info("0.25s"), 250 * time.Millisecond},
		"a body in a list":          {nil, "[" + info("36s") + "]", 36 * time.Second},
		"a body without a unit":     {nil, info("36"), 0},
		"a negative body":           {nil, info("-3s"), 0},
		"a body of another kind":    {nil, `{"error":{"details":"RetryInfo"}}`, 0},
		"a body that is cut":        {nil, info("36s")[:80], 0},
		"a body of another type":    {nil, `{"error":{"details":[{"@type":"x.NoRetryInfoAtAll","retryDelay":"36s"}]}}`, 0},
		"seconds before the body":   {after("5"), info("36s"), 5 * time.Second},
		"the body before resets": {
			h("X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "9s"), info("36s"), 36 * time.Second,
		},
		"a reset of requests": {
			h("X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "1m6s"), "", 66 * time.Second,
		},
		"a reset of tokens": {
			h("X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "250ms"), "", 250 * time.Millisecond,
		},
		"the longer reset": {
			h("X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "9s", "X-Ratelimit-Remaining-Requests", "0",
				"X-Ratelimit-Reset-Requests", "2s"),
			"", 9 * time.Second,
		},
		"a reset with some remaining": {h("X-Ratelimit-Remaining-Requests", "1", "X-Ratelimit-Reset-Requests", "1m6s"), "", 0},
		"a reset without remaining":   {h("X-Ratelimit-Reset-Requests", "1m6s"), "", 0},
		"a reset that is no duration": {h("X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "60"), "", 0},
		"a negative reset":            {h("X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "-1s"), "", 0},
		"Anthropic's": {
			h("Anthropic-Ratelimit-Requests-Remaining", "0", "Anthropic-Ratelimit-Requests-Reset", "2026-03-01T12:00:20Z"),
			"", 20 * time.Second,
		},
		"Anthropic's output tokens": {
			h("Anthropic-Ratelimit-Output-Tokens-Remaining", "0", "Anthropic-Ratelimit-Output-Tokens-Reset", "2026-03-01T14:00:20+02:00"),
			"", 20 * time.Second,
		},
		"Anthropic's with some left": {
			h("Anthropic-Ratelimit-Tokens-Remaining", "7", "Anthropic-Ratelimit-Tokens-Reset", "2026-03-01T12:00:20Z"), "", 0,
		},
		"Anthropic's, past": {
			h("Anthropic-Ratelimit-Input-Tokens-Remaining", "0", "Anthropic-Ratelimit-Input-Tokens-Reset", "2026-03-01T11:00:20Z"), "", 0,
		},
		"Anthropic's, unreadable": {h("Anthropic-Ratelimit-Tokens-Remaining", "0", "Anthropic-Ratelimit-Tokens-Reset", "soon"), "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, providers.ServerHint(tc.header, []byte(tc.body), now))
		})
	}
}

func FuzzServerHint(f *testing.F) {
	for _, s := range []string{
		"5", "1.5", "-1", "NaN", "1e300", "Sun, 01 Mar 2026 12:00:03 GMT", "36s", "2026-03-01T12:00:20Z", "1m6s", "",
	} {
		f.Add(s, s, s)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, after, reset, body string) {
		h := http.Header{
			"Retry-After": {after}, "Retry-After-Ms": {reset},
			"X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {reset},
			"Anthropic-Ratelimit-Tokens-Remaining": {"0"}, "Anthropic-Ratelimit-Tokens-Reset": {reset},
		}
		for _, b := range []string{body, `{"error":{"details":[{"@type":"google.rpc.RetryInfo","retryDelay":"` + body + `"}]}}`} {
			if d := providers.ServerHint(h, []byte(b), now); d < 0 {
				t.Fatalf("a negative wait: %v", d)
			}
		}
	})
}
