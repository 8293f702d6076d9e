package scripted_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
	"github.com/pawl-go/pawl/task"
	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
)

func chat(t *testing.T, s *scripted.Script, req providers.Request) string {
	t.Helper()
	resp, err := s.Provider("fake").Chat(t.Context(), req)
	require.NoError(t, err)
	return resp.Text()
}

func TestTheFirstRuleThatMatchesAnswers(t *testing.T) {
	tool := ask("weather?")
	tool.Messages = append(tool.Messages, providers.Message{Role: "tool", Content: "rain"})
	parts := ask("")
	parts.Messages[0] = providers.Message{Role: "user", MultiContent: []openai.ChatMessagePart{{Type: "text", Text: "in parts"}}}
	other := ask("anything")
	other.Model = "other"
	s := scripted.New(
		scripted.On(scripted.Last("rain"), scripted.Contains("weather")).Reply("it rains"),
		scripted.On(scripted.Last("parts")).Reply("parts"),
		scripted.On(scripted.Model("other")).Reply("other model"),
		scripted.On(scripted.When("nothing", nil), scripted.Model("third")).Reply("third model"),
		scripted.On(scripted.When("long", func(r providers.Request) bool { return len(r.Messages[0].Content) > 100 })).Reply("long"),
		scripted.On().ReplyFunc(func(r providers.Request) string { return "you said " + r.Messages[0].Content }),
	)
	require.Equal(t, "it rains", chat(t, s, tool))
	require.Equal(t, "parts", chat(t, s, parts))
	require.Equal(t, "other model", chat(t, s, other))
	other.Model = "third"
	require.Equal(t, "third model", chat(t, s, other))
	require.Equal(t, "long", chat(t, s, ask(strings.Repeat("x", 101))))
	require.Equal(t, "you said hi", chat(t, s, ask("hi")))
}

func TestStepsAreTakenInTurnAndTheLastRepeats(t *testing.T) {
	s := scripted.New(
		scripted.On().Reply("one").Reply("two").Once(),
		scripted.On().Reply("three").Reply("four"),
	)
	for _, want := range []string{"one", "two", "three", "four", "four"} {
		require.Equal(t, want, chat(t, s, ask("x")))
	}
}

func TestStepsAreTakenPerQuestion(t *testing.T) {
	again := ask("x") // the same question, in a longer conversation
	again.Messages = append([]providers.Message{{Role: "system", Content: "be brief"}}, again.Messages...)
	again.Messages = append(again.Messages, providers.Message{Role: "tool", Content: "rain"})
	parts := ask("")
	parts.Messages[0] = providers.Message{Role: "user", MultiContent: []openai.ChatMessagePart{{Type: "text", Text: "x"}}}
	type call struct {
		req  providers.Request
		want string
	}
	for name, tc := range map[string]struct {
		rule  scripted.Rule
		calls []call
	}{
		"each question starts anew": {
			scripted.On().Reply("one").Reply("two").PerRequest(),
			[]call{{ask("x"), "one"}, {ask("y"), "one"}, {ask("x"), "two"}, {ask("x"), "two"}, {ask("y"), "two"}, {ask("z"), "one"}},
		},
		"the last message of the user tells": {
			scripted.On().Reply("one").Reply("two").Reply("three").PerRequest(),
			[]call{{ask("x"), "one"}, {again, "two"}, {parts, "three"}},
		},
		"no message is a question too": {
			scripted.On().PerRequest().Reply("one").Reply("two"),
			[]call{{providers.Request{}, "one"}, {ask("x"), "one"}, {providers.Request{}, "two"}},
		},
		"Once, question by question": {
			scripted.On().Reply("one").Once().PerRequest(),
			[]call{{ask("x"), "one"}, {ask("x"), "next rule"}, {ask("y"), "one"}, {ask("y"), "next rule"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := scripted.New(tc.rule, scripted.On().Reply("next rule"))
			for i, c := range tc.calls {
				require.Equal(t, c.want, chat(t, s, c.req), "call %d", i+1)
			}
		})
	}
	t.Run("two rules count apart", func(t *testing.T) {
		s := scripted.New(
			scripted.On(scripted.Model("other")).Reply("other 1").Reply("other 2").PerRequest(),
			scripted.On().Reply("one").Reply("two").PerRequest())
		other := ask("x")
		other.Model = "other"
		require.Equal(t, "other 1", chat(t, s, other))
		require.Equal(t, "one", chat(t, s, ask("x")))
		require.Equal(t, "other 2", chat(t, s, other))
	})
}

func TestSeveralChoices(t *testing.T) {
	p := scripted.New(scripted.On().Choices("a b", "c", "")).Provider("fake")
	want := []string{"a b", "c", ""}
	plain, err := p.Chat(t.Context(), ask("x"))
	require.NoError(t, err)
	require.Equal(t, 4, plain.Usage.CompletionTokens, "each choice counts")
	var order []int
	var f providers.Fold
	for d, err := range p.Stream(t.Context(), ask("x")) {
		require.NoError(t, err)
		for _, c := range d.Choices {
			order = append(order, c.Index)
		}
		f.Add(d)
	}
	require.Equal(t, []int{0, 1, 2, 0, 0, 1, 2}, order, "in turns, then the finish reasons")
	for _, resp := range []*providers.Response{plain, f.Response()} {
		var got []string
		for i, c := range resp.Choices {
			require.Equal(t, i, c.Index)
			require.Equal(t, "assistant", c.Message.Role)
			require.EqualValues(t, "stop", c.FinishReason)
			got = append(got, c.Message.Content)
		}
		require.Equal(t, want, got)
	}
	_, err = scripted.New(scripted.On().Choices()).Provider("fake").Chat(t.Context(), ask("x"))
	require.ErrorContains(t, err, "the answer has no choices")
}

func TestRulesAreValues(t *testing.T) {
	base := scripted.On().Reply("base")
	one, two := base.Reply("one"), base.Reply("two").After(time.Hour).PerRequest().Once()
	for rule, want := range map[*scripted.Rule]string{&one: "one", &base: "base"} {
		s := scripted.New(*rule)
		require.Equal(t, "base", chat(t, s, ask("x")))
		require.Equal(t, want, chat(t, s, ask("x")))
	}
	_ = two
}

func TestARequestThatNoRuleAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		script *scripted.Script
		want   string
	}{
		"no rules": {scripted.New(), "the script has no rules"},
		"no match": {
			scripted.New(
				scripted.On(scripted.Contains("plan"), scripted.Model("m")).Reply("x"),
				scripted.On(scripted.Last("draft")).Reply("y").Once(),
			),
			`no rule of the script answers this request (model "gpt-x", 1 messages, the last of the user has 6 characters); the ` +
				`rules are: on contains "plan" and model "m"; on last contains "draft"`,
		},
		"no steps": {scripted.New(scripted.On()), "the rules are: on any"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tc.script.Provider("fake").Chat(t.Context(), ask("sécret"))
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "sécret")
			require.ErrorContains(t, err, "scripted_no_rule")
			require.Equal(t, classifier.InvalidRequest, classifier.Default().Classify(err).Class)
			_, permanent := classifier.PermanentHTTPStatus(err)
			require.True(t, permanent)
		})
	}
	_, err := scripted.New(scripted.On(scripted.Contains("x")).Reply("")).Provider("fake").Chat(t.Context(), providers.Request{})
	require.ErrorContains(t, err, "the last of the user has 0 characters")
}

func TestTimeIsThatOfTheBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := scripted.New(scripted.On().Tokens("a", "b", "c").After(time.Second).Every(2 * time.Second)).Provider("fake")
		start := time.Now()
		_, err := p.Chat(t.Context(), ask("x"))
		require.NoError(t, err)
		require.Equal(t, 5*time.Second, time.Since(start))
		var at []time.Duration
		start = time.Now()
		for d, err := range p.Stream(t.Context(), ask("x")) {
			require.NoError(t, err)
			if d.Text() != "" {
				at = append(at, time.Since(start))
			}
		}
		require.Equal(t, []time.Duration{time.Second, 3 * time.Second, 5 * time.Second}, at)
		require.Equal(t, 5*time.Second, time.Since(start), "nothing is waited for behind the last token")
	})
}

func TestRequestsAreCopies(t *testing.T) {
	s := scripted.New(scripted.On().ReplyFunc(func(r providers.Request) string {
		r.Messages[0].Content = "changed by the script"
		return "x"
	}))
	req := ask("x")
	chat(t, s, req)
	require.Equal(t, "x", req.Messages[0].Content)
	req.Messages[0].Content = "changed by the caller"
	s.Requests()[0].Messages[0].Content = "changed by the reader"
	_, err := scripted.New(
		scripted.On(scripted.When("rude", func(r providers.Request) bool {
			r.Messages[0].Content = "changed by a condition"
			return false
		})).Reply("no"),
		scripted.On(scripted.Last("changed by the caller")).Reply("yes"),
	).Provider("fake").Chat(t.Context(), req)
	require.NoError(t, err, "the other conditions see the record")
	require.Equal(t, "x", s.Requests()[0].Messages[0].Content)
	require.Equal(t, "x", s.Calls()[0].Request.Messages[0].Content)
}

type inTask struct{}

func (inTask) Task() task.Task     { return task.Task{RunID: "r", Node: "n"} }
func (inTask) Emit(task.Event)     {}
func (inTask) AddUsage(task.Usage) {}

func TestTheTasksKeyIsRecorded(t *testing.T) {
	s := scripted.New(scripted.On().Reply("x"))
	_, err := s.Provider("fake").Chat(task.NewContext(t.Context(), inTask{}), ask("x"))
	require.NoError(t, err)
	require.Equal(t, inTask{}.Task().IdempotencyKey(), s.Calls()[0].IdempotencyKey)
}

func TestUsageIsCountedUnlessGiven(t *testing.T) {
	p := scripted.New(scripted.On().Reply("three little words").Reply("x").Usage(70, 7)).Provider("fake")
	resp, err := p.Chat(t.Context(), ask("two words"))
	require.NoError(t, err)
	require.Equal(t, [2]int{2, 3}, [2]int{resp.Usage.PromptTokens, resp.Usage.CompletionTokens})
	resp, err = p.Chat(t.Context(), ask("two words"))
	require.NoError(t, err)
	require.Equal(t, 77, resp.Usage.TotalTokens)
}

func TestStreamsAreLeftAtAnyPiece(t *testing.T) {
	p := scripted.New(scripted.On().Tokens("a", "b").Usage(1, 1)).Provider("fake")
	for leave := range 5 {
		n := 0
		for range p.Stream(t.Context(), ask("x")) {
			if n++; n > leave {
				break
			}
		}
	}
}

func TestStreamsEndWithTheirContext(t *testing.T) {
	for name, rule := range map[string]scripted.Rule{
		"first byte": scripted.On().Reply("x").After(time.Hour), "token": scripted.On().Tokens("a", "b").Every(time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := providers.Collect(scripted.New(rule).Provider("fake").Stream(ctx, ask("x")))
				require.ErrorIs(t, err, context.DeadlineExceeded)
			})
		})
	}
}

func TestScriptIsSafeForManyCallers(t *testing.T) {
	s := scripted.New(scripted.On().Reply("a").Reply("b").Once(), scripted.On().Reply("c"))
	var mu sync.Mutex
	got := map[string]int{}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			resp, err := s.Provider("fake").Chat(t.Context(), ask("x"))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				got[resp.Text()]++
			}
			_ = s.Requests()
		})
	}
	wg.Wait()
	require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 48}, got)
}

func TestHandler(t *testing.T) {
	s := scripted.New(
		scripted.On(scripted.Contains("plain")).Reply("plain answer"),
		scripted.On(scripted.Contains("filtered")).Fail(scripted.PromptFiltered()),
		scripted.On(scripted.Contains("error")).Fail(scripted.StreamError("boom", "a")),
		scripted.On(scripted.Contains("bad")).Fail(scripted.HTTP(418, http.Header{"X-Teapot": {"yes"}}, "short and stout")),
		scripted.On().Tokens("a", "b"),
	)
	post := func(path, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
		return w
	}
	request := func(text string, stream bool, more string) string {
		return fmt.Sprintf(`{"model":"m","stream":%v,"messages":[{"role":"user","content":%q}]%s}`, stream, text, more)
	}
	for _, path := range []string{"/chat/completions", "/v1/chat/completions", "/any/prefix/chat/completions"} {
		w := post(path, request("plain", false, ""))
		require.Equal(t, 200, w.Code)
		require.Contains(t, w.Body.String(), "plain answer")
		require.NotContains(t, w.Body.String(), `"provider"`)
	}
	require.Equal(t, 404, post("/v1/models", "").Code)
	require.Equal(t, 400, post("/v1/chat/completions", "no JSON").Code)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/chat/completions", nil))
	require.Equal(t, 404, w.Code)

	stream := post("/v1/chat/completions", request("x", true, "")).Body.String()
	require.True(t, strings.HasSuffix(stream, "data: [DONE]\n\n"))
	require.NotContains(t, stream, "usage", "it is not asked for")
	stream = post("/v1/chat/completions", request("x", true, `,"stream_options":{"include_usage":true}`)).Body.String()
	require.Contains(t, stream, `"usage":{"prompt_tokens":1,"completion_tokens":2`)
	require.Contains(t, post("/v1/chat/completions", request("filtered", true, "")).Body.String(), "prompt_filter_results")
	require.Contains(t, post("/v1/chat/completions", request("error", true, "")).Body.String(), `"code":"boom"`)
	bad := post("/v1/chat/completions", request("bad", true, ""))
	require.Equal(t, 418, bad.Code)
	require.Equal(t, "yes", bad.Header().Get("X-Teapot"))
	require.Equal(t, "short and stout", bad.Body.String())
}

func TestHandlerEndsWithItsRequest(t *testing.T) {
	for name, rule := range map[string]scripted.Rule{
		"first byte": scripted.On().Reply("x").After(time.Hour), "token": scripted.On().Tokens("a", "b").Every(time.Hour),
		"stall": scripted.On().Fail(scripted.Stall("a")),
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprint(name, stream), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					body := strings.NewReader(fmt.Sprintf(`{"stream":%v}`, stream))
					r := httptest.NewRequest(http.MethodPost, "/chat/completions", body).WithContext(ctx)
					start := time.Now()
					scripted.New(rule).Handler().ServeHTTP(httptest.NewRecorder(), r)
					require.Equal(t, time.Second, time.Since(start))
				})
			})
		}
	}
}

// mute is a ResponseWriter that cannot flush.
type mute struct{ http.ResponseWriter }

func TestHandlerNeedsNoFlusher(t *testing.T) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/chat/completions", strings.NewReader(`{"stream":true}`))
	scripted.New(scripted.On().Reply("x")).Handler().ServeHTTP(mute{w}, r)
	body, err := io.ReadAll(w.Body)
	require.NoError(t, err)
	require.Contains(t, string(body), "[DONE]")
}
