package wire

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/classifier"
	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFindErrorTellsAnErrorFromAnAnswer(t *testing.T) {
	for body, found := range map[string]bool{
		`{"error":{"message":"x"}}`:                     true,
		"\n[ {\"error\":{\"message\":\"x\"}} ]":         true,
		`{"error":"x"}`:                                 true,
		`{"error":{}}`:                                  true,
		`{"error":""}`:                                  true,
		`{"error":7}`:                                   true,
		`{"error":true}`:                                true,
		`{"type":"error","message":"x"}`:                true,
		`{"error":{"message":"x"},"choices":[]}`:        true,
		`{"error":{},"choices":[]}`:                     false,
		`{"error":"","choices":[]}`:                     false,
		`{"error":null}`:                                false,
		`{"error":false}`:                               false,
		`{"type":"error","choices":[]}`:                 false,
		`{"choices":[{"message":{"content":"error"}}]}`: false,
		`{"note":"\"error\""}`:                          false,
		`"error"`:                                       false,
		`["error"]`:                                     false,
		`[]`:                                            false,
		`[1,"error"]`:                                   false,
		`{"error":`:                                     false,
		``:                                              false,
		`<html>"error"`:                                 false,
	} {
		require.Equal(t, found, FindError([]byte(body)) != nil, body)
	}
}

func TestParseErrorReadsWhateverAnErrorEventHolds(t *testing.T) {
	for body, want := range map[string]openai.APIError{
		`{"message":"x","code":503,"type":"t"}`: {Message: "x", Code: 503, Type: "t"},
		`{"detail":"x"}`:                        {Message: "x"},
		`{"error":{"message":["x","y"]}}`:       {Message: "x, y"},
		`{"error":{"code":1.5,"status":"S"}}`:   {Code: "1.5", Type: "S"},
		`{"error":{"code":null}}`:               {},
		`{"ok":true}`:                           {},
		`boom`:                                  {Message: "boom"},
	} {
		got := ParseError([]byte(body))
		require.Equal(t, want, *got.api, body)
	}
}

func TestInnerErrorsAndParamsAreKept(t *testing.T) {
	e := Source{}.Failure(400, http.Header{}, []byte(`{"error":{"message":"x","param":"messages[3].content",`+
		`"innererror":{"code":"ResponsibleAIPolicyViolation"}}}`))
	require.Equal(t, "messages[3].content", e.Param)
	require.Equal(t, classifier.ContentFiltered, e.Class)
	var api *openai.APIError
	require.ErrorAs(t, e, &api)
	require.Equal(t, "ResponsibleAIPolicyViolation", api.InnerError.Code)
}

func TestIdentifiersAreNamesAndNoSecrets(t *testing.T) {
	s := Source{Secrets: []string{"sk-abc"}}
	for in, want := range map[string]string{
		"rate_limit_exceeded": "rate_limit_exceeded", "messages[0].role": "messages[0].role", "a-b:c.d": "a-b:c.d", "": "",
		"two words": "", "line\nbreak": "", "quote\"": "", "höher": "", "xx-sk-abc-yy": "",
		strings.Repeat("x", 64): strings.Repeat("x", 64), strings.Repeat("x", 65): "",
	} {
		require.Equal(t, want, s.identifier(in), in)
	}
}

func TestRedirectsAreNotAnErrorOfTheProvider(t *testing.T) {
	e := Source{Provider: "p"}.Failure(307, http.Header{"Request-Id": {"req_1"}}, nil)
	require.Equal(t, classifier.InvalidRequest, e.Class)
	require.Equal(t, "req_1", e.RequestID)
}

// FuzzFailure: whatever a server sends, the error has its status and a class, shows no secret, and nothing panics.
func FuzzFailure(f *testing.F) {
	for _, body := range []string{
		`{"error":{"message":"x","type":"t","code":"c"}}`, `[{"error":{"code":429}}]`, `{"error":"x"}`, `{"message":"x"}`,
		`<html>`, ``, `null`,
		`{"type":"error","error":{"type":"overloaded_error"}}`, `{"error":{"code":502.0}}`, `{"error":{"innererror":{"code":7}}}`,
	} {
		f.Add(500, []byte(body))
		f.Add(429, []byte(body))
	}
	const secret = "sk-secret"
	s := Source{Provider: "p", Secrets: []string{secret}}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if status < 400 || status > 599 {
			status = 500
		}
		e := s.Failure(status, http.Header{}, append(body, secret...))
		if e.Status != status || e.Class == "" || e.Class == classifier.Unknown {
			t.Fatalf("status %d: %+v", status, e)
		}
		for err := error(e); err != nil; err = errors.Unwrap(err) {
			if strings.Contains(fmt.Sprint(err), secret) {
				t.Fatalf("the secret is shown by a %T", err)
			}
		}
		if obj := FindError(body); obj != nil {
			if s.Embedded(http.Header{}, body, obj).Class == classifier.Unknown {
				t.Fatalf("an embedded error of unknown class: %q", body)
			}
		}
		ParseError(body)
	})
}
