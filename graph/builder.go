package graph

import (
	"context"
	"fmt"
	"slices"
)

// Builder collects the nodes and edges of a graph. Mistakes are kept for Compile, which reports all of them, so no call
// needs a check of its own. A Builder is not safe for concurrent use.
type Builder[S, U any] struct {
	top      *topology
	reducer  Reducer[S, U]
	calls    []nodeCalls[S, U]
	routes   []func(S) Next // beside top.routers
	problems []*Problem
}

// nodeCalls are the functions of one node.
type nodeCalls[S, U any] struct {
	call  func(ctx context.Context, s S, items Items, i int) (U, Next, error)
	catch func(ctx context.Context, s S, items Items, i int, err error) (U, error)
	sub   *Subgraph[S, U]
}

// New returns an empty graph of the given name over the state S, whose nodes return updates U.
func New[S, U any](name string, reducer Reducer[S, U]) *Builder[S, U] {
	return &Builder[S, U]{top: &topology{name: name}, reducer: reducer}
}

// Node adds a function node. The context ends with the attempt; a function that ignores it is abandoned.
func (b *Builder[S, U]) Node(name string, fn func(context.Context, S) (U, error), opts ...Option) Node {
	return Node{b.add(nodeInfo{name: name, kind: KindNode, hasCall: fn != nil}, opts, nodeCalls[S, U]{
		call: func(ctx context.Context, s S, _ Items, _ int) (U, Next, error) {
			u, err := fn(ctx, s)
			return u, Next{}, err
		},
	})}
}

// Func adds a node whose function takes no context and so cannot be cancelled. Compile refuses it a timeout together
// with retries.
func (b *Builder[S, U]) Func(name string, fn func(S) (U, error), opts ...Option) Node {
	return Node{b.add(nodeInfo{name: name, kind: KindFunc, hasCall: fn != nil}, opts, nodeCalls[S, U]{
		call: func(_ context.Context, s S, _ Items, _ int) (U, Next, error) {
			u, err := fn(s)
			return u, Next{}, err
		},
	})}
}

// Goto adds a node that also says what runs next, among the targets that Targets declares for it. What it names comes on
// top of its edges and routers.
func (b *Builder[S, U]) Goto(name string, fn func(context.Context, S) (U, Next, error), opts ...Option) Node {
	return Node{b.add(nodeInfo{name: name, kind: KindGoto, hasCall: fn != nil}, opts, nodeCalls[S, U]{
		call: func(ctx context.Context, s S, _ Items, _ int) (U, Next, error) { return fn(ctx, s) },
	})}
}

// Task adds a node that runs once for each item it is sent with TaskNode.Each. (A function and not a method, since a
// method cannot have a type parameter of its own.)
func Task[S, U, I any](b *Builder[S, U], name string, fn func(context.Context, S, I) (U, error), opts ...Option) TaskNode[I] {
	info := nodeInfo{name: name, kind: KindTask, hasCall: fn != nil, item: typeName[I]()}
	return TaskNode[I]{b.add(info, opts, nodeCalls[S, U]{
		call: func(ctx context.Context, s S, items Items, i int) (U, Next, error) {
			u, err := fn(ctx, s, item[I](items, i))
			return u, Next{}, err
		},
	})}
}

// Start names the nodes of the first super-step.
func (b *Builder[S, U]) Start(nodes ...Node) {
	for _, n := range nodes {
		if i, ok := b.resolve("start", n); ok {
			if i == endIndex {
				b.problem("start", "End cannot be a start", "name a node that does something")
				continue
			}
			b.top.start = append(b.top.start, i)
		}
	}
}

// Edge makes to run after each super-step in which from has run. A node reached by several edges in one super-step runs
// once.
func (b *Builder[S, U]) Edge(from Ref, to Node) {
	where := fmt.Sprintf("edge %s -> %s", label(from), label(to))
	f, okFrom := b.source(where, from)
	t, okTo := b.resolve(where, to)
	if okFrom && okTo {
		b.top.edges = append(b.top.edges, edge{f, t})
	}
}

// Route asks a router what runs after from. The router sees the state after the super-step, must be a pure function of
// it, and may name only the declared targets. A node may have several routers and edges besides; all of them count.
func (b *Builder[S, U]) Route(from Ref, router func(S) Next, targets ...Ref) {
	where := "router of " + label(from)
	if router == nil {
		b.problem(where, "the router is nil", "pass a func(S) graph.Next")
	}
	if len(targets) == 0 {
		b.problem(where, "no targets are declared", "list every node it may name, graph.End included")
	}
	f, ok := b.source(where, from)
	resolved := b.resolveAll(where, targets)
	if ok {
		b.top.routers = append(b.top.routers, routerInfo{from: f, targets: resolved})
		b.routes = append(b.routes, router)
	}
}

// Targets declares which nodes a Goto node may name.
func (b *Builder[S, U]) Targets(node Node, targets ...Ref) {
	where := "targets of " + label(node)
	i, ok := b.source(where, node)
	resolved := b.resolveAll(where, targets)
	if !ok {
		return
	}
	info := &b.top.nodes[i]
	if info.kind != KindGoto {
		b.problem(where, "it is no Goto node", "add it with Goto, or route from it with Route")
		return
	}
	info.targeted = len(targets) > 0
	info.targets = append(info.targets, resolved...)
}

// Join makes target run once all sources have run since the join last fired. The sources may run in different
// super-steps; a source that runs several times before the join fires counts once.
func (b *Builder[S, U]) Join(sources []Ref, target Node) {
	where := "join of " + label(target)
	var ids []int
	for _, s := range sources {
		if i, ok := b.source(where, s); ok {
			ids = append(ids, i)
		}
	}
	t, ok := b.resolve(where, target)
	if len(ids) < len(sources) || !ok {
		return
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	switch {
	case t == endIndex:
		b.problem(where, "a join must activate a node", "a branch that ends needs no join")
	case len(ids) < 2:
		b.problem(where, fmt.Sprintf("it has %d source", len(ids)), "a join waits for at least two different nodes; use Edge for one")
	default:
		b.top.joins = append(b.top.joins, joinInfo{sources: ids, target: t})
	}
}

// Catch sets what runs when a node has failed for good: after its attempts, with an error that errors.Is and errors.As
// see through. The handler's update counts as the node's, whose edges are then taken. A panic is a failure like any
// other; the end of the run is not. If the handler fails as well, its error wraps the first one.
func (b *Builder[S, U]) Catch(node Node, handler func(context.Context, S, error) (U, error)) {
	b.catch(node, handler != nil, func(ctx context.Context, s S, _ Items, _ int, err error) (U, error) {
		return handler(ctx, s, err)
	})
}

// CatchTask is Catch for a task node; the handler is also given the item.
func CatchTask[S, U, I any](b *Builder[S, U], node TaskNode[I], handler func(context.Context, S, I, error) (U, error)) {
	b.catch(node, handler != nil, func(ctx context.Context, s S, items Items, i int, err error) (U, error) {
		return handler(ctx, s, item[I](items, i), err)
	})
}

func (b *Builder[S, U]) catch(node Ref, given bool, handler func(context.Context, S, Items, int, error) (U, error)) {
	where := "catch of " + label(node)
	i, ok := b.source(where, node)
	if !ok {
		return
	}
	info := &b.top.nodes[i]
	switch {
	case !given:
		b.problem(where, "the handler is nil", "pass a function")
	case info.kind == KindSub || info.kind == KindSubTask:
		b.problem(where, "a subgraph takes no Catch", "catch on the nodes of the subgraph")
	case info.catch:
		b.problem(where, "the node has a handler already", "keep one of them")
	default:
		info.catch = true
		b.calls[i].catch = handler
	}
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

// source resolves a handle that something starts from, which End cannot be.
func (b *Builder[S, U]) source(where string, r Ref) (int, bool) {
	i, ok := b.resolve(where, r)
	if ok && i == endIndex {
		b.problem(where, "nothing can follow End", "name the node that comes before")
		return 0, false
	}
	return i, ok
}

func (b *Builder[S, U]) resolveAll(where string, refs []Ref) []int {
	var out []int
	for _, r := range refs {
		if i, ok := b.resolve(where, r); ok && !slices.Contains(out, i) {
			out = append(out, i)
		}
	}
	return out
}

func (b *Builder[S, U]) resolve(where string, r Ref) (int, bool) {
	if r == nil || r.ref() == nil {
		b.problem(where, "a handle is the zero Node", "use the handle that Node, Task, Goto, Func, Sub or SubTask returned")
		return 0, false
	}
	ref := r.ref()
	if ref.index != endIndex && ref.owner != b.top {
		b.problem(where, fmt.Sprintf("node %q belongs to another builder (graph %q)", ref.name, ref.owner.name),
			"add the node to this builder, or use graph.Sub for a whole graph")
		return 0, false
	}
	return ref.index, true
}

func (b *Builder[S, U]) problem(where, what, remedy string) {
	b.problems = append(b.problems, &Problem{Where: where, What: what, Remedy: remedy})
}

// label names a handle in messages.
func label(r Ref) string {
	switch {
	case r == nil || r.ref() == nil:
		return "a zero Node"
	case r.ref().index == endIndex:
		return "End"
	}
	return fmt.Sprintf("%q", r.ref().name)
}

// item returns the i-th of the items; the handle that made them has seen to their type.
func item[I any](items Items, i int) I { return items.(itemsOf[I])[i] }
