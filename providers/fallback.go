package providers

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/pawl-go/pawl/classifier"
)

// Fallback asks the next provider if one fails in a way that a retry might cure: a transient class, and no permanent HTTP
// status. The answer's Provider says who gave it. A stream that has given something of the answer is not started anew
// elsewhere.
//
// If all fail, the error is a *FallbackError. A failure that is not transient ends the round: no other provider is asked to
// make up for a bad request. So does the end of the call's context.
type Fallback struct {
	// Then are asked in turn after the wrapped provider, with the same request. Each must know the request's model, or have
	// its own: see openai.Config.Model.
	Then []Provider
	// Classifier decides what is transient; give it the one that the executor has. If it panics, the panic is logged to
	// slog.Default() and the default rules answer. Default: classifier.Default().
	Classifier classifier.RunErrorClassifier
}

// Validate reports every bad field at once, in a *ConfigError.
func (f Fallback) Validate() error {
	e := &ConfigError{Config: "providers.Fallback"}
	if len(f.Then) == 0 {
		e.Add("Then", "empty", "name at least one provider, or leave the middleware out")
	}
	for i, p := range f.Then {
		if isNil(p) {
			e.Add(fmt.Sprintf("Then[%d]", i), "nil", "pass a provider, or leave it out")
		}
	}
	return e.OrNil()
}

// Wrap makes it a Middleware. next is asked first.
func (f Fallback) Wrap(next Provider) (Provider, error) {
	if err := errors.Join(f.Validate(), validNext("providers.Fallback", next)); err != nil {
		return nil, err
	}
	all := append([]Provider{next}, f.Then...)
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.Name()
	}
	return &fallback{providers: all, name: strings.Join(names, "|"), rules: guard(f.Classifier)}, nil
}

// FallbackError is the failure of several providers. It unwraps to the first one's alone: that decides whether a retry can
// help, and another provider's 401 must not hide that the first was only overloaded.
type FallbackError struct {
	// Failures are in the order in which the providers were asked; at least two.
	Failures []ProviderFailure
	// NotAsked names the providers that came after a failure that is not transient.
	NotAsked []string `json:",omitempty"`
}

// ProviderFailure is what one provider of a Fallback failed with.
type ProviderFailure struct {
	Provider string
	Class    classifier.RunErrorClass
	Text     string
	Err      error `json:"-"`
}

// Error is the first failure's text, and the class of each further one. Their texts are left to the fields: a status in
// them would be read as the status of the whole.
func (e *FallbackError) Error() string {
	var b strings.Builder
	b.WriteString("pawl: every provider that was asked failed")
	for i, f := range e.Failures {
		if i == 0 {
			fmt.Fprintf(&b, ": %s: %s", f.Provider, f.Text)
			continue
		}
		fmt.Fprintf(&b, "; then %s: %s", f.Provider, f.Class)
	}
	if len(e.NotAsked) > 0 {
		b.WriteString("; not asked: " + strings.Join(e.NotAsked, ", "))
	}
	return b.String()
}

// Unwrap returns the first failure.
func (e *FallbackError) Unwrap() error {
	if len(e.Failures) == 0 {
		return nil
	}
	return e.Failures[0].Err
}

type fallback struct {
	providers []Provider
	name      string
	rules     classifier.RunErrorClassifier
}

// Name returns the names of all providers, as in "gpt|local": what is said of the fallback is said of them together.
func (f *fallback) Name() string { return f.name }

func (f *fallback) Chat(ctx context.Context, req Request) (*Response, error) {
	var failures []ProviderFailure
	for _, p := range f.providers {
		resp, err := p.Chat(ctx, req)
		if err == nil && resp == nil {
			err = Check(nil)
		}
		if err == nil {
			setOnce(&resp.Provider, p.Name())
			return resp, nil
		}
		if end := f.end(ctx, req, p, err, &failures); end != nil {
			return nil, end
		}
	}
	return nil, f.failed(failures)
}

func (f *fallback) Stream(ctx context.Context, req Request) iter.Seq2[*Delta, error] {
	return func(yield func(*Delta, error) bool) {
		var failures []ProviderFailure
		for _, p := range f.providers {
			given, err := f.pass(ctx, req, p, yield)
			if err == nil {
				return
			}
			if given {
				yield(nil, err)
				return
			}
			if end := f.end(ctx, req, p, err, &failures); end != nil {
				yield(nil, end)
				return
			}
		}
		yield(nil, f.failed(failures))
	}
}

// pass hands on the stream of one provider. given is true if the consumer has got a piece of it. Pieces that carry nothing
// of the answer are held back until one does: a provider that fails behind its opening chunk leaves no trace.
func (f *fallback) pass(ctx context.Context, req Request, p Provider, yield func(*Delta, error) bool) (given bool, err error) {
	var held []*Delta
	for d, err := range p.Stream(ctx, req) {
		if err != nil {
			return given, err
		}
		if d == nil {
			continue
		}
		setOnce(&d.Provider, p.Name())
		held = append(held, d)
		if !given && !carries(d) {
			continue
		}
		given = true
		if !handOver(held, yield) {
			return true, nil
		}
		held = held[:0]
	}
	return handOver(held, yield), nil
}

func handOver(held []*Delta, yield func(*Delta, error) bool) bool {
	for _, d := range held {
		if !yield(d, nil) {
			return false
		}
	}
	return true
}

// carries reports whether a piece holds something of the answer.
func carries(d *Delta) bool {
	for i := range d.Choices {
		c := &d.Choices[i]
		if c.Delta.Content != "" || c.Delta.Refusal != "" || c.Delta.ReasoningContent != "" || c.FinishReason != "" ||
			c.Delta.FunctionCall != nil || len(c.Delta.ToolCalls) > 0 {
			return true
		}
	}
	return false
}

// end notes a failure, and returns the error if nobody else is to be asked.
func (f *fallback) end(ctx context.Context, req Request, p Provider, err error, failures *[]ProviderFailure) error {
	if ctx.Err() != nil {
		return contextError(ctx, p.Name(), req, partialOf(err))
	}
	class := f.rules.Classify(err).Class
	*failures = append(*failures, ProviderFailure{Provider: p.Name(), Class: class, Text: classifier.Message(err), Err: err})
	if _, permanent := classifier.PermanentHTTPStatus(err); permanent || !class.Transient() {
		return f.failed(*failures)
	}
	return nil
}

// failed is the error of the whole round.
func (f *fallback) failed(failures []ProviderFailure) error {
	if len(failures) == 1 {
		return failures[0].Err
	}
	e := &FallbackError{Failures: slices.Clip(failures)}
	for _, p := range f.providers[len(failures):] {
		e.NotAsked = append(e.NotAsked, p.Name())
	}
	return e
}
