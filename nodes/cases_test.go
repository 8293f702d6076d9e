package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/nodes"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/openai"
	"github.com/pawl-go/pawl/providers/scripted"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

// The tests of this file go the whole way: a graph, its executor, a node, middleware, the client, HTTP, and a server that
// plays a script.

// pipes is a net.Listener whose connections stay in memory, so that time can be that of package synctest.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	close func()
}

func newPipes() *pipes {
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.done) })
	return p
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.close(); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// inMemory is the script behind a real server and the real client, within a bubble.
func inMemory(t *testing.T, script *scripted.Script) providers.Provider {
	t.Helper()
	p := newPipes()
	srv := &http.Server{Handler: script.Handler()}
	go srv.Serve(p)
	transport := &http.Transport{DialContext: p.dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		srv.Close()
	})
	c, err := openai.New(openai.Config{
		Name: "gpt", BaseURL: "http://pipe.test/v1", HTTPClient: &http.Client{Transport: causeTransport{transport}},
	})
	require.NoError(t, err)
	return c
}

// causeTransport is an HTTP client that returns the cause of its context's end, in place of the context's error.
type causeTransport struct{ http.RoundTripper }

func (c causeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, causeOf(r.Context(), err)
	}
	resp.Body = causeBody{resp.Body, r.Context()}
	return resp, nil
}

type causeBody struct {
	io.ReadCloser
	ctx context.Context //nolint:containedctx // of the request whose body it is
}

func (b causeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	return n, causeOf(b.ctx, err)
}

func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// eachWay plays a scene in a bubble, once with streams and once with plain calls.
func eachWay(t *testing.T, play func(t *testing.T, opts ...nodes.ChatOption)) {
	t.Helper()
	for name, opts := range map[string][]nodes.ChatOption{"stream": nil, "plain": {nodes.Plain()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, opts...) })
		})
	}
}

// spy is the default classifier, and keeps what it was asked.
type spy struct {
	mu    sync.Mutex
	asked []error
}

func (s *spy) Classify(err error) classifier.Classification {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, err)
	return classifier.Default().Classify(err)
}

// Of two parallel nodes one fails, and that cancels the other, whose HTTP client returns the cause. The run reports the
// failure; to the classifiers and to the breaker the other's end is no failure, and no success either.
func TestTheFailureOfOneNodeIsNotItsSiblings(t *testing.T) {
	for _, status := range []int{401, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			eachWay(t, func(t *testing.T, opts ...nodes.ChatOption) {
				t.Helper()
				var counted, decided spy
				script := scripted.New(
					scripted.On(scripted.Model("down")).Fail(scripted.Status(status)).After(time.Second),
					scripted.On().Fail(scripted.Stall("a")),
				)
				circuit, err := providers.Breaker{Failures: 2, Classifier: &counted}.New()
				require.NoError(t, err)
				p, err := providers.Wrap(inMemory(t, script), circuit)
				require.NoError(t, err)
				down := providers.Request{Model: "down", Messages: []providers.Message{{Role: "user", Content: "x"}}}
				b := graph.New("test", graph.Fields[state, update]())
				b.Start(
					b.Node("down", nodes.Chat(p, func(state) providers.Request { return down }, takeIt, opts...)),
					b.Node("stalls", newChat(p, opts...), graph.Retry(policy())),
					b.Node("stalls too", newChat(p, opts...), graph.Retry(policy()), graph.Timeout(time.Hour)),
				)
				began := time.Now()
				o := runGraph(t.Context(), t, b, superstep.Config{Classifier: &decided})
				require.Equal(t, time.Second, time.Since(began))
				var failed *superstep.NodeError
				require.ErrorAs(t, o.err, &failed)
				require.Equal(t, "down", failed.Node)
				got, _ := classifier.HTTPStatus(o.err)
				require.Equal(t, status, got)
				require.Len(t, script.Calls(), 3, "nobody was asked again")
				for _, ended := range of[*task.TaskFailed](o) {
					if ended.Node != "down" {
						require.Equal(t, string(classifier.Canceled), ended.Class)
						require.ErrorIs(t, ended.Err, context.Canceled)
						_, found := classifier.HTTPStatus(ended.Err)
						require.False(t, found, "%v", ended.Err)
					}
				}
				require.NotEmpty(t, decided.asked)
				for _, asked := range append(counted.asked, decided.asked...) {
					var call *providers.CallError
					if !errors.As(asked, &call) || call.Model != "down" {
						require.Equal(t, classifier.Canceled, classifier.Default().Classify(asked).Class, "%v", asked)
					}
				}
				require.Equal(t, providers.CircuitClosed, circuit.State())

				_, err = p.Chat(t.Context(), down)
				require.Error(t, err)
				require.Equal(t, status == 503, circuit.State() == providers.CircuitOpen, "two failures in a row, the cancels between")
			})
		})
	}
}

func TestAPermanentStatusIsTriedOnceWhateverTheRunsClassifierSays(t *testing.T) {
	transient := classifier.Func(func(error) classifier.Classification {
		return classifier.Classification{Class: classifier.ProviderError}
	})
	eager := policy()
	eager.Retryable = retrypolicy.AnyError
	for _, status := range []int{400, 401, 403, 404, 422} {
		for name, retry := range map[string]retrypolicy.WorkflowNodeRetryPolicy{"by class": policy(), "any error": eager} {
			t.Run(fmt.Sprint(status, " ", name), func(t *testing.T) {
				script := scripted.New(scripted.On().Fail(scripted.Status(status)))
				b := graph.New("test", graph.Fields[state, update]())
				b.Start(b.Node("chat", newChat(overHTTP(t, script)), graph.Retry(retry)))
				o := runGraph(t.Context(), t, b, superstep.Config{Classifier: transient})
				var failed *superstep.NodeError
				require.ErrorAs(t, o.err, &failed)
				require.Equal(t, 1, failed.Attempts)
				require.Len(t, script.Calls(), 1)
			})
		}
	}
}

func TestARefusedConnectionIsTriedAgain(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	o := runChat(t.Context(), t, newChat(client(t, "http://"+ln.Addr().String())), graph.Retry(policy()))
	var failed *superstep.NodeError
	require.ErrorAs(t, o.err, &failed)
	require.Equal(t, classifier.ProviderError, failed.Class)
	require.Equal(t, 3, failed.Attempts)
	require.Zero(t, o.Usage.Calls, "nothing was sent")
}

// What no second attempt can help, though some of it comes as a 429.
func TestQuotaSizeAndContentAreTriedOnce(t *testing.T) {
	for _, row := range []struct {
		name   string
		status int
		body   string
		class  classifier.RunErrorClass
	}{
		{"a quota", 429, `{"error":{"code":"insufficient_quota","message":"x"}}`, classifier.QuotaExceeded},
		{"a spend limit", 429, `{"error":{"code":"project_spend_limit_exceeded","message":"x"}}`, classifier.QuotaExceeded},
		{"a budget as 400", 400, `{"error":{"code":"400","message":"Budget has been exceeded!"}}`, classifier.QuotaExceeded},
		{"a budget as 429", 429, `{"error":{"code":"429","message":"Budget has been exceeded!"}}`, classifier.QuotaExceeded},
		{"a credit balance", 400, `{"error":{"message":"Your credit balance is too low"}}`, classifier.QuotaExceeded},
		{
			"a request that is too large", 429,
			`{"error":{"code":"rate_limit_exceeded","message":"Request too large for m: Limit 30000, Requested 30182"}}`,
			classifier.InvalidRequest,
		},
		{
			"a content filter", 400,
			`{"error":{"code":"content_filter","message":"x","innererror":{"code":"ResponsibleAIPolicyViolation"}}}`,
			classifier.ContentFiltered,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			script := scripted.New(scripted.On().Fail(scripted.HTTP(row.status, nil, row.body)))
			o := runChat(t.Context(), t, newChat(overHTTP(t, script)), graph.Retry(policy()))
			var failed *superstep.NodeError
			require.ErrorAs(t, o.err, &failed)
			require.Equal(t, row.class, failed.Class)
			require.Equal(t, 1, failed.Attempts)
			require.Len(t, script.Calls(), 1)
		})
	}
}

// Half of a tool call is none: the node does not get it, so that no tool can run on it.
func TestATruncatedToolCallIsNotTaken(t *testing.T) {
	const call = `"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"drop","arguments":"{\"table\":\"us"}}]`
	for name, row := range map[string]struct {
		body string
		opts []nodes.ChatOption
	}{
		"stream": {
			`data: {"choices":[{"index":0,"delta":{` + call + `}}]}` + "\n\n" +
				`data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}` + "\n\ndata: [DONE]\n\n", nil,
		},
		"plain": {`{"choices":[{"index":0,"message":{` + call + `},"finish_reason":"length"}]}`, []nodes.ChatOption{nodes.Plain()}},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, row.body) }))
			defer srv.Close()
			tools := 0
			take := func(_ state, r *providers.Response) (update, error) {
				tools += len(r.Choices[0].Message.ToolCalls)
				return update{}, nil
			}
			o := runChat(t.Context(), t, nodes.Chat(client(t, srv.URL), askIt, take, row.opts...), graph.Retry(policy()))
			var failed *superstep.NodeError
			require.ErrorAs(t, o.err, &failed)
			require.Equal(t, classifier.InvalidResponse, failed.Class)
			require.Equal(t, 1, failed.Attempts)
			require.Zero(t, tools)
		})
	}
}

// limited is the script over HTTP behind a limiter of one call a second.
func limited(t *testing.T, script *scripted.Script) providers.Provider {
	t.Helper()
	p, err := providers.Wrap(inMemory(t, script), providers.RateLimit{RequestsPerMinute: 60, RequestBurst: 1})
	require.NoError(t, err)
	return p
}

func TestEachAttemptOfANodeTakesATokenOfTheLimiter(t *testing.T) {
	eachWay(t, func(t *testing.T, opts ...nodes.ChatOption) {
		t.Helper()
		script := scripted.New(scripted.On().Fail(scripted.Status(503)).Fail(scripted.Status(503)).Reply("yes"))
		p := limited(t, script)
		began := time.Now()
		o := runChat(t.Context(), t, newChat(p, opts...), graph.Retry(policy()))
		require.NoError(t, o.err)
		require.Len(t, script.Calls(), 3)
		require.Equal(t, 2*time.Second, time.Since(began), "the second and the third wait for theirs")
		o = runChat(t.Context(), t, newChat(p, opts...))
		require.NoError(t, o.err)
		require.Equal(t, 3*time.Second, time.Since(began), "three were taken, no more")
	})
}

func TestAWaitForTheLimiterThatDoesNotFitTheDeadline(t *testing.T) {
	spent := func(t *testing.T, opts ...nodes.ChatOption) (*scripted.Script, chatNode) {
		t.Helper()
		script := scripted.New(scripted.On().Reply("yes"))
		p := limited(t, script)
		_, err := p.Chat(t.Context(), user("takes the burst"))
		require.NoError(t, err)
		return script, newChat(p, opts...)
	}
	ends := func(t *testing.T, o outcome, script *scripted.Script, took time.Duration) {
		t.Helper()
		require.Zero(t, took, "at once")
		var failed *superstep.NodeError
		require.ErrorAs(t, o.err, &failed)
		require.Equal(t, classifier.RateLimited, failed.Class)
		require.Equal(t, 1, failed.Attempts, "no further attempt under that deadline")
		require.Len(t, script.Calls(), 1)
		hint, _ := classifier.RetryHint(o.err)
		require.Equal(t, time.Second, hint)
	}
	t.Run("the caller's", func(t *testing.T) {
		eachWay(t, func(t *testing.T, opts ...nodes.ChatOption) {
			t.Helper()
			script, chat := spent(t, opts...)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			began := time.Now()
			ends(t, runChat(ctx, t, chat, graph.Retry(policy())), script, time.Since(began))
		})
	})
	t.Run("the run's", func(t *testing.T) {
		eachWay(t, func(t *testing.T, opts ...nodes.ChatOption) {
			t.Helper()
			script, chat := spent(t, opts...)
			b := graph.New("test", graph.Fields[state, update]())
			b.Start(b.Node("chat", chat, graph.Retry(policy())))
			began := time.Now()
			ends(t, runGraph(t.Context(), t, b, superstep.Config{RunTimeout: 100 * time.Millisecond}), script, time.Since(began))
		})
	})
	t.Run("the attempt's: the next one comes when there is a token", func(t *testing.T) {
		eachWay(t, func(t *testing.T, opts ...nodes.ChatOption) {
			t.Helper()
			script, chat := spent(t, opts...)
			began := time.Now()
			o := runChat(t.Context(), t, chat, graph.Retry(policy()), graph.Timeout(100*time.Millisecond))
			require.NoError(t, o.err)
			require.Equal(t, time.Second, time.Since(began))
			require.Len(t, script.Calls(), 2)
			require.Len(t, of[*task.AttemptFailed](o), 1)
			require.Equal(t, string(classifier.RateLimited), of[*task.AttemptFailed](o)[0].Class)
		})
	})
}

// A retry loop around a call inside a node that has a policy of its own: 3 calls, not 9.
func TestOnlyOneLayerRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := scripted.New(scripted.On().Fail(scripted.Status(503)))
		p := inMemory(t, script)
		inner := &retrypolicy.Loop{Policy: retrypolicy.Standard()}
		o := runChat(t.Context(), t, func(ctx context.Context, s state) (update, error) {
			return retrypolicy.Do(ctx, inner, func(ctx context.Context, _ int) (update, error) {
				resp, err := nodes.Call(ctx, p, askIt(s))
				if err != nil {
					return update{}, err
				}
				return takeIt(s, resp)
			})
		}, graph.Retry(policy()))
		var failed *superstep.NodeError
		require.ErrorAs(t, o.err, &failed)
		require.Equal(t, classifier.ProviderError, failed.Class)
		require.Equal(t, 1, failed.Attempts)
		require.Len(t, script.Calls(), 3)
	})
}

// A probe that never returns ends with its attempt, counts as failed, and the breaker lets the next one through.
func TestABreakerRecoversFromAProbeThatNeverReturns(t *testing.T) {
	eachWay(t, func(t *testing.T, opts ...nodes.ChatOption) {
		t.Helper()
		script := scripted.New(scripted.On().Fail(scripted.Status(503)).Fail(scripted.Stall("a")).Reply("yes"))
		circuit, err := providers.Breaker{Failures: 1, OpenFor: 10 * time.Second}.New()
		require.NoError(t, err)
		p, err := providers.Wrap(inMemory(t, script), circuit)
		require.NoError(t, err)
		retry := policy()
		retry.MaxAttempts = 5
		began := time.Now()
		o := runChat(t.Context(), t, newChat(p, opts...), graph.Retry(retry), graph.Timeout(20*time.Second))
		require.NoError(t, o.err)
		require.Equal(t, 40*time.Second, time.Since(began), "open for 10 s, a probe of 20 s, open for 10 s")
		var classes []string
		for _, failed := range of[*task.AttemptFailed](o) {
			classes = append(classes, failed.Class)
		}
		require.Equal(t, []string{"provider_error", "provider_unavailable", "timeout", "provider_unavailable"}, classes)
		require.Len(t, script.Calls(), 3, "an open breaker makes no call")
		require.Equal(t, providers.CircuitClosed, circuit.State())
	})
}
