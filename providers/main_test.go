package providers_test

import (
	"context"
	"iter"
	"sync"
	"testing"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
	"github.com/pawl-go/pawl/task"
	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func hello() providers.Request {
	return providers.Request{Model: "m", Messages: []providers.Message{{Role: "user", Content: "hello"}}}
}

// fake is a provider made of functions; what is left nil answers "ok".
type fake struct {
	name   string
	chat   func(context.Context, providers.Request) (*providers.Response, error)
	stream func(context.Context, func(*providers.Delta, error) bool)
}

func (f *fake) Name() string { return f.name }

func (f *fake) Chat(ctx context.Context, req providers.Request) (*providers.Response, error) {
	if f.chat == nil {
		return answer("ok"), nil
	}
	return f.chat(ctx, req)
}

func (f *fake) Stream(ctx context.Context, _ providers.Request) iter.Seq2[*providers.Delta, error] {
	return func(yield func(*providers.Delta, error) bool) {
		if f.stream == nil {
			yield(delta("ok"), nil)
			return
		}
		f.stream(ctx, yield)
	}
}

func answer(text string) *providers.Response {
	return &providers.Response{ChatCompletionResponse: openai.ChatCompletionResponse{
		Choices: []openai.ChatCompletionChoice{{Message: providers.Message{Role: "assistant", Content: text}, FinishReason: "stop"}},
	}}
}

func delta(text string) *providers.Delta {
	return &providers.Delta{ChatCompletionStreamResponse: openai.ChatCompletionStreamResponse{
		Choices: []openai.ChatCompletionStreamChoice{{Delta: openai.ChatCompletionStreamChoiceDelta{Content: text}}},
	}}
}

// play returns a scripted provider of the name.
func play(name string, rules ...scripted.Rule) (*scripted.Script, providers.Provider) {
	s := scripted.New(rules...)
	return s, s.Provider(name)
}

func wrap(t *testing.T, p providers.Provider, m ...providers.Middleware) providers.Provider {
	t.Helper()
	w, err := providers.Wrap(p, m...)
	require.NoError(t, err)
	return w
}

// both are the two ways to make a call.
func both(p providers.Provider) map[string]func(context.Context) (*providers.Response, error) {
	return map[string]func(context.Context) (*providers.Response, error){
		"Chat": func(ctx context.Context) (*providers.Response, error) { return p.Chat(ctx, hello()) },
		"Stream": func(ctx context.Context) (*providers.Response, error) {
			return providers.Collect(p.Stream(ctx, hello()))
		},
	}
}

func classOf(err error) classifier.RunErrorClass { return classifier.Default().Classify(err).Class }

func callError(t *testing.T, err error) *providers.CallError {
	t.Helper()
	var e *providers.CallError
	require.ErrorAs(t, err, &e)
	return e
}

// meter is a run that counts what is used.
type meter struct {
	mu   sync.Mutex
	used task.Usage
}

func (m *meter) Task() task.Task { return task.Task{RunID: "r", Node: "n", SuperStep: 1, Attempt: 1} }
func (m *meter) Emit(task.Event) {}
func (m *meter) AddUsage(u task.Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used = m.used.Plus(u)
}
