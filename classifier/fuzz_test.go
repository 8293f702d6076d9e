package classifier_test

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/classifier"
	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
)

// FuzzHTTPStatus holds the text rule against a regular expression, builds trees that nobody would, and checks that a body
// is never read.
func FuzzHTTPStatus(f *testing.F) {
	for _, s := range []string{"HTTP 404", "HTTP/1.1 503 x", "status code: 404", "http error: 404", "HTTP 4041", "port 40329", "HTTP 503 HTTP 404"} {
		f.Add(s, []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 404)
		f.Add(s, []byte{9, 9, 3, 3, 0}, 0)
	}
	f.Fuzz(func(t *testing.T, text string, shape []byte, status int) {
		require.Equal(t, reference(text), classifier.ScanStatus(text), "%q", text)

		err := build(text, shape, status)
		first, ok := classifier.HTTPStatus(err)
		perm, isPerm := classifier.PermanentHTTPStatus(err)
		require.Equal(t, ok, first != 0)
		require.Equal(t, isPerm, first >= 400 && first < 500 && first != 408 && first != 429)
		require.True(t, !isPerm || perm == first)
		got := classifier.Default().Classify(err)
		require.True(t, got.Class.Known())
		classifier.Message(err)

		body := R(0, nil, text)
		for _, e := range []error{
			body, fmt.Errorf("node: %w", body), errors.Join(body, errors.New("x")), &hiding{text: text, err: body},
			&openai.APIError{Message: text}, fmt.Errorf("%w", fmt.Errorf("%w", body)),
		} {
			_, ok := classifier.HTTPStatus(e)
			require.False(t, ok, "%q", e)
		}
	})
}

// pattern is the text rule, written in another way.
var pattern = regexp.MustCompile(`\b(?:[hH][tT][tT][pP](?:/[0-9](?:\.[0-9])?)?[ \t]+` +
	`(?:(?:[sS][tT][aA][tT][uU][sS]|[eE][rR][rR][oO][rR])[ \t]*[:=]?[ \t]*)?` +
	`|[sS][tT][aA][tT][uU][sS] [cC][oO][dD][eE][ \t]*[:=]?[ \t]*)\b([1-5][0-9][0-9])\b`)

func reference(text string) int {
	best := 0
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[1])
		switch perm := n >= 400 && n < 500 && n != 408 && n != 429; {
		case perm:
			return n
		case best == 0, best < 400 && n >= 400:
			best = n
		}
	}
	return best
}

// build makes a tree, one level for each byte of shape.
func build(text string, shape []byte, status int) error {
	err := errors.New(text)
	for _, b := range shape[:min(len(shape), 24)] {
		switch b % 12 {
		case 0:
			err = fmt.Errorf("%s: %w", text[:min(len(text), 8)], err)
		case 1:
			err = errors.Join(err, errors.New("x"))
		case 2:
			err = R(status, err, text)
		case 3:
			err = errors.Join((*openai.APIError)(nil), err)
		case 4:
			err = &coded{status: status, err: err}
		case 5:
			err = &hiding{text: text, err: err}
		case 6:
			err = newCycle(text, err)
		case 7:
			err = errors.Join(api(status, text, text), err)
		case 8:
			err = errors.Join(hostile{}, err)
		case 9:
			err = classifier.Poison(err, classifier.Code(text))
		case 10:
			err = errors.Join(R(0, (*openai.APIError)(nil), text), err)
		case 11:
			err = errors.Join(api(0, status, text), err)
		}
	}
	return err
}

// FuzzFingerprint checks that numbers do not count and quoted names do.
func FuzzFingerprint(f *testing.F) {
	for _, s := range []string{"x", "req_011CSHoEeqs5C35K2UUqR7Fy", `"a" 'b' ` + "`c`", "2024-05-01T12:34:56Z", "http://x/y?z", "[::1]", "7m12s"} {
		f.Add(s, uint64(1), uint64(12345), "search", "fetch")
	}
	f.Fuzz(func(t *testing.T, msg string, n, m uint64, tool, other string) {
		got := classifier.Fingerprint(msg)
		require.Regexp(t, "^[0-9a-f]{64}$", got)
		require.Equal(t, got, classifier.Fingerprint(strings.Clone(msg)))

		// The line feed ends whatever quote msg has opened.
		require.Equal(t, classifier.Fingerprint(fmt.Sprintf("%s\nrow %d", msg, n)), classifier.Fingerprint(fmt.Sprintf("%s\nrow %d", msg, m)))
		if strings.ContainsAny(tool+other, "\"\\\n") || strings.Contains(tool, "://") || strings.Contains(other, "://") {
			return
		}
		require.Equal(t, tool == other,
			classifier.Fingerprint(msg+"\ntool \""+tool+"\" failed") == classifier.Fingerprint(msg+"\ntool \""+other+"\" failed"))
	})
}

// FuzzMarks checks codes against a regular expression, and that a mark never loses the error.
func FuzzMarks(f *testing.F) {
	for _, s := range []string{"card.declined", "", "a b", strings.Repeat("a", 64), strings.Repeat("a", 65), "é", "a\n"} {
		f.Add(s, []byte{0, 1, 2, 9}, byte(1))
	}
	valid := regexp.MustCompile(`\A[A-Za-z0-9_.:-]{1,64}\z`)
	f.Fuzz(func(t *testing.T, code string, shape []byte, mark byte) {
		cause := build(code, shape, 0)
		marks := []func(error, ...classifier.MarkOption) error{classifier.Transient, classifier.Poison, classifier.Fatal}
		err := marks[int(mark)%3](cause, classifier.Code(code))
		require.Equal(t, []classifier.Mark{classifier.MarkTransient, classifier.MarkPoison, classifier.MarkFatal}[int(mark)%3], classifier.MarkOf(err))
		if valid.MatchString(code) {
			require.Equal(t, code, classifier.UserCode(err))
			require.Same(t, cause, errors.Unwrap(err))
			return
		}
		found := false
		for e := range classifier.Tree(err) {
			bad, is := e.(*classifier.CodeError)
			found = found || is && bad.Code == code
		}
		require.True(t, found)
		require.True(t, classifier.UserCode(err) == "" || valid.MatchString(classifier.UserCode(err)))
	})
}
