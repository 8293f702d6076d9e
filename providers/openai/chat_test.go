package openai_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/openai"
	goopenai "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
)

// TestFailuresAsServersSendThem holds what a plain call and a stream say of responses that are no answer.
func TestFailuresAsServersSendThem(t *testing.T) {
	const requestTooLarge = `{"error":{"code":"rate_limit_exceeded","type":"tokens","message":"Request too large for m: Limit ` +
		`30000, Requested 30182"}}`
	for name, tc := range map[string]struct {
		status int
		body   string
		class  classifier.RunErrorClass
		code   string
		kind   string
	}{
		"well-formed":             {500, serverE, classifier.ProviderError, "", "server_error"},
		"an error that is a text": {400, `{"error":"bad"}`, classifier.InvalidRequest, "", ""},
		"an empty error":          {400, `{"error":{}}`, classifier.InvalidRequest, "", ""},
		"an error of wrong kinds": {
			429, `{"error":{"message":{"a":1},"type":7,"param":[],"code":{}}}`, classifier.RateLimited, "", "7",
		},
		"a list": {
			429,
			`[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"x"}}]`, classifier.RateLimited, "429", "RESOURCE_EXHAUSTED",
		},
		"an empty list": {503, `[]`, classifier.ProviderError, "", ""},
		"flat": {
			404, `{"message":"no such model","code":"model_not_found"}`, classifier.InvalidRequest, "model_not_found", "",
		},
		"without an error": {400, `{"ok":false}`, classifier.InvalidRequest, "", ""},
		"a page":           {524, "<html>timeout</html>", classifier.ProviderError, "", ""},
		"a text":           {503, "no healthy upstream", classifier.ProviderError, "", ""},
		"nothing":          {500, "", classifier.ProviderError, "", ""},
		"a cut object":     {400, `{"error":{"mess`, classifier.InvalidRequest, "", ""},
		"null":             {500, `null`, classifier.ProviderError, "", ""},
		"a quota": {
			429, `{"error":{"code":"insufficient_quota","message":"x"}}`, classifier.QuotaExceeded, "insufficient_quota", "",
		},
		"a spend limit": {
			429,
			`{"error":{"code":"project_spend_limit_exceeded","message":"x"}}`, classifier.QuotaExceeded,
			"project_spend_limit_exceeded", "",
		},
		"a budget, as 400": {
			400, `{"error":{"code":"400","message":"Budget has been exceeded!"}}`, classifier.QuotaExceeded, "400", "",
		},
		"a budget, as 429": {
			429, `{"error":{"code":"400","message":"Budget has been exceeded!"}}`, classifier.QuotaExceeded, "400", "",
		},
		"a credit balance": {
			400,
			`{"error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}`,
			classifier.QuotaExceeded, "", "invalid_request_error",
		},
		"a request that is too large": {429, requestTooLarge, classifier.InvalidRequest, "rate_limit_exceeded", "tokens"},
		"a content filter": {
			400,
			`{"error":{"code":"content_filter","message":"x","innererror":{"code":"ResponsibleAIPolicyViolation"}}}`,
			classifier.ContentFiltered, "content_filter", "",
		},
		"a bad key as 400": {
			400, `{"error":{"code":"invalid_api_key","message":"x"}}`, classifier.Unauthorized, "invalid_api_key", "",
		},
		"a long context": {
			400, `{"error":{"code":"context_length_exceeded","message":"x"}}`, classifier.InvalidRequest, "context_length_exceeded", "",
		},
		"overloaded": {
			529, `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`, classifier.ProviderError, "", "overloaded_error",
		},
		"not modified":             {304, "", classifier.InvalidRequest, "", ""},
		"moved":                    {308, "", classifier.InvalidRequest, "", ""},
		"no content":               {204, "", classifier.ProviderError, "", ""},
		"200 with nothing":         {200, "", classifier.ProviderError, "", ""},
		"200 with a page":          {200, "<html></html>", classifier.ProviderError, "", ""},
		"200 with cut JSON":        {200, `{"choices":[{"mess`, classifier.ProviderError, "", ""},
		"200 with null":            {200, "null", classifier.ProviderError, "", ""},
		"200 with a text":          {200, `"hi"`, classifier.ProviderError, "", ""},
		"200 with an empty object": {200, "{}", classifier.ProviderError, "", ""},
		"200 with choices null":    {200, `{"choices":null}`, classifier.ProviderError, "", ""},
		"200 with an error":        {200, serverE, classifier.ProviderError, "", "server_error"},
		"200 with an error code":   {200, `{"error":{"message":"x","code":402}}`, classifier.QuotaExceeded, "402", ""},
		"200 with an error and choice": {
			200, `{"choices":[],"error":{"message":"x","code":"rate_limit_exceeded"}}`, classifier.RateLimited, "rate_limit_exceeded", "",
		},
		"200 with a list of an error": {200, `[{"error":{"code":503,"message":"x"}}]`, classifier.ProviderError, "503", ""},
		"200 with a filtered prompt": {
			200,
			`{"choices":[],"prompt_filter_results":[{"content_filter_results":{"jailbreak":{"detected":true}}}]}`,
			classifier.ContentFiltered, "", "",
		},
		"200 with a harmless prompt": {
			200,
			`{"choices":[],"prompt_filter_results":[{"content_filter_results":{"hate":{"filtered":false}}}]}`,
			classifier.ProviderError, "", "",
		},
		"200 truncated": {
			200, `{"choices":[{"message":{"content":"x"},"finish_reason":"length"}]}`, classifier.InvalidResponse, "", "",
		},
		"200 refused": {
			200, `{"choices":[{"message":{"refusal":"no"},"finish_reason":"stop"}]}`, classifier.ContentFiltered, "", "",
		},
		"200 filtered": {
			200, `{"choices":[{"message":{},"finish_reason":"content_filter"}]}`, classifier.ContentFiltered, "", "",
		},
		"200 truncated in a tool call": {
			200,
			`{"choices":[{"message":{"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a"}}]},` +
				`"finish_reason":"length"}]}`, classifier.InvalidResponse, "", "",
		},
	} {
		c := serve(t, raw(tc.status, nil, tc.body))
		check := func(t *testing.T, err error) {
			t.Helper()
			require.Error(t, err)
			require.Equal(t, tc.class, classifier.Default().Classify(err).Class, "%v", err)
			var e *providers.CallError
			require.ErrorAs(t, err, &e)
			require.Equal(t, tc.code, e.Code)
			require.Equal(t, tc.kind, e.Type)
			if tc.status >= 300 {
				require.Equal(t, tc.status, e.Status)
			}
		}
		t.Run(name, func(t *testing.T) {
			_, err := c.Chat(t.Context(), hello())
			check(t, err)
		})
		t.Run(name+" stream", func(t *testing.T) {
			_, err := providers.Collect(c.Stream(t.Context(), hello()))
			check(t, err)
		})
	}
}

func TestPlainAnswersAsServersSendThem(t *testing.T) {
	for name, body := range map[string]string{
		"an error member that is null":  `{"error":null,"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`,
		"an error member that is empty": `{"error":{},"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`,
		"no finish reason":              `{"choices":[{"message":{"content":"x"}}]}`,
		"the word error in the text":    `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"note":"\"error\""}`,
		"noise behind it":               `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}` + "\n\nnoise",
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := serve(t, raw(200, nil, body)).Chat(t.Context(), hello())
			require.NoError(t, err)
			require.Equal(t, "x", resp.Text())
		})
	}
}

// TestTheWrappedErrorIsGoOpenAIs holds what errors.As finds below a CallError.
func TestTheWrappedErrorIsGoOpenAIs(t *testing.T) {
	_, err := serve(t, raw(404, nil, `{"error":{"message":"secret","type":"t","code":"c","param":"p"}}`)).Chat(t.Context(), hello())
	var api *goopenai.APIError
	require.ErrorAs(t, err, &api)
	require.Equal(t, 404, api.HTTPStatusCode)
	require.Equal(t, "c", api.Code)
	require.Empty(t, api.Message, "what the server wrote is not kept")

	_, err = serve(t, raw(524, nil, `<html>secret`)).Chat(t.Context(), hello())
	var req *goopenai.RequestError
	require.ErrorAs(t, err, &req)
	require.Equal(t, 524, req.HTTPStatusCode)
	require.Empty(t, req.Body)
}

func TestServerMessagesAreShownIfAskedFor(t *testing.T) {
	show := func(cfg *openai.Config) {
		cfg.ShowServerMessages = true
		cfg.Header = http.Header{"Api-Key": {"azure-secret"}, "X-Title": {"pawl"}}
	}
	body := `{"error":{"message":"no model foo for ` + apiKey + `","type":"t","code":"azure-secret"}}`
	_, err := serve(t, raw(404, nil, body), show).Chat(t.Context(), hello())
	require.ErrorContains(t, err, "no model foo for [secret]")
	require.NotContains(t, err.Error(), "azure-secret")
	var api *goopenai.APIError
	require.ErrorAs(t, err, &api)
	require.Equal(t, "no model foo for [secret]", api.Message)

	_, err = serve(t, raw(502, nil, "bad gateway "+apiKey), show).Chat(t.Context(), hello())
	var req *goopenai.RequestError
	require.ErrorAs(t, err, &req)
	require.Equal(t, "bad gateway [secret]", string(req.Body))
}

func TestHintsComeWithFailures(t *testing.T) {
	for name, tc := range map[string]struct {
		header http.Header
		body   string
		want   time.Duration
	}{
		"seconds":      {http.Header{"Retry-After": {"5"}}, "", 5 * time.Second},
		"milliseconds": {http.Header{"Retry-After-Ms": {"250"}, "Retry-After": {"5"}}, "", 250 * time.Millisecond},
		"Google's": {
			nil,
			`[{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"36s"}]}}]`,
			36 * time.Second,
		},
		"a reset": {
			http.Header{"X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"1m6s"}}, "", 66 * time.Second,
		},
		"no exhaustion": {http.Header{"X-Ratelimit-Remaining-Requests": {"3"}, "X-Ratelimit-Reset-Requests": {"1m6s"}}, "", 0},
		"a past date":   {http.Header{"Retry-After": {"Mon, 02 Jan 2006 15:04:05 GMT"}}, "", 0},
		"twelve days":   {http.Header{"Retry-After": {"1382400"}}, "", 1382400 * time.Second},
	} {
		c := serve(t, raw(429, tc.header, tc.body))
		t.Run(name, func(t *testing.T) {
			_, err := c.Chat(t.Context(), hello())
			hint, _ := classifier.RetryHint(err)
			require.Equal(t, tc.want, hint)
			_, err = providers.Collect(c.Stream(t.Context(), hello()))
			hint, _ = classifier.RetryHint(err)
			require.Equal(t, tc.want, hint)
		})
	}
	t.Run("a date", func(t *testing.T) {
		at := time.Now().Add(30 * time.Second).UTC().Format(http.TimeFormat)
		_, err := serve(t, raw(503, http.Header{"Retry-After": {at}}, "")).Chat(t.Context(), hello())
		hint, _ := classifier.RetryHint(err)
		require.InDelta(t, 30*time.Second, hint, float64(2*time.Second))
	})
}
