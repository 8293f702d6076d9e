package scripted_test

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
)

func ask(text string) providers.Request {
	return providers.Request{Model: "gpt-x", Messages: []providers.Message{{Role: "user", Content: text}}}
}

func Example() {
	script := scripted.New(
		scripted.On(scripted.Contains("plan")).Reply("1. tides 2. moon"),
		scripted.On(scripted.Contains("draft")).
			Fail(scripted.RateLimited(2*time.Second)). // the first call
			Reply("a draft"),                          // and all later ones
	)
	p := script.Provider("fake")
	ctx := context.Background()

	resp, err := p.Chat(ctx, ask("plan a talk"))
	fmt.Println(resp.Text(), err)

	_, err = p.Chat(ctx, ask("draft it"))
	fmt.Println(err)

	for d, err := range p.Stream(ctx, ask("draft it")) {
		fmt.Printf("%q %v\n", d.Text(), err)
	}
	fmt.Println(len(script.Requests()), "requests, the last one said", script.Requests()[2].Messages[0].Content)

	// Output:
	// 1. tides 2. moon <nil>
	// pawl: provider "fake": rate_limited (HTTP 429, code rate_limit_exceeded, type requests, model gpt-x, wait 2s)
	// "a " <nil>
	// "draft" <nil>
	// "" <nil>
	// "" <nil>
	// 3 requests, the last one said draft it
}

// A model that is overloaded whenever it hears something for the first time.
func ExampleRule_PerRequest() {
	p := scripted.New(scripted.On().PerRequest().Fail(scripted.Overloaded()).Reply("here it is")).Provider("fake")
	for _, ticket := range []string{"T-1", "T-2", "T-1", "T-2"} {
		resp, err := p.Chat(context.Background(), ask(ticket))
		fmt.Printf("%s: %q %v\n", ticket, resp.Text(), err)
	}
	// Output:
	// T-1: "" pawl: provider "fake": provider_error (HTTP 529, type overloaded_error, model gpt-x)
	// T-2: "" pawl: provider "fake": provider_error (HTTP 529, type overloaded_error, model gpt-x)
	// T-1: "here it is" <nil>
	// T-2: "here it is" <nil>
}

// Two answers to one request. Each ends with a piece of its own, which says why.
func ExampleRule_Choices() {
	p := scripted.New(scripted.On().Choices("a poem", "a song")).Provider("fake")
	req := ask("write something")
	req.N = 2
	for d, err := range p.Stream(context.Background(), req) {
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, c := range d.Choices {
			fmt.Printf("%d: %q\n", c.Index, c.Delta.Content)
		}
	}
	// Output:
	// 0: "a "
	// 1: "a "
	// 0: "poem"
	// 1: "song"
	// 0: ""
	// 1: ""
}
