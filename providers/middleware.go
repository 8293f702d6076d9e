package providers

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// Middleware puts something around a provider. Timeout, RateLimit, MaxConcurrent, Breaker and Fallback are middleware, and
// so are Limiter, Slots and Circuit, which are what RateLimit, MaxConcurrent and Breaker keep: make one with New where it is
// to be shared between providers, or watched.
type Middleware interface {
	// Wrap returns a provider around next. The error is a *ConfigError if the configuration is bad.
	Wrap(next Provider) (Provider, error)
}

// Wrap puts middleware around a provider, the outermost first:
//
//	providers.Wrap(p, fallback, breaker, rateLimit, maxConcurrent, timeout)
//
// is the usual order: a fallback sees an open breaker; a breaker does not see another provider's failures; waiting for the
// limiter and for a slot does not count against the timeout. The order is not checked: a Breaker around a Fallback is legal,
// and counts the fallback as one provider.
//
// The error names all that is wrong, in every middleware at once. The wrapped provider is safe for any number of runs; a
// panic of p passes through it and leaves nothing held.
func Wrap(p Provider, outermost ...Middleware) (Provider, error) {
	var errs []error
	if isNil(p) {
		errs = append(errs, errors.New("pawl: providers.Wrap: the provider is nil: pass the one to be called"))
		p = nobody{} // so that the middleware is checked too
	}
	for i, m := range slices.Backward(outermost) {
		if isNil(m) {
			errs = append(errs, fmt.Errorf("pawl: providers.Wrap: middleware %d is nil: pass it, or leave it out", i+1))
			continue
		}
		outer, err := m.Wrap(p)
		switch {
		case err != nil:
			errs = append(errs, err)
		case isNil(outer):
			errs = append(errs, fmt.Errorf("pawl: providers.Wrap: middleware %d (%T) returned no provider", i+1, m))
		default:
			p = outer
		}
	}
	if len(errs) > 0 {
		slices.Reverse(errs) // in the order of the arguments, but for the provider, which stands last
		return nil, errors.Join(errs...)
	}
	return p, nil
}

// nobody stands in for a provider while configurations are checked. It is asked for its name only.
type nobody struct{ Provider }

func (nobody) Name() string { return "" }

// isNil also finds a nil pointer in an interface, which would panic at the first call only.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Slice, reflect.Chan, reflect.Interface:
		return r.IsNil()
	}
	return false
}

// validNext notes a missing provider. Wrap of each middleware can be called directly.
func validNext(config string, next Provider) error {
	e := &ConfigError{Config: config}
	if isNil(next) {
		e.Add("next", "nil", "pass the provider to be called")
	}
	return e.OrNil()
}
