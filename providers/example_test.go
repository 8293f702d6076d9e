package providers_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
)

func ask(text string) providers.Request {
	return providers.Request{Model: "gpt-x", Messages: []providers.Message{{Role: "user", Content: text}}}
}

func Example() {
	gpt := scripted.New(scripted.On().Fail(scripted.Overloaded()).Reply("tides")).Provider("gpt")
	local := scripted.New(scripted.On().Reply("waves")).Provider("local")
	p, err := providers.Wrap(gpt,
		providers.Fallback{Then: []providers.Provider{local}}, // outermost
		providers.Breaker{},
		providers.RateLimit{RequestsPerMinute: 500, TokensPerMinute: 90_000},
		providers.MaxConcurrent{Calls: 8},
		providers.Timeout{Call: time.Minute}, // innermost
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		resp, err := p.Chat(context.Background(), ask("a word, please"))
		fmt.Println(resp.Text(), resp.Provider, err)
	}
	// Output:
	// waves local <nil>
	// tides gpt <nil>
}

// Every mistake in every middleware is named at once.
func ExampleWrap_mistakes() {
	gpt := scripted.New().Provider("gpt")
	_, err := providers.Wrap(gpt, providers.MaxConcurrent{}, providers.Timeout{Call: -time.Second})
	fmt.Println(err)
	// Output:
	// pawl: providers.MaxConcurrent: Calls is 0: allow at least one call, or leave the middleware out
	// pawl: providers.Timeout: Call is -1s: use a positive time, or 0 for no limit
}

func ExampleTimeout() {
	stuck := scripted.New(scripted.On().Fail(scripted.Stall())).Provider("gpt")
	p, err := providers.Wrap(stuck, providers.Timeout{Call: 10 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = p.Chat(context.Background(), ask("hello?"))
	fmt.Println(err)
	// Output:
	// pawl: provider "gpt": timeout: no whole answer within 10ms (Timeout.Call) (model gpt-x)
}

func ExampleRateLimit() {
	gpt := scripted.New(scripted.On().Reply("ok")).Provider("gpt")
	p, err := providers.Wrap(gpt, providers.RateLimit{RequestsPerMinute: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err = p.Chat(ctx, ask("first"))
	fmt.Println(err)
	_, err = p.Chat(ctx, ask("second"))
	fmt.Println(classifier.Default().Classify(err).Class)
	hint, _ := classifier.RetryHint(err)
	fmt.Println("wait", hint.Round(time.Minute))
	// Output:
	// <nil>
	// rate_limited
	// wait 1m0s
}

// A limiter of one account, shared by its two models.
func ExampleRateLimit_New() {
	account, err := providers.RateLimit{RequestsPerMinute: 500, TokensPerMinute: 90_000}.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, model := range []string{"large", "small"} {
		p, err := providers.Wrap(scripted.New(scripted.On().Reply("ok")).Provider(model), account)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp, err := p.Chat(context.Background(), ask("hello"))
		fmt.Println(resp.Provider, err)
	}
	// Output:
	// large <nil>
	// small <nil>
}

func ExampleMaxConcurrent() {
	slots, err := providers.MaxConcurrent{Calls: 2}.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := providers.Wrap(scripted.New(scripted.On().Tokens("a", "b")).Provider("gpt"), slots)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range p.Stream(context.Background(), ask("hello")) {
		fmt.Println("in use:", slots.InUse()) // a stream holds its slot
		break
	}
	fmt.Println("in use:", slots.InUse())
	// Output:
	// in use: 1
	// in use: 0
}

func ExampleBreaker() {
	circuit, err := providers.Breaker{Failures: 2, OpenFor: time.Hour}.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := providers.Wrap(scripted.New(scripted.On().Fail(scripted.Status(503))).Provider("gpt"), circuit)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		_, err = p.Chat(context.Background(), ask("hello"))
	}
	var down *providers.ProviderUnavailableError
	fmt.Println(circuit.State(), errors.As(err, &down), down.RetryAfter.Round(time.Hour))
	// Output:
	// open true 1h0m0s
}

// A gateway reports what its filter blocks as a 500. One classifier, given to every layer, says what that means.
func ExampleBreaker_classifier() {
	rules := classifier.Chain(classifier.Func(func(err error) classifier.Classification {
		if call, ok := errors.AsType[*providers.CallError](err); ok && call.Code == "dlp_blocked" {
			return classifier.Classification{Class: classifier.ContentFiltered}
		}
		return classifier.Classification{Class: classifier.Unknown} // the next one is asked
	}), classifier.Default())
	circuit, err := providers.Breaker{Failures: 2, Classifier: rules}.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	blocked := scripted.HTTP(500, nil, `{"error":{"message":"stopped","code":"dlp_blocked"}}`)
	p, err := providers.Wrap(scripted.New(scripted.On().Fail(blocked)).Provider("gateway"), circuit)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 10 {
		_, err = p.Chat(context.Background(), ask("my card number is..."))
	}
	fmt.Println(rules.Classify(err).Class, circuit.State())
	// Output:
	// content_filtered closed
}

func ExampleFallback() {
	gpt := scripted.New(scripted.On().Fail(scripted.Status(503))).Provider("gpt")
	local := scripted.New(scripted.On().Fail(scripted.Status(401))).Provider("local")
	p, err := providers.Wrap(gpt, providers.Fallback{Then: []providers.Provider{local}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = p.Chat(context.Background(), ask("hello"))
	if all, ok := errors.AsType[*providers.FallbackError](err); ok {
		fmt.Println(all.Failures[0].Err)
		fmt.Println(all.Failures[1].Err)
	}
	fmt.Println(classifier.Default().Classify(err).Class) // the first failure's
	// Output:
	// pawl: provider "gpt": provider_error (HTTP 503, type server_error, model gpt-x)
	// pawl: provider "local": unauthorized (HTTP 401, type invalid_request_error, model gpt-x)
	// provider_error
}

// A truncated answer is an error, and what there is of it can be had.
func ExampleCallError() {
	p := scripted.New(scripted.On().Fail(scripted.Truncated("Once upon", " a time"))).Provider("gpt")
	_, err := p.Chat(context.Background(), ask("a story"))
	if failed, ok := errors.AsType[*providers.CallError](err); ok {
		fmt.Println(failed.Class)
		fmt.Println(failed.Partial.Text())
	}
	// Output:
	// invalid_response
	// Once upon a time
}

func ExampleCollect() {
	p := scripted.New(scripted.On().Tokens("pie", "ces")).Provider("gpt")
	resp, err := providers.Collect(p.Stream(context.Background(), ask("hello")))
	fmt.Println(resp.Text(), err)
	// Output:
	// pieces <nil>
}

func ExampleServerHint() {
	fmt.Println(providers.ServerHint(map[string][]string{"Retry-After": {"1.5"}}, nil, time.Now()))
	// Output:
	// 1.5s
}
