package openai_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/openai"
	"github.com/stretchr/testify/require"
)

// raw answers every request with the same bytes.
func raw(status int, header http.Header, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		maps.Copy(w.Header(), header)
		w.WriteHeader(status)
		io.WriteString(w, body)
	})
}

func sse(body string) http.Handler {
	return raw(200, http.Header{"Content-Type": {"text/event-stream"}}, body)
}

func hello() providers.Request {
	return providers.Request{Model: "m", Messages: []providers.Message{{Role: "user", Content: "hello"}}}
}

// token is a chunk with text, finish one with a finish reason.
func token(text string) string {
	return fmt.Sprintf(`{"id":"1","model":"m","choices":[{"index":0,"delta":{"content":%q}}]}`, text)
}

func finish(reason string) string {
	return fmt.Sprintf(`{"id":"1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":%q}]}`, reason)
}

const (
	done    = "data: [DONE]\n\n"
	serverE = `{"error":{"message":"x","type":"server_error","code":null}}`
)

// frame is a chunk as servers should send it.
func frame(chunk string) string { return "data: " + chunk + "\n\n" }

// TestStreamAsServersSendIt holds what a stream gives for bodies that servers have been seen to send. Each row stands for
// its kind: a row gives either the whole text or a class.
func TestStreamAsServersSendIt(t *testing.T) {
	a, b, stop := frame(token("a")), frame(token("b")), frame(finish("stop"))
	pretty := "{\n  \"id\": \"1\",\n  \"choices\": [{\"index\": 0, \"delta\": {\"content\": \"a\"}}]\n}"
	whole := `{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant",` +
		`"content":"ab"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`
	for name, tc := range map[string]struct {
		body  string
		text  string
		class classifier.RunErrorClass
	}{
		// Whole answers.
		"as documented":                 {a + b + stop + done, "ab", ""},
		"no finish reason, but done":    {a + b + done, "ab", ""},
		"a finish reason, but not done": {a + b + stop, "ab", ""},
		"done without a line end":       {a + b + stop + "data: [DONE]", "ab", ""},
		"done with blanks":              {a + b + stop + "data:  [DONE]  \n\n", "ab", ""},
		"carriage returns":              {strings.ReplaceAll(a+b+stop+done, "\n", "\r\n"), "ab", ""},
		"only carriage returns":         {strings.ReplaceAll(a+b+stop+done, "\n", "\r"), "ab", ""},
		"no blank after the colon":      {strings.ReplaceAll(a+b+stop+done, "data: ", "data:"), "ab", ""},
		"no blank lines between":        {strings.ReplaceAll(a+b+stop+done, "\n\n", "\n"), "ab", ""},
		"many blank lines":              {strings.Repeat("\n", 400) + a + strings.Repeat("\n", 400) + b + stop + done, "ab", ""},
		"comments as keep-alive": {
			strings.Repeat(": OPENROUTER PROCESSING\n\n", 400) + a + ": ping\n" + b + stop + done, "ab", "",
		},
		"empty data as keep-alive": {strings.Repeat("data:\n\n", 400) + a + b + stop + done, "ab", ""},
		"words as keep-alive":      {"data: ping\n\ndata: null\n\ndata: 1\n\n" + a + b + stop + done, "ab", ""},
		"foreign events": {
			"event: ping\ndata: {\"type\":\"ping\"}\n\nid: 7\nretry: 10\n" + a + b + stop + done, "ab", "",
		},
		"named events":             {"event: completion\n" + a + "event: completion\n" + b + stop + done, "ab", ""},
		"unknown fields and words": {"foo: bar\n" + a + "noise\n" + b + stop + done, "ab", ""},
		"a byte order mark":        {"\xef\xbb\xbf" + a + b + stop + done, "ab", ""},
		"a chunk on several lines": {
			"data: " + strings.ReplaceAll(pretty, "\n", "\ndata: ") + "\n\n" + b + stop + done, "ab", "",
		},
		"a chunk without its prefix":          {a + token("b") + "\n" + stop + done, "ab", ""},
		"an error member that is null, first": {frame(`{"error":null,`+token("a")[1:]) + b + stop + done, "ab", ""},
		"an error member that is empty": {
			frame(`{"error":{},`+token("a")[1:]) + frame(`{"error":"",`+token("b")[1:]) + stop + done, "ab", "",
		},
		"an error member that is false": {frame(token("a")[:len(token("a"))-1]+`,"error":false}`) + b + stop + done, "ab", ""},
		"a usage chunk without choices": {a + b + stop + frame(`{"usage":{"prompt_tokens":1}}`) + done, "ab", ""},
		"a prompt filter chunk first": {
			frame(`{"choices":[],"prompt_filter_results":[{"prompt_index":0}]}`) + a + b + stop + done, "ab", "",
		},
		"a plain answer":                         {whole, "ab", ""},
		"a plain answer, pretty":                 {"\n\n" + strings.ReplaceAll(whole, ",", ",\n  "), "ab", ""},
		"a finish reason twice":                  {a + b + stop + stop + done, "ab", ""},
		"chunks after done":                      {a + b + stop + done + frame(token("c")), "ab", ""},
		"a cut frame behind the finish":          {a + b + stop + `data: {"usage":{"pro`, "ab", ""},
		"the word error in the text":             {frame(token(`a "error": b`)) + stop + done, `a "error": b`, ""},
		"an empty object":                        {frame("{}") + a + b + stop + done, "ab", ""},
		"a finish reason with empty choice list": {a + b + stop + frame(`{"choices":[]}`) + done, "ab", ""},
		// No whole answers.
		"nothing":                        {"", "", classifier.ProviderError},
		"done alone":                     {done, "", classifier.ProviderError},
		"a clean close without finish":   {a + b, "ab", classifier.ProviderError},
		"a cut frame":                    {a + `data: {"choices":[{"ind`, "a", classifier.ProviderError},
		"a cut frame with its line end":  {a + "data: {\"choices\":[{\"ind\n\n" + b + done, "a", classifier.ProviderError},
		"a chunk of wrong kinds":         {a + frame(`{"choices":"x"}`) + done, "a", classifier.ProviderError},
		"a page":                         {"<!DOCTYPE html>\n<html>busy</html>", "", classifier.ProviderError},
		"a text":                         {"upstream connect error", "", classifier.ProviderError},
		"a list":                         {"[1,2]", "", classifier.ProviderError},
		"a cut plain answer":             {whole[:40], "", classifier.ProviderError},
		"a plain answer without choices": {`{"id":"1","choices":[]}`, "", classifier.ProviderError},
		"a filtered prompt": {
			frame(`{"choices":[],"prompt_filter_results":[{"content_filter_results":{"hate":{"filtered":true}}}]}`) + done,
			"", classifier.ContentFiltered,
		},
		"only a refusal": {
			frame(`{"choices":[{"delta":{"refusal":"no"}}]}`) + stop + done, "", classifier.ContentFiltered,
		},
		"filtered":        {a + frame(finish("content_filter")) + done, "a", classifier.ContentFiltered},
		"truncated":       {a + frame(finish("length")) + done, "a", classifier.InvalidResponse},
		"failed upstream": {a + frame(finish("error")) + done, "a", classifier.ProviderError},
		"truncated inside tool arguments": {
			frame(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{\"a"}}]}}]}`) +
				frame(finish("length")) + done,
			"", classifier.InvalidResponse,
		},
		"an error frame with code null":    {frame(serverE), "", classifier.ProviderError},
		"an error frame after a chunk":     {a + frame(serverE) + done, "a", classifier.ProviderError},
		"an error frame behind the finish": {a + stop + frame(serverE) + done, "a", classifier.ProviderError},
		"an error with blanks inside": {
			a + frame(`{ "error" : {"message":"x","type":"server_error"} }`), "a", classifier.ProviderError,
		},
		"an error that is not the first key": {
			a + frame(`{"id":"1","choices":[],"error":{"code":502,"message":"x"}}`), "a", classifier.ProviderError,
		},
		"an error beside a choice": {
			a + frame(`{"choices":[{"delta":{"content":""},"finish_reason":"error"}],"error":{"code":"server_error","message":"x"}}`),
			"a", classifier.ProviderError,
		},
		"an error frame behind a comment":    {": hi\n\n" + frame(serverE), "", classifier.ProviderError},
		"an error frame without blank lines": {strings.TrimSpace(a) + "\n" + "data: " + serverE, "a", classifier.ProviderError},
		"an error line without a prefix":     {serverE, "", classifier.ProviderError},
		"an error line behind a chunk":       {a + serverE + "\n", "a", classifier.ProviderError},
		"an error document, pretty": {
			"{\n \"error\": {\n \"message\": \"x\",\n \"type\": \"server_error\"\n }\n}", "", classifier.ProviderError,
		},
		"an error in a list (Gemini)": {
			`[{"error":{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED"}}]`, "", classifier.RateLimited,
		},
		"an error that is a text":    {a + frame(`{"error":"boom"}`), "a", classifier.ProviderError},
		"an error that is empty":     {a + frame(`{"error":{}}`), "a", classifier.ProviderError},
		"an error with code 502":     {frame(`{"error":{"message":"x","code":502}}`), "", classifier.ProviderError},
		"an error with code 502.0":   {frame(`{"error":{"message":"x","code":502.0}}`), "", classifier.ProviderError},
		"an error with code \"502\"": {frame(`{"error":{"message":"x","code":"502"}}`), "", classifier.ProviderError},
		"an error with code 401":     {frame(`{"error":{"message":"x","code":401}}`), "", classifier.Unauthorized},
		"an error with code 429":     {frame(`{"error":{"message":"x","code":429}}`), "", classifier.RateLimited},
		"an error of a quota": {
			frame(`{"error":{"message":"x","code":"insufficient_quota"}}`), "", classifier.QuotaExceeded,
		},
		"overloaded (Anthropic)": {
			a + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
			"a", classifier.ProviderError,
		},
		"overloaded, no event line": {
			a + frame(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), "a", classifier.ProviderError,
		},
		"rate limited (Anthropic)": {
			"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"x\"}}\n\n",
			"", classifier.RateLimited,
		},
		"an error event with a flat object": {
			a + "event: error\ndata: {\"message\":\"x\",\"code\":503}\n\n", "a", classifier.ProviderError,
		},
		"an error event with a text":       {a + "event: error\ndata: boom\n\n", "a", classifier.ProviderError},
		"an error event at the end":        {a + "event: error\ndata: boom", "a", classifier.ProviderError},
		"an error event with a cut object": {a + "event: error\ndata: {\"mess\n\n", "a", classifier.ProviderError},
		"a typed error without an error":   {a + frame(`{"type":"error","message":"\"error\""}`), "a", classifier.ProviderError},
		"an error of wrong kinds": {
			a + frame(`{"error":{"message":["x","y"],"type":7,"param":{},"code":true}}`), "a", classifier.ProviderError,
		},
		"an error that is a number": {a + frame(`{"error":500}`), "a", classifier.ProviderError},
		"deep nesting": {
			a + "data: " + strings.Repeat("[", 20_000) + "\n\n" + strings.Repeat("data: [\n", 5_000), "a", classifier.ProviderError,
		},
		"a choice that never finishes, of two": {
			frame(`{"choices":[{"index":1,"delta":{"content":"z"}}]}`) + a + stop, "a", classifier.ProviderError,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, sse(tc.body))
			resp, err := providers.Collect(c.Stream(t.Context(), hello()))
			require.Equal(t, tc.text, resp.Text())
			if tc.class == "" {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			require.Equal(t, tc.class, classifier.Default().Classify(err).Class, "%v", err)
			var e *providers.CallError
			require.ErrorAs(t, err, &e)
		})
	}
}

// A code of null or 0 is no status: the class comes from elsewhere, and nothing is permanent.
func TestAnErrorInAStreamWithoutACodeHasNoStatus(t *testing.T) {
	for name, body := range map[string]string{
		"code null":  frame(token("a")) + frame(serverE),
		"code 0":     frame(token("a")) + frame(`{"error":{"message":"x","type":"server_error","code":0}}`),
		"no code":    frame(token("a")) + frame(`{"error":{"message":"x","type":"server_error"}}`),
		"no chunk":   serverE + "\n",
		"overloaded": frame(`{"error":{"message":"Overloaded","type":"overloaded_error"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := providers.Collect(serve(t, sse(body)).Stream(t.Context(), hello()))
			require.Equal(t, classifier.ProviderError, classifier.Default().Classify(err).Class)
			_, found := classifier.HTTPStatus(err)
			require.False(t, found, "%v", err)
			_, found = classifier.PermanentHTTPStatus(err)
			require.False(t, found, "%v", err)
		})
	}
}

func TestStreamOfSeveralChoicesIsWholeWhenAllHaveFinished(t *testing.T) {
	one := frame(`{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}`)
	two := frame(`{"choices":[{"index":1,"delta":{"content":"y"},"finish_reason":"stop"}]}`)
	req := hello()
	req.N = 2
	_, err := providers.Collect(serve(t, sse(one)).Stream(t.Context(), req))
	require.Equal(t, classifier.ProviderError, classifier.Default().Classify(err).Class)
	resp, err := providers.Collect(serve(t, sse(one+two)).Stream(t.Context(), req))
	require.NoError(t, err)
	require.Len(t, resp.Choices, 2)
}

func TestStreamIsWholeIfTheConnectionBreaksBehindTheFinishReason(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, frame(token("a"))+frame(finish("stop")))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	resp, err := providers.Collect(c.Stream(t.Context(), hello()))
	require.NoError(t, err)
	require.Equal(t, "a", resp.Text())
}

func TestStreamReadsLinesOfAMegabyte(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	resp, err := providers.Collect(serve(t, sse(frame(token(long))+frame(finish("stop")))).Stream(t.Context(), hello()))
	require.NoError(t, err)
	require.Equal(t, long, resp.Text())
}

func TestAnswersAreBounded(t *testing.T) {
	limit := func(cfg *openai.Config) { cfg.MaxResponseBytes = 1000 }
	plain := `{"choices":[{"message":{"content":"` + strings.Repeat("x", 1000) + `"}}]}`
	for name, body := range map[string]string{
		"one line":    frame(token(strings.Repeat("x", 1000))),
		"many lines":  strings.Repeat(": hi\n", 1000),
		"a document":  plain,
		"many deltas": strings.Repeat(frame(token("x")), 100),
	} {
		t.Run("stream: "+name, func(t *testing.T) {
			_, err := providers.Collect(serve(t, sse(body), limit).Stream(t.Context(), hello()))
			require.Equal(t, classifier.InvalidResponse, classifier.Default().Classify(err).Class)
			require.ErrorContains(t, err, "MaxResponseBytes (1000)")
		})
	}
	t.Run("plain", func(t *testing.T) {
		_, err := serve(t, sse(plain), limit).Chat(t.Context(), hello())
		require.Equal(t, classifier.InvalidResponse, classifier.Default().Classify(err).Class)
		require.ErrorContains(t, err, "MaxResponseBytes (1000)")
	})
	t.Run("an error body is cut, its status counts", func(t *testing.T) {
		_, err := serve(t, raw(503, nil, strings.Repeat("x", 1<<20)), limit).Chat(t.Context(), hello())
		require.Equal(t, classifier.ProviderError, classifier.Default().Classify(err).Class)
	})
}

func TestStreamUsageIsAskedForUnlessForbidden(t *testing.T) {
	for name, tc := range map[string]struct {
		forbid bool
		want   string
	}{"asked": {false, `"stream_options":{"include_usage":true}`}, "forbidden": {true, ""}} {
		t.Run(name, func(t *testing.T) {
			var body string
			c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got, _ := io.ReadAll(r.Body)
				body = string(got)
				io.WriteString(w, frame(token("a"))+done)
			}), func(cfg *openai.Config) { cfg.NoStreamUsage = tc.forbid })
			_, err := providers.Collect(c.Stream(t.Context(), hello()))
			require.NoError(t, err)
			require.Contains(t, body, tc.want)
			require.Equal(t, tc.forbid, !strings.Contains(body, "stream_options"))
		})
	}
}
