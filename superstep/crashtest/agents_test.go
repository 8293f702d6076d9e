package crashtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/nodes"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/retrypolicy"
)

// State and Update are those of all graphs here.
type State struct {
	Log  []string `json:"log"`
	N    int      `json:"n"`
	Pads []string `json:"pads"`
}

type Update struct {
	Log  []string `json:"log,omitempty"  merge:"append"`
	N    int      `json:"n,omitempty"    merge:"sum"`
	Pads []string `json:"pads,omitempty" merge:"append"`
}

// desk is what the agents call: each call is about something, and each thing is to be asked about once.
type desk interface {
	providers.Provider
	// Known reports whether it has been called about something.
	Known(ctx context.Context, about string) (bool, error)
}

// answerTo is what the desk says, and what a run's journal holds once the call about it is recorded.
func answerTo(about string) string { return "re(" + about + ")" }

// agent makes nodes that call the desk.
type agent struct{ desk desk }

func (a agent) ask(ctx context.Context, format string, args ...any) (string, error) {
	about := fmt.Sprintf(format, args...)
	r, err := a.desk.Chat(ctx, request(about))
	if err != nil {
		return "", fmt.Errorf("%s: %w", answerTo(about), err)
	}
	return r.Text(), nil
}

func request(about string) providers.Request {
	return providers.Request{Messages: []providers.Message{{Role: "user", Content: about}}}
}

// say is a node that calls once, about itself.
func (a agent) say(about string) func(context.Context, State) (Update, error) {
	return nodes.Chat(a.desk, func(State) providers.Request { return request(about) },
		func(_ State, r *providers.Response) (Update, error) { return Update{Log: []string{r.Text()}}, nil })
}

// step is a durable step that calls.
func (a agent) step(ctx context.Context, name, format string, args ...any) (string, error) {
	return durable.Step(ctx, name, func(ctx context.Context) (string, error) { return a.ask(ctx, format, args...) })
}

// charge calls at most once, and finds out what came of it if nobody knows.
func (a agent) charge(ctx context.Context, about string) (string, error) {
	once := func(ctx context.Context) (string, error) { return a.ask(ctx, "%s", about) }
	receipt, err := durable.Once(ctx, "charge", once)
	if !errors.As(err, new(*durable.OutcomeUnknownError)) {
		return receipt, err
	}
	known, err := durable.Step(ctx, "look", func(ctx context.Context) (bool, error) { return a.desk.Known(ctx, about) })
	switch {
	case err != nil:
		return "", err
	case known:
		return answerTo(about), nil
	}
	return a.charge(ctx, about)
}

var errDifferent = errors.New("the error is another than at first")

// search is a task with all kinds of durable calls.
func (a agent) search(ctx context.Context, _ State, i int) (Update, error) {
	var parts [2]string
	failed := make(chan error, len(parts))
	for n, side := range []string{"left", "right"} {
		go func() {
			failed <- durable.Branch(ctx, side, func(ctx context.Context) (err error) {
				parts[n], err = a.step(ctx, "fetch", "search %d %s", i, side)
				return err
			})
		}()
	}
	if err := errors.Join(<-failed, <-failed); err != nil {
		return Update{}, err
	}
	about := fmt.Sprintf("bad %d", i)
	_, err := a.step(ctx, "bad", "%s", about)
	if err == nil || !strings.Contains(err.Error(), answerTo(about)) || !strings.Contains(err.Error(), "400") {
		return Update{}, fmt.Errorf("%w: %w", errDifferent, err)
	}
	receipt, err := a.charge(ctx, fmt.Sprintf("charge %d", i))
	if err != nil {
		return Update{}, err
	}
	return Update{Log: []string{parts[0], parts[1], receipt}, N: 1}, nil
}

// slow sleeps between two calls.
func (a agent) slow(ctx context.Context, _ State) (Update, error) {
	before, err := a.step(ctx, "call", "before sleep")
	if err != nil {
		return Update{}, err
	}
	if err := durable.Sleep(ctx, 2*time.Millisecond); err != nil {
		return Update{}, err
	}
	after, err := a.step(ctx, "call", "after sleep")
	return Update{Log: []string{before, after}}, err
}

// approve asks a person and waits for a signal.
func (a agent) approve(ctx context.Context, _ State) (Update, error) {
	before, err := a.step(ctx, "prepare", "before question")
	if err != nil {
		return Update{}, err
	}
	yes, err := durable.Interrupt[string](ctx, "go on?")
	if err != nil {
		return Update{}, err
	}
	news, err := durable.WaitForSignal[string](ctx, "news")
	if err != nil {
		return Update{}, err
	}
	after, err := a.ask(ctx, "after question")
	return Update{Log: []string{before, yes, news, after}}, err
}

// caught is a handler that calls.
func (a agent) caught(ctx context.Context, failed error, about string) (Update, error) {
	if !strings.Contains(failed.Error(), answerTo("bad "+about)) {
		return Update{}, fmt.Errorf("%w: %w", errDifferent, failed)
	}
	said, err := a.ask(ctx, "handle %s", about)
	return Update{Log: []string{said}}, err
}

// child is a workflow of two steps, one of them with a retry.
func (a agent) child() *durable.Definition[string, string] {
	return durable.Workflow("child", func(ctx context.Context, in string) (string, error) {
		one, err := a.step(ctx, "one", "%s one", in)
		if err != nil {
			return "", err
		}
		two, err := durable.Step(ctx, "two", func(ctx context.Context) (string, error) { return a.ask(ctx, "flaky %s two", in) },
			durable.Retry(again()))
		return one + two, err
	})
}

func again() retrypolicy.WorkflowNodeRetryPolicy {
	p := retrypolicy.New()
	p.MaxAttempts = 3
	p.InitialDelay = time.Millisecond
	return p
}

// shape is a graph by name, so that a process that was just started can make it.
type shape struct {
	name  string
	graph func(a agent) (*graph.Graph[State, Update], error)
	// wide is how many calls can be under way at the same time.
	wide int
}

var shapes = []shape{{"everything", everything, 6}, {"nested", nested, 6}, {"long", long, 3}}

// everything has a fan-out, a join, a loop, a subgraph, a catch handler, a Goto, a deferred node, a retry, and tasks with
// durable steps, branches, a sleep, a question and a signal.
func everything(a agent) (*graph.Graph[State, Update], error) {
	inner, err := subgraph(a, "inner")
	if err != nil {
		return nil, err
	}
	b := graph.New("everything", graph.Fields[State, Update]())
	plan := b.Node("plan", a.say("plan"))
	search := graph.Task(b, "search", a.search)
	slow := b.Node("slow", a.slow)
	join := b.Node("join", a.say("flaky join"), graph.Retry(again()))
	fragile := b.Node("fragile", func(ctx context.Context, _ State) (Update, error) {
		_, err := a.ask(ctx, "bad fragile")
		return Update{}, err
	})
	b.Catch(fragile, func(ctx context.Context, _ State, err error) (Update, error) { return a.caught(ctx, err, "fragile") })
	approve := b.Node("approve", a.approve)
	loop := b.Node("loop", a.round)
	sub := graph.Sub(b, "sub", inner, func(s State) State { return State{N: s.N} },
		func(s State) Update { return Update{Log: s.Log} })
	jump := b.Goto("jump", func(ctx context.Context, _ State) (Update, graph.Next, error) {
		said, err := a.ask(ctx, "jump")
		return Update{Log: []string{said}}, graph.To(sub), err
	})
	sum := b.Node("sum", a.say("sum"), graph.Defer())

	stubborn := b.Node("stubborn", func(ctx context.Context, _ State) (Update, error) {
		said, err := a.step(ctx, "try", "flaky try") // its failure is the attempt's, so the next attempt tries again
		return Update{Log: []string{said}}, err
	}, graph.Retry(again()))
	b.Start(plan, slow, stubborn)
	b.Route(plan, func(State) graph.Next { return search.Each([]int{1, 2, 3}) }, search)
	b.Edge(plan, sum)
	b.Join([]graph.Ref{search, slow}, join)
	b.Edge(join, fragile)
	b.Edge(join, approve)
	b.Edge(fragile, loop)
	b.Route(loop, func(s State) graph.Next {
		if s.N < 303 {
			return graph.To(loop)
		}
		return graph.To(jump)
	}, loop, jump)
	b.Targets(jump, sub)
	return b.Compile()
}

// round is a turn of a loop.
func (a agent) round(ctx context.Context, s State) (Update, error) {
	said, err := a.step(ctx, "turn", "loop %d", s.N)
	return Update{Log: []string{said}, N: 100}, err
}

// subgraph calls, fans out, and calls again; all about a name, and the number that it was given.
func subgraph(a agent, name string) (*graph.Graph[State, Update], error) {
	b := graph.New(name, graph.Fields[State, Update]())
	first := b.Node("first", func(ctx context.Context, s State) (Update, error) {
		said, err := a.ask(ctx, "%s %d first", name, s.N)
		return Update{Log: []string{said}}, err
	})
	leaf := graph.Task(b, "leaf", func(ctx context.Context, s State, i int) (Update, error) {
		said, err := a.step(ctx, "leaf", "%s %d leaf %d", name, s.N, i)
		return Update{Log: []string{said}}, err
	})
	last := b.Node("last", func(ctx context.Context, s State) (Update, error) {
		said, err := a.ask(ctx, "%s %d last", name, s.N)
		return Update{Log: []string{said}}, err
	})
	b.Start(first)
	b.Route(first, func(State) graph.Next { return leaf.Each([]int{1, 2}) }, leaf)
	b.Edge(leaf, last)
	return b.Compile()
}

// nested has subgraphs in subgraphs, side by side, with questions inside; tasks with a catch handler; a Goto with items; and
// child runs.
func nested(a agent) (*graph.Graph[State, Update], error) {
	inner, err := subgraph(a, "deep")
	if err != nil {
		return nil, err
	}
	middle, err := middle(a, inner)
	if err != nil {
		return nil, err
	}
	child := a.child()
	b := graph.New("nested", graph.Fields[State, Update]())
	each := graph.SubTask(b, "each", middle, func(_ State, i int) State { return State{N: i} },
		func(s State) Update { return Update{Log: s.Log} })
	start := b.Goto("start", func(ctx context.Context, _ State) (Update, graph.Next, error) {
		said, err := a.step(ctx, "think", "start")
		return Update{Log: []string{said}}, each.Each([]int{10, 20}), err
	})
	risky := graph.Task(b, "risky", func(ctx context.Context, _ State, i int) (Update, error) {
		about := fmt.Sprintf("risky %d", i)
		if i%2 == 0 {
			about = fmt.Sprintf("bad risky %d", i)
		}
		said, err := a.ask(ctx, "%s", about)
		return Update{Log: []string{said}}, err
	})
	graph.CatchTask(b, risky, func(ctx context.Context, _ State, i int, err error) (Update, error) {
		return a.caught(ctx, err, fmt.Sprintf("risky %d", i))
	})
	parent := b.Node("parent", func(ctx context.Context, _ State) (Update, error) {
		said, err := durable.RunChild(ctx, child, "child")
		return Update{Log: []string{said}}, err
	})
	end := b.Node("end", a.say("end"))
	b.Start(start)
	b.Targets(start, each)
	b.Route(each, func(State) graph.Next { return graph.All(risky.Each([]int{1, 2}), graph.To(parent)) }, risky, parent)
	b.Join([]graph.Ref{risky, parent}, end)
	return b.Compile()
}

// middle asks a person beside a subgraph of its own.
func middle(a agent, inner *graph.Graph[State, Update]) (*graph.Graph[State, Update], error) {
	b := graph.New("middle", graph.Fields[State, Update]())
	ask := b.Node("ask", func(ctx context.Context, s State) (Update, error) {
		before, err := a.step(ctx, "prepare", "question %d", s.N)
		if err != nil {
			return Update{}, err
		}
		yes, err := durable.Interrupt[string](ctx, s.N)
		return Update{Log: []string{before, yes}}, err
	})
	deep := graph.Sub(b, "deep", inner, func(s State) State { return State{N: s.N} },
		func(s State) Update { return Update{Log: s.Log} })
	after := b.Node("after", func(ctx context.Context, s State) (Update, error) {
		said, err := a.ask(ctx, "after %d", s.N)
		return Update{Log: []string{said}}, err
	})
	b.Start(ask, deep)
	b.Join([]graph.Ref{ask, deep}, after)
	return b.Compile()
}

// long is a loop whose updates are so large that checkpoints are written. A task waits meanwhile for its join.
func long(a agent) (*graph.Graph[State, Update], error) {
	b := graph.New("long", graph.Fields[State, Update]())
	aside := b.Node("aside", a.say("aside"))
	turn := b.Node("turn", func(ctx context.Context, s State) (Update, error) {
		said, err := a.step(ctx, "turn", "turn %d", s.N)
		if err != nil {
			return Update{}, err
		}
		receipt, err := a.charge(ctx, fmt.Sprintf("charge %d", s.N))
		return Update{Log: []string{said, receipt}, N: 1, Pads: []string{strings.Repeat("x", 20<<10)}}, err
	})
	side := b.Node("side", func(ctx context.Context, s State) (Update, error) {
		said, err := a.ask(ctx, "side %d", s.N)
		return Update{Log: []string{said}}, err
	})
	end := b.Node("end", a.say("end"))
	b.Start(aside, turn)
	b.Route(turn, func(s State) graph.Next {
		if s.N < 5 {
			return graph.To(turn, side)
		}
		return graph.To(side)
	}, turn, side)
	b.Join([]graph.Ref{aside, side}, end)
	return b.Compile()
}
