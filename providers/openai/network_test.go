package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/openai"
	"github.com/pawl-go/pawl/providers/scripted"
	"github.com/pawl-go/pawl/task"
	goopenai "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
)

// roundTrip is a function as an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// over returns a client whose requests go through rt.
func over(t *testing.T, rt http.RoundTripper, change ...func(*openai.Config)) *openai.Client {
	t.Helper()
	cfg := openai.Config{Name: "test", BaseURL: "http://endpoint.test/v1", APIKey: apiKey, HTTPClient: &http.Client{Transport: rt}}
	for _, f := range change {
		f(&cfg)
	}
	c, err := openai.New(cfg)
	require.NoError(t, err)
	return c
}

func both(c *openai.Client) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Chat":   func(ctx context.Context) error { _, err := c.Chat(ctx, hello()); return err },
		"Stream": func(ctx context.Context) error { _, err := providers.Collect(c.Stream(ctx, hello())); return err },
	}
}

func callError(tb testing.TB, err error) *providers.CallError {
	tb.Helper()
	var e *providers.CallError
	require.ErrorAs(tb, err, &e)
	return e
}

func TestConnectionsThatFailAreProviderErrors(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	refused := "http://" + ln.Addr().String()
	require.NoError(t, ln.Close())
	fails := func(err error) http.RoundTripper {
		return roundTrip(func(*http.Request) (*http.Response, error) { return nil, err })
	}
	secret := errors.New("token endpoint answered: " + apiKey)
	for name, tc := range map[string]struct {
		client  *openai.Client
		notSent bool
		detail  string
		class   classifier.RunErrorClass
	}{
		"refused": {
			over(t, nil, func(c *openai.Config) { c.BaseURL = refused }), true, "connection refused", classifier.ProviderError,
		},
		"unknown host": {
			over(t, fails(&net.DNSError{Err: "no such host", Name: "endpoint.test", IsNotFound: true})),
			true, "no such host", classifier.ProviderError,
		},
		"reset": {
			over(t, fails(&net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset by peer")})),
			false, "reset by peer", classifier.ProviderError,
		},
		"closed":         {over(t, fails(io.EOF)), false, "before it was whole", classifier.ProviderError},
		"own transport":  {over(t, fails(secret)), false, "the connection failed", classifier.ProviderError},
		"stray cancel":   {over(t, fails(context.Canceled)), false, "the connection failed", classifier.ProviderError},
		"header timeout": {over(t, fails(timeoutError{})), false, "HTTP client allows", classifier.Timeout},
		"refused by TLS": {
			over(t, nil, func(c *openai.Config) { c.BaseURL = tlsServer(t) }), true, "not trusted", classifier.ProviderError,
		},
	} {
		for way, call := range both(tc.client) {
			t.Run(name+" "+way, func(t *testing.T) {
				var run meter
				err := call(task.NewContext(t.Context(), &run))
				e := callError(t, err)
				require.Equal(t, tc.class, classifier.Default().Classify(err).Class)
				require.Equal(t, tc.notSent, e.NotSent)
				require.ErrorContains(t, err, tc.detail)
				require.NotContains(t, err.Error(), apiKey)
				require.NotErrorIs(t, err, context.Canceled)
				require.Equal(t, tc.notSent, run.used.Calls == 0, "what never reached the provider is no call")
			})
		}
	}
}

type timeoutError struct{}

func (timeoutError) Error() string   { return "timeout awaiting response headers" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

func tlsServer(t *testing.T) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(sse(done))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv.URL
}

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

func TestTheHTTPClientsTimeoutIsATimeoutAndNotTheCallers(t *testing.T) {
	script := scripted.New(scripted.On().Fail(scripted.Stall("a")))
	c := serve(t, script.Handler(), func(cfg *openai.Config) { cfg.HTTPClient = &http.Client{Timeout: 30 * time.Millisecond} })
	for way, call := range both(c) {
		t.Run(way, func(t *testing.T) {
			err := call(t.Context())
			require.Equal(t, classifier.Timeout, classifier.Default().Classify(err).Class)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NoError(t, t.Context().Err())
		})
	}
}

func TestA429WhoseBodyDoesNotComeIsStillA429(t *testing.T) {
	for name, lost := range map[string]error{"timeout": timeoutError{}, "reset": io.ErrUnexpectedEOF} {
		c := over(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			body := io.NopCloser(iotest.ErrReader(lost))
			header := http.Header{"Retry-After": {"7"}}
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: header, Body: body, Request: r}, nil
		}))
		for way, call := range both(c) {
			t.Run(name+" "+way, func(t *testing.T) {
				e := callError(t, call(t.Context()))
				require.Equal(t, 429, e.Status)
				require.Equal(t, 7*time.Second, e.Hint)
			})
		}
	}
}

// A call that is cancelled because its sibling failed is a cancel, and not the sibling's failure, whatever the HTTP client
// makes of the cause.
func TestACancelWhoseCauseIsAnAPIErrorIsACancel(t *testing.T) {
	script := scripted.New(scripted.On().Fail(scripted.Stall("a")))
	for way, call := range both(serve(t, script.Handler())) {
		t.Run(way, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(20*time.Millisecond, func() { cancel(&goopenai.APIError{HTTPStatusCode: 503}) })
			err := call(ctx)
			require.ErrorIs(t, err, context.Canceled)
			var api *goopenai.APIError
			require.NotErrorAs(t, err, &api)
			require.Equal(t, classifier.Canceled, classifier.Default().Classify(err).Class)
		})
	}
}

// A reused connection that dies is where net/http would send a POST with an idempotency key a second time.
func TestOneCallIsOneRequestOnAReusedConnectionThatDies(t *testing.T) {
	for way := range both(nil) {
		t.Run(way, func(t *testing.T) {
			var requests atomic.Int32
			c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				if requests.Add(1) == 1 {
					io.WriteString(w, `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`)
					return
				}
				conn, _, err := w.(http.Hijacker).Hijack()
				if err == nil {
					conn.Close()
				}
			}))
			var run meter
			ctx := task.NewContext(t.Context(), &run)
			require.NoError(t, both(c)[way](ctx), "the first call opens the connection")
			err := both(c)[way](ctx)
			require.Equal(t, classifier.ProviderError, classifier.Default().Classify(err).Class)
			require.EqualValues(t, 2, requests.Load())
			require.Equal(t, 2, run.used.Calls)
		})
	}
}

func TestTheIdempotencyKeyIsTheTasks(t *testing.T) {
	key := (&meter{}).Task().IdempotencyKey()
	ask := func(t *testing.T, ctx context.Context, req providers.Request, header string) string {
		t.Helper()
		var got string
		c := over(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			got = r.Header.Get("Idempotency-Key") + r.Header.Get("X-Key")
			require.Nil(t, r.GetBody, "net/http must not be able to send it again")
			return nil, io.EOF
		}), func(cfg *openai.Config) { cfg.IdempotencyHeader = header })
		_, err := c.Chat(ctx, req)
		require.Error(t, err)
		return got
	}
	inTask := func() context.Context { return task.NewContext(t.Context(), &meter{}) }
	first := ask(t, inTask(), hello(), "")
	require.Regexp(t, "^"+key+"-[0-9a-f]{16}$", first)
	require.Equal(t, first, ask(t, inTask(), hello(), ""), "another attempt of the task")
	other := hello()
	other.Model = "other"
	require.NotEqual(t, first, ask(t, inTask(), other, ""), "another call of the task")
	require.Equal(t, first, ask(t, inTask(), hello(), "X-Key"))
	require.Empty(t, ask(t, inTask(), hello(), "-"))
	require.Empty(t, ask(t, t.Context(), hello(), ""), "outside of a run")
}

func TestNoRedirectIsFollowed(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		c := serve(t, raw(status, http.Header{"Location": {other.URL}}, ""))
		for _, call := range both(c) {
			e := callError(t, call(t.Context()))
			require.Equal(t, status, e.Status)
			require.Equal(t, classifier.InvalidRequest, e.Class)
			require.NotContains(t, e.Error(), other.URL)
		}
	}
	require.Zero(t, elsewhere.Load())
}

type unmarshalable struct{}

func (unmarshalable) MarshalJSON() ([]byte, error) { return nil, errors.New("the prompt: " + apiKey) }

func TestRequestsThatCannotBeSent(t *testing.T) {
	c := over(t, roundTrip(func(*http.Request) (*http.Response, error) {
		t.Error("a request was made")
		return nil, io.EOF
	}))
	misused := hello()
	misused.Messages[0].MultiContent = []goopenai.ChatMessagePart{{Text: "x"}}
	schema := hello()
	schema.ResponseFormat = &goopenai.ChatCompletionResponseFormat{
		JSONSchema: &goopenai.ChatCompletionResponseFormatJSONSchema{Schema: unmarshalable{}},
	}
	channel := hello()
	channel.ToolChoice = make(chan int)
	reasoning := hello()
	reasoning.Model, reasoning.MaxTokens = "o1", 5 //nolint:staticcheck // deprecated, which is the point
	for name, req := range map[string]providers.Request{
		"content twice": misused, "a schema that fails": schema, "a channel": channel, "a bad parameter": reasoning,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.Chat(t.Context(), req)
			e := callError(t, err)
			require.Equal(t, classifier.InvalidRequest, e.Class)
			require.True(t, e.NotSent)
			require.NotContains(t, e.Error(), apiKey)
			_, err = providers.Collect(c.Stream(t.Context(), req))
			require.Equal(t, classifier.InvalidRequest, callError(t, err).Class)
			fake := scripted.New(scripted.On().Reply("x")).Provider("fake")
			if _, err = fake.Chat(t.Context(), req); name != "a bad parameter" {
				require.Equal(t, classifier.InvalidRequest, callError(t, err).Class, "the script says the same")
			}
		})
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	var opened atomic.Int32
	script := scripted.New(scripted.On().Reply("one two three"))
	srv := httptest.NewUnstartedServer(script.Handler())
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	c, err := openai.New(openai.Config{BaseURL: srv.URL})
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	for range 5 {
		for _, call := range both(c) {
			require.NoError(t, call(t.Context()))
		}
	}
	require.LessOrEqual(t, opened.Load(), int32(3), "one, if the machine is not too busy to see the end of a stream in time")
}

func TestAStreamThatIsLeftClosesItsConnection(t *testing.T) {
	gone := make(chan struct{})
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, frame(token("a")))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(gone)
	}))
	for d, err := range c.Stream(t.Context(), hello()) {
		require.NoError(t, err)
		require.Equal(t, "a", d.Text())
		break
	}
	<-gone
}

func TestAStreamIsClosedSoonIfItsServerKeepsTheConnectionOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, server := io.Pipe()
		go io.WriteString(server, frame(token("a"))+frame(finish("stop"))+done+": and then nothing")
		c := over(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body, Request: r}, nil
		}))
		start := time.Now()
		_, err := providers.Collect(c.Stream(t.Context(), hello()))
		require.NoError(t, err)
		require.Less(t, time.Since(start), time.Second)
	})
}

func TestAPanicOfTheTransportPasses(t *testing.T) {
	c := over(t, roundTrip(func(*http.Request) (*http.Response, error) { panic("mine") }))
	for _, call := range both(c) {
		require.PanicsWithValue(t, "mine", func() { _ = call(t.Context()) })
	}
}

func TestHeadersAndModel(t *testing.T) {
	var got *http.Request
	var body map[string]any
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body = nil
		_ = json.NewDecoder(r.Body).Decode(&body)
		w.Header().Set("Set-Cookie", "session=1")
		w.Header().Set("X-Request-ID", "req_1")
		io.WriteString(w, `{"choices":[{"message":{"content":"x"}}]}`)
	}), func(cfg *openai.Config) {
		cfg.Header = http.Header{"x-title": {"pawl"}}
		cfg.Model = "mine"
	})
	resp, err := c.Chat(t.Context(), providers.Request{Stream: true, StreamOptions: &goopenai.StreamOptions{IncludeUsage: true}})
	require.NoError(t, err)
	require.Equal(t, "Bearer "+apiKey, got.Header.Get("Authorization"))
	require.Equal(t, "pawl", got.Header.Get("X-Title"))
	require.Equal(t, "/v1/chat/completions", got.URL.Path)
	require.Equal(t, "mine", body["model"])
	require.Equal(t, false, body["stream"])
	require.NotContains(t, body, "stream_options")
	require.Equal(t, "req_1", resp.Header().Get("X-Request-ID"))
	require.Empty(t, resp.Header().Get("Set-Cookie"))
	_, err = c.Chat(t.Context(), hello())
	require.NoError(t, err)
	require.Equal(t, "m", body["model"], "a request's own model comes first")
}
