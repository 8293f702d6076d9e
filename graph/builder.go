package graph

import (
	"context"
	"fmt"
)

// Builder collects the nodes and edges of a graph. Make one with New. Mistakes are kept for Compile, which reports all of
// them, so no call needs a check of its own. A Builder is not safe for concurrent use.
type Builder[S, U any] struct {
	problems

	top     *topology
	reducer Reducer[S, U]
	calls   []nodeCalls[S, U] // beside top.nodes
	routes  []func(S) Next    // beside top.routers
}

// nodeCalls are the functions of one node.
type nodeCalls[S, U any] struct {
	call  func(ctx context.Context, s S, items Items, i int, next *Next) (U, error)
	catch func(ctx context.Context, s S, items Items, i int, err error) (U, error)
	sub   *Subgraph[S, U]
	// decodeItems is nil unless the node is fanned out.
	decodeItems func([]byte) (Items, error)
}

// New returns an empty graph of the given name over the state S, whose nodes return updates U.
func New[S, U any](name string, reducer Reducer[S, U]) *Builder[S, U] {
	return &Builder[S, U]{top: &topology{name: name}, reducer: reducer}
}

// Node adds a function node. The context ends with the attempt; a function that ignores it is abandoned.
func (b *Builder[S, U]) Node(name string, fn func(context.Context, S) (U, error), opts ...Option) Node {
	return Node{b.add(nodeInfo{name: name, kind: KindNode, hasCall: fn != nil}, opts, nodeCalls[S, U]{
		call: func(ctx context.Context, s S, _ Items, _ int, _ *Next) (U, error) {
			return fn(ctx, s)
		},
	})}
}

// Func adds a node whose function takes no context and so cannot be cancelled. Compile refuses it a timeout together
// with retries.
func (b *Builder[S, U]) Func(name string, fn func(S) (U, error), opts ...Option) Node {
	return Node{b.add(nodeInfo{name: name, kind: KindFunc, hasCall: fn != nil}, opts, nodeCalls[S, U]{
		call: func(_ context.Context, s S, _ Items, _ int, _ *Next) (U, error) {
			return fn(s)
		},
	})}
}

// Goto adds a node that also says what runs next, among the targets that Targets declares for it. What it names comes on
// top of its edges and routers.
func (b *Builder[S, U]) Goto(name string, fn func(context.Context, S) (U, Next, error), opts ...Option) Node {
	return Node{b.add(nodeInfo{name: name, kind: KindGoto, hasCall: fn != nil}, opts, nodeCalls[S, U]{
		call: func(ctx context.Context, s S, _ Items, _ int, next *Next) (u U, err error) {
			u, *next, err = fn(ctx, s)
			return u, err
		},
	})}
}

// Task adds a node that runs once for each item it is sent with TaskNode.Each. (A function and not a method, since a
// method cannot have a type parameter of its own.)
func Task[S, U, I any](b *Builder[S, U], name string, fn func(context.Context, S, I) (U, error), opts ...Option) TaskNode[I] {
	info := nodeInfo{name: name, kind: KindTask, hasCall: fn != nil, item: typeName[I]()}
	return TaskNode[I]{r: b.add(info, opts, nodeCalls[S, U]{
		call: func(ctx context.Context, s S, items Items, i int, _ *Next) (U, error) {
			return fn(ctx, s, item[I](items, i))
		},
		decodeItems: decodeItems[I],
	})}
}

func (b *Builder[S, U]) add(info nodeInfo, opts []Option, calls nodeCalls[S, U]) *nodeRef {
	for _, o := range opts {
		if o == nil {
			b.problem(fmt.Sprintf("node %q", info.name), "an option is nil", "drop it")
			continue
		}
		o(&info.set)
	}
	b.top.nodes = append(b.top.nodes, info)
	b.calls = append(b.calls, calls)
	return &nodeRef{owner: b.top, name: info.name, index: len(b.top.nodes) - 1}
}
