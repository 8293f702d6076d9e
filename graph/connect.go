package graph

import (
	"context"
	"fmt"
	"slices"
)

// Start names the nodes of the first super-step.
func (b *Builder[S, U]) Start(nodes ...Node) {
	for _, n := range nodes {
		i, ok := b.resolve(func() string { return "start" }, n)
		switch {
		case ok && i == endIndex:
			b.problem("start", "End cannot be a start", "name a node that does something")
		case ok:
			b.top.start = appendNew(b.top.start, i)
		}
	}
}

// Edge makes to run after each super-step in which from has run. A node reached by several edges in one super-step runs
// once. An edge to End says no more than that nothing follows.
func (b *Builder[S, U]) Edge(from Ref, to Node) {
	where := func() string { return fmt.Sprintf("edge %s -> %s", label(from), label(to)) }
	f, ok := b.source(where, from)
	t := b.resolveAll(where, []Ref{to})
	if !ok {
		b.presume(t)
		return
	}
	n := &b.top.nodes[f]
	n.edges = appendNew(n.edges, t...)
}

// Route asks a router what runs after from. The router sees the state after the super-step, must be a pure function of
// it, and may name only the declared targets. A node may have several routers and edges besides; all of them count.
func (b *Builder[S, U]) Route(from Ref, router func(S) Next, targets ...Ref) {
	where := func() string { return "router of " + label(from) }
	if router == nil {
		b.problem(where(), "the router is nil", "pass a func(S) graph.Next")
	}
	if len(targets) == 0 {
		b.problem(where(), "no targets are declared", "list every node it may name, graph.End included")
	}
	f, ok := b.source(where, from)
	resolved := b.resolveAll(where, targets)
	if !ok {
		b.presume(resolved)
		return
	}
	b.top.routers = append(b.top.routers, routerInfo{from: f, targets: resolved})
	b.routes = append(b.routes, router)
}

// Targets declares which nodes a Goto node may name. Called again, it adds to them.
func (b *Builder[S, U]) Targets(node Node, targets ...Ref) {
	where := func() string { return "targets of " + label(node) }
	i, ok := b.source(where, node)
	resolved := b.resolveAll(where, targets)
	if ok && b.top.nodes[i].kind != KindGoto {
		b.problem(where(), "it is no Goto node", "add it with Goto, or route from it with Route")
		ok = false
	}
	if !ok {
		b.presume(resolved)
		return
	}
	info := &b.top.nodes[i]
	info.targeted = info.targeted || len(targets) > 0
	info.targets = appendNew(info.targets, resolved...)
}

// Join makes target run once all sources have run since the join last fired. The sources may run in different
// super-steps; a source that runs several times before the join fires counts once.
func (b *Builder[S, U]) Join(sources []Ref, target Node) {
	where := func() string { return "join of " + label(target) }
	t, ok := b.resolve(where, target)
	if ok && t == endIndex {
		b.problem(where(), "a join must activate a node", "drop it: a branch that ends needs no join")
		ok = false
	}
	from := make([]int, 0, len(sources))
	known := true
	for _, s := range sources {
		i, ok := b.source(where, s)
		known = known && ok
		from = append(from, i)
	}
	slices.Sort(from)
	from = slices.Compact(from)
	if known && len(from) < 2 {
		b.problem(where(), "it waits for fewer than two different nodes", "name another, or use Edge for one")
	}
	if !ok {
		return
	}
	if !known || len(from) < 2 {
		b.presume([]int{t})
		return
	}
	b.top.addJoin(joinInfo{sources: from, target: t})
}

// Catch sets what runs when a node has failed for good: after its attempts, with an error that errors.Is and errors.As
// see through. The handler's update counts as the node's, whose edges are then taken. A panic is a failure like any
// other; the end of the run is not, nor is a call that ended its goroutine. If the handler fails as well, its error
// wraps the first one. After the handler of a Goto, which names no targets, its edges and routers are followed. A Sub
// takes no handler: catch on the child's nodes, or run the child with a Runner of its own inside a Node, where what
// fails the whole child is an error like any other.
func (b *Builder[S, U]) Catch(node Node, handler func(context.Context, S, error) (U, error)) {
	b.catch(node, handler != nil, func(ctx context.Context, s S, _ Items, _ int, err error) (U, error) {
		return handler(ctx, s, err)
	})
}

// CatchTask is Catch for a task node; the handler is also given the item. A SubTask takes none.
func CatchTask[S, U, I any](b *Builder[S, U], node TaskNode[I], handler func(context.Context, S, I, error) (U, error)) {
	b.catch(node, handler != nil, func(ctx context.Context, s S, items Items, i int, err error) (U, error) {
		return handler(ctx, s, item[I](items, i), err)
	})
}

func (b *Builder[S, U]) catch(node Ref, given bool, handler func(context.Context, S, Items, int, error) (U, error)) {
	where := func() string { return "catch of " + label(node) }
	i, ok := b.source(where, node)
	if !ok {
		return
	}
	info := &b.top.nodes[i]
	switch {
	case !given:
		b.problem(where(), "the handler is nil", "pass a function")
	case info.kind.isSub():
		b.problem(where(), "a subgraph takes no Catch", "catch on the nodes of the subgraph")
	case info.catch:
		b.problem(where(), "the node has a handler already", "keep one of them")
	default:
		info.catch = true
		b.calls[i].catch = handler
	}
}

// presume notes that somebody meant to reach these nodes from a place that was refused, so that the one mistake is not
// reported twice.
func (b *Builder[S, U]) presume(nodes []int) { b.top.presumed = append(b.top.presumed, nodes...) }
