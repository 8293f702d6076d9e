package providers

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/sony/gobreaker/v2"
)

// Breaker stops calling a provider that keeps failing, and tries again after a while. While it is open, calls fail at once
// with a *ProviderUnavailableError that says when it may close.
//
// It counts what the provider did wrong: class provider_error and timeout (a Timeout inside it, and an executor's attempt
// timeout around it), errors of unknown class, panics. It does not count cancelled calls, the caller's own deadline, any
// 4xx (429 included, and whatever the Classifier says of it) and Pawl's own limiter: these are no sign in either direction,
// so a probe that ends so is followed by another one. A refusal or a truncated answer (content_filtered, invalid_response)
// counts as a success: the provider answered.
//
// The zero Breaker opens after 5 failures in a row, for 30 seconds.
type Breaker struct {
	// Failures opens it after so many failures in a row. Default: 5.
	Failures int
	// Ratio opens it also when this part of the calls within Window failed, if there were at least MinCalls: 0.5 is half of
	// them. Default: 0, which is off.
	Ratio float64
	// MinCalls is the least number of calls for Ratio. Default: 20.
	MinCalls int
	// Window is the time over which Ratio looks back, in tenths. Default: 1 minute.
	Window time.Duration
	// OpenFor is how long it stays open before probes are let through. Default: 30 seconds.
	OpenFor time.Duration
	// Probes is how many calls it lets through at once when half-open, and how many in a row must succeed for it to close.
	// Default: 1.
	Probes int
	// ProbeTimeout is when a probe that has not ended counts as failed, so that one that hangs does not keep the breaker
	// half-open. The call itself goes on; give calls a Timeout too. Default: 1 minute.
	ProbeTimeout time.Duration
	// Classifier gives the class by which an error counts; give it the one that the executor has. If it panics, the panic
	// is logged to slog.Default() and the default rules answer. Default: classifier.Default().
	Classifier classifier.RunErrorClassifier
	// OnChange is told of each change, in order, outside of all locks, on the goroutine of a call that caused or noticed
	// it. A panic in it passes to that call.
	OnChange func(from, to CircuitState)
}

// Validate reports every bad field at once, in a *ConfigError.
func (b Breaker) Validate() error {
	e := &ConfigError{Config: "providers.Breaker"}
	notNegative(e, "Failures", b.Failures, "use a positive number, or 0 for 5")
	if !(b.Ratio >= 0 && b.Ratio <= 1) { // also NaN
		e.Add("Ratio", fmt.Sprint(b.Ratio), "use a part of 1, such as 0.5, or 0 to look at failures in a row only")
	}
	notNegative(e, "MinCalls", b.MinCalls, "use a positive number, or 0 for 20")
	notNegative(e, "Window", b.Window, "use a positive time, or 0 for 1m")
	notNegative(e, "OpenFor", b.OpenFor, "use a positive time, or 0 for 30s")
	notNegative(e, "Probes", b.Probes, "use a positive number, or 0 for 1")
	notNegative(e, "ProbeTimeout", b.ProbeTimeout, "use a positive time, or 0 for 1m")
	return e.OrNil()
}

func (b Breaker) withDefaults() Breaker {
	setOnce(&b.Failures, 5)
	setOnce(&b.MinCalls, 20)
	setOnce(&b.Window, time.Minute)
	setOnce(&b.OpenFor, 30*time.Second)
	setOnce(&b.Probes, 1)
	setOnce(&b.ProbeTimeout, time.Minute)
	b.Classifier = guard(b.Classifier)
	return b
}

// New returns the circuit, to be watched or shared between providers that fail together.
func (b Breaker) New() (*Circuit, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	return newCircuit(b.withDefaults()), nil
}

// Wrap makes it a Middleware, with a circuit of its own.
func (b Breaker) Wrap(next Provider) (Provider, error) {
	c, err := b.New()
	if err != nil {
		return nil, err
	}
	return c.Wrap(next)
}

// settings are the rules in gobreaker's words.
func (b Breaker) settings() gobreaker.Settings {
	s := gobreaker.Settings{
		MaxRequests: uint32(min(b.Probes, 1<<30)), //nolint:gosec // bounded here
		// gobreaker is still open at the very end of its time. Someone who waits as long as we say must get through.
		Timeout:      max(1, b.OpenFor-1),
		IsExcluded:   func(err error) bool { return errors.Is(err, errNeutral) },
		IsSuccessful: func(err error) bool { return err == nil },
		ReadyToTrip: func(c gobreaker.Counts) bool {
			if int64(c.ConsecutiveFailures) >= int64(b.Failures) {
				return true
			}
			seen := c.TotalSuccesses + c.TotalFailures
			return b.Ratio > 0 && int64(seen) >= int64(b.MinCalls) && float64(c.TotalFailures) >= b.Ratio*float64(seen)
		},
	}
	if b.Ratio > 0 {
		s.Interval, s.BucketPeriod = b.Window, max(1, b.Window/10)
	}
	return s
}

type guarded struct {
	circuit *Circuit
	next    Provider
}

func (g *guarded) Name() string { return g.next.Name() }

func (g *guarded) Chat(ctx context.Context, req Request) (*Response, error) {
	o, err := g.circuit.allow(g.Name())
	if err != nil {
		return nil, err
	}
	defer o.report(errFailure) // a panic or Goexit; otherwise the outcome is known by then
	resp, err := g.next.Chat(ctx, req)
	o.report(g.circuit.verdict(ctx, err))
	return resp, err
}

func (g *guarded) Stream(ctx context.Context, req Request) iter.Seq2[*Delta, error] {
	return func(yield func(*Delta, error) bool) {
		o, err := g.circuit.allow(g.Name())
		if err != nil {
			yield(nil, err)
			return
		}
		atProvider := true // whose code is running, should it panic
		defer func() {
			if atProvider {
				o.report(errFailure)
			}
			o.report(errNeutral)
		}()
		for d, err := range g.next.Stream(ctx, req) {
			atProvider = false
			if err != nil {
				o.report(g.circuit.verdict(ctx, err))
			}
			if !yield(d, err) || err != nil {
				return
			}
			atProvider = true
		}
		o.report(nil)
	}
}
