// Drawgraph prints the picture of a graph, as Mermaid and as DOT.
//
//	go run ./examples/agents/drawgraph
//	go run ./examples/agents/drawgraph -as mermaid    # paste it into a Markdown file
//	go run ./examples/agents/drawgraph -as dot | dot -Tsvg > graph.svg
//
// The graph has one of each: a router, a fan-out, a join, a subgraph and nodes with a retry policy. It is drawn, not run,
// so its nodes do nothing and no model is asked.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/retrypolicy"
)

// State and Update are those of an agent that writes a report.
type (
	State struct {
		Sources []string
		Facts   []string
		Text    string
		Good    bool
	}
	Update struct {
		Sources []string
		Facts   []string `merge:"append"`
		Text    string
		Good    bool
	}
)

func main() {
	log.SetFlags(0)
	as := flag.String("as", "both", "mermaid, dot or both")
	flag.Parse()
	text, err := draw(*as)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(text)
}

func draw(as string) (string, error) {
	g, err := build()
	if err != nil {
		return "", err
	}
	switch as {
	case "mermaid":
		return g.Mermaid(), nil
	case "dot":
		return g.DOT(), nil
	case "both":
		return g.Mermaid() + "\n" + g.DOT(), nil
	default:
		return "", fmt.Errorf("-as %q: say mermaid, dot or both", as)
	}
}

// build makes the graph of the report, with that of the review in it.
func build() (*graph.Graph[State, Update], error) {
	review, err := buildReview()
	if err != nil {
		return nil, err
	}
	policy := retrypolicy.New()
	policy.MaxAttempts = 3

	b := graph.New("report", graph.Fields[State, Update]())
	plan := b.Node("plan", idle, graph.Retry(policy))
	outline := b.Node("outline", idle)
	read := graph.Task(b, "read", idleTask, graph.Retry(policy))
	write := b.Node("write", idle, graph.Retry(policy))
	check := graph.Sub(b, "check", review,
		func(s State) State { return s },
		func(s State) Update { return Update{Good: s.Good} })

	b.Start(plan)
	b.Edge(plan, outline)
	b.Route(plan, func(s State) graph.Next { return read.Each(s.Sources) }, read)
	b.Join([]graph.Ref{outline, read}, write)
	b.Edge(write, check)
	b.Route(check, func(s State) graph.Next {
		if s.Good {
			return graph.To(graph.End)
		}
		return graph.To(write)
	}, write, graph.End)
	return b.Compile()
}

// buildReview makes the graph that is a node of the other one.
func buildReview() (*graph.Graph[State, Update], error) {
	b := graph.New("review", graph.Fields[State, Update]())
	facts := b.Node("facts", idle)
	style := b.Node("style", idle)
	verdict := b.Node("verdict", idle)
	b.Start(facts, style)
	b.Join([]graph.Ref{facts, style}, verdict)
	return b.Compile()
}

var errIdle = errors.New("this graph is only drawn")

func idle(context.Context, State) (Update, error) { return Update{}, errIdle }

func idleTask(context.Context, State, string) (Update, error) { return Update{}, errIdle }
