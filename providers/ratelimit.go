package providers

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/pawl-go/pawl/classifier"
)

// RateLimit keeps calls within a provider's limits. Each call takes one request, and an estimate of its tokens that is
// corrected when the answer reports its usage. A call that exceeds a limit waits, first come, first served.
//
// A wait that does not fit the deadline of the call's context, or is longer than MaxWait, is not begun: the call fails at
// once with a *CallError of class rate_limited, NotSent, whose Hint is the needed wait. A 429 with a hint pauses all calls
// for as long as the server asks.
type RateLimit struct {
	// RequestsPerMinute bounds the calls; 0: no bound.
	RequestsPerMinute int
	// TokensPerMinute bounds the tokens of prompts and answers; 0: no bound. At least one of the two is set.
	TokensPerMinute int
	// RequestBurst is how many calls may be made at once after a pause. Default: a tenth of RequestsPerMinute, at least 1.
	RequestBurst int
	// TokenBurst is how many tokens may be used at once after a pause. A call whose estimate is larger is refused with class
	// invalid_request. Default: TokensPerMinute.
	TokenBurst int
	// CompletionTokens is the estimate for the answer where a request sets no maximum. Default: 500.
	CompletionTokens int
	// Estimate counts the tokens of a request, prompt and answer, where the default is too rough: a token for each four
	// bytes of text and tools, plus the request's maximum for the answer. It must be safe for concurrent use.
	Estimate func(Request) int
	// MaxWait is the longest wait for a turn. Default: 5 minutes.
	MaxWait time.Duration
}

// Validate reports every bad field at once, in a *ConfigError.
func (r RateLimit) Validate() error {
	e := &ConfigError{Config: "providers.RateLimit"}
	notNegative(e, "RequestsPerMinute", r.RequestsPerMinute, "use a positive number, or 0 for no bound")
	notNegative(e, "TokensPerMinute", r.TokensPerMinute, "use a positive number, or 0 for no bound")
	if r.RequestsPerMinute == 0 && r.TokensPerMinute == 0 {
		e.Add("RequestsPerMinute", "0", "set it or TokensPerMinute, or leave the middleware out")
	}
	notNegative(e, "RequestBurst", r.RequestBurst, "allow at least one request, or 0 for a tenth of RequestsPerMinute")
	notNegative(e, "TokenBurst", r.TokenBurst, "allow the tokens of the largest request, or 0 for TokensPerMinute")
	notNegative(e, "CompletionTokens", r.CompletionTokens, "use a positive number, or 0 for 500")
	notNegative(e, "MaxWait", r.MaxWait, "use a positive time, or 0 for 5m")
	return e.OrNil()
}

func (r RateLimit) withDefaults() RateLimit {
	setOnce(&r.RequestBurst, max(1, r.RequestsPerMinute/10))
	setOnce(&r.TokenBurst, r.TokensPerMinute)
	setOnce(&r.CompletionTokens, 500)
	setOnce(&r.MaxWait, 5*time.Minute)
	if r.Estimate == nil {
		answer := r.CompletionTokens
		r.Estimate = func(req Request) int { return estimate(req, answer) }
	}
	return r
}

// New returns the limiter, to be shared between providers that have one limit, such as two models of one account.
func (r RateLimit) New() (*Limiter, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	r = r.withDefaults()
	return &Limiter{
		cfg: r, requests: newBucket(r.RequestsPerMinute, r.RequestBurst), tokens: newBucket(r.TokensPerMinute, r.TokenBurst),
	}, nil
}

// Wrap makes it a Middleware, with a limiter of its own.
func (r RateLimit) Wrap(next Provider) (Provider, error) {
	l, err := r.New()
	if err != nil {
		return nil, err
	}
	return l.Wrap(next)
}

type limited struct {
	limiter *Limiter
	next    Provider
}

func (l *limited) Name() string { return l.next.Name() }

func (l *limited) Chat(ctx context.Context, req Request) (*Response, error) {
	estimated, err := l.limiter.admit(ctx, l.Name(), req)
	if err != nil {
		return nil, err
	}
	resp, err := l.next.Chat(ctx, req)
	l.limiter.settle(estimated, used(resp, err), err)
	return resp, err
}

func (l *limited) Stream(ctx context.Context, req Request) iter.Seq2[*Delta, error] {
	return func(yield func(*Delta, error) bool) {
		estimated, err := l.limiter.admit(ctx, l.Name(), req)
		if err != nil {
			yield(nil, err)
			return
		}
		reported := 0
		for d, err := range l.next.Stream(ctx, req) {
			if err != nil {
				l.limiter.settle(estimated, max(reported, used(nil, err)), err)
				yield(nil, err)
				return
			}
			if d != nil && d.Usage != nil {
				reported = d.Usage.PromptTokens + d.Usage.CompletionTokens
			}
			if !yield(d, nil) {
				return // what it used stays estimated
			}
		}
		l.limiter.settle(estimated, reported, nil)
	}
}

// used returns the tokens that an answer reports, whole or not; 0 if it reports none.
func used(resp *Response, err error) int {
	if resp == nil {
		resp = partialOf(err)
	}
	if resp == nil {
		return 0
	}
	return resp.Usage.PromptTokens + resp.Usage.CompletionTokens
}

// tooSoon is a call that would have to wait too long.
func tooSoon(provider string, req Request, wait time.Duration, why string) error {
	return &CallError{
		Provider: provider, Model: req.Model, Class: classifier.RateLimited, Hint: wait, NotSent: true,
		Detail: "not called: the limiter's wait " + why,
	}
}

// tooLarge is a call that no wait makes possible.
func tooLarge(provider string, req Request, tokens, burst int) error {
	return &CallError{
		Provider: provider, Model: req.Model, Class: classifier.InvalidRequest, NotSent: true,
		Detail: fmt.Sprintf("not called: an estimated %d tokens exceed RateLimit.TokenBurst (%d): shorten the request or raise it",
			tokens, burst),
	}
}

// pauseAsked returns how long a server that limits us asks to wait.
func pauseAsked(err error) time.Duration {
	if neverSent(err) {
		return 0 // a limiter's own word
	}
	if classifier.Default().Classify(err).Class != classifier.RateLimited {
		return 0
	}
	wait, _ := classifier.RetryHint(err)
	return wait
}
