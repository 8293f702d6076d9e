package superstep_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

func TestJournal_AnInterruptWithoutAJournalFailsAtOnce(t *testing.T) {
	_, err := runner(t, one(t, asks("?")), superstep.Config{}).Run(t.Context(), st{})
	require.ErrorAs(t, err, new(*durable.NoJournalError))
	require.ErrorAs(t, err, new(*superstep.NodeError))
}

// An interrupt does not cancel siblings: they finish and are recorded. All open questions of a super-step are reported
// together; answers come one at a time, in any order, from another runner. Nothing that finished runs again, and what is
// not answered is not called.
func TestJournal_QuestionsOfASuperStepAreAskedTogetherAndAnsweredInAnyOrder(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			c, store := newMeter(), newStore()
			asking := func(name string) nodeFn {
				return func(ctx context.Context, _ st) (up, error) {
					c.hit("%s", name)
					if _, err := durable.Step(ctx, "before", func(context.Context) (int, error) { c.hit("step of %s", name); return 1, nil }); err != nil {
						return up{}, err
					}
					word, err := durable.Interrupt[string](ctx, "what of "+name+"?")
					return up{Log: []string{name + " " + word}}, err
				}
			}
			g := build(t, func(b *bld) {
				b.Start(b.Node("a", asking("a")), b.Node("b", counted(c, "b", say("b"))), b.Node("c", asking("c")), b.Node("d", asking("d")),
					b.Node("e", counted(c, "e", say("e"))))
			})
			fresh := func() *superstep.Runner[st, up] { return runner(t, g, stored(store)) }
			o := play(t.Context(), t, g, stored(store), st{}, in("r"))
			ids := []string{"1/a[0]/ask1", "1/c[0]/ask1", "1/d[0]/ask1"}
			asked := asError[*durable.SuspendedError](t, o.err)
			require.ElementsMatch(t, ids, asked.Questions())
			for _, w := range asked.Waits {
				require.Contains(t, w.Prompt, "what of ")
			}
			suspended := only[*task.RunSuspended](o.events)
			require.Len(t, suspended, 1)
			require.ElementsMatch(t, ids, suspended[0].Questions)
			require.Len(t, only[*task.TaskSuspended](o.events), 3)
			require.Len(t, only[*task.TaskCompleted](o.events), 2)
			require.Empty(t, only[*task.SuperStepCompleted](o.events))
			require.Equal(t, journal.Suspended, statusOf(t, store, "r"))
			require.Empty(t, o.State.Log)

			_, err := fresh().Run(t.Context(), st{}, in("r"))
			require.ElementsMatch(t, ids, questionsOf(t, err), "without an answer it asks again")
			require.Equal(t, 1, c.all()["a"], "and runs nothing")
			open := slices.Clone(ids)
			for i, n := range order {
				require.NoError(t, fresh().Answer(t.Context(), "r", ids[n], fmt.Sprint("answer", n)))
				open = slices.DeleteFunc(open, func(id string) bool { return id == ids[n] })
				res, err := fresh().Resume(t.Context(), "r")
				if i < 2 {
					require.ElementsMatch(t, open, questionsOf(t, err))
					continue
				}
				require.NoError(t, err)
				require.Equal(t, []string{"a answer0", "b", "c answer1", "d answer2", "e"}, res.State.Log)
			}
			require.Equal(t, map[string]int{
				"a": 2, "b": 1, "c": 2, "d": 2, "e": 1, "step of a": 1, "step of c": 1, "step of d": 1,
			}, c.all())
		})
	}
}

func TestJournal_SeveralInterruptsInOneNodeFindTheirAnswersByPosition(t *testing.T) {
	store, c := newStore(), newMeter()
	r := runner(t, one(t, func(ctx context.Context, _ st) (up, error) {
		c.hit("a")
		var u up
		for range 3 {
			word, err := durable.Interrupt[string](ctx, "next?")
			if err != nil {
				return up{}, err
			}
			u.Log = append(u.Log, word)
		}
		return u, nil
	}), stored(store))
	_, err := r.Run(t.Context(), st{}, in("r"))
	for i := range 3 {
		id := fmt.Sprint("1/a[0]/ask", i+1)
		require.Equal(t, []string{id}, questionsOf(t, err))
		require.NoError(t, r.Answer(t.Context(), "r", id, fmt.Sprint(i)))
		_, err = r.Resume(t.Context(), "r")
	}
	require.NoError(t, err)
	res, err := r.Resume(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, []string{"0", "1", "2"}, res.State.Log)
	require.Equal(t, 4, c.all()["a"])
}

// False, 0, "" and nil are answers; a wrong type, an unknown id, a second and a late answer are refused, and nothing is consumed.
func TestJournal_Answers(t *testing.T) {
	ask := func(ctx context.Context, _ st) (up, error) {
		yes, err := durable.Interrupt[bool](ctx, "publish?")
		if err != nil {
			return up{}, err
		}
		n, err := durable.Interrupt[int](ctx, map[string]int{"least": 3})
		if err != nil {
			return up{}, err
		}
		p, err := durable.Interrupt[*string](ctx, "name?")
		return up{Log: []string{fmt.Sprint(yes, n, p == nil)}}, err
	}
	store := newStore()
	r := runner(t, one(t, ask), stored(store))
	reason := func(id, q string, v any) durable.AnswerReason {
		t.Helper()
		return asError[*durable.AnswerError](t, r.Answer(t.Context(), id, q, v)).Reason
	}
	_, err := r.Run(t.Context(), st{}, in("r"))
	require.Equal(t, []string{"1/a[0]/ask1"}, questionsOf(t, err))
	for range 2 {
		require.Equal(t, durable.WrongType, reason("r", "1/a[0]/ask1", "true"))
		require.Equal(t, durable.NotAsked, reason("r", "1/a[0]/ask2", 1), "too early")
		require.Equal(t, durable.NotAsked, reason("r", "1/b[0]/ask1", true))
		require.ErrorIs(t, r.Answer(t.Context(), "other", "1/a[0]/ask1", true), journal.ErrNotFound)
		_, err = r.Resume(t.Context(), "r")
		require.Equal(t, []string{"1/a[0]/ask1"}, questionsOf(t, err), "the question stays open")
	}
	require.NoError(t, r.Answer(t.Context(), "r", "1/a[0]/ask1", false))
	require.Equal(t, durable.AlreadyAnswered, reason("r", "1/a[0]/ask1", true))
	_, err = r.Resume(t.Context(), "r")
	require.Equal(t, []string{"1/a[0]/ask2"}, questionsOf(t, err))
	require.Equal(t, durable.AlreadyAnswered, reason("r", "1/a[0]/ask1", true))
	require.Equal(t, durable.WrongType, reason("r", "1/a[0]/ask2", 1.5))
	require.NoError(t, r.Answer(t.Context(), "r", "1/a[0]/ask2", 0))
	_, err = r.Resume(t.Context(), "r")
	require.NoError(t, r.Answer(t.Context(), "r", questionsOf(t, err)[0], nil))
	res, err := r.Resume(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, []string{"false 0 true"}, res.State.Log)
	require.Equal(t, durable.RunEnded, reason("r", "1/a[0]/ask1", true))
}

// Ids are qualified inside subgraphs, the same after a restart, and only the paused inner node is entered again.
func TestJournal_InterruptsInSubgraphsAndFanOuts(t *testing.T) {
	c, store := newMeter(), newStore()
	inner := build(t, func(b *bld) {
		before := b.Node("before", func(_ context.Context, s st) (up, error) { c.hit("before %s", s.V); return up{}, nil })
		ask := b.Node("ask", func(ctx context.Context, s st) (up, error) {
			c.hit("ask %s", s.V)
			word, err := durable.Interrupt[string](ctx, s.V+"?")
			return up{Log: []string{s.V + word}}, err
		})
		beside := b.Node("beside", func(_ context.Context, s st) (up, error) { c.hit("beside %s", s.V); return up{}, nil })
		after := b.Node("after", func(_ context.Context, s st) (up, error) { c.hit("after %s", s.V); return up{}, nil })
		b.Start(before)
		b.Edge(before, ask)
		b.Edge(before, beside)
		b.Edge(ask, after)
	})
	g := build(t, func(b *bld) {
		start := b.Node("start", counted(c, "start", say()))
		sub := graph.SubTask(b, "sub", inner, func(_ st, v string) st { return st{V: v} }, func(s st) up { return up{Log: s.Log} })
		leaf := graph.Task(b, "leaf", func(ctx context.Context, _ st, v string) (up, error) {
			c.hit("leaf %s", v)
			word, err := durable.Interrupt[string](ctx, "leaf "+v+"?")
			return up{Log: []string{v + word}}, err
		})
		b.Start(start)
		b.Route(start, each(sub, "x", "y"), sub)
		b.Route(start, each(leaf, "p", "q"), leaf)
	})
	ids := []string{"2/sub[0]/2/ask[0]/ask1", "2/sub[1]/2/ask[0]/ask1", "2/leaf[0]/ask1", "2/leaf[1]/ask1"}
	o := play(t.Context(), t, g, stored(store), st{}, in("r"))
	require.ElementsMatch(t, ids, questionsOf(t, o.err))
	for i, id := range []string{ids[3], ids[0], ids[2], ids[1]} {
		require.NoError(t, runner(t, g, stored(store)).Answer(t.Context(), "r", id, fmt.Sprint(i)))
		o = play(t.Context(), t, g, stored(store), st{}, in("r"))
		if i < 3 {
			require.Len(t, questionsOf(t, o.err), 3-i)
		}
	}
	require.NoError(t, o.err)
	require.Equal(t, []string{"x1", "y3", "p2", "q0"}, o.State.Log)
	require.Equal(t, map[string]int{
		"start": 1, "before x": 1, "before y": 1, "beside x": 1, "beside y": 1, "after x": 1, "after y": 1,
		"ask x": 2, "ask y": 2, "leaf p": 2, "leaf q": 2,
	}, c.all())
}

func TestJournal_AnInterruptInACatchHandler(t *testing.T) {
	c, store := newMeter(), newStore()
	g := build(t, func(b *bld) {
		a := b.Node("a", counted(c, "a", fails(errBroken)), graph.Retry(stubborn(2)))
		b.Catch(a, func(ctx context.Context, _ st, err error) (up, error) {
			c.hit("handler")
			require.ErrorIs(t, err, errBroken)
			require.Equal(t, 3, task.Info(ctx).Attempt)
			word, err := durable.Interrupt[string](ctx, "it failed; what now?")
			return up{Log: []string{word}}, err
		})
		b.Start(a)
	})
	_, err := runner(t, g, stored(store)).Run(t.Context(), st{}, in("r"))
	ids := questionsOf(t, err)
	require.Equal(t, []string{"1/a[0]/catch/ask1"}, ids)
	_, err = runner(t, g, stored(store)).Resume(t.Context(), "r")
	require.Equal(t, ids, questionsOf(t, err))
	require.NoError(t, runner(t, g, stored(store)).Answer(t.Context(), "r", ids[0], "go on"))
	o := play(t.Context(), t, g, stored(store), st{}, in("r"))
	require.NoError(t, o.err)
	require.Equal(t, []string{"go on"}, o.State.Log)
	require.Equal(t, map[string]int{"a": 2, "handler": 2}, c.all())
}

// A Catch handler and a retry policy never see a suspension.
func TestJournal_ACatchNeverSeesASuspension(t *testing.T) {
	for name, opts := range map[string][]graph.Option{
		"plain": nil, "retry": {graph.Retry(stubborn(5))}, "timeout": {graph.Timeout(1e9), graph.Retry(stubborn(5))},
	} {
		t.Run(name, func(t *testing.T) {
			c, store := newMeter(), newStore()
			g := build(t, func(b *bld) {
				a := b.Node("a", counted(c, "a", func(ctx context.Context, s st) (up, error) {
					u, err := asks("?")(ctx, s)
					if err != nil {
						return u, fmt.Errorf("asking: %w", err) // however it is wrapped
					}
					return u, nil
				}), opts...)
				b.Catch(a, func(context.Context, st, error) (up, error) { c.hit("handler"); return up{}, nil })
				b.Start(a)
			})
			o := play(t.Context(), t, g, stored(store), st{}, in("r"))
			require.Len(t, questionsOf(t, o.err), 1)
			require.Empty(t, only[*task.AttemptFailed](o.events))
			require.Equal(t, map[string]int{"a": 1}, c.all())
		})
	}
}

// A node that swallows its suspension is stopped at its next durable call, and what it returns is not taken.
func TestJournal_ASuspensionCannotBeSwallowed(t *testing.T) {
	for name, ret := range map[string]error{"a result": nil, "an error": errBroken} {
		t.Run(name, func(t *testing.T) {
			c, store := newMeter(), newStore()
			g := build(t, func(b *bld) {
				a := b.Node("a", func(ctx context.Context, s st) (up, error) {
					word, err := durable.Interrupt[string](ctx, "?")
					_, again := durable.Step(ctx, "after", func(context.Context) (int, error) { c.hit("after"); return 1, nil })
					if err != nil {
						require.ErrorAs(t, again, new(*durable.SuspendedError))
						return up{Log: []string{"swallowed"}}, ret
					}
					return up{Log: []string{word}}, again
				}, graph.Retry(stubborn(3)))
				b.Catch(a, func(context.Context, st, error) (up, error) { c.hit("handler"); return up{}, nil })
				b.Start(a)
			})
			r := runner(t, g, stored(store))
			_, err := r.Run(t.Context(), st{}, in("r"))
			require.NoError(t, r.Answer(t.Context(), "r", questionsOf(t, err)[0], "yes"))
			res, err := r.Resume(t.Context(), "r")
			require.NoError(t, err)
			require.Equal(t, []string{"yes"}, res.State.Log)
			require.Equal(t, map[string]int{"after": 1}, c.all())
		})
	}
}

// Error and interrupt in one super-step: the run fails with the error, the question stays recorded.
func TestJournal_AnErrorBesideAQuestionFailsTheRunAndTheQuestionStaysRecorded(t *testing.T) {
	store, c := newStore(), newMeter()
	askedFirst := make(chan struct{})
	g := sideBySide(t,
		counted(c, "a", asks("?")),
		func(ctx context.Context, s st) (up, error) {
			<-askedFirst
			return up{}, errBroken
		},
	)
	cfg := stored(store)
	var o once
	cfg.Observers = append(cfg.Observers, func(ev task.Event) {
		if _, is := ev.(*task.TaskSuspended); is && o.first() {
			close(askedFirst)
		}
	})
	_, err := runner(t, g, cfg).Run(t.Context(), st{}, in("r"))
	require.ErrorIs(t, err, errBroken)
	require.NotErrorAs(t, err, new(*durable.SuspendedError))
	require.Equal(t, journal.Failed, statusOf(t, store, "r"))
	questions, err := durable.Questions(t.Context(), store, "r")
	require.NoError(t, err)
	require.Len(t, questions, 1)
	healed := sideBySide(t, counted(c, "a", asks("?")), say("b"))
	r := runner(t, healed, stored(store))
	_, err = r.Retry(t.Context(), "r", in("s"))
	require.Equal(t, []string{"1/a[0]/ask1"}, questionsOf(t, err))
	require.NoError(t, r.Answer(t.Context(), "s", "1/a[0]/ask1", "yes"))
	res, err := r.Resume(t.Context(), "s")
	require.NoError(t, err)
	require.Equal(t, []string{"yes", "b"}, res.State.Log)
}

// InterruptBefore and InterruptAfter ask before a super-step and behind it. Any answer will do.
func TestJournal_StaticInterrupts(t *testing.T) {
	newGraph := func(c *meter) (g *graph.Graph[st, up], nodes [3]graph.Node) {
		g = build(t, func(b *bld) {
			for i, name := range []string{"a", "b", "c"} {
				nodes[i] = b.Node(name, counted(c, name, say(name)))
			}
			b.Start(nodes[0])
			b.Edge(nodes[0], nodes[1])
			b.Edge(nodes[0], nodes[2])
		})
		return g, nodes
	}
	for name, tt := range map[string]struct {
		option func(n [3]graph.Node) superstep.RunOption
		ids    []string
		log    []string // when it is suspended
	}{
		"before the first":   {func(n [3]graph.Node) superstep.RunOption { return superstep.InterruptBefore(n[0]) }, []string{"1/a/before/ask1"}, nil},
		"after it":           {func(n [3]graph.Node) superstep.RunOption { return superstep.InterruptAfter(n[0]) }, []string{"1/a/after/ask1"}, []string{"a"}},
		"before two at once": {func(n [3]graph.Node) superstep.RunOption { return superstep.InterruptBefore(n[2], n[1]) }, []string{"2/b/before/ask1", "2/c/before/ask1"}, []string{"a"}},
		"after the last":     {func(n [3]graph.Node) superstep.RunOption { return superstep.InterruptAfter(n[2]) }, []string{"2/c/after/ask1"}, []string{"a", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, store := newMeter(), newStore()
			g, nodes := newGraph(c)
			r := runner(t, g, stored(store))
			opt := tt.option(nodes)
			for range 2 {
				res, err := r.Run(t.Context(), st{}, in("r"), opt)
				require.ElementsMatch(t, tt.ids, questionsOf(t, err))
				require.Equal(t, tt.log, res.State.Log)
				require.Len(t, c.all(), len(tt.log))
			}
			for i, answer := range []any{true, map[string]any{"any": "thing"}}[:len(tt.ids)] {
				require.NoError(t, r.Answer(t.Context(), "r", tt.ids[i], answer))
				if i < len(tt.ids)-1 {
					_, err := r.Resume(t.Context(), "r", opt)
					require.Len(t, questionsOf(t, err), 1)
				}
			}
			res, err := r.Resume(t.Context(), "r", opt)
			require.NoError(t, err)
			require.Equal(t, []string{"a", "b", "c"}, res.State.Log)
			require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1}, c.all())
		})
	}
	t.Run("hold for a call, and for what was asked", func(t *testing.T) {
		store := newStore()
		g, nodes := newGraph(newMeter())
		r := runner(t, g, stored(store))
		_, err := r.Run(t.Context(), st{}, in("r"), superstep.InterruptBefore(nodes[0], nodes[1]))
		require.Equal(t, []string{"1/a/before/ask1"}, questionsOf(t, err))
		_, err = r.Run(t.Context(), st{}, in("r"))
		require.Equal(t, []string{"1/a/before/ask1"}, questionsOf(t, err), "what was asked has to be answered")
		require.NoError(t, r.Answer(t.Context(), "r", "1/a/before/ask1", 1))
		_, err = r.Run(t.Context(), st{}, in("r"))
		require.NoError(t, err, "without the option nothing more is asked")
	})
	t.Run("say what they ask", func(t *testing.T) {
		store := newStore()
		g, nodes := newGraph(newMeter())
		_, err := runner(t, g, stored(store)).Run(t.Context(), st{}, in("r"), superstep.InterruptAfter(nodes[0]))
		var prompt map[string]any
		require.NoError(t, json.Unmarshal([]byte(asError[*durable.SuspendedError](t, err).Waits[0].Prompt), &prompt))
		require.Equal(t, map[string]any{"node": "a", "when": "after", "super_step": 1.0}, prompt)
	})
	t.Run("in a loop ask each time", func(t *testing.T) {
		store := newStore()
		var a graph.Node
		g := build(t, func(b *bld) {
			a = b.Node("a", func(context.Context, st) (up, error) { return up{N: 1}, nil })
			b.Start(a)
			b.Route(a, func(s st) graph.Next {
				if s.N < 3 {
					return graph.To(a)
				}
				return graph.To(graph.End)
			}, a, graph.End)
		})
		r := runner(t, g, stored(store))
		_, err := r.Run(t.Context(), st{}, in("r"), superstep.InterruptBefore(a))
		for i := range 3 {
			id := fmt.Sprintf("%d/a/before/ask1", i+1)
			require.Equal(t, []string{id}, questionsOf(t, err))
			require.NoError(t, r.Answer(t.Context(), "r", id, nil))
			_, err = r.Resume(t.Context(), "r", superstep.InterruptBefore(a))
		}
		require.NoError(t, err)
	})
}
