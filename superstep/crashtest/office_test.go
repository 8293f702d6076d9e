package crashtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/openai"
	"github.com/pawl-go/pawl/providers/scripted"
)

// script is how every desk behaves: what is bad fails for good, what is flaky fails once.
func script() *scripted.Script {
	answer := func(r providers.Request) string { return answerTo(r.Messages[len(r.Messages)-1].Content) }
	return scripted.New(
		scripted.On(scripted.Contains("bad ")).Fail(scripted.Status(http.StatusBadRequest)),
		scripted.On(scripted.Contains("flaky ")).PerRequest().Fail(scripted.Status(http.StatusServiceUnavailable)).ReplyFunc(answer),
		scripted.On().ReplyFunc(answer),
	)
}

// ledger counts the calls about each thing, by the process that made them: 1 for the first process of the run.
type ledger struct {
	handler http.Handler

	mu    sync.Mutex
	calls map[int]map[string]int
}

func newLedger() *ledger {
	return &ledger{handler: script().Handler(), calls: map[int]map[string]int{}}
}

func (l *ledger) count(process int, about string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls[process] == nil {
		l.calls[process] = map[string]int{}
	}
	l.calls[process][about]++
}

// by returns the calls of one process.
func (l *ledger) by(process int) map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.calls[process])
}

func (l *ledger) known(about string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, calls := range l.calls {
		if calls[about] > 0 {
			return true
		}
	}
	return false
}

// office serves a desk for each run to processes that may die. One process at a time uses it.
type office struct {
	server *httptest.Server

	mu      sync.Mutex
	ledgers map[string]*ledger
	open    map[net.Conn]bool
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{ledgers: map[string]*ledger{}, open: map[net.Conn]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{run}/{process}/known", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, o.ledger(r.PathValue("run")).known(r.FormValue("about")))
	})
	mux.HandleFunc("POST /{run}/{process}/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var asked providers.Request
		if err != nil || json.Unmarshal(body, &asked) != nil {
			return // its process died while it wrote the request: nothing was asked
		}
		process, _ := strconv.Atoi(r.PathValue("process"))
		l := o.ledger(r.PathValue("run"))
		l.count(process, asked.Messages[len(asked.Messages)-1].Content)
		r.Body = io.NopCloser(bytes.NewReader(body))
		l.handler.ServeHTTP(w, r)
	})
	o.server = httptest.NewUnstartedServer(mux)
	o.server.Config.ConnState = func(c net.Conn, s http.ConnState) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.open[c] = true
		if s == http.StateClosed {
			delete(o.open, c)
		}
	}
	o.server.Start()
	t.Cleanup(o.server.Close)
	return o
}

func (o *office) ledger(run string) *ledger {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ledgers[run] == nil {
		o.ledgers[run] = newLedger()
	}
	return o.ledgers[run]
}

// settle waits until all that a dead process has sent is counted.
func (o *office) settle(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.open) == 0
	}, 10*time.Second, time.Millisecond, "a dead process has open connections")
}

// remote is the desk as a process sees it.
type remote struct {
	*openai.Client

	base string
}

func newRemote(base, run string, process int) (*remote, error) {
	base = fmt.Sprintf("%s/%s/%d", base, run, process)
	c, err := openai.New(openai.Config{Name: "desk", BaseURL: base, Model: "scripted"})
	return &remote{c, base}, err
}

// Known implements desk.
func (r *remote) Known(ctx context.Context, about string) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+"/known?about="+url.QueryEscape(about), http.NoBody)
	if err != nil {
		return false, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text) == "true", err
}
