package openai_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/openai"
	"github.com/pawl-go/pawl/providers/scripted"
)

func question(text string) providers.Request {
	return providers.Request{Model: "gpt-x", Messages: []providers.Message{{Role: "user", Content: text}}}
}

// A client of any OpenAI-compatible endpoint; here it is a script.
func Example() {
	srv := httptest.NewServer(scripted.New(scripted.On().Reply("High tide is at noon.")).Handler())
	defer srv.Close()

	p, err := openai.New(openai.Config{Name: "harbour", BaseURL: srv.URL + "/v1", APIKey: "sk-..."})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.CloseIdleConnections()
	resp, err := p.Chat(context.Background(), question("When is high tide?"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resp.Text())
	fmt.Println(resp.Provider, resp.Usage.PromptTokens, resp.Usage.CompletionTokens)
	// Output:
	// High tide is at noon.
	// harbour 4 5
}

func ExampleClient_Stream() {
	srv := httptest.NewServer(scripted.New(scripted.On().Tokens("High ", "tide ", "at noon.")).Handler())
	defer srv.Close()
	p, err := openai.New(openai.Config{BaseURL: srv.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.CloseIdleConnections()

	var answer providers.Fold
	for d, err := range p.Stream(context.Background(), question("When is high tide?")) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(d.Text(), "|")
		answer.Add(d)
	}
	fmt.Println(answer.Response().Choices[0].FinishReason)
	// Output:
	// High |tide |at noon.|||stop
}

// A failure says its class, its status and how long to wait, and nothing of what the server wrote.
func ExampleClient_Chat_failure() {
	srv := httptest.NewServer(scripted.New(scripted.On().Fail(scripted.RateLimited(20 * time.Second))).Handler())
	defer srv.Close()
	p, err := openai.New(openai.Config{BaseURL: srv.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.CloseIdleConnections()
	_, err = p.Chat(context.Background(), question("When is high tide?"))
	fmt.Println(err)
	// Output:
	// pawl: provider "openai": rate_limited (HTTP 429, code rate_limit_exceeded, type requests, model gpt-x, wait 20s)
}
