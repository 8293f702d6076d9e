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
