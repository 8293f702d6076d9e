package providers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/sony/gobreaker/v2"
)

// CircuitState is the state of a Circuit.
type CircuitState string

// The states of a Circuit.
const (
	CircuitClosed   CircuitState = "closed"    // calls pass
	CircuitOpen     CircuitState = "open"      // no call passes
	CircuitHalfOpen CircuitState = "half_open" // probes pass
)

// The outcomes of a call for gobreaker, beside nil.
var (
	errFailure = errors.New("the provider failed")
	errNeutral = errors.New("no sign in either direction")
)

// ProviderUnavailableError is a call that was not made because the breaker is open. Its class is provider_unavailable. It
// unwraps to one of gobreaker's two errors.
type ProviderUnavailableError struct {
	// Provider is the name of the provider that was not called.
	Provider string
	// RetryAfter is the time until probes are let through; 0 if it is not known.
	RetryAfter time.Duration
	// Probing is true if the breaker is half-open and others are probing already.
	Probing bool
}

// Error names the provider and the time.
func (e *ProviderUnavailableError) Error() string {
	if e.Probing {
		return fmt.Sprintf("pawl: provider %q: not called: its breaker is half-open and a probe is under way", e.Provider)
	}
	return fmt.Sprintf("pawl: provider %q: not called: its breaker is open for another %v", e.Provider, e.RetryAfter)
}

// Unwrap returns gobreaker's error.
func (e *ProviderUnavailableError) Unwrap() error {
	if e.Probing {
		return gobreaker.ErrTooManyRequests
	}
	return gobreaker.ErrOpenState
}

// RunErrorClass makes it a classifier.Classed.
func (e *ProviderUnavailableError) RunErrorClass() classifier.RunErrorClass {
	return classifier.ProviderUnavailable
}

// RetryHint makes it a classifier.RetryHinter.
func (e *ProviderUnavailableError) RetryHint() (wait time.Duration, ok bool) {
	return e.RetryAfter, e.RetryAfter > 0
}

// Circuit is what a Breaker keeps. All providers that it wraps share it: they open and close together. It is safe for
// concurrent use and starts no goroutine.
type Circuit struct {
	cfg Breaker
	cb  *gobreaker.TwoStepCircuitBreaker[struct{}]

	mu        sync.Mutex // never held during a call to gobreaker, which calls back under its own
	openUntil time.Time
	changes   []change
	telling   bool
}

type change struct{ from, to CircuitState }

func newCircuit(cfg Breaker) *Circuit {
	c := &Circuit{cfg: cfg}
	s := cfg.settings()
	s.OnStateChange = func(_ string, from, to gobreaker.State) { c.changed(from, to) }
	c.cb = gobreaker.NewTwoStepCircuitBreaker[struct{}](s)
	return c
}

// State returns the present state.
func (c *Circuit) State() CircuitState {
	s := stateOf(c.cb.State())
	c.tell()
	return s
}

// RetryAfter returns the time until probes are let through; 0 if it is not open.
func (c *Circuit) RetryAfter() time.Duration {
	if c.State() != CircuitOpen {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(0, time.Until(c.openUntil))
}

// Wrap makes it a Middleware.
func (c *Circuit) Wrap(next Provider) (Provider, error) {
	if err := validNext("providers.Breaker", next); err != nil {
		return nil, err
	}
	return &guarded{circuit: c, next: next}, nil
}

// changed runs under gobreaker's lock: it only takes notes.
func (c *Circuit) changed(from, to gobreaker.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if to == gobreaker.StateOpen {
		c.openUntil = time.Now().Add(c.cfg.OpenFor)
	}
	if c.cfg.OnChange != nil {
		c.changes = append(c.changes, change{stateOf(from), stateOf(to)})
	}
}

// tell hands the changes to OnChange, one at a time and in order. Whoever comes while another tells leaves it to them.
func (c *Circuit) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.telling {
		return
	}
	c.telling = true
	defer func() { c.telling = false }()
	for len(c.changes) > 0 {
		next := c.changes[0]
		c.changes = c.changes[1:]
		c.tellOne(next)
	}
}

func (c *Circuit) tellOne(next change) {
	c.mu.Unlock()
	defer c.mu.Lock() // also if OnChange panics
	c.cfg.OnChange(next.from, next.to)
}

// allow lets a call through, or says why not.
func (c *Circuit) allow(provider string) (*outcome, error) {
	done, err := c.cb.Allow()
	c.tell()
	switch {
	case errors.Is(err, gobreaker.ErrTooManyRequests):
		return nil, &ProviderUnavailableError{Provider: provider, Probing: true}
	case err != nil:
		return nil, &ProviderUnavailableError{Provider: provider, RetryAfter: c.RetryAfter()}
	}
	o := &outcome{circuit: c, done: done}
	if c.cb.State() == gobreaker.StateHalfOpen {
		// Nobody is told on the timer's goroutine, where a panic of OnChange would end the process: the next call tells.
		o.timer = time.AfterFunc(c.cfg.ProbeTimeout, func() { o.once.Do(func() { done(errFailure) }) })
	}
	return o, nil
}

// outcome is the one report that each call owes to the breaker.
type outcome struct {
	circuit *Circuit
	done    func(error)
	timer   *time.Timer // of a probe
	once    sync.Once
}

// report tells how the call ended; only the first report counts.
func (o *outcome) report(result error) {
	o.once.Do(func() {
		o.done(result)
		if o.timer != nil {
			o.timer.Stop()
		}
	})
	o.circuit.tell()
}

// verdict says what the end of a call means for the breaker: nil, errFailure or errNeutral.
func (c *Circuit) verdict(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		if attemptTimeout(ctx) {
			return errFailure
		}
		return errNeutral
	}
	if status, ok := classifier.HTTPStatus(err); ok && status >= 400 && status < 500 {
		return errNeutral
	}
	switch c.cfg.Classifier.Classify(err).Class {
	case classifier.ProviderError, classifier.Timeout, classifier.Unknown, classifier.Panic:
		return errFailure
	case classifier.ContentFiltered, classifier.InvalidResponse:
		return nil
	default:
		return errNeutral
	}
}

// attemptTimeout reports whether a context has ended because an attempt's time was up: with a Timeout around the breaker, or
// with the deadline of a retry loop. Other deadlines, the caller's own and a run's, say nothing of the provider.
func attemptTimeout(ctx context.Context) bool {
	cause := context.Cause(ctx)                  // the very error that was given, which may be anybody's
	_, loop := cause.(*retrypolicy.TimeoutError) //nolint:errorlint // see above
	return cause == errTimeUp ||                 //nolint:errorlint // see above
		loop && ctx.Err() == context.DeadlineExceeded
}

func stateOf(s gobreaker.State) CircuitState {
	switch s {
	case gobreaker.StateOpen:
		return CircuitOpen
	case gobreaker.StateHalfOpen:
		return CircuitHalfOpen
	default:
		return CircuitClosed
	}
}
