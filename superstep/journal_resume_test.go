package superstep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

func TestJournal_TheSameIDAgainReturnsTheRecordedResultAndCallsNothing(t *testing.T) {
	c, store := newMeter(), newStore()
	g := build(t, func(b *bld) {
		a := b.Node("a", counted(c, "a", func(ctx context.Context, s st) (up, error) {
			task.AddUsage(ctx, task.Usage{Calls: 2, PromptTokens: 7})
			return up{Log: []string{"a"}, N: 1, M: map[string]int{"x": 1}}, nil
		}))
		never := b.Node("never", say("never"))
		b.Start(a)
		b.Route(a, func(st) graph.Next { return graph.To(graph.End) }, never, graph.End)
	})
	first, err := runner(t, g, stored(store)).Run(t.Context(), st{V: "in"}, in("r"))
	require.NoError(t, err)
	for range 2 {
		again, err := runner(t, g, stored(store)).Run(t.Context(), st{V: "in"}, in("r"))
		require.NoError(t, err)
		require.Equal(t, first, again)
	}
	resumed, err := runner(t, g, stored(store)).Resume(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, first, resumed)
	require.Equal(t, 1, c.all()["a"])
	require.Equal(t, []task.Unfired{{Target: "never"}}, first.Unfired)
	require.Equal(t, task.Usage{Calls: 2, PromptTokens: 7}, first.Usage)
	require.Equal(t, journal.Completed, statusOf(t, store, "r"))
}

type codedError struct {
	Status int
	Detail map[string]any `json:"-"`
	hidden string
}

func (e *codedError) Error() string       { return fmt.Sprint("coded ", e.Status, e.hidden) }
func (e *codedError) HTTPStatusCode() int { return e.Status }

// A failed run's error answers errors.As and errors.Is alike, live and replayed.
func TestJournal_TheSameIDAgainReturnsTheRecordedError(t *testing.T) {
	store := newStore()
	cause := &codedError{Status: 404, Detail: map[string]any{"n": 1, "s": "x"}, hidden: "!"}
	g := inLine(t, say("a"), fails(fmt.Errorf("asking: %w", errors.Join(classifier.Poison(cause, classifier.Code("card.declined")), io.ErrUnexpectedEOF))))
	first, live := runner(t, g, stored(store)).Run(t.Context(), st{}, in("r"))
	again, replayed := runner(t, g, stored(store)).Run(t.Context(), st{}, in("r"))
	require.Equal(t, first, again)
	require.Equal(t, []string{"a"}, again.State.Log, "the last committed state comes with the error")
	require.Equal(t, 1, again.SuperSteps)
	for name, err := range map[string]error{"live": live, "replayed": replayed} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.NotErrorIs(t, err, io.EOF)
			got := asError[*codedError](t, err)
			require.Equal(t, 404, got.Status)
			require.Equal(t, map[string]any{"n": int64(1), "s": "x"}, plainNumbers(got.Detail))
			require.Empty(t, got.hidden, "an unexported field is not kept")
			node := asError[*superstep.NodeError](t, err)
			require.Equal(t, "b", node.Node)
			require.Equal(t, 2, node.SuperStep)
			require.Equal(t, 1, node.Attempts)
			failed := asError[*durable.RunFailedError](t, err)
			require.Equal(t, durable.CodePoison, failed.Code)
			require.Equal(t, "card.declined", failed.UserCode)
			require.Contains(t, err.Error(), "coded 404!")
		})
	}
	require.Equal(t, live.Error(), replayed.Error())
	require.Equal(t, journal.Failed, statusOf(t, store, "r"))
	meta, err := durable.FailureOf(lastOf(t, store, "r"))
	require.NoError(t, err)
	require.Equal(t, durable.CodePoison, meta.Code)
	require.Equal(t, 404, meta.Status)
}

// plainNumbers makes all whole numbers int64: any keeps its kind.
func plainNumbers(m map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		switch n := v.(type) {
		case int:
			out[k] = int64(n)
		default:
			out[k] = v
		}
	}
	return out
}

func TestJournal_ARunThatSomebodyHoldsIsLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, inside := newStore(), make(chan struct{})
		release, open := gate(t)
		g := one(t, func(context.Context, st) (up, error) {
			close(inside)
			<-release
			return up{N: 1}, nil
		})
		cfg := stored(store)
		cfg.Owner = "worker-7"
		r := runner(t, g, cfg)
		done := make(chan error)
		go func() {
			_, err := r.Run(t.Context(), st{}, in("r"))
			done <- err
		}()
		<-inside
		for range 3 { // also for longer than the lease lasts
			_, err := r.Run(t.Context(), st{}, in("r"))
			locked := asError[*durable.RunLockedError](t, err)
			require.Contains(t, locked.Owner, "worker-7")
			require.ErrorIs(t, err, journal.ErrLocked)
			_, err = r.Resume(t.Context(), "r")
			require.ErrorAs(t, err, new(*durable.RunLockedError))
			time.Sleep(time.Minute)
		}
		open()
		require.NoError(t, <-done)
		res, err := r.Run(t.Context(), st{}, in("r"))
		require.NoError(t, err)
		require.Equal(t, 1, res.State.N)
	})
}

func TestJournal_ARunOfTheSameIDThatIsAnotherOneIsRefused(t *testing.T) {
	store := newStore()
	g := one(t, asks("?"))
	r := runner(t, g, stored(store))
	_, err := r.Run(t.Context(), st{V: "in"}, in("open"), superstep.Thread("t"))
	require.ErrorAs(t, err, new(*durable.SuspendedError))
	_, err = r.Run(t.Context(), st{V: "in"}, in("done"), superstep.Thread("t"))
	require.ErrorAs(t, err, new(*durable.SuspendedError))
	require.NoError(t, r.Answer(t.Context(), "done", "1/a[0]/ask1", "yes"))
	_, err = r.Resume(t.Context(), "done")
	require.NoError(t, err)
	wf := durable.Workflow("test", func(context.Context, st) (int, error) { return 1, nil })
	_, err = durable.Run(t.Context(), store, wf, "workflow", st{V: "in"})
	require.NoError(t, err)

	named := graph.New("another", graph.Fields[st, up]())
	named.Start(named.Node("a", asks("?")))
	other, err := named.Compile()
	require.NoError(t, err)
	for _, id := range []string{"open", "done"} {
		before := eventsOf(t, store, id)
		_, err = r.Run(t.Context(), st{V: "else"}, in(id))
		require.Equal(t, "input", asError[*durable.RunConflictError](t, err).What)
		_, err = r.Run(t.Context(), st{V: "in"}, in(id), superstep.Thread("u"))
		require.Equal(t, "thread", asError[*durable.RunConflictError](t, err).What)
		_, err = runner(t, other, stored(store)).Run(t.Context(), st{V: "in"}, in(id))
		require.Equal(t, "graph", asError[*durable.RunConflictError](t, err).What)
		_, err = runner(t, other, stored(store)).Resume(t.Context(), id)
		require.Equal(t, "graph", asError[*durable.RunConflictError](t, err).What)
		_, err = runner(t, other, stored(store)).State(t.Context(), id)
		require.Equal(t, "graph", asError[*durable.RunConflictError](t, err).What)
		require.Equal(t, before, eventsOf(t, store, id), "a refused run is left as it is")
	}
	_, err = r.Run(t.Context(), st{V: "in"}, in("workflow"))
	require.Equal(t, "kind", asError[*durable.RunConflictError](t, err).What)
	_, err = r.Run(t.Context(), st{V: "in"}, in("open"), superstep.Thread("t"))
	require.ErrorAs(t, err, new(*durable.SuspendedError), "the run itself is not locked by who was refused")
}

func TestJournal_ResumeOfARunThatDoesNotExistIsNotFound(t *testing.T) {
	r := runner(t, one(t, say("a")), stored(newStore()))
	_, err := r.Resume(t.Context(), "none")
	require.ErrorIs(t, err, journal.ErrNotFound)
	_, err = r.State(t.Context(), "none")
	require.ErrorIs(t, err, journal.ErrNotFound)
}

func TestJournal_IDsAreOnlyEverData(t *testing.T) {
	store := newStore()
	r := runner(t, one(t, say("a")), stored(store))
	for _, id := range []string{"../../etc/passwd", "a\nb\x00c", "'; DROP TABLE runs; --", "日本語/😀", string(make([]byte, 10<<10))} {
		res, err := r.Run(t.Context(), st{}, in(id))
		require.NoError(t, err)
		require.Equal(t, id, res.RunID)
		got, err := r.State(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, res.State, got.State)
	}
}

// loose is a state that JSON does not keep as it is.
type loose struct {
	Any    any
	List   []any
	Custom custom
	hidden int
	Skip   int `json:"-"`
}

// custom is written in its own way.
type custom struct{ v int }

func (c custom) MarshalJSON() ([]byte, error) { return json.Marshal(fmt.Sprint("v", c.v)) }
func (c *custom) UnmarshalJSON(b []byte) error {
	_, err := fmt.Sscanf(string(b), `"v%d"`, &c.v)
	return err
}

// With a Store a run goes on with the decoded record, never with the original value.
func TestJournal_LiveEqualsReplayed(t *testing.T) {
	var seen []loose
	fresh := func() *graph.Graph[loose, loose] {
		b := graph.New("loose", graph.Replace[loose]())
		a := b.Node("a", func(_ context.Context, s loose) (loose, error) {
			seen = append(seen, s)
			return loose{Any: 1, List: []any{int64(2), "x"}, Custom: custom{7}, hidden: 3, Skip: 4}, nil
		})
		n := b.Node("b", func(_ context.Context, s loose) (loose, error) {
			seen = append(seen, s)
			s.Any = uint8(9)
			return s, nil
		})
		b.Start(a)
		b.Edge(a, n)
		g, err := b.Compile()
		require.NoError(t, err)
		return g
	}
	store := newStore()
	first, err := runner(t, fresh(), stored(store)).Run(t.Context(), loose{Any: 5, hidden: 6}, in("r"))
	require.NoError(t, err)
	require.Equal(t, loose{Any: 5.0}, seen[0], "the input, too")
	require.Equal(t, loose{Any: 1.0, List: []any{2.0, "x"}, Custom: custom{7}}, seen[1])
	require.Equal(t, loose{Any: 9.0, List: []any{2.0, "x"}, Custom: custom{7}}, first.State)
	again, err := runner(t, fresh(), stored(store)).Resume(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, first, again)
	last, err := runner(t, fresh(), stored(store)).State(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, first.State, last.State)
}

// What a reducer makes goes through JSON as well, at the latest in the result.
func TestJournal_TheResultIsWhatItsRecordSays(t *testing.T) {
	store := newStore()
	b := graph.New("reduced", graph.Reduce(func(s loose, n int) loose {
		s.Any, s.hidden = n, n
		return s
	}))
	b.Start(b.Node("a", func(context.Context, loose) (int, error) { return 3, nil }))
	g, err := b.Compile()
	require.NoError(t, err)
	first, err := runner(t, g, stored(store)).Run(t.Context(), loose{}, in("r"))
	require.NoError(t, err)
	again, err := runner(t, g, stored(store)).Resume(t.Context(), "r")
	require.NoError(t, err)
	assert.Equal(t, again, first)
	assert.Equal(t, loose{Any: 3.0}, first.State)
}

// Fan-out items are what the recorded state gives, and a Goto's go through JSON.
func TestJournal_ItemsOfAGotoAreRecorded(t *testing.T) {
	store, c := newStore(), newMeter()
	var got []any
	var crash once
	fresh := func() *graph.Graph[st, up] {
		return build(t, func(b *bld) {
			leaf := graph.Task(b, "leaf", func(ctx context.Context, _ st, v any) (up, error) {
				got = append(got, v)
				return up{N: 1}, nil
			}, graph.MaxConcurrency(1))
			jump := b.Goto("jump", func(context.Context, st) (up, graph.Next, error) {
				c.hit("jump")
				return up{Log: []string{"jump"}}, graph.All(leaf.Each([]any{1, "two"}), leaf.Each([]any{struct{ A int }{3}})), nil
			})
			after := b.Node("after", func(ctx context.Context, s st) (up, error) {
				if crash.first() {
					return up{}, errBroken
				}
				return up{Log: []string{fmt.Sprint(s.N)}}, nil
			})
			b.Start(jump)
			b.Targets(jump, leaf)
			b.Edge(leaf, after)
		})
	}
	_, err := runner(t, fresh(), stored(store)).Run(t.Context(), st{}, in("r"))
	require.ErrorIs(t, err, errBroken)
	require.Equal(t, []any{1.0, "two", map[string]any{"A": 3.0}}, got)
	res, err := runner(t, fresh(), stored(store)).Retry(t.Context(), "r", in("s"))
	require.NoError(t, err)
	require.Equal(t, []string{"jump", "3"}, res.State.Log)
	require.Equal(t, 1, c.all()["jump"])
	require.Len(t, got, 3)
}
