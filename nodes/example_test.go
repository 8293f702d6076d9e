package nodes_test

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/nodes"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

type poem struct{ Topic, Text string }

type poemUpdate struct{ Text string }

// The first stream breaks off. What it had given is discarded, and the node is asked again.
func ExampleChat() {
	gpt := scripted.New(scripted.On(scripted.Contains("moon")).
		Fail(scripted.Cut("O si")).
		Tokens("O ", "silver ", "lamp")).Provider("gpt")
	retry := retrypolicy.New()
	retry.MaxAttempts = 3
	retry.InitialDelay = time.Millisecond

	b := graph.New("poet", graph.Fields[poem, poemUpdate]())
	write := b.Node("write", nodes.Chat(gpt,
		func(s poem) providers.Request {
			return providers.Request{Messages: []providers.Message{{Role: "user", Content: "A line on the " + s.Topic}}}
		},
		func(_ poem, r *providers.Response) (poemUpdate, error) { return poemUpdate{Text: r.Text()}, nil },
	), graph.Retry(retry))
	b.Start(write)
	g, err := b.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	runner, err := superstep.NewRunner(g, superstep.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for event, err := range runner.Stream(context.Background(), poem{Topic: "moon"}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch e := event.(type) {
		case *task.TokenDelta:
			fmt.Printf("attempt %d: %q\n", e.Attempt, e.Text)
		case *task.AttemptFailed:
			fmt.Println(e.Text)
		case *task.AttemptDiscarded:
			fmt.Printf("attempt %d: forget it\n", e.Attempt)
		case *task.RunCompleted[poem]:
			fmt.Println(e.State.Text)
		}
	}
	// Output:
	// attempt 1: "O si"
	// pawl: provider "gpt": provider_error: the answer ended before it was whole
	// attempt 1: forget it
	// attempt 2: "O "
	// attempt 2: "silver "
	// attempt 2: "lamp"
	// O silver lamp
}

type desk struct{ Answers []string }

type deskUpdate struct {
	Answers []string `merge:"append"`
}

// One call for each item, side by side; the answers are in the order of the items.
func ExampleChatTask() {
	gpt := scripted.New(
		scripted.On(scripted.Contains("red")).Reply("rouge"),
		scripted.On(scripted.Contains("blue")).Reply("bleu"),
	).Provider("gpt")

	b := graph.New("translate", graph.Fields[desk, deskUpdate]())
	start := b.Func("start", func(desk) (deskUpdate, error) { return deskUpdate{}, nil })
	translate := graph.Task(b, "translate", nodes.ChatTask(gpt,
		func(_ desk, word string) providers.Request {
			return providers.Request{Messages: []providers.Message{{Role: "user", Content: "In French: " + word}}}
		},
		func(_ desk, word string, r *providers.Response) (deskUpdate, error) {
			return deskUpdate{Answers: []string{word + " is " + r.Text()}}, nil
		}))
	b.Start(start)
	b.Route(start, func(desk) graph.Next { return translate.Each([]string{"red", "blue"}) }, translate)
	g, err := b.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	runner, err := superstep.NewRunner(g, superstep.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := runner.Run(context.Background(), desk{})
	fmt.Println(res.State.Answers, err)
	// Output: [red is rouge blue is bleu] <nil>
}
