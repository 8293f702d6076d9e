package providers

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"
)

// Limiter is what a RateLimit keeps. All providers that it wraps share it. It is safe for concurrent use and starts no
// goroutine.
type Limiter struct {
	cfg RateLimit

	mu               sync.Mutex
	requests, tokens *bucket // nil: no bound
	pausedUntil      time.Time
	waiting          list.List // of *turn, in the order of their coming
}

// turn is the place of a call that waits.
type turn struct {
	tokens int
	at     time.Time
	moved  chan struct{} // has an element if a pause has put it off
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
	if ctx.Err() != nil {
		return 0, notStarted(ctx, provider, req, " before its turn (RateLimit)")
	}
	n := 0
	if l.tokens != nil {
		n = max(0, l.cfg.Estimate(req))
		if n > l.cfg.TokenBurst {
			return 0, tooLarge(provider, req, n, l.cfg.TokenBurst)
		}
	}
	t, place := l.enqueue(n)
	if place == nil {
		return n, nil
	}
	for {
		wait, why := l.check(ctx, t, place)
		switch {
		case why != "":
			return 0, tooSoon(provider, req, wait, why)
		case wait <= 0:
			return n, nil
		case !t.sleep(ctx, wait):
			l.leave(t, place)
			return 0, notStarted(ctx, provider, req, " while waiting for its turn (RateLimit)")
		}
	}
}

// enqueue takes a turn behind all others. A turn that has come already has no place in the line.
func (l *Limiter) enqueue(n int) (*turn, *list.Element) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, now := &turn{tokens: n}, time.Now()
	l.schedule(t, now)
	if !t.at.After(now) {
		return nil, nil
	}
	t.moved = make(chan struct{}, 1)
	return t, l.waiting.PushBack(t)
}

// schedule takes what the turn needs and says when it is.
func (l *Limiter) schedule(t *turn, now time.Time) {
	at := now
	if l.pausedUntil.After(now) {
		at = l.pausedUntil // turns are spread out from the end of the pause on
	}
	t.at = at.Add(max(l.requests.take(at, 1), l.tokens.take(at, t.tokens)))
}

// check returns the time that is left to a turn. A turn that has come, or that is too far away (why says so), is taken out
// of the line; the latter gives back what it took.
func (l *Limiter) check(ctx context.Context, t *turn, place *list.Element) (wait time.Duration, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	wait = t.at.Sub(now)
	deadline, ok := ctx.Deadline()
	switch {
	case wait <= 0:
		l.waiting.Remove(place)
		return 0, ""
	case ok && !t.at.Before(deadline):
		why = "does not fit the context's deadline"
	case wait > l.cfg.MaxWait:
		why = fmt.Sprintf("is longer than RateLimit.MaxWait (%v)", l.cfg.MaxWait)
	default:
		return wait, ""
	}
	l.giveUp(t, place)
	return wait, why
}

func (l *Limiter) leave(t *turn, place *list.Element) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveUp(t, place)
}

func (l *Limiter) giveUp(t *turn, place *list.Element) {
	l.waiting.Remove(place)
	l.requests.giveBack(1)
	l.tokens.giveBack(t.tokens)
}

// pause puts off all turns, those of the waiting included, which keep their order.
func (l *Limiter) pause(until time.Time) {
	if !until.After(l.pausedUntil) {
		return
	}
	l.pausedUntil = until
	var turns []*turn
	for e := l.waiting.Front(); e != nil; e = e.Next() {
		if t, ok := e.Value.(*turn); ok {
			turns = append(turns, t)
			l.requests.giveBack(1)
			l.tokens.giveBack(t.tokens)
		}
	}
	for _, t := range turns {
		l.schedule(t, time.Now())
		select {
		case t.moved <- struct{}{}:
		default: // it has not yet looked at the last time
		}
	}
}

// sleep returns true when d has passed or the turn was moved, false if ctx ended before.
func (t *turn) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.moved:
		return true
	case <-ctx.Done():
		return false
	}
}

// settle corrects the estimate by what was really used, and pauses if the server asks for it. A call that reports nothing
// keeps its estimate; one that was never sent gets all of it back.
func (l *Limiter) settle(estimated, reported int, err error) {
	pause := time.Duration(0)
	if err != nil {
		pause = pauseAsked(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case neverSent(err):
		l.requests.giveBack(1)
		l.tokens.giveBack(estimated)
	case reported > estimated:
		// A server that reports nonsense must not stop all calls for good.
		l.tokens.take(time.Now(), min(reported-estimated, max(l.cfg.TokensPerMinute, l.cfg.TokenBurst)))
	case reported > 0:
		l.tokens.giveBack(estimated - reported)
	}
	if pause > 0 {
		l.pause(time.Now().Add(pause))
	}
}
