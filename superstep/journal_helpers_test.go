package superstep_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	memstore "github.com/pawl-go/pawl/journal/memory"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

// stored is a Config with a store.
func stored(store journal.Store) superstep.Config { return superstep.Config{Store: store} }

// in is how the tests of journals name their runs.
func in(id string) superstep.RunOption { return superstep.RunID(id) }

// asError finds an error of a type, or fails the test.
func asError[E error](tb testing.TB, err error) E {
	tb.Helper()
	var e E
	require.ErrorAs(tb, err, &e)
	return e
}

// eventsOf reads a journal.
func eventsOf(tb testing.TB, store journal.Store, id string) []journal.Event {
	tb.Helper()
	var out []journal.Event
	for e, err := range store.Events(context.Background(), id, 0) {
		require.NoError(tb, err)
		out = append(out, e)
	}
	return out
}

// kindsOf are the kinds of a journal's events.
func kindsOf(tb testing.TB, store journal.Store, id string) []journal.Kind { //nolint:unparam // as eventsOf has it
	tb.Helper()
	var out []journal.Kind
	for _, e := range eventsOf(tb, store, id) {
		out = append(out, e.Kind)
	}
	return out
}

// lastOf is a journal's last event.
func lastOf(tb testing.TB, store journal.Store, id string) journal.Event { //nolint:unparam // as eventsOf has it
	tb.Helper()
	all := eventsOf(tb, store, id)
	return all[len(all)-1]
}

// statusOf is what a store says of a run.
func statusOf(tb testing.TB, store journal.Store, id string) journal.Status {
	tb.Helper()
	run, err := store.Load(context.Background(), id)
	require.NoError(tb, err)
	return run.Status
}

// questionsOf are the ids of the questions that a run is suspended on.
func questionsOf(tb testing.TB, err error) []string {
	tb.Helper()
	return asError[*durable.SuspendedError](tb, err).Questions()
}

// asks is a node that asks a person and logs the answer.
func asks(question string) nodeFn {
	return func(ctx context.Context, _ st) (up, error) {
		word, err := durable.Interrupt[string](ctx, question)
		return up{Log: []string{word}}, err
	}
}

// counted is a node that counts its calls.
func counted(c *meter, name string, fn nodeFn) nodeFn {
	return func(ctx context.Context, s st) (up, error) {
		c.hit("%s", name)
		return fn(ctx, s)
	}
}

// inLine compiles a graph of nodes that follow one another.
func inLine(tb testing.TB, nodes ...nodeFn) *graph.Graph[st, up] {
	tb.Helper()
	return build(tb, func(b *bld) {
		var last graph.Node
		for i, fn := range nodes {
			n := b.Node(string(rune('a'+i)), fn)
			if i == 0 {
				b.Start(n)
			} else {
				b.Edge(last, n)
			}
			last = n
		}
	})
}

// sideBySide compiles a graph of nodes that run in one super-step.
func sideBySide(tb testing.TB, nodes ...nodeFn) *graph.Graph[st, up] {
	tb.Helper()
	return build(tb, func(b *bld) {
		for i, fn := range nodes {
			b.Start(b.Node(string(rune('a'+i)), fn))
		}
	})
}

// once is true the first time.
type once struct {
	mu   sync.Mutex
	done bool
}

func (o *once) first() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.done
	o.done = true
	return !was
}

// failsOnce is a node that fails the first time and then does what fn does.
func failsOnce(fn nodeFn) nodeFn {
	var o once
	return func(ctx context.Context, s st) (up, error) {
		if o.first() {
			return up{}, errBroken
		}
		return fn(ctx, s)
	}
}

// newStore is a store for one test.
func newStore() *memstore.Store { return memstore.New() }

// releaseAfter is an observer that closes a channel when so many tasks beside the first super-step's have completed.
func releaseAfter(n int, release chan<- struct{}) func(task.Event) {
	return func(ev task.Event) {
		if done, is := ev.(*task.TaskCompleted); is && done.SuperStep > 1 {
			if n--; n == 0 {
				close(release)
			}
		}
	}
}

// begin starts a run on a goroutine of its own. What it returns waits for its end, and checks it as play does.
func begin(ctx context.Context, tb testing.TB, g *graph.Graph[st, up], cfg superstep.Config, opts ...superstep.RunOption) func() outcome[st] {
	tb.Helper()
	p := &tape{}
	cfg.Observers = append(cfg.Observers, p.observe)
	r := runner(tb, g, cfg)
	var o outcome[st]
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.Result, o.err = r.Run(ctx, st{}, opts...)
	}()
	return func() outcome[st] {
		tb.Helper()
		<-done
		o.events = p.all()
		checkEvents(tb, o.events)
		return o
	}
}

// stubborn is a policy that repeats whatever may be repeated, without a delay.
func stubborn(attempts int) retrypolicy.WorkflowNodeRetryPolicy {
	p := policyNow(attempts)
	p.Retryable = retrypolicy.AnyError
	return p
}
