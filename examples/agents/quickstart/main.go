// Quickstart is a graph of two nodes that ask a model. One call fails and is made again; the node before it is not.
//
//	go run ./examples/agents/quickstart
//
// needs no key: a scripted model answers, over HTTP on this machine. With -live it asks the endpoint that
// OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL name.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/pawl-go/pawl/examples/agents/internal/model"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/nodes"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

// State is what the nodes read.
type State struct {
	Question, Answer, Title string
}

// Update is what a node may change.
type Update struct {
	Answer, Title string
}

func main() {
	log.SetFlags(0)
	live := flag.Bool("live", false, "ask the endpoint that OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL name")
	flag.Parse()
	if err := run(context.Background(), *live); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, live bool) error {
	gpt, closeModel, err := model.Open("gpt", live, script())
	if err != nil {
		return err
	}
	defer closeModel()

	g, err := build(gpt)
	if err != nil {
		return err
	}
	runner, err := superstep.NewRunner(g, superstep.Config{})
	if err != nil {
		return err
	}
	for event, err := range runner.Stream(ctx, State{Question: "Why are there two high tides a day?"}) {
		if err != nil {
			return err
		}
		switch e := event.(type) {
		case *task.AttemptFailed:
			fmt.Printf("%s: attempt %d failed: %s\n", e.Node, e.Attempt, e.Text)
			if !e.Final {
				fmt.Printf("%s: retried after %v\n", e.Node, e.Delay)
			}
		case *task.TaskCompleted:
			fmt.Printf("%s: done in attempt %d\n", e.Node, e.Attempt)
		case *task.RunCompleted[State]:
			fmt.Printf("\n%s\n\n%s\n\n%d model calls\n", e.State.Title, e.State.Answer, e.Usage.Calls)
		}
	}
	return nil
}

// build makes the graph: answer, then title.
func build(gpt providers.Provider) (*graph.Graph[State, Update], error) {
	retry := retrypolicy.New() // the class of an error decides whether it is retried
	retry.MaxAttempts = 3
	retry.InitialDelay = 200 * time.Millisecond

	b := graph.New("quickstart", graph.Fields[State, Update]())
	answer := b.Node("answer", nodes.Chat(gpt,
		func(s State) providers.Request { return ask("Answer in two sentences: " + s.Question) },
		func(_ State, r *providers.Response) (Update, error) { return Update{Answer: r.Text()}, nil },
	), graph.Retry(retry))
	title := b.Node("title", nodes.Chat(gpt,
		func(s State) providers.Request { return ask("Give this text a title: " + s.Answer) },
		func(_ State, r *providers.Response) (Update, error) { return Update{Title: r.Text()}, nil },
	), graph.Retry(retry))
	b.Start(answer)
	b.Edge(answer, title)
	return b.Compile()
}

func ask(prompt string) providers.Request {
	return providers.Request{Messages: []providers.Message{{Role: "user", Content: prompt}}}
}

// script is what the offline model does. Asked for a title, it is overloaded at first.
func script() *scripted.Script {
	return scripted.New(
		scripted.On(scripted.Contains("two high tides")).
			Reply("The moon pulls the near sea more than the earth, and the earth more than the far sea: two bulges.\n"+
				"The earth turns under them once a day."),
		scripted.On(scripted.Contains("title")).
			Fail(scripted.Status(503)).
			Reply("Two Bulges, One Turn"),
	)
}
