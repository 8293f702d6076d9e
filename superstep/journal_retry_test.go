package superstep_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/superstep"
)

func TestJournal_RetryRunsWhatFailedAndNotItsFinishedSiblings(t *testing.T) {
	c, store := newMeter(), newStore()
	var o once
	release := make(chan struct{})
	g := build(t, func(b *bld) {
		first := b.Node("first", counted(c, "first", say("first")))
		x := b.Node("x", counted(c, "x", func(context.Context, st) (up, error) {
			if o.first() {
				<-release // until its siblings have finished
				return up{}, errBroken
			}
			return up{Log: []string{"x"}}, nil
		}))
		y := b.Node("y", counted(c, "y", say("y")))
		leaf := graph.Task(b, "leaf", func(_ context.Context, _ st, i int) (up, error) {
			c.hit("leaf %d", i)
			return up{Log: []string{fmt.Sprint("leaf", i)}}, nil
		})
		end := b.Node("end", counted(c, "end", say("end")))
		b.Start(first)
		b.Edge(first, x)
		b.Edge(first, y)
		b.Route(first, each(leaf, 1, 2), leaf)
		b.Edge(x, end)
	})
	cfg := stored(store)
	cfg.Observers = append(cfg.Observers, releaseAfter(3, release))
	first, err := runner(t, g, cfg).Run(t.Context(), st{}, in("r"))
	require.ErrorIs(t, err, errBroken)
	require.Equal(t, []string{"first"}, first.State.Log)

	res, err := runner(t, g, stored(store)).Retry(t.Context(), "r")
	require.NoError(t, err)
	require.NotEqual(t, "r", res.RunID)
	require.Equal(t, []string{"first", "x", "y", "leaf1", "leaf2", "end"}, res.State.Log)
	require.Equal(t, map[string]int{"first": 1, "x": 2, "y": 1, "leaf 1": 1, "leaf 2": 1, "end": 1}, c.all())
	run, err := store.Load(t.Context(), res.RunID)
	require.NoError(t, err)
	require.Equal(t, journal.Link{Kind: journal.RetryOf, Run: "r"}, run.Link)
	require.Equal(t, journal.Failed, statusOf(t, store, "r"), "the failed run stays as it is")
}

func TestJournal_RetryServesWhatWasCaughtHandledAndAnswered(t *testing.T) {
	c, store := newMeter(), newStore()
	var o once
	g := build(t, func(b *bld) {
		caught := b.Node("caught", counted(c, "caught", fails(errBroken)))
		b.Catch(caught, func(context.Context, st, error) (up, error) {
			c.hit("handler")
			return up{Log: []string{"handled"}}, nil
		})
		steps := b.Node("steps", func(ctx context.Context, _ st) (up, error) {
			c.hit("steps")
			_, err := durable.Step(ctx, "bad", func(context.Context) (int, error) { c.hit("bad"); return 0, errOther })
			if !errors.Is(err, errOther) {
				return up{}, err
			}
			word, err := durable.Interrupt[string](ctx, "?")
			if err != nil {
				return up{}, err
			}
			_, err = durable.Step(ctx, "flaky", func(context.Context) (int, error) {
				c.hit("flaky")
				if o.first() {
					return 0, errBroken
				}
				return 0, nil
			})
			return up{Log: []string{word}}, err
		})
		b.Start(caught)
		b.Edge(caught, steps)
	})
	r := runner(t, g, stored(store))
	_, err := r.Run(t.Context(), st{}, in("r"))
	require.NoError(t, r.Answer(t.Context(), "r", questionsOf(t, err)[0], "answer"))
	_, err = r.Resume(t.Context(), "r")
	require.ErrorIs(t, err, errBroken)
	res, err := r.Retry(t.Context(), "r", in("s"))
	require.NoError(t, err)
	require.Equal(t, []string{"handled", "answer"}, res.State.Log)
	require.Equal(t, map[string]int{"caught": 1, "handler": 1, "steps": 3, "bad": 1, "flaky": 2}, c.all())
}

func TestJournal_OnlyFailedRunsAreRetried(t *testing.T) {
	store := newStore()
	refused := func(r *superstep.Runner[st, up], id string, code durable.RetryCode) {
		t.Helper()
		_, err := r.Retry(t.Context(), id)
		require.Equal(t, code, asError[*durable.RetryError](t, err).Code)
	}
	done, open := runner(t, one(t, say("a")), stored(store)), runner(t, one(t, asks("?")), stored(store))
	_, err := done.Run(t.Context(), st{}, in("done"))
	require.NoError(t, err)
	refused(done, "done", durable.RetryNotFailed)
	_, err = open.Run(t.Context(), st{}, in("open"))
	require.ErrorAs(t, err, new(*durable.SuspendedError))
	refused(open, "open", durable.RetryNotFailed)
	require.NoError(t, open.Cancel(t.Context(), "open", ""))
	refused(open, "open", durable.RetryCancelled)
	require.EqualValues(t, "retry_cancelled", durable.RetryCancelled)
	_, err = open.Retry(t.Context(), "none")
	require.ErrorIs(t, err, journal.ErrNotFound)
}

func TestJournal_ARetryCanBeRetriedAndIsCompleteInItself(t *testing.T) {
	c, store := newMeter(), newStore()
	failTwice := func(name string) nodeFn {
		var a, b once
		return counted(c, name, func(context.Context, st) (up, error) {
			if a.first() || b.first() {
				return up{}, errBroken
			}
			return up{Log: []string{name}}, nil
		})
	}
	r := runner(t, inLine(t, counted(c, "a", say("a")), failTwice("b"), failTwice("c")), stored(store))
	_, err := r.Run(t.Context(), st{V: "in"}, in("0"))
	require.ErrorIs(t, err, errBroken)
	for i := range 4 {
		before, after := fmt.Sprint(i), fmt.Sprint(i+1)
		res, err := r.Retry(t.Context(), before, in(after))
		require.NoError(t, store.Delete(t.Context(), before))
		if i < 3 {
			require.ErrorIs(t, err, errBroken)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b", "c"}, res.State.Log)
	}
	require.Equal(t, map[string]int{"a": 1, "b": 3, "c": 3}, c.all())
	res, err := r.Run(t.Context(), st{V: "in"}, in("4"))
	require.NoError(t, err, "it has the input of the first")
	require.Equal(t, "in", res.State.V)
}

// A retry that is asked for again with the same id is the same retry.
func TestJournal_RetryIsMadeOnce(t *testing.T) {
	c, store := newMeter(), newStore()
	r := runner(t, inLine(t, counted(c, "a", failsOnce(say("a")))), stored(store))
	_, err := r.Run(t.Context(), st{}, in("r"))
	require.ErrorIs(t, err, errBroken)
	for range 2 {
		res, err := r.Retry(t.Context(), "r", in("s"))
		require.NoError(t, err)
		require.Equal(t, []string{"a"}, res.State.Log)
	}
	require.Equal(t, 2, c.all()["a"])
	_, err = r.Run(t.Context(), st{}, in("other"))
	require.NoError(t, err)
	_, err = r.Retry(t.Context(), "r", in("other"))
	require.ErrorAs(t, err, new(*durable.RunConflictError))
}

// A failed super-step whose merge or routing failed has all its outcomes: a retry only merges and routes again.
func TestJournal_RetryOfAMergeOrARouteCallsNoNode(t *testing.T) {
	for _, what := range []string{"reducer", "router"} {
		for _, tasks := range []int{1, 2} {
			t.Run(fmt.Sprint(what, tasks), func(t *testing.T) {
				c, store := newMeter(), newStore()
				broken := true
				b := graph.New("merge", graph.Merge(func(s st, ws []graph.Write[up]) (st, error) {
					if what == "reducer" && broken {
						return s, errBroken
					}
					s.N += len(ws)
					return s, nil
				}))
				var nodes []graph.Node
				for _, name := range []string{"a", "b"}[:tasks] {
					nodes = append(nodes, b.Node(name, counted(c, name, say(name))))
				}
				b.Start(nodes...)
				b.Route(nodes[0], func(st) graph.Next {
					if what == "router" && broken {
						panic(errBroken)
					}
					return graph.To(graph.End)
				}, graph.End)
				g, err := b.Compile()
				require.NoError(t, err)
				r := runner(t, g, stored(store))
				_, err = r.Run(t.Context(), st{}, in("0"))
				require.ErrorAs(t, err, new(*durable.RunFailedError))
				_, err = r.Retry(t.Context(), "0", in("1"))
				require.ErrorAs(t, err, new(*durable.RunFailedError))
				broken = false
				res, err := r.Retry(t.Context(), "1", in("2"))
				require.NoError(t, err)
				require.Equal(t, tasks, res.State.N)
				for name, n := range c.all() {
					require.Equal(t, 1, n, name)
				}
			})
		}
	}
}
