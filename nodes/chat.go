// Package nodes has ready-made node functions: what most agent graphs are made of.
//
//	write := b.Node("write", nodes.Chat(gpt,
//		func(s State) providers.Request {
//			return providers.Request{Model: "gpt-x", Messages: []providers.Message{{Role: "user", Content: s.Topic}}}
//		},
//		func(_ State, r *providers.Response) (Update, error) {
//			return Update{Draft: r.Text()}, nil
//		}), graph.Retry(policy))
//
// A node of this package does nothing that you could not write: it is a function of the public API. It never retries;
// the node's policy does.
package nodes

import (
	"context"
	"reflect"

	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/task"
)

// ChatOption sets something of a Chat or ChatTask.
type ChatOption func(*chatOptions)

type chatOptions struct{ plain bool }

// Plain makes a plain call in place of a streamed one, for endpoints that cannot stream: no token events.
func Plain() ChatOption { return func(o *chatOptions) { o.plain = true } }

// Chat returns a node function that builds a request from the state, calls the provider once, and turns the answer into
// an update. The answer is streamed: each piece is a task.TokenDelta event. Only an answer that is a success reaches take,
// and it is never nil; the provider's error is returned as it is, and so is take's. A nil argument, a nil pointer as the
// provider included, gives a nil function, which Compile refuses.
//
// ask and take must be pure: they run again with every attempt.
func Chat[S, U any](
	p providers.Provider, ask func(S) providers.Request, take func(S, *providers.Response) (U, error), opts ...ChatOption,
) func(context.Context, S) (U, error) {
	o, ok := options(opts)
	if !ok || isNil(p) || ask == nil || take == nil {
		return nil
	}
	return func(ctx context.Context, s S) (U, error) {
		resp, err := o.call(ctx, p, ask(s))
		if err != nil {
			var none U
			return none, err
		}
		return take(s, resp)
	}
}

// ChatTask is Chat for a task node: ask and take are also given the item.
func ChatTask[S, I, U any](
	p providers.Provider, ask func(S, I) providers.Request, take func(S, I, *providers.Response) (U, error), opts ...ChatOption,
) func(context.Context, S, I) (U, error) {
	o, ok := options(opts)
	if !ok || isNil(p) || ask == nil || take == nil {
		return nil
	}
	return func(ctx context.Context, s S, item I) (U, error) {
		resp, err := o.call(ctx, p, ask(s, item))
		if err != nil {
			var none U
			return none, err
		}
		return take(s, item, resp)
	}
}

func options(opts []ChatOption) (o chatOptions, ok bool) {
	for _, opt := range opts {
		if opt == nil {
			return o, false
		}
		opt(&o)
	}
	return o, true
}

// isNil also finds the nil pointer that a constructor returns beside an error nobody looked at.
func isNil(p providers.Provider) bool {
	if p == nil {
		return true
	}
	v := reflect.ValueOf(p)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

func (o chatOptions) call(ctx context.Context, p providers.Provider, req providers.Request) (*providers.Response, error) {
	if o.plain {
		resp, err := p.Chat(ctx, req)
		return present(resp, err)
	}
	return Call(ctx, p, req)
}

// Call makes one streamed call from inside a node, shows the answer as it grows, as task.TokenDelta events, and returns
// it whole. It is for nodes that need more than Chat gives: their context, a request that can fail, several calls.
func Call(ctx context.Context, p providers.Provider, req providers.Request) (*providers.Response, error) {
	var whole providers.Fold
	for d, err := range p.Stream(ctx, req) {
		if err != nil {
			return nil, err
		}
		if d != nil {
			whole.Add(d)
			show(ctx, d)
		}
	}
	return present(whole.Response(), nil)
}

func show(ctx context.Context, d *providers.Delta) {
	for i := range d.Choices {
		if text := d.Choices[i].Delta.Content; text != "" {
			task.EmitToken(ctx, task.TokenDelta{Text: text, Choice: d.Choices[i].Index, Provider: d.Provider})
		}
	}
}

// present makes no answer at all an error: a Provider that did not pass through providers.Conform may give none.
func present(resp *providers.Response, err error) (*providers.Response, error) {
	if err == nil && resp == nil {
		err = providers.Check(nil)
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}
