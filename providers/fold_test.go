package providers_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
)

// chunk reads a delta as it stands on the wire.
func chunk(t *testing.T, raw string) *providers.Delta {
	t.Helper()
	var d providers.Delta
	require.NoError(t, json.Unmarshal([]byte(raw), &d))
	return &d
}

func fold(t *testing.T, chunks ...string) *providers.Response {
	t.Helper()
	var f providers.Fold
	for _, c := range chunks {
		f.Add(chunk(t, c))
	}
	return f.Response()
}

func TestFoldOfNothing(t *testing.T) {
	var f providers.Fold
	f.Add(nil)
	require.Nil(t, f.Response())
	require.Empty(t, f.Response().Text(), "a nil response has no text")
	resp, err := providers.Collect(func(func(*providers.Delta, error) bool) {})
	require.NoError(t, err)
	require.Nil(t, resp)
}

func TestFoldTakesEveryPartOfAnAnswer(t *testing.T) {
	r := fold(t,
		`{"id":"1","model":"m","created":7,"system_fingerprint":"f","choices":[],"prompt_filter_results":[{"prompt_index":0}]}`,
		`{"id":"2","choices":[{"index":1,"delta":{"role":"assistant","content":"b"}},{"index":0,"delta":{"role":"assistant",`+
			`"content":"a","reasoning_content":"th"}}]}`,
		`{"choices":[{"index":0,"delta":{"content":"a","reasoning_content":"ink","refusal":"no"},`+
			`"logprobs":{"content":[{"token":"a","logprob":-1,"bytes":[97],"top_logprobs":[{"token":"b","logprob":-2,`+
			`"bytes":[98]}]}]}}]}`,
		`{"choices":[{"index":0,"delta":{"function_call":{"name":"f","arguments":"{"}}},{"index":0,`+
			`"delta":{"function_call":{"arguments":"}"}}}]}`,
		`{"choices":[{"index":0,"delta":{},"finish_reason":"stop","content_filter_results":{"hate":{"filtered":true}}}],`+
			`"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`,
		`{"choices":[{"index":1,"delta":{},"finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":9,"total_tokens":10}}`,
	)
	require.Equal(t, "1", r.ID)
	require.EqualValues(t, 7, r.Created)
	require.Equal(t, "f", r.SystemFingerprint)
	require.Equal(t, "chat.completion", r.Object)
	require.Len(t, r.PromptFilterResults, 1)
	require.Equal(t, 9, r.Usage.CompletionTokens, "the last usage counts")
	require.Len(t, r.Choices, 2)
	first, second := r.Choices[0], r.Choices[1]
	require.Equal(t, "aa", first.Message.Content)
	require.Equal(t, "think", first.Message.ReasoningContent)
	require.Equal(t, "no", first.Message.Refusal)
	require.Equal(t, &openai.FunctionCall{Name: "f", Arguments: "{}"}, first.Message.FunctionCall)
	require.True(t, first.ContentFilterResults.Hate.Filtered)
	top := []openai.TopLogProbs{{Token: "b", LogProb: -2, Bytes: []byte("b")}}
	require.Equal(t, []openai.LogProb{{Token: "a", LogProb: -1, Bytes: []byte("a"), TopLogProbs: top}}, first.LogProbs.Content)
	require.Equal(t, "b", second.Message.Content)
	require.EqualValues(t, "length", second.FinishReason)
}

func TestFoldPutsToolCallsTogether(t *testing.T) {
	tool := func(fragments ...string) string {
		raw := ""
		for i, f := range fragments {
			if i > 0 {
				raw += ","
			}
			raw += f
		}
		return `{"choices":[{"index":0,"delta":{"tool_calls":[` + raw + `]}}]}`
	}
	call := func(id, name, args string) providers.ToolCall {
		return providers.ToolCall{ID: id, Type: "function", Function: openai.FunctionCall{Name: name, Arguments: args}}
	}
	for name, tc := range map[string]struct {
		chunks []string
		want   []providers.ToolCall
	}{
		"as documented": {[]string{
			tool(`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}`),
			tool(`{"index":0,"function":{"arguments":"{\"x\""}}`), tool(`{"index":0,"function":{"arguments":":1}"}}`),
			tool(`{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}`),
		}, []providers.ToolCall{call("a", "f", `{"x":1}`), call("b", "g", "{}")}},
		"interleaved and out of order": {[]string{
			tool(`{"index":1,"id":"b","function":{"name":"g","arguments":"1"}}`),
			tool(`{"index":0,"id":"a","function":{"name":"f","arguments":"2"}}`),
			tool(`{"index":1,"function":{"arguments":"1"}}`, `{"index":0,"function":{"arguments":"2"}}`),
		}, []providers.ToolCall{call("a", "f", "22"), call("b", "g", "11")}},
		"without an index": {[]string{
			tool(`{"id":"a","function":{"name":"f","arguments":"1"}}`), tool(`{"function":{"arguments":"1"}}`),
			tool(`{"id":"b","function":{"name":"g","arguments":"2"}}`), tool(`{"function":{"arguments":"2"}}`),
		}, []providers.ToolCall{call("a", "f", "11"), call("b", "g", "22")}},
		"all with index 0": {[]string{
			tool(`{"index":0,"id":"a","function":{"name":"f","arguments":"1"}}`),
			tool(`{"index":0,"id":"b","function":{"name":"g","arguments":"2"}}`),
		}, []providers.ToolCall{call("a", "f", "1"), call("b", "g", "2")}},
		"id and name repeated": {[]string{
			tool(`{"index":0,"id":"a","function":{"name":"f","arguments":"1"}}`),
			tool(`{"index":0,"id":"a","function":{"name":"f","arguments":"2"}}`),
		}, []providers.ToolCall{call("a", "f", "12")}},
		"the id comes later": {[]string{
			tool(`{"index":0,"function":{"name":"f"}}`), tool(`{"index":0,"id":"a","function":{"arguments":"1"}}`),
		}, []providers.ToolCall{call("a", "f", "1")}},
		"the name in pieces": {[]string{
			tool(`{"index":0,"id":"a","function":{"name":"get_"}}`), tool(`{"index":0,"function":{"name":"weather"}}`),
		}, []providers.ToolCall{call("a", "get_weather", "")}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, fold(t, tc.chunks...).Message().ToolCalls)
		})
	}
}

func TestFoldSharesNothing(t *testing.T) {
	var f providers.Fold
	f.Add(chunk(t, `{"choices":[{"index":0,"delta":{"content":"a"}}],"prompt_filter_results":[{"prompt_index":1}]}`))
	first := f.Response()
	first.Choices[0].Message.Content, first.PromptFilterResults[0].Index = "changed", 9
	f.Add(chunk(t, `{"choices":[{"index":0,"delta":{"content":"b"}}]}`))
	require.Equal(t, "ab", f.Response().Text())
	require.Equal(t, "changed", first.Text())
}

func TestCollectKeepsWhatHadComeBeforeAnError(t *testing.T) {
	boom := errors.New("boom")
	resp, err := providers.Collect(func(yield func(*providers.Delta, error) bool) {
		_ = yield(delta("a"), nil) && yield(nil, boom)
	})
	require.Equal(t, boom, err)
	require.Equal(t, "a", resp.Text())
}

func TestTextOfADelta(t *testing.T) {
	require.Equal(t, "a", delta("a").Text())
	require.Empty(t, (&providers.Delta{}).Text())
	require.Empty(t, chunk(t, `{"choices":[{"index":1,"delta":{"content":"b"}}]}`).Text(), "only the first choice's")
}

func TestResponseSurvivesJSON(t *testing.T) {
	r := answer("x")
	r.Provider = "gpt"
	raw, err := json.Marshal(r)
	require.NoError(t, err)
	var back providers.Response
	require.NoError(t, json.Unmarshal(raw, &back))
	require.Equal(t, *r, back)
}

func TestCheck(t *testing.T) {
	choice := func(reason openai.FinishReason, m providers.Message) *providers.Response {
		r := answer("")
		r.Provider, r.Model = "gpt", "m"
		r.Choices[0].FinishReason, r.Choices[0].Message = reason, m
		return r
	}
	call := []providers.ToolCall{{ID: "a"}}
	filtered := func(f openai.ContentFilterResults) *providers.Response {
		r := &providers.Response{}
		r.PromptFilterResults = []openai.PromptFilterResult{{ContentFilterResults: f}}
		return r
	}
	two := choice("stop", providers.Message{Content: "x"})
	two.Choices = append(two.Choices, openai.ChatCompletionChoice{Index: 1, FinishReason: "length"})
	for name, tc := range map[string]struct {
		resp *providers.Response
		want classifier.RunErrorClass
	}{
		"stop":                        {choice("stop", providers.Message{Content: "x"}), ""},
		"tool calls":                  {choice("tool_calls", providers.Message{ToolCalls: call}), ""},
		"tool calls with stop":        {choice("stop", providers.Message{ToolCalls: call}), ""},
		"no reason":                   {choice("", providers.Message{Content: "x"}), ""},
		"an empty text":               {choice("stop", providers.Message{}), ""},
		"an unknown reason":           {choice("eos", providers.Message{Content: "x"}), ""},
		"length":                      {choice("length", providers.Message{Content: "x"}), classifier.InvalidResponse},
		"length in a tool call":       {choice("length", providers.Message{ToolCalls: call}), classifier.InvalidResponse},
		"content filter":              {choice("content_filter", providers.Message{}), classifier.ContentFiltered},
		"content filter, with a text": {choice("content_filter", providers.Message{Content: "x"}), classifier.ContentFiltered},
		"a refusal":                   {choice("stop", providers.Message{Refusal: "no"}), classifier.ContentFiltered},
		"error":                       {choice("error", providers.Message{Content: "x"}), classifier.ProviderError},
		"one of two is cut":           {two, classifier.InvalidResponse},
		"nothing":                     {nil, classifier.ProviderError},
		"no choices":                  {&providers.Response{}, classifier.ProviderError},
		"no choices, prompt harmless": {filtered(openai.ContentFilterResults{}), classifier.ProviderError},
		"no choices, hate": {
			filtered(openai.ContentFilterResults{Hate: openai.Hate{Filtered: true}}), classifier.ContentFiltered,
		},
		"no choices, self harm": {
			filtered(openai.ContentFilterResults{SelfHarm: openai.SelfHarm{Filtered: true}}), classifier.ContentFiltered,
		},
		"no choices, sexual": {
			filtered(openai.ContentFilterResults{Sexual: openai.Sexual{Filtered: true}}), classifier.ContentFiltered,
		},
		"no choices, violence": {
			filtered(openai.ContentFilterResults{Violence: openai.Violence{Filtered: true}}), classifier.ContentFiltered,
		},
		"no choices, jailbreak": {
			filtered(openai.ContentFilterResults{JailBreak: openai.JailBreak{Detected: true}}), classifier.ContentFiltered,
		},
		"no choices, profanity": {
			filtered(openai.ContentFilterResults{Profanity: openai.Profanity{Filtered: true}}), classifier.ContentFiltered,
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := providers.Check(tc.resp)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, tc.want, classOf(err))
			require.Same(t, tc.resp, callError(t, err).Partial)
		})
	}
}
