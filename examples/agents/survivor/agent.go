package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal/sqlite"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/openai"
	"github.com/pawl-go/pawl/superstep"
)

// runID names the run. All processes use the same, so each goes on with it.
const runID = "report"

// State is what the nodes read.
type State struct {
	Notes  []string // what the model has said, in the order of the graph and not of the calls
	Drafts int
}

// Update is what a node may change.
type Update struct {
	Notes  []string `merge:"append"`
	Drafts int      `merge:"sum"`
}

// work is the process that dies: it goes on with the run, or starts it.
func work(ctx context.Context, address, file string) error {
	client, err := openai.New(openai.Config{Name: "gpt", BaseURL: address, Model: "scripted"})
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	g, err := build(agent{client})
	if err != nil {
		return err
	}
	db, err := sqlite.Open(file) //nolint:contextcheck // opening a file is not cut short
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // all that counts is on the disk
	runner, err := superstep.NewRunner(g, superstep.Config{Store: db})
	if err != nil {
		return err
	}
	res, err := runner.Run(ctx, State{}, superstep.RunID(runID))
	if err != nil {
		return err
	}
	log.Printf("done in %d super-steps, with %d notes and %d drafts", res.SuperSteps, len(res.State.Notes), res.State.Drafts)
	return nil
}

// agent makes the nodes. What they ask is all the same here; what counts is that each asks for something of its own.
type agent struct{ gpt providers.Provider }

// ask calls the model.
func (a agent) ask(ctx context.Context, what string, args ...any) (string, error) {
	name := fmt.Sprintf(what, args...)
	r, err := a.gpt.Chat(ctx, providers.Request{Messages: []providers.Message{{Role: "user", Content: name}}})
	if err != nil {
		return "", fmt.Errorf("%s: %w", mark(name), err)
	}
	return r.Text(), nil
}

// one is a node that calls once.
func (a agent) one(name string) func(context.Context, State) (Update, error) {
	return func(ctx context.Context, _ State) (Update, error) {
		note, err := a.ask(ctx, "%s", name)
		return Update{Notes: []string{note}}, err
	}
}

// each is a task that calls once, about its item.
func (a agent) each(name string) func(context.Context, State, string) (Update, error) {
	return func(ctx context.Context, _ State, item string) (Update, error) {
		note, err := a.ask(ctx, "%s %s", name, item)
		return Update{Notes: []string{note}}, err
	}
}

// search calls twice. Each call is a step of its own: whoever dies between them has the first one's answer.
func (a agent) search(ctx context.Context, _ State, item string) (Update, error) {
	found, err := durable.Step(ctx, "find", func(ctx context.Context) (string, error) { return a.ask(ctx, "search %s", item) })
	if err != nil {
		return Update{}, err
	}
	short, err := durable.Step(ctx, "shorten", func(ctx context.Context) (string, error) { return a.ask(ctx, "shorten %s", item) })
	return Update{Notes: []string{found, short}}, err
}

// sign must not happen twice, so it is not done again if nobody knows whether it was.
func (a agent) sign(ctx context.Context, _ State) (Update, error) {
	note, err := durable.Once(ctx, "sign", func(ctx context.Context) (string, error) { return a.ask(ctx, "sign") })
	if errors.As(err, new(*durable.OutcomeUnknownError)) {
		note, err = "a person has to look whether it was signed", nil
	}
	return Update{Notes: []string{note}}, err
}

// build makes the graph.
func build(a agent) (*graph.Graph[State, Update], error) {
	checks, err := buildChecks(a)
	if err != nil {
		return nil, err
	}
	b := graph.New("survivor", graph.Fields[State, Update]())
	brief := b.Node("brief", a.one("brief"))
	outline := b.Node("outline", a.one("outline"))
	search := graph.Task(b, "search", a.search)
	check := graph.Sub(b, "check", checks, func(State) State { return State{} }, func(s State) Update { return Update{Notes: s.Notes} })
	figures := b.Node("figures", a.one("figures"))
	b.Catch(figures, func(ctx context.Context, _ State, _ error) (Update, error) {
		note, err := a.ask(ctx, "do without figures")
		return Update{Notes: []string{note}}, err
	})
	weigh := b.Node("weigh", a.one("weigh"))
	b.Start(brief)
	b.Edge(brief, outline)
	b.Edge(brief, check)
	b.Edge(brief, figures)
	b.Route(brief, func(State) graph.Next { return search.Each([]string{"tides", "moon", "sun", "winds", "maps"}) }, search)
	b.Join([]graph.Ref{outline, search, check, figures}, weigh)

	draft := b.Node("draft", func(ctx context.Context, s State) (Update, error) {
		note, err := a.ask(ctx, "draft %d", s.Drafts+1)
		return Update{Notes: []string{note}, Drafts: 1}, err
	})
	review := b.Node("review", func(ctx context.Context, s State) (Update, error) {
		note, err := a.ask(ctx, "review %d", s.Drafts)
		return Update{Notes: []string{note}}, err
	})
	b.Edge(weigh, draft)
	b.Edge(draft, review)
	a.finish(b, draft, review)
	return b.Compile()
}

// finish adds what follows when the review is content.
func (a agent) finish(b *graph.Builder[State, Update], draft, review graph.Node) {
	title := b.Node("title", a.one("title"))
	abstract := b.Node("abstract", a.one("abstract"))
	tags := b.Node("tags", a.one("tags"))
	caption := b.Node("caption", a.one("caption"))
	translate := graph.Task(b, "translate", a.each("translate"))
	proofread := b.Node("proofread", a.one("proofread"))
	assemble := b.Node("assemble", a.one("assemble"))
	sign := b.Node("sign", a.sign)
	archive := b.Node("archive", a.one("archive"), graph.Defer())

	const drafts = 3
	b.Route(review, func(s State) graph.Next {
		if s.Drafts < drafts {
			return graph.To(draft)
		}
		return graph.All(graph.To(title, abstract, tags, caption, archive), translate.Each([]string{"French", "Polish", "Hindi"}))
	}, draft, title, abstract, tags, caption, archive, translate)
	b.Join([]graph.Ref{title, abstract, tags, caption, translate}, proofread)
	b.Edge(proofread, assemble)
	b.Edge(assemble, sign)
}

// buildChecks makes the subgraph.
func buildChecks(a agent) (*graph.Graph[State, Update], error) {
	b := graph.New("checks", graph.Fields[State, Update]())
	claim := b.Node("claim", a.one("claim"))
	verify := graph.Task(b, "verify", a.each("verify"))
	rule := b.Node("rule", a.one("rule"))
	b.Start(claim)
	b.Route(claim, func(State) graph.Next { return verify.Each([]string{"dates", "names", "sums"}) }, verify)
	b.Edge(verify, rule)
	return b.Compile()
}
