package providertest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
	"github.com/pawl-go/pawl/task"
	"github.com/stretchr/testify/require"
)

// answers checks what a call that succeeds gives.
func (s suite) answers(t *testing.T) {
	t.Run("plain call", func(t *testing.T) {
		p := s.New(t, scripted.New(scripted.On().Reply("high tide at noon").Usage(7, 4)))
		resp, err := p.Chat(t.Context(), request())
		require.NoError(t, err)
		require.Equal(t, "high tide at noon", resp.Text())
		require.Equal(t, "assistant", resp.Message().Role)
		require.Equal(t, p.Name(), resp.Provider, "the answer says who gave it")
		require.Equal(t, model, resp.Model)
		require.EqualValues(t, "stop", resp.Choices[0].FinishReason)
		require.Equal(t, 7, resp.Usage.PromptTokens)
		require.Equal(t, 4, resp.Usage.CompletionTokens)
	})
	for name, rule := range map[string]scripted.Rule{
		"text":       scripted.On().Tokens("to", "kens", "", " and \"quotes\"\n", "日本").Usage(5, 5),
		"no text":    scripted.On().Tokens().Usage(5, 0),
		"tool calls": scripted.On().CallTools(weather("a", "Oslo"), weather("b", "Bergen")).Usage(9, 9),
		"choices":    scripted.On().Choices("one", "two words").Usage(5, 3),
		"long token": scripted.On().Tokens(strings.Repeat("long ", 200_000)).Usage(1, 1), // longer than any buffer on the way
	} {
		t.Run("a stream equals the plain call: "+name, func(t *testing.T) {
			s.streamEqualsPlain(t, rule)
		})
	}
	t.Run("a stream comes in pieces", func(t *testing.T) {
		p := s.New(t, scripted.New(scripted.On().Tokens("a", "b", "c")))
		var pieces []string
		for d, err := range p.Stream(t.Context(), request()) {
			require.NoError(t, err)
			require.Equal(t, p.Name(), d.Provider)
			if d.Text() != "" {
				pieces = append(pieces, d.Text())
			}
		}
		require.Equal(t, []string{"a", "b", "c"}, pieces)
	})
	t.Run("each range over a stream is one call", func(t *testing.T) {
		script := scripted.New(scripted.On().Reply("x"))
		stream := s.New(t, script).Stream(t.Context(), request())
		require.Empty(t, script.Calls(), "nothing happens before the range")
		for range 2 {
			resp, err := providers.Collect(stream)
			require.NoError(t, err)
			require.Equal(t, "x", resp.Text())
		}
		require.Len(t, script.Calls(), 2)
	})
	t.Run("an answer given as bytes", func(t *testing.T) {
		const whole = `{"model":"suite-model","choices":[{"message":{"role":"assistant","content":"ab"},"finish_reason":"stop"}]}`
		for _, call := range ways(s.New(t, scripted.New(scripted.On().Fail(scripted.HTTP(200, nil, whole))))) {
			resp, err := call(t.Context(), request())
			require.NoError(t, err)
			require.Equal(t, "ab", resp.Text())
		}
		const events = ": hi\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"ab\"}}]}\n\ndata: [DONE]\n\n"
		resp, err := ways(s.New(t, scripted.New(scripted.On().Fail(scripted.HTTP(200, nil, events)))))["Stream"](t.Context(), request())
		require.NoError(t, err)
		require.Equal(t, "ab", resp.Text())
	})
	t.Run("tool calls", s.toolCalls)
	t.Run("the request arrives as it was given", s.requestIntact)
	t.Run("usage is reported to the run once", s.usageReported)
}

func weather(id, city string) providers.ToolCall {
	return scripted.Tool(id, "weather", fmt.Sprintf(`{"city":%q}`, city))
}

func (s suite) streamEqualsPlain(t *testing.T, rule scripted.Rule) {
	t.Helper()
	p := s.New(t, scripted.New(rule))
	plain, err := p.Chat(t.Context(), request())
	require.NoError(t, err)
	streamed, err := providers.Collect(p.Stream(t.Context(), request()))
	require.NoError(t, err)
	plain.ID, streamed.ID = "", ""
	want, err := json.Marshal(plain)
	require.NoError(t, err)
	got, err := json.Marshal(streamed)
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(got))
}

func (s suite) toolCalls(t *testing.T) {
	p := s.New(t, scripted.New(scripted.On().CallTools(weather("a", "Oslo"), weather("b", "Bergen"))))
	for name, call := range ways(p) {
		t.Run(name, func(t *testing.T) {
			resp, err := call(t.Context(), request())
			require.NoError(t, err)
			require.EqualValues(t, "tool_calls", resp.Choices[0].FinishReason)
			require.Equal(t, []providers.ToolCall{weather("a", "Oslo"), weather("b", "Bergen")}, resp.Message().ToolCalls)
		})
	}
}

func (s suite) requestIntact(t *testing.T) {
	script := scripted.New(scripted.On().Reply("ok"))
	p := s.New(t, script)
	seed := 7
	req := request()
	req.Temperature, req.Seed, req.Stop, req.User = 0.5, &seed, []string{"END"}, "u"
	req.MaxCompletionTokens = 99
	req.Metadata = map[string]string{"k": "v"}
	tool := providers.Tool{Type: "function"}
	req.Tools = append(req.Tools, tool)
	asked, err := json.Marshal(req)
	require.NoError(t, err)
	for _, call := range ways(p) {
		_, err := call(t.Context(), req)
		require.NoError(t, err)
	}
	after, err := json.Marshal(req)
	require.NoError(t, err)
	require.JSONEq(t, string(asked), string(after), "the caller's request is not changed")
	for _, got := range script.Requests() {
		got.Stream, got.StreamOptions = false, nil // which of the two calls it was
		raw, err := json.Marshal(got)
		require.NoError(t, err)
		require.JSONEq(t, string(asked), string(raw))
	}
}

func (s suite) usageReported(t *testing.T) {
	for name, tc := range map[string]struct {
		rule scripted.Rule
		want task.Usage
	}{
		"success":  {scripted.On().Reply("x").Usage(7, 4), task.Usage{Calls: 1, PromptTokens: 7, CompletionTokens: 4}},
		"no good":  {scripted.On().Fail(scripted.Truncated("x")).Usage(7, 4), task.Usage{Calls: 1, PromptTokens: 7, CompletionTokens: 4}},
		"no usage": {scripted.On().Fail(scripted.Status(500)), task.Usage{Calls: 1}},
	} {
		p := s.New(t, scripted.New(tc.rule))
		for way, call := range ways(p) {
			t.Run(name+" "+way, func(t *testing.T) {
				var run meter
				_, _ = call(task.NewContext(t.Context(), &run), request())
				require.Equal(t, tc.want, run.total())
			})
		}
	}
}

// way is one way to make a call.
type way func(ctx context.Context, req providers.Request) (*providers.Response, error)

// ways are the two ways to make a call.
func ways(p providers.Provider) map[string]way {
	return map[string]way{
		"Chat": func(ctx context.Context, req providers.Request) (*providers.Response, error) { return p.Chat(ctx, req) },
		"Stream": func(ctx context.Context, req providers.Request) (*providers.Response, error) {
			return providers.Collect(p.Stream(ctx, req))
		},
	}
}

// meter is a run that only counts.
type meter struct {
	mu   sync.Mutex
	used task.Usage
}

func (m *meter) Task() task.Task {
	return task.Task{RunID: "suite", Node: "n", SuperStep: 1, Attempt: 1}
}
func (m *meter) Emit(task.Event) {}

func (m *meter) AddUsage(u task.Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used = m.used.Plus(u)
}

func (m *meter) total() task.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}
