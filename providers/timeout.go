package providers

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/classifier"
)

// errTimeUp is the cause with which a Timeout ends a call's own context.
var errTimeUp = errors.New("pawl: the time of the call is up")

// Timeout gives each call a time of its own. A call that exceeds it fails with class timeout, which a breaker counts and a
// retry repeats; the caller's own deadline stays what it is, and is no timeout of this middleware. The provider must heed
// its context: a call is never abandoned.
type Timeout struct {
	// Call is the time for a plain call, and for a whole stream, the time its consumer takes included. 0: no limit.
	Call time.Duration
	// Idle is the longest wait for the first and for each further piece of a stream. The time that the consumer takes in
	// between does not count. 0: no limit.
	Idle time.Duration
}

// Validate reports every bad field at once, in a *ConfigError.
func (t Timeout) Validate() error {
	e := &ConfigError{Config: "providers.Timeout"}
	notNegative(e, "Call", t.Call, "use a positive time, or 0 for no limit")
	notNegative(e, "Idle", t.Idle, "use a positive time, or 0 for no limit")
	if t.Call == 0 && t.Idle == 0 {
		e.Add("Call", "0s", "set Call or Idle, or leave the middleware out")
	}
	return e.OrNil()
}

// Wrap makes it a Middleware.
func (t Timeout) Wrap(next Provider) (Provider, error) {
	if err := errors.Join(t.Validate(), validNext("providers.Timeout", next)); err != nil {
		return nil, err
	}
	return &timed{cfg: t, next: next}, nil
}

type timed struct {
	cfg  Timeout
	next Provider
}

func (t *timed) Name() string { return t.next.Name() }

func (t *timed) Chat(ctx context.Context, req Request) (*Response, error) {
	own, cancel := t.context(ctx)
	defer cancel()
	resp, err := t.next.Chat(own, req)
	if err != nil {
		return nil, t.failure(ctx, own, req, err, false)
	}
	return resp, nil
}

func (t *timed) Stream(ctx context.Context, req Request) iter.Seq2[*Delta, error] {
	return func(yield func(*Delta, error) bool) {
		own, cancel := t.context(ctx)
		defer cancel()
		idle := &idleWatch{after: t.cfg.Idle}
		if t.cfg.Idle > 0 {
			stalled, stall := context.WithCancelCause(own)
			defer stall(nil)
			own = stalled
			idle.watch(func() { stall(errTimeUp) })
			defer idle.stop()
		}
		for d, err := range t.next.Stream(own, req) {
			idle.stop()
			if err != nil {
				yield(nil, t.failure(ctx, own, req, err, idle.expired.Load()))
				return
			}
			if !yield(d, nil) {
				return
			}
			idle.start()
		}
	}
}

// context returns the call's own context. Where ctx ends no later, it has no deadline of its own, so that the two are never
// mistaken for each other.
func (t *timed) context(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline := time.Now().Add(t.cfg.Call)
	if end, ok := ctx.Deadline(); t.cfg.Call == 0 || ok && !end.After(deadline) {
		return context.WithCancel(ctx)
	}
	return context.WithDeadlineCause(ctx, deadline, errTimeUp)
}

// failure makes the end of the call's own context a timeout. Whatever the call returned by then came of it. Where the
// caller's has ended too, that counts.
func (t *timed) failure(ctx, own context.Context, req Request, err error, idle bool) error {
	if ctx.Err() != nil {
		return contextError(ctx, t.Name(), req, partialOf(err))
	}
	var detail string
	switch {
	case idle:
		detail = fmt.Sprintf("nothing came for %v (Timeout.Idle)", t.cfg.Idle)
	case own.Err() != nil:
		detail = fmt.Sprintf("no whole answer within %v (Timeout.Call)", t.cfg.Call)
	default:
		return err
	}
	return &CallError{
		Provider: t.Name(), Model: req.Model, Class: classifier.Timeout, Detail: detail,
		Partial: partialOf(err), Err: context.DeadlineExceeded,
	}
}

// idleWatch cancels a stream that gives nothing for a while.
type idleWatch struct {
	after   time.Duration
	timer   *time.Timer // nil: no limit
	expired atomic.Bool
}

func (w *idleWatch) watch(cancel func()) {
	w.timer = time.AfterFunc(w.after, func() {
		w.expired.Store(true)
		cancel()
	})
}

func (w *idleWatch) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

func (w *idleWatch) start() {
	if w.timer != nil {
		w.timer.Reset(w.after)
	}
}
