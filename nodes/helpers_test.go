package nodes_test

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/nodes"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/openai"
	"github.com/pawl-go/pawl/providers/scripted"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type state struct {
	Question string
	Answers  []string
}

type update struct {
	Answers []string `merge:"append"`
}

func askIt(s state) providers.Request { return user(s.Question) }

func takeIt(_ state, r *providers.Response) (update, error) {
	return update{Answers: []string{r.Text()}}, nil
}

func user(text string) providers.Request {
	return providers.Request{Model: "gpt-x", Messages: []providers.Message{{Role: "user", Content: text}}}
}

// overHTTP is the script behind a real server and the real client.
func overHTTP(t *testing.T, script *scripted.Script) providers.Provider {
	t.Helper()
	srv := httptest.NewServer(script.Handler())
	t.Cleanup(srv.Close)
	return client(t, srv.URL)
}

func client(t *testing.T, url string) *openai.Client {
	t.Helper()
	c, err := openai.New(openai.Config{Name: "gpt", BaseURL: url + "/v1"})
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// faces are the two ways to ask a script.
var faces = map[string]func(*testing.T, *scripted.Script) providers.Provider{
	"over HTTP":  overHTTP,
	"in process": func(_ *testing.T, s *scripted.Script) providers.Provider { return s.Provider("gpt") },
}

// policy retries up to twice, after a millisecond and two.
func policy() retrypolicy.WorkflowNodeRetryPolicy {
	p := retrypolicy.New()
	p.MaxAttempts, p.InitialDelay = 3, time.Millisecond
	return p
}

// outcome is what a run came to, and all its events.
type outcome struct {
	*superstep.Result[state]
	err    error
	events []task.Event
}

type chatNode = func(context.Context, state) (update, error)

// runChat runs a graph of one node named "chat".
func runChat(ctx context.Context, t *testing.T, node chatNode, opts ...graph.Option) outcome {
	t.Helper()
	b := graph.New("test", graph.Fields[state, update]())
	b.Start(b.Node("chat", node, opts...))
	return runGraph(ctx, t, b, superstep.Config{})
}

func runGraph(ctx context.Context, t *testing.T, b *graph.Builder[state, update], cfg superstep.Config) outcome {
	t.Helper()
	g, err := b.Compile()
	require.NoError(t, err)
	var o outcome
	cfg.Observers = append(slices.Clip(cfg.Observers), func(ev task.Event) { o.events = append(o.events, ev) })
	r, err := superstep.NewRunner(g, cfg)
	require.NoError(t, err)
	o.Result, o.err = r.Run(ctx, state{Question: "why?"})
	return o
}

// of are the run's events of one type, in order.
func of[E task.Event](o outcome) []E {
	var found []E
	for _, ev := range o.events {
		if e, ok := ev.(E); ok {
			found = append(found, e)
		}
	}
	return found
}

// story is what the run's attempts did, a word an event: "start 1", "the", "fail 1", "discard 1", "start 2"...
func story(o outcome) string {
	var words []string
	for _, ev := range o.events {
		n := string(rune('0' + ev.Head().Attempt))
		switch e := ev.(type) {
		case *task.AttemptStarted:
			words = append(words, "start"+n)
		case *task.TokenDelta:
			words = append(words, strings.TrimSpace(e.Text)+n)
		case *task.AttemptFailed:
			words = append(words, "fail"+n)
		case *task.AttemptDiscarded:
			words = append(words, "discard"+n)
		case *task.TaskCompleted:
			words = append(words, "done"+n)
		case *task.TaskFailed:
			words = append(words, "failed"+n)
		}
	}
	return strings.Join(words, " ")
}

func newChat(p providers.Provider, opts ...nodes.ChatOption) chatNode {
	return nodes.Chat(p, askIt, takeIt, opts...)
}
