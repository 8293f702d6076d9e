package superstep_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// st and up are the state and update of most tests: Log tells who wrote in which order.
type st struct {
	Log []string
	N   int
	V   string
	M   map[string]int
}

type up struct {
	Log []string `merge:"append"`
	N   int      `merge:"sum"`
	V   string
	M   map[string]int `merge:"union"`
}

type (
	bld    = graph.Builder[st, up]
	nodeFn = func(context.Context, st) (up, error)
)

// build compiles a graph that define describes.
func build(tb testing.TB, define func(b *bld)) *graph.Graph[st, up] {
	tb.Helper()
	b := graph.New("test", graph.Fields[st, up]())
	define(b)
	g, err := b.Compile()
	require.NoError(tb, err)
	return g
}

// bubble is a subtest in which time is simulated.
func bubble(t *testing.T, name string, fn func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, fn) })
}

// one compiles a graph of one node.
func one(tb testing.TB, fn nodeFn, opts ...graph.Option) *graph.Graph[st, up] {
	tb.Helper()
	return build(tb, func(b *bld) { b.Start(b.Node("a", fn, opts...)) })
}

// say is a node that writes words to the log.
func say(words ...string) nodeFn {
	return func(context.Context, st) (up, error) { return up{Log: words}, nil }
}

// fails is a node that returns err.
func fails(err error) nodeFn { return func(context.Context, st) (up, error) { return up{}, err } }

// waits is a node that waits for the end of its context and returns its error.
func waits(ctx context.Context, _ st) (up, error) {
	<-ctx.Done()
	return up{}, ctx.Err()
}

// deaf is a node that ignores its context until release is closed, and then answers.
func deaf(release <-chan struct{}, u up, err error) nodeFn {
	return func(context.Context, st) (up, error) {
		<-release
		return u, err
	}
}

func to(nodes ...graph.Node) func(st) graph.Next {
	return func(st) graph.Next { return graph.To(nodes...) }
}

func each[I any](n graph.TaskNode[I], items ...I) func(st) graph.Next {
	return func(st) graph.Next { return n.Each(items) }
}

// gate returns a channel and what closes it; the end of the test does so, too.
func gate(tb testing.TB) (<-chan struct{}, func()) {
	tb.Helper()
	ch := make(chan struct{})
	open := sync.OnceFunc(func() { close(ch) })
	tb.Cleanup(open)
	return ch, open
}

// tape is an observer that keeps every event.
type tape struct {
	mu     sync.Mutex
	events []task.Event
}

func (p *tape) observe(ev task.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, ev)
}

func (p *tape) all() []task.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.events)
}

// outcome is what a run gave.
type outcome[S any] struct {
	*superstep.Result[S]
	err    error
	events []task.Event
}

// play runs a graph, and checks what it says of itself.
func play[S, U any](
	ctx context.Context,
	tb testing.TB,
	g *graph.Graph[S, U],
	cfg superstep.Config,
	in S,
	opts ...superstep.RunOption,
) outcome[S] {
	tb.Helper()
	p := &tape{}
	cfg.Observers = append(slices.Clone(cfg.Observers), p.observe)
	res, err := runner(tb, g, cfg).Run(ctx, in, opts...)
	require.NotNil(tb, res, "a result comes with an error, too")
	o := outcome[S]{res, err, p.all()}
	checkEvents(tb, o.events)
	return o
}

// collect ranges over a whole stream, and checks it.
func collect(tb testing.TB, seq func(func(task.Event, error) bool)) ([]task.Event, error) {
	tb.Helper()
	var evs []task.Event
	var last error
	for ev, err := range seq {
		require.NoError(tb, last, "an error is the last thing of a stream")
		if err != nil {
			require.Nil(tb, ev, "an error comes alone")
			last = err
			continue
		}
		evs = append(evs, ev)
	}
	checkEvents(tb, evs)
	return evs, last
}

// only keeps the events of one kind.
func only[E task.Event](evs []task.Event) []E {
	var out []E
	for _, ev := range evs {
		if e, ok := ev.(E); ok {
			out = append(out, e)
		}
	}
	return out
}

// brief writes events in short: kind, node[index]#attempt.
func brief(evs []task.Event) []string {
	var out []string
	for _, ev := range evs {
		out = append(out, line(ev))
	}
	return out
}

func line(ev task.Event) string {
	h := ev.Head()
	s := string(h.Kind)
	if h.Node != "" {
		s += fmt.Sprintf(" %s[%d]", h.Node, h.Index)
	}
	if h.SuperStep > 0 {
		s += fmt.Sprintf(" @%d", h.SuperStep)
	}
	if h.Attempt > 0 {
		s += fmt.Sprintf(" #%d", h.Attempt)
	}
	return s
}

// eventChecker holds the rules that every list of events keeps, whatever the run has come to.
type eventChecker struct {
	resumed bool                 // what is recorded has no events again
	steps   map[string]*openStep // by path of the (sub)graph
	last    map[string]int       // the last super-step of a (sub)graph instance
	tasks   map[string]*openTask
}

type openStep struct{ number, tasks, started, completed int }

type openTask struct {
	node      string
	fannedOut bool
	step      int
	attempt   int // the last one started
	running   bool
	discarded bool // the last one was, if it failed
}

// checkEvents fails the test if a list of events, of one run from its start to its end, breaks a rule. No events at all
// are right for a run that was never admitted.
func checkEvents(tb testing.TB, evs []task.Event) {
	tb.Helper()
	if len(evs) == 0 {
		return
	}
	start, is := evs[0].(*task.RunStarted)
	require.True(tb, is, "a run starts first")
	c := &eventChecker{start.Resumed, map[string]*openStep{}, map[string]int{}, map[string]*openTask{}}
	for i, ev := range evs {
		if err := c.take(i, len(evs), evs[0].Head(), ev); err != nil {
			require.NoError(tb, fmt.Errorf("event %d (%s): %w", i, line(ev), err), strings.Join(brief(evs), "\n"))
		}
		if i > 0 {
			require.False(tb, ev.Head().Time.Before(evs[i-1].Head().Time), "times go forwards")
		}
	}
}

func (c *eventChecker) take(i, n int, first *task.Header, ev task.Event) error {
	h := ev.Head()
	if h.RunID == "" || h.RunID != first.RunID {
		return fmt.Errorf("run id %q, want %q", h.RunID, first.RunID)
	}
	if err := marshals(ev); err != nil {
		return err
	}
	switch h.Kind {
	case task.KindRunStarted:
		return when(i != 0, "a run starts once, first")
	case task.KindRunCompleted, task.KindRunFailed, task.KindRunCancelled, task.KindRunSuspended:
		return c.end(h.Kind, i == n-1)
	case task.KindSuperStepStarted, task.KindSuperStepCompleted, task.KindJoinUnfired:
		if i == 0 || i == n-1 {
			return fmt.Errorf("a run's events stand between its start and its end")
		}
		return c.superStep(ev)
	}
	if i == 0 || i == n-1 {
		return fmt.Errorf("a run's events stand between its start and its end")
	}
	if h.Kind == task.KindTaskStarted {
		return c.startTask(h)
	}
	t := c.tasks[taskKey(h)]
	if t == nil || t.step != h.SuperStep || t.fannedOut != h.FannedOut {
		return fmt.Errorf("no such task is open")
	}
	if h.Kind == task.KindTaskCompleted || h.Kind == task.KindTaskFailed || h.Kind == task.KindTaskSuspended {
		return c.endTask(h, t)
	}
	if started, is := ev.(*task.AttemptStarted); is && c.resumed && started.Handler && t.attempt == 0 {
		t.attempt, t.running = h.Attempt, true // the attempts that it is for are recorded
		return nil
	}
	return attemptEvent(h, t)
}

// marshals checks that an event is JSON and names its kind there.
func marshals(ev task.Event) error {
	b, err := json.Marshal(ev)
	if err != nil {
		return err
	}
	var back struct {
		Kind  task.Kind `json:"kind"`
		RunID string    `json:"run_id"`
	}
	if err := json.Unmarshal(b, &back); err != nil {
		return err
	}
	return when(back.Kind != ev.Head().Kind || back.RunID == "", "JSON lacks the header: "+string(b))
}

func when(bad bool, text string) error {
	if bad {
		return fmt.Errorf("%s", text)
	}
	return nil
}

func (c *eventChecker) end(kind task.Kind, last bool) error {
	if !last {
		return fmt.Errorf("nothing comes after the end of a run")
	}
	for key := range c.tasks {
		return fmt.Errorf("task %s has no end", key)
	}
	return when(kind == task.KindRunCompleted && len(c.steps) > 0, "a super-step has no end, but the run completed")
}

func (c *eventChecker) superStep(ev task.Event) error {
	h := ev.Head()
	open := c.steps[h.Node]
	switch e := ev.(type) {
	case *task.SuperStepStarted:
		if open != nil {
			return fmt.Errorf("super-step %d has not ended", open.number)
		}
		if (h.SuperStep != c.last[h.Node]+1 && (!c.resumed || c.last[h.Node] > 0)) || e.Tasks < 1 {
			return fmt.Errorf("the super-step before was %d; %d tasks", c.last[h.Node], e.Tasks)
		}
		if h.Node != "" && !c.ownerIsOpen(h.Node) {
			return fmt.Errorf("the subgraph's task is not open")
		}
		c.steps[h.Node] = &openStep{number: h.SuperStep, tasks: e.Tasks}
		c.last[h.Node] = h.SuperStep
	case *task.SuperStepCompleted:
		if open == nil || open.number != h.SuperStep {
			return fmt.Errorf("the super-step is not open")
		}
		if open.completed != open.tasks && !c.resumed {
			return fmt.Errorf("only %d of %d tasks have completed", open.completed, open.tasks)
		}
		delete(c.steps, h.Node)
	case *task.JoinUnfired:
		return when(open != nil, "a super-step is open")
	}
	return nil
}

// ownerIsOpen reports whether the task that runs the subgraph at a path is open.
func (c *eventChecker) ownerIsOpen(path string) bool {
	for key := range c.tasks {
		if path == key || path+"[0]" == key {
			return true
		}
	}
	return false
}

func taskKey(h *task.Header) string { return fmt.Sprintf("%s[%d]", h.Node, h.Index) }

// parent is the path of the (sub)graph in which a node is.
func parent(node string) string {
	if i := strings.LastIndexByte(node, '/'); i >= 0 {
		return node[:i]
	}
	return ""
}

func (c *eventChecker) startTask(h *task.Header) error {
	if c.tasks[taskKey(h)] != nil {
		return fmt.Errorf("the task is open")
	}
	step := c.steps[parent(h.Node)]
	if step == nil || step.number != h.SuperStep {
		return fmt.Errorf("its super-step is not open")
	}
	step.started++
	c.tasks[taskKey(h)] = &openTask{node: h.Node, fannedOut: h.FannedOut, step: h.SuperStep}
	// A subgraph begins anew.
	delete(c.last, h.Node)
	delete(c.last, taskKey(h))
	return when(step.started > step.tasks, "more tasks than the super-step has")
}

func (c *eventChecker) endTask(h *task.Header, t *openTask) error {
	if h.Kind == task.KindTaskSuspended { // whatever attempt it is at is over
		t.running, t.discarded = false, true
	}
	ok := h.Kind == task.KindTaskCompleted
	if !ok && t.running {
		return fmt.Errorf("attempt %d has no end", t.attempt)
	}
	if !ok && t.attempt > 0 && !t.discarded {
		return fmt.Errorf("attempt %d has failed and was not discarded", t.attempt)
	}
	if ok && t.attempt > 0 && (!t.running || h.Attempt != t.attempt) {
		return fmt.Errorf("the last attempt was %d, running: %v", t.attempt, t.running)
	}
	if !ok && t.attempt > 0 && h.Attempt != t.attempt {
		return fmt.Errorf("the last attempt was %d", t.attempt)
	}
	delete(c.tasks, taskKey(h))
	for _, sub := range []string{h.Node, taskKey(h)} {
		if c.steps[sub] != nil && ok {
			return fmt.Errorf("a super-step of the subgraph is open")
		}
		delete(c.steps, sub)
		for key := range c.tasks {
			if strings.HasPrefix(key, sub+"/") {
				return fmt.Errorf("task %s of the subgraph is open", key)
			}
		}
	}
	if ok {
		c.steps[parent(h.Node)].completed++
	}
	return nil
}

func attemptEvent(h *task.Header, t *openTask) error {
	if h.Kind == task.KindAttemptStarted {
		if t.running || h.Attempt != t.attempt+1 || (t.attempt > 0 && !t.discarded) {
			return fmt.Errorf("attempt %d, running: %v, discarded: %v", t.attempt, t.running, t.discarded)
		}
		t.attempt, t.running, t.discarded = h.Attempt, true, false
		return nil
	}
	if h.Attempt != t.attempt {
		return fmt.Errorf("the attempt is %d", t.attempt)
	}
	switch h.Kind {
	case task.KindAttemptFailed:
		defer func() { t.running = false }()
		return when(!t.running, "the attempt has ended")
	case task.KindAttemptDiscarded:
		defer func() { t.discarded = true }()
		return when(t.running || t.discarded, "an attempt is discarded once, after it failed")
	case task.KindTokenDelta, task.KindCustom, task.KindTaskAbandoned:
		return when(!t.running, "the attempt has ended")
	}
	return fmt.Errorf("unknown kind %q", h.Kind)
}

// recorder keeps what is logged.
type recorder struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

func (r *recorder) logger() *slog.Logger { return slog.New(slog.NewTextHandler(r, nil)) }

func (r *recorder) lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Split(strings.TrimSpace(r.buf.String()), "\n")[:strings.Count(r.buf.String(), "\n")]
}
