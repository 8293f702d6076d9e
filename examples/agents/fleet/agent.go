package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/nodes"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
	"github.com/pawl-go/pawl/superstep"
)

// State is what the nodes read.
type State struct {
	Topic   string
	Queries []string
	Notes   []string
	Report  string
}

// Update is what a node may change.
type Update struct {
	Queries []string
	Notes   []string `merge:"append"`
	Report  string
}

// newAgent makes the agent that all workers run. Who only starts runs needs it, too: it names them.
func newAgent(latency time.Duration) (*superstep.Runner[State, Update], error) {
	g, err := build(script(latency).Provider("gpt"))
	if err != nil {
		return nil, err
	}
	return superstep.NewRunner(g, superstep.Config{})
}

func build(gpt providers.Provider) (*graph.Graph[State, Update], error) {
	b := graph.New("report", graph.Fields[State, Update]())
	plan := b.Node("plan", nodes.Chat(gpt,
		func(s State) providers.Request { return ask("Plan: " + s.Topic) },
		func(_ State, r *providers.Response) (Update, error) {
			return Update{Queries: strings.Split(r.Text(), "; ")}, nil
		}))
	search := graph.Task(b, "search", nodes.ChatTask(gpt,
		func(_ State, query string) providers.Request { return ask("Search: " + query) },
		func(_ State, _ string, r *providers.Response) (Update, error) {
			return Update{Notes: []string{r.Text()}}, nil
		}))
	// In a worker a run that sleeps for more than a second holds no worker meanwhile.
	rest := b.Node("rest", func(ctx context.Context, _ State) (Update, error) {
		return Update{}, durable.Sleep(ctx, 1500*time.Millisecond)
	})
	write := b.Node("write", nodes.Chat(gpt,
		func(s State) providers.Request { return ask("Write: " + strings.Join(s.Notes, ", ")) },
		func(_ State, r *providers.Response) (Update, error) { return Update{Report: r.Text()}, nil }))
	b.Start(plan)
	b.Route(plan, func(s State) graph.Next { return search.Each(s.Queries) }, search)
	b.Edge(search, rest)
	b.Edge(rest, write)
	return b.Compile()
}

func ask(prompt string) providers.Request {
	return providers.Request{Messages: []providers.Message{{Role: "user", Content: prompt}}}
}

// script is what the model does.
func script(latency time.Duration) *scripted.Script {
	return scripted.New(
		scripted.On(scripted.Contains("Plan: ")).ReplyFunc(func(r providers.Request) string {
			_, topic, _ := strings.Cut(r.Messages[0].Content, ": ")
			return fmt.Sprintf("%[1]s, history; %[1]s, causes; %[1]s, open questions", topic)
		}).After(latency),
		scripted.On(scripted.Contains("Search: ")).ReplyFunc(func(r providers.Request) string {
			_, query, _ := strings.Cut(r.Messages[0].Content, ": ")
			return "a note on " + query
		}).After(latency),
		scripted.On().Reply("A report.").After(latency),
	)
}
