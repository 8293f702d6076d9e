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

	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/task"
)

// ChatOption sets something of a Chat or ChatTask.
type ChatOption func(*chatOptions)

type chatOptions struct{ plain bool }

// Plain makes a plain call in place of a streamed one, for endpoints that cannot stream: no token events.
func Plain() ChatOption { return func(o *chatOptions) { o.plain = true } }

// Chat returns a node function that builds a request from the state, calls the provider once, and turns the answer into
// an update. The answer is streamed: each piece is a task.TokenDelta event. Only an answer that is a success reaches take;
// the provider's error is returned as it is. A nil argument gives a nil function, which Compile refuses.
//
// ask and take must be pure: they run again with every attempt.
func Chat[S, U any](p providers.Provider, ask func(S) providers.Request, take func(S, *providers.Response) (U, error), opts ...ChatOption) func(context.Context, S) (U, error) {
	if p == nil || ask == nil || take == nil {
		return nil
	}
	o := options(opts)
	return func(ctx context.Context, s S) (U, error) {
		resp, err := call(ctx, p, ask(s), o)
		if err != nil {
			var none U
			return none, err
		}
		return take(s, resp)
	}
}

// ChatTask is Chat for a task node: ask and take are also given the item.
func ChatTask[S, I, U any](p providers.Provider, ask func(S, I) providers.Request, take func(S, I, *providers.Response) (U, error), opts ...ChatOption) func(context.Context, S, I) (U, error) {
	if p == nil || ask == nil || take == nil {
		return nil
	}
	o := options(opts)
	return func(ctx context.Context, s S, item I) (U, error) {
		resp, err := call(ctx, p, ask(s, item), o)
		if err != nil {
			var none U
			return none, err
		}
		return take(s, item, resp)
	}
}

func options(opts []ChatOption) (o chatOptions) {
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// call makes the call, and shows the answer as it grows unless the call is plain.
func call(ctx context.Context, p providers.Provider, req providers.Request, o chatOptions) (*providers.Response, error) {
	if o.plain {
		return p.Chat(ctx, req)
	}
	var whole providers.Fold
	for d, err := range p.Stream(ctx, req) {
		if err != nil {
			return nil, err
		}
		whole.Add(d)
		for _, choice := range d.Choices {
			if choice.Delta.Content != "" {
				task.EmitToken(ctx, task.TokenDelta{Text: choice.Delta.Content, Choice: choice.Index, Provider: d.Provider})
			}
		}
	}
	return whole.Response(), nil
}
