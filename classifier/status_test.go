package classifier_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/classifier"
	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
)

func TestOnlySome4xxArePermanent(t *testing.T) {
	for status := 100; status <= 999; status++ {
		want := status >= 400 && status <= 499 && status != 408 && status != 429
		for name, err := range map[string]error{
			"APIError":        A(status),
			"RequestError":    R(status, nil, ""),
			"HTTPStatusCoder": &coded{status: status},
		} {
			got, ok := classifier.PermanentHTTPStatus(err)
			require.Equal(t, want, ok, "%s %d", name, status)
			if want {
				require.Equal(t, status, got)
			}
			got, ok = classifier.HTTPStatus(err)
			require.True(t, ok)
			require.Equal(t, status, got)
		}
	}
}

func TestTypedStatusAnywhereInTheTree(t *testing.T) {
	flat := `{"message":"bad id","code":"x"}`
	for _, tc := range []struct {
		name   string
		err    error
		status int
		perm   bool
	}{
		{"nothing", nil, 0, false},
		{"nil pointer", (*openai.APIError)(nil), 0, false},
		{"wrapped nil APIError", fmt.Errorf("error, %w", (*openai.APIError)(nil)), 0, false},
		{"wrapped nil RequestError", fmt.Errorf("error, %w", (*openai.RequestError)(nil)), 0, false},
		{"nil coder", fmt.Errorf("error, %w", (*coded)(nil)), 0, false},
		{"5xx in the text of a wrapper", fmt.Errorf("5xx: %w", A(400)), 400, true},
		{"joined", errors.Join(errors.New("x"), A(404)), 404, true},
		{"several %w", fmt.Errorf("%w, then %w", A(503), A(404)), 404, true},
		{"permanent beats transient, whatever the order", errors.Join(A(404), A(503)), 404, true},
		{"the outermost of two transient ones", errors.Join(A(503), A(429)), 503, false},
		{"error beats no error", errors.Join(A(200), A(500)), 500, false},
		{"RequestError without Err", R(400, nil, flat), 400, true},
		{"RequestError around APIError(0)", R(401, A(0), ""), 401, true},
		{"RequestError(0) around APIError", R(0, A(404), ""), 404, true},
		{"custom type", fmt.Errorf("x: %w", &coded{status: 422}), 422, true},
		{"custom type without a status around one with", &coded{err: A(403)}, 403, true},
		{"a typed status beats texts", fmt.Errorf("HTTP 404: %w", A(503)), 503, false},
		{"a typed success beats texts too", fmt.Errorf("HTTP 404: %w", R(200, nil, "")), 200, false},
		{"status that is none", &coded{status: -1}, 0, false},
		{"status that is none", &coded{status: 99}, 0, false},
		{"status that is none", &coded{status: 1000}, 0, false},
		{"status 0", A(0), 0, false},
		{"408", A(408), 408, false},
		{"429", R(429, nil, ""), 429, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, ok := classifier.HTTPStatus(tc.err)
			require.Equal(t, tc.status, status)
			require.Equal(t, tc.status != 0, ok)
			status, ok = classifier.PermanentHTTPStatus(tc.err)
			require.Equal(t, tc.perm, ok)
			require.Equal(t, tc.perm, status != 0)
		})
	}
}

func TestNumericCodeIsAStatusWithoutAStatus(t *testing.T) {
	for _, tc := range []struct {
		code any
		want int
	}{
		{502, 502}, {float64(502), 502}, {"502", 502}, {json.Number("502"), 502}, {404, 404}, {"429", 429},
		{0, 0}, {nil, 0}, {"", 0}, {399, 0}, {600, 0}, {502.5, 0}, {"50", 0}, {"5020", 0}, {"5x2", 0}, {"server_error", 0},
		{-502, 0}, {true, 0}, {1e300, 0}, {"+50", 0}, {[]string{"502"}, 0},
	} {
		t.Run(fmt.Sprintf("%T %v", tc.code, tc.code), func(t *testing.T) {
			status, _ := classifier.HTTPStatus(api(0, tc.code, "x"))
			require.Equal(t, tc.want, status)
			status, _ = classifier.HTTPStatus(api(503, tc.code, "x"))
			require.Equal(t, 503, status, "a real status beats the code")
		})
	}
}

func TestStatusInTexts(t *testing.T) {
	for _, tc := range []struct {
		text string
		want int
	}{
		{"HTTP 404", 404},
		{"http 404", 404},
		{"HTTP/1.1 404 Not Found", 404},
		{"HTTP/2 404", 404},
		{"HTTP/2.0 503 Service Unavailable", 503},
		{"HTTP status 404", 404},
		{"HTTP status: 404", 404},
		{"HTTP error 404", 404},
		{"HTTP Error 404: Not Found", 404},
		{"HTTP status code: 404", 404},
		{"unexpected status code: 404", 404},
		{"status code 404", 404},
		{"status code=404", 404},
		{"error, status code: 404, status: , message: x", 404},
		{"upstream failed: status code: 400, message: bad id", 400},
		{"(HTTP 404)", 404},
		{"HTTP 404.", 404},
		{"HTTP\t404", 404},
		{"错误HTTP 404错误", 404},
		{"HTTP 503, then HTTP 404", 404},
		{"HTTP 404, then HTTP 503", 404},
		{"HTTP 503, then HTTP 500", 503},
		{"HTTP 200, then HTTP 500", 500},
		{"HTTP 100", 100},
		{"HTTP 599", 599},

		{"", 0},
		{"404", 0},
		{"HTTP", 0},
		{"HTTP ", 0},
		{"HTTP 40", 0},
		{"HTTP 4041", 0},
		{"HTTP 404x", 0},
		{"HTTP 404_1", 0},
		{"HTTP 40 4", 0},
		{"HTTP 099", 0},
		{"HTTP 600", 0},
		{"HTTP404", 0},
		{"HTTP/404", 0},
		{"HTTP/1. 404", 0},
		{"HTTP status404", 0},
		{"xHTTP 404", 0},
		{"_HTTP 404", 0},
		{"HTTPS 404", 0},
		{"http://404.example.com", 0},
		{"http://example.com:404/404", 0},
		{"port 40329", 0},
		{"gpt-x-0429", 0},
		{"connection refused on port 5000", 0},
		{"port 4000", 0},
		{"HTTP port 404", 0},
		{"HTTP\n404", 0},
		{"substatus code: 404", 0},
		{"status code:\n404", 0},
		{"status: 404", 0},
		{"exit code 404", 0},
		{"status code: x404", 0},
		{"statuscode: 404", 0},
		{"status cod", 0},
	} {
		t.Run(tc.text, func(t *testing.T) {
			for name, err := range map[string]error{
				"plain":   errors.New(tc.text),
				"wrapped": fmt.Errorf("node: %w", errors.New(tc.text)),
				"hidden":  &hiding{text: "failed", err: errors.New(tc.text)},
				"outer":   &hiding{text: tc.text, err: errors.New("x")},
				"joined":  errors.Join(errors.New("x"), errors.New(tc.text)),
				"nil":     fmt.Errorf("%s, %w", tc.text, (*openai.APIError)(nil)),
			} {
				status, ok := classifier.HTTPStatus(err)
				require.Equal(t, tc.want, status, name)
				require.Equal(t, tc.want != 0, ok, name)
			}
		})
	}
}

func TestResponseBodiesAreNeverScanned(t *testing.T) {
	body := R(0, &json.SyntaxError{}, "<html>HTTP 404, status code: 404</html>")
	message := &openai.APIError{Message: "the answer to HTTP 404 is status code: 404"}
	for name, err := range map[string]error{
		"body":                         body,
		"message":                      message,
		"wrapped body":                 fmt.Errorf("node: %w", body),
		"wrapped message":              fmt.Errorf("node: %w", message),
		"wrapped twice":                fmt.Errorf("a: %w", fmt.Errorf("b: %w: c", body)),
		"joined":                       errors.Join(errors.New("x"), body, message),
		"two in one text":              fmt.Errorf("%w; %w; %w", body, message, body),
		"RequestError around APIError": R(0, message, "HTTP 404"),
		"a piece of the body in a custom wrapper": &hiding{text: "answer: HTTP 404, status code: 404</ht", err: body},
		"a mark":                              classifier.Transient(body),
		"nothing between the pattern's parts": fmt.Errorf("HTTP %w404", &openai.APIError{Message: " "}),
		"with a status of its own":            fmt.Errorf("HTTP 404: %w", R(503, nil, "HTTP 404")),
	} {
		t.Run(name, func(t *testing.T) {
			_, ok := classifier.PermanentHTTPStatus(err)
			require.False(t, ok)
		})
	}
}

func TestTextBesidesABodyIsRead(t *testing.T) {
	body := R(0, nil, "HTTP 503")
	for name, err := range map[string]error{
		"before":                  fmt.Errorf("HTTP 404: %w", body),
		"behind":                  fmt.Errorf("%w: HTTP 404", body),
		"beside":                  errors.Join(body, errors.New("HTTP 404")),
		"before a message":        fmt.Errorf("HTTP 404: %w", A(0)),
		"before an empty message": fmt.Errorf("HTTP 404: %w", &openai.APIError{}),
	} {
		t.Run(name, func(t *testing.T) {
			status, ok := classifier.PermanentHTTPStatus(err)
			require.True(t, ok)
			require.Equal(t, 404, status)
		})
	}
}

func TestOfAVeryLargeTreeTheOuterTextsAreRead(t *testing.T) {
	outer := &hiding{text: "HTTP 404", err: deep(errors.New("HTTP 503"), 5000)}
	status, _ := classifier.HTTPStatus(outer)
	require.Equal(t, 404, status)
	status, _ = classifier.HTTPStatus(deep(errors.New("HTTP 404"), 5000))
	require.Zero(t, status)
	status, _ = classifier.HTTPStatus(deep(A(404), 5000))
	require.Equal(t, 404, status, "a typed status is found at any depth")
	status, _ = classifier.HTTPStatus(errors.Join(many(3000)...))
	require.Zero(t, status)
	status, _ = classifier.HTTPStatus(errors.New("HTTP 404" + strings.Repeat(" ", 64<<20)))
	require.Zero(t, status)
	apis := make([]error, 3000)
	for i := range apis {
		apis[i] = api(0, nil, strconv.Itoa(i))
	}
	status, _ = classifier.HTTPStatus(errors.Join(apis...))
	require.Zero(t, status)
}

func TestHugeTextsAreRead(t *testing.T) {
	const size = 10 << 20
	for _, filler := range []string{"x", "H", "HTTP ", "s", "status code: ", " ", "HTTP 4041 ", "HTTP/1.1\t"} {
		text := strings.Repeat(filler, size/len(filler))
		status, _ := classifier.HTTPStatus(errors.New(text + " HTTP 404"))
		require.Equal(t, 404, status, "%q", filler)
		status, _ = classifier.HTTPStatus(fmt.Errorf("node: %w", R(0, nil, text)))
		require.Zero(t, status, "%q", filler)
	}
}
