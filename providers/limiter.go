package providers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limiter is what a RateLimit keeps. All providers that it wraps share it. It is safe for concurrent use and starts no
// goroutine.
type Limiter struct {
	cfg RateLimit

	mu               sync.Mutex
	requests, tokens *bucket // nil: no bound
	pausedUntil      time.Time
}

// Wrap makes it a Middleware.
func (l *Limiter) Wrap(next Provider) (Provider, error) {
	if err := validNext("providers.RateLimit", next); err != nil {
		return nil, err
	}
	return &limited{limiter: l, next: next}, nil
}

// admit waits for the call's turn, and returns the tokens that were taken for it.
func (l *Limiter) admit(ctx context.Context, provider string, req Request) (int, error) {
	n := 0
	if l.tokens != nil {
		n = max(0, l.cfg.Estimate(req))
		if n > l.cfg.TokenBurst {
			return 0, tooLarge(provider, req, n, l.cfg.TokenBurst)
		}
	}
	for {
		if ctx.Err() != nil {
			return 0, notStarted(ctx, provider, req, "before its turn (RateLimit)")
		}
		wait, why := l.reserve(ctx, n)
		if why != "" {
			return 0, tooSoon(provider, req, wait, why)
		}
		if !sleep(ctx, wait) {
			l.giveBack(n)
			return 0, notStarted(ctx, provider, req, "while waiting for its turn (RateLimit)")
		}
		if !l.paused() {
			return n, nil
		}
		l.giveBack(n) // a pause began meanwhile: take a new turn behind it
	}
}

// reserve takes a turn and returns the wait for it. If that is too long, nothing is taken and why says so.
func (l *Limiter) reserve(ctx context.Context, n int) (wait time.Duration, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	at := now
	if l.pausedUntil.After(now) {
		at = l.pausedUntil // turns are spread out from the end of the pause on
	}
	wait = at.Sub(now) + max(l.requests.take(at, 1), l.tokens.take(at, n))
	if deadline, ok := ctx.Deadline(); ok && !now.Add(wait).Before(deadline) {
		why = "does not fit the context's deadline"
	} else if wait > l.cfg.MaxWait {
		why = fmt.Sprintf("is longer than RateLimit.MaxWait (%v)", l.cfg.MaxWait)
	}
	if why != "" {
		l.requests.giveBack(1)
		l.tokens.giveBack(n)
	}
	return wait, why
}

func (l *Limiter) giveBack(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests.giveBack(1)
	l.tokens.giveBack(n)
}

func (l *Limiter) paused() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pausedUntil.After(time.Now())
}

// settle corrects the estimate by what was really used, and pauses if the server asks for it. A call that reports nothing
// keeps its estimate; one that was never sent gets all of it back.
func (l *Limiter) settle(estimated, reported int, err error) {
	var e *CallError
	notSent := errors.As(err, &e) && e != nil && e.NotSent
	pause := time.Duration(0)
	if err != nil {
		pause = pauseAsked(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case notSent:
		l.requests.giveBack(1)
		l.tokens.giveBack(estimated)
	case reported > estimated:
		// A server that reports nonsense must not stop all calls for good.
		l.tokens.take(time.Now(), min(reported-estimated, max(l.cfg.TokensPerMinute, l.cfg.TokenBurst)))
	case reported > 0:
		l.tokens.giveBack(estimated - reported)
	}
	if until := time.Now().Add(pause); pause > 0 && until.After(l.pausedUntil) {
		l.pausedUntil = until
	}
}

// bucket is a rate.Limiter that takes things back. A nil bucket has no bound.
type bucket struct {
	limiter *rate.Limiter
	burst   int
	credit  int // taken and not used: spent before the limiter is asked
}

func newBucket(perMinute, burst int) *bucket {
	if perMinute == 0 {
		return nil
	}
	return &bucket{limiter: rate.NewLimiter(rate.Limit(float64(perMinute)/60), burst), burst: burst}
}

// take takes n and returns the wait from at on. More than the burst is taken too: what was used was used.
func (b *bucket) take(at time.Time, n int) time.Duration {
	if b == nil {
		return 0
	}
	// Together with the limiter's own, the credit never makes more than the burst.
	b.credit = max(0, min(b.credit, b.burst-int(b.limiter.TokensAt(at))))
	fromCredit := min(n, b.credit)
	b.credit -= fromCredit
	n -= fromCredit
	for ; n > b.burst; n -= b.burst {
		b.limiter.ReserveN(at, b.burst)
	}
	return b.limiter.ReserveN(at, n).DelayFrom(at)
}

func (b *bucket) giveBack(n int) {
	if b != nil {
		b.credit += n
	}
}

// sleep returns true when d has passed, false if ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// estimate is the rough count of RateLimit.Estimate.
func estimate(req Request, answer int) int {
	const perMessage, perImage, bytesPerToken = 4, 1000, 4
	tokens, size := 0, 0
	for i := range req.Messages {
		m := &req.Messages[i]
		tokens += perMessage
		size += len(m.Content) + len(m.Name) + len(m.ReasoningContent)
		for _, part := range m.MultiContent {
			size += len(part.Text)
			if part.ImageURL != nil {
				tokens += perImage
			}
		}
		for _, t := range m.ToolCalls {
			size += len(t.Function.Name) + len(t.Function.Arguments)
		}
	}
	for _, t := range req.Tools {
		if raw, err := json.Marshal(t); err == nil {
			size += len(raw)
		}
	}
	if limit := max(req.MaxCompletionTokens, req.MaxTokens); limit > 0 {
		answer = limit
	}
	return tokens + size/bytesPerToken + answer*max(1, req.N)
}
