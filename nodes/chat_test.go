package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/nodes"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/openai"
	"github.com/pawl-go/pawl/providers/scripted"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

func TestChatStreamsTheAnswer(t *testing.T) {
	for name, open := range faces {
		t.Run(name, func(t *testing.T) {
			script := scripted.New(scripted.On(scripted.Contains("why?")).Tokens("the ", "moon ", "pulls").Usage(7, 3))
			o := runChat(t.Context(), t, newChat(open(t, script)))
			require.NoError(t, o.err)
			require.Equal(t, []string{"the moon pulls"}, o.State.Answers)
			require.Equal(t, "start1 the1 moon1 pulls1 done1", story(o))
			require.Equal(t, task.Usage{Calls: 1, PromptTokens: 7, CompletionTokens: 3}, o.Usage)
			for _, token := range of[*task.TokenDelta](o) {
				require.Equal(t, "chat", token.Node)
				require.Equal(t, 1, token.SuperStep)
				require.Equal(t, "gpt", token.Provider)
				require.Equal(t, o.RunID, token.RunID)
			}
			require.True(t, script.Requests()[0].Stream)
		})
	}
}

// Two chunks streamed, then a failure, then a retry: the consumer is told to discard attempt 1, and the state has no
// doubled text.
func TestACutStreamIsDiscardedAndAskedAgain(t *testing.T) {
	for name, failure := range map[string]scripted.Failure{
		"closed":      scripted.Cut("the ", "moon "),
		"broken":      scripted.Reset("the ", "moon "),
		"error frame": scripted.StreamError("server_error", "the ", "moon "),
	} {
		t.Run(name, func(t *testing.T) {
			for name, open := range faces {
				t.Run(name, func(t *testing.T) {
					script := scripted.New(scripted.On().Fail(failure).Tokens("the ", "moon ", "pulls"))
					o := runChat(t.Context(), t, newChat(open(t, script)), graph.Retry(policy()))
					require.NoError(t, o.err)
					require.Equal(t, "start1 the1 moon1 fail1 discard1 start2 the2 moon2 pulls2 done2", story(o))
					require.Equal(t, []string{"the moon pulls"}, o.State.Answers)
					require.Equal(t, 1, o.SuperSteps)
					require.Equal(t, 2, o.Usage.Calls)
					failed := of[*task.AttemptFailed](o)[0]
					require.Equal(t, string(classifier.ProviderError), failed.Class)
					require.False(t, failed.Final)
					calls := script.Calls()
					require.Len(t, calls, 2)
					require.NotEmpty(t, calls[0].IdempotencyKey)
					require.Equal(t, calls[0].IdempotencyKey, calls[1].IdempotencyKey)
				})
			}
		})
	}
}

func TestPlainStreamsNothing(t *testing.T) {
	for name, open := range faces {
		t.Run(name, func(t *testing.T) {
			script := scripted.New(scripted.On().Fail(scripted.Status(503)).Tokens("the ", "moon ", "pulls").Usage(7, 3))
			o := runChat(t.Context(), t, newChat(open(t, script), nodes.Plain()), graph.Retry(policy()))
			require.NoError(t, o.err)
			require.Equal(t, "start1 fail1 discard1 start2 done2", story(o))
			require.Equal(t, []string{"the moon pulls"}, o.State.Answers)
			require.Equal(t, task.Usage{Calls: 2, PromptTokens: 7, CompletionTokens: 3}, o.Usage)
			require.False(t, script.Requests()[0].Stream)
		})
	}
}

func TestNilArgumentsAreRefusedByCompile(t *testing.T) {
	p := scripted.New().Provider("gpt")
	ask := func(state, string) providers.Request { return user("") }
	take := func(state, string, *providers.Response) (update, error) { return update{}, nil }
	b := graph.New("bad", graph.Fields[state, update]())
	b.Start(
		b.Node("no provider", nodes.Chat(nil, askIt, takeIt)),
		b.Node("nil client", nodes.Chat((*openai.Client)(nil), askIt, takeIt)),
		b.Node("no ask", nodes.Chat(p, nil, takeIt)),
		b.Node("no take", nodes.Chat[state, update](p, askIt, nil)),
		b.Node("nil option", nodes.Chat(p, askIt, takeIt, nil)),
		b.Node("good", nodes.Chat(p, askIt, takeIt, nodes.Plain())),
	)
	items := func(state) graph.Next { return graph.To() }
	fan := b.Func("fan", func(state) (update, error) { return update{}, nil })
	b.Start(fan)
	for name, fn := range map[string]func(context.Context, state, string) (update, error){
		"task: no provider": nodes.ChatTask(nil, ask, take),
		"task: nil client":  nodes.ChatTask((*openai.Client)(nil), ask, take),
		"task: no ask":      nodes.ChatTask[state, string](p, nil, take),
		"task: no take":     nodes.ChatTask[state, string, update](p, ask, nil),
		"task: nil option":  nodes.ChatTask(p, ask, take, nil),
		"task: good":        nodes.ChatTask(p, ask, take),
	} {
		b.Route(fan, items, graph.Task(b, name, fn))
	}
	_, err := b.Compile()
	var bad *graph.CompileError
	require.ErrorAs(t, err, &bad)
	got := map[string]string{}
	for _, problem := range bad.Problems {
		got[problem.Where] = problem.Error()
	}
	require.Len(t, got, 10)
	for _, name := range []string{"no provider", "nil client", "no ask", "no take", "nil option"} {
		for _, where := range []string{fmt.Sprintf("node %q", name), fmt.Sprintf("node %q", "task: "+name)} {
			require.Equal(t, where+": the function is nil: pass the function that does the node's work (nodes.Chat makes none without provider, ask and take)", got[where])
		}
	}
}

func TestSeveralChoices(t *testing.T) {
	const body = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}

data: {"choices":[{"index":1,"delta":{"content":"sun "}},{"index":0,"delta":{"content":"moon "}}]}

data: {"choices":[{"index":0,"delta":{"content":"pulls"},"finish_reason":"stop"}]}

data: {"choices":[{"index":1,"delta":{"content":"pushes"},"finish_reason":"stop"}]}

data: {"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":5}}

data: [DONE]

`
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, body)
	}))
	defer srv.Close()
	ask := func(s state) providers.Request {
		req := askIt(s)
		req.N = 2
		return req
	}
	take := func(_ state, r *providers.Response) (update, error) {
		var u update
		for _, c := range r.Choices {
			u.Answers = append(u.Answers, c.Message.Content)
		}
		return u, nil
	}
	o := runChat(t.Context(), t, nodes.Chat(client(t, srv.URL), ask, take))
	require.NoError(t, o.err)
	require.Equal(t, []string{"moon pulls", "sun pushes"}, o.State.Answers)
	require.Equal(t, task.Usage{Calls: 1, PromptTokens: 4, CompletionTokens: 5}, o.Usage)
	var tokens []string
	for _, token := range of[*task.TokenDelta](o) {
		tokens = append(tokens, fmt.Sprint(token.Choice, token.Text))
	}
	require.Equal(t, []string{"1sun ", "0moon ", "0pulls", "1pushes"}, tokens)
}

func TestUsageOfFailedAttemptsCountsOnce(t *testing.T) {
	anyError := policy()
	anyError.Retryable = func(error) bool { return true }
	for name, open := range faces {
		t.Run(name, func(t *testing.T) {
			script := scripted.New(scripted.On().
				Fail(scripted.Truncated("the ", "moon ")).Usage(10, 2).
				Fail(scripted.Status(503)).
				Tokens("the ", "moon ", "pulls").Usage(10, 3))
			o := runChat(t.Context(), t, newChat(open(t, script)), graph.Retry(anyError))
			require.NoError(t, o.err)
			require.Equal(t, "start1 the1 moon1 fail1 discard1 start2 fail2 discard2 start3 the3 moon3 pulls3 done3", story(o))
			require.Equal(t, task.Usage{Calls: 3, PromptTokens: 20, CompletionTokens: 5}, o.Usage)
			sum := of[*task.TaskCompleted](o)[0].Usage
			for _, failed := range of[*task.AttemptFailed](o) {
				sum = sum.Plus(failed.Usage)
			}
			require.Equal(t, o.Usage, sum, "each attempt says what it used")
		})
	}
	t.Run("of a run that fails", func(t *testing.T) {
		script := scripted.New(scripted.On().Fail(scripted.Truncated("the ", "moon ")).Usage(10, 2))
		o := runChat(t.Context(), t, newChat(overHTTP(t, script)), graph.Retry(policy()))
		require.Error(t, o.err)
		require.Equal(t, task.Usage{Calls: 1, PromptTokens: 10, CompletionTokens: 2}, o.Usage)
	})
}

func TestChatTaskKeepsTheItems(t *testing.T) {
	ask := func(s state, item string) providers.Request { return user(s.Question + " " + item) }
	take := func(_ state, item string, r *providers.Response) (update, error) {
		return update{Answers: []string{item + ": " + r.Text()}}, nil
	}
	for name, open := range faces {
		t.Run(name, func(t *testing.T) {
			script := scripted.New(
				scripted.On(scripted.Contains("why? sun")).Fail(scripted.Cut("it ")).Tokens("it ", "shines"),
				scripted.On(scripted.Contains("why? moon")).Reply("pulls"),
				scripted.On(scripted.Contains("why? sea")).Reply("rises"),
			)
			b := graph.New("test", graph.Fields[state, update]())
			start := b.Func("start", func(state) (update, error) { return update{}, nil })
			each := graph.Task(b, "each", nodes.ChatTask(open(t, script), ask, take), graph.Retry(policy()))
			b.Start(start)
			b.Route(start, func(state) graph.Next { return each.Each([]string{"moon", "sun", "sea"}) }, each)
			o := runGraph(t.Context(), t, b, superstep.Config{})
			require.NoError(t, o.err)
			require.Equal(t, []string{"moon: pulls", "sun: it shines", "sea: rises"}, o.State.Answers)
			require.Len(t, script.Calls(), 4)
			for _, failed := range of[*task.AttemptFailed](o) {
				require.Equal(t, 1, failed.Index)
			}
			var sun []string
			for _, token := range of[*task.TokenDelta](o) {
				if token.Index == 1 {
					sun = append(sun, fmt.Sprint(token.Attempt, token.Text))
				}
			}
			require.Equal(t, []string{"1it ", "2it ", "2shines"}, sun)
		})
	}
	t.Run("an error passes", func(t *testing.T) {
		p := scripted.New(scripted.On().Fail(scripted.Status(401))).Provider("gpt")
		_, err := nodes.ChatTask(p, ask, take)(t.Context(), state{}, "moon")
		require.Equal(t, classifier.Unauthorized, classifier.Default().Classify(err).Class)
	})
}

// What take makes of an answer can fail too. Then the whole attempt is made again, if the error says so.
func TestAnErrorOfTakeEndsTheAttempt(t *testing.T) {
	errUnreadable := errors.New("no number")
	script := scripted.New(scripted.On().Tokens("many").Tokens("two"))
	take := func(_ state, r *providers.Response) (update, error) {
		if r.Text() != "two" {
			return update{Answers: []string{"half read"}}, classifier.Transient(errUnreadable)
		}
		return update{Answers: []string{r.Text()}}, nil
	}
	o := runChat(t.Context(), t, nodes.Chat(overHTTP(t, script), askIt, take), graph.Retry(policy()))
	require.NoError(t, o.err)
	require.Equal(t, "start1 many1 fail1 discard1 start2 two2 done2", story(o))
	require.Equal(t, []string{"two"}, o.State.Answers)
	require.ErrorIs(t, of[*task.AttemptFailed](o)[0].Err, errUnreadable)
}

func TestAPanicOfAskOrTakeIsNotRetried(t *testing.T) {
	p := scripted.New(scripted.On().Reply("two")).Provider("gpt")
	for name, node := range map[string]chatNode{
		"ask":  nodes.Chat(p, func(state) providers.Request { panic("oops") }, takeIt),
		"take": nodes.Chat(p, askIt, func(state, *providers.Response) (update, error) { panic("oops") }),
	} {
		t.Run(name, func(t *testing.T) {
			o := runChat(t.Context(), t, node, graph.Retry(policy()))
			var panicked *task.PanicError
			require.ErrorAs(t, o.err, &panicked)
			require.Equal(t, "oops", panicked.Value)
			require.Len(t, of[*task.AttemptStarted](o), 1)
		})
	}
}

func TestChatOutsideOfARun(t *testing.T) {
	p := scripted.New(scripted.On().Reply("it pulls")).Provider("gpt")
	u, err := newChat(p)(t.Context(), state{Question: "why?"})
	require.NoError(t, err)
	require.Equal(t, []string{"it pulls"}, u.Answers)
}

// silent is a provider that did not pass through providers.Conform and gives nothing, without an error.
type silent struct{}

func (silent) Name() string { return "silent" }

func (silent) Chat(context.Context, providers.Request) (*providers.Response, error) {
	return nil, nil //nolint:nilnil // the mistake that is tested
}

func (silent) Stream(context.Context, providers.Request) iter.Seq2[*providers.Delta, error] {
	return func(yield func(*providers.Delta, error) bool) { yield(nil, nil) }
}

func TestNoAnswerAtAllIsAnError(t *testing.T) {
	for name, node := range map[string]chatNode{"stream": newChat(silent{}), "plain": newChat(silent{}, nodes.Plain())} {
		t.Run(name, func(t *testing.T) {
			o := runChat(t.Context(), t, node)
			var failed *superstep.NodeError
			require.ErrorAs(t, o.err, &failed)
			require.Equal(t, classifier.ProviderError, failed.Class)
		})
	}
}

// A node that needs more than Chat gives calls twice, with its context, and may fail before it has a request.
func TestCall(t *testing.T) {
	for name, open := range faces {
		t.Run(name, func(t *testing.T) {
			script := scripted.New(
				scripted.On(scripted.Contains("plan")).Tokens("moon"),
				scripted.On(scripted.Contains("moon")).Fail(scripted.Cut("it ")).Tokens("it ", "pulls"),
			)
			p := open(t, script)
			o := runChat(t.Context(), t, func(ctx context.Context, s state) (update, error) {
				plan, err := nodes.Call(ctx, p, user("plan: "+s.Question))
				if err != nil {
					return update{}, err
				}
				answer, err := nodes.Call(ctx, p, user(plan.Text()))
				if err != nil {
					return update{}, err
				}
				return update{Answers: []string{plan.Text(), answer.Text()}}, nil
			}, graph.Retry(policy()))
			require.NoError(t, o.err)
			require.Equal(t, "start1 moon1 it1 fail1 discard1 start2 moon2 it2 pulls2 done2", story(o))
			require.Equal(t, []string{"moon", "it pulls"}, o.State.Answers)
			require.Equal(t, 4, o.Usage.Calls)
		})
	}
	t.Run("outside of a run", func(t *testing.T) {
		resp, err := nodes.Call(t.Context(), scripted.New(scripted.On().Reply("yes")).Provider("gpt"), user("well?"))
		require.NoError(t, err)
		require.Equal(t, "yes", resp.Text())
	})
}
