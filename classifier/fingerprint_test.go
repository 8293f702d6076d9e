package classifier_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/stretchr/testify/require"
)

func TestTwoInstancesOfOneFailureShareAFingerprint(t *testing.T) {
	for _, same := range [][]string{
		{"x", "x"},
		{"row 17 of 200 failed", "row 2 of 31 failed"},
		{"Limit 30000, Requested 30182", "Limit 30,000, Requested 9"},
		{"try again in 7m12s", "try again in 36s", "try again in 1.5s", "try again in 20ms", "try again in 3h"},
		{"took 5µs", "took 5ns"},
		{"read 5MB", "read 17kB", "read 3GiB", "read 12345"},
		{"request req_011CSHoEeqs5C35K2UUqR7Fy failed", "request req_018EeHqVnbFx9zQ3WmT1aLcD failed"},
		{"user_48213 is gone", "user_555 is gone"},
		{"worker-12 died", "worker-7 died"},
		{"run 6f1c2b3a-1d2e-4f5a-8b9c-0123456789ab", "run abcdefab-cdef-abcd-efab-cdefabcdefab"},
		{"task_6f1c2b3a-1d2e-4f5a-8b9c-0123456789ab", "task_00000000-0000-0000-0000-000000000000"},
		{"commit 0a1b2c3d4e5f", "commit ffffffff0"},
		{"at 0xc000123", "at 0xC0FFEE", "at 0xabc"},
		{"since 2024-05-01T12:34:56Z", "since 2025-12-31T00:00:00.123456Z", "since 2024-05-01 12:34:56+02:00", "since 2024-05-01"},
		{"at 12:34:56", "at 00:00:01"},
		{"until Wed, 21 Oct 2015 07:28:00 GMT", "until Thu, 01 Jan 1970 00:00:00 GMT"},
		{"until Wed Oct 21 07:28:00 2015", "until Thu Jan  1 00:00:00 1970"},
		{"dial tcp 127.0.0.1:54321: refused", "dial tcp 10.1.2.3:80: refused"},
		{"dial tcp [::1]:54321: refused", "dial tcp [2606:4700::6812:1%eth0]:80: refused"},
		{"GET https://api.example.com/v1/threads/12?x=1: EOF", "GET http://localhost:8080/: EOF"},
		{"see http://[::1]:80/x.", "see http://[fe80::1]/y."},
		{`Post "http://127.0.0.1:54321/v1": EOF`, `Post "https://example.com/v1/threads/thr_1": EOF`},
		{"can't read 5 of Bob's files", "can't read 6 of Bob's files"},
		{"unclosed \" 5", "unclosed \" 6"},
		{"unclosed \" 5\n 1 \" 2", "unclosed \" 6\n 2 \" 3"},
		{"unclosed \"\\\nrow 5 \"", "unclosed \"\\\nrow 6 \""},
		{"size [5]", "size [6]"},
		{"1.2.3.x", "4.5.6.x"},
		{"5, 6. 7: 8", "1, 2. 3: 4"},
		{"HTTP 404", "HTTP 503"},
	} {
		for _, s := range same[1:] {
			require.Equal(t, classifier.Fingerprint(same[0]), classifier.Fingerprint(s), "%q and %q", same[0], s)
		}
	}
}

func TestDifferentFailuresHaveDifferentFingerprints(t *testing.T) {
	seen := map[string]string{}
	for _, msg := range []string{
		"", "x", "y", " x",
		"tool search failed", "tool fetch failed", "tool search_v2 failed", "tool search_v3 failed", "tool search2 failed",
		`tool "search" failed`, `tool "fetch" failed`, `tool "1" failed`, `tool "2" failed`, `tool "req_011CSHoEeqs5" failed`,
		"tool 'a1' failed", "tool 'a2' failed", "tool `12345` failed", "tool `12346` failed",
		`tool "a \" 1" failed`, `tool "a \" 2" failed`,
		"status 5xx", "status 4xx",
		"row <n>, column", "row 5 column", "the 3rd", "the 2nd",
		"http2 failed", "http3 failed", "base64decode failed", "llama3instruct failed",
		"ResponsibleAIPolicyViolation", "feed", "deadbeef", "defaced",
		`say "see http://a.b/c or d"`, `say "see http://a.b/c or e"`,
	} {
		got := classifier.Fingerprint(msg)
		require.Regexp(t, "^[0-9a-f]{64}$", got)
		require.NotContains(t, seen, got, "%q has the fingerprint of %q", msg, seen[got])
		seen[got] = msg
	}
}

func TestFingerprintTakesLinearTime(t *testing.T) {
	for _, piece := range []string{
		"x", "1", "a1", "'", "\"", "`", "' ", " 'a", "\\\"", "1.", "1h", "1.1h", "ab_", "_", "[", "[::1", "http://", "Mon ", "0x", "f",
		"Mon, 02 Jan 2006 ", "2024-05-01T", "\n", "µ",
	} {
		start := time.Now()
		classifier.Fingerprint(strings.Repeat(piece, (1<<18)/len(piece)) + "x")
		require.Less(t, time.Since(start), 20*time.Second, "%q", piece)
	}
}
