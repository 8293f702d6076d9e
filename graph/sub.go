package graph

import "context"

// Subgraph is a graph that is a node of another: what an executor needs to run it.
type Subgraph[S, U any] struct {
	// Child is the graph, with its types hidden: its state is a boxed S2 and its updates are boxed U2.
	Child *Graph[any, any]
	// In makes the child's first state, Out the node's update of the child's last state.
	In  func(s S, items Items, i int) any
	Out func(state any) U
}

// Sub adds a graph as a node. Each time it runs, the child starts from in(S); nothing crosses the border but in and out.
// It counts as one super-step of this graph and has a limit of its own. Retry, Timeout and Catch belong to its nodes:
// Compile refuses them here.
func Sub[S, U, S2, U2 any](
	b *Builder[S, U], name string, child *Graph[S2, U2], in func(S) S2, out func(S2) U, opts ...Option,
) Node {
	var into func(S, Items, int) any
	if in != nil {
		into = func(s S, _ Items, _ int) any { return in(s) }
	}
	return Node{addSub(b, nodeInfo{name: name, kind: KindSub}, child, into, out, opts, nil)}
}

// SubTask adds a graph that runs once for each item it is sent, like Task, each time on a state of its own. Like Sub, it
// takes no Retry, Timeout or Catch.
func SubTask[S, U, I, S2, U2 any](
	b *Builder[S, U], name string, child *Graph[S2, U2], in func(S, I) S2, out func(S2) U, opts ...Option,
) TaskNode[I] {
	var into func(S, Items, int) any
	if in != nil {
		into = func(s S, items Items, i int) any { return in(s, item[I](items, i)) }
	}
	return TaskNode[I]{r: addSub(b, nodeInfo{name: name, kind: KindSubTask, item: typeName[I]()}, child, into, out, opts,
		decodeItems[I])}
}

func addSub[S, U, S2, U2 any](
	b *Builder[S, U], info nodeInfo, child *Graph[S2, U2], in func(S, Items, int) any, out func(S2) U, opts []Option,
	items func([]byte) (Items, error),
) *nodeRef {
	calls := nodeCalls[S, U]{decodeItems: items}
	info.sub = &subInfo{}
	switch {
	case child == nil:
		info.sub.missing = "the child graph"
	case in == nil:
		info.sub.missing = "the in function"
	case out == nil:
		info.sub.missing = "the out function"
	default:
		info.sub = &subInfo{top: child.top, fingerprint: child.fingerprint(), warnings: child.warnings}
		calls.sub = &Subgraph[S, U]{
			Child: child.hidden(),
			In:    in,
			Out:   func(state any) U { return out(unbox[S2](state)) },
		}
	}
	return b.add(info, opts, calls)
}

// hideTypes returns g over boxed states and updates. An executor is generic over S and U, but it cannot learn the types of
// a subgraph from the graph it runs; so every subgraph is run as a Graph[any, any], at the price of boxing its values.
func hideTypes[S, U any](g *Graph[S, U]) *Graph[any, any] {
	plan := Plan[any, any]{
		owner: g.plan.owner,
		Start: g.plan.Start,
		Joins: g.plan.Joins,
		Nodes: make([]PlanNode[any, any], len(g.plan.Nodes)),
		Reduce: func(dst *any, writes []Write[any]) error {
			typed := make([]Write[U], len(writes))
			for i, w := range writes {
				typed[i] = Write[U]{Node: w.Node, Index: w.Index, Update: unbox[U](w.Update)}
			}
			s := unbox[S](*dst)
			err := g.plan.Reduce(&s, typed)
			*dst = s
			return err
		},
		SafeReduce: g.plan.SafeReduce,
		Clip: func(dst *any) {
			s := unbox[S](*dst)
			g.plan.Clip(&s)
			*dst = s
		},
		DecodeState:  boxed(g.plan.DecodeState),
		DecodeUpdate: boxed(g.plan.DecodeUpdate),
	}
	for i := range g.plan.Nodes {
		plan.Nodes[i] = hideNodeTypes(&g.plan.Nodes[i])
	}
	return &Graph[any, any]{top: g.top, plan: plan, fingerprint: g.fingerprint, warnings: g.warnings}
}

func hideNodeTypes[S, U any](n *PlanNode[S, U]) PlanNode[any, any] {
	hidden := PlanNode[any, any]{NodeConfig: n.NodeConfig, DecodeItems: n.DecodeItems}
	if call := n.Call; call != nil {
		hidden.Call = func(ctx context.Context, s any, items Items, i int, next *Next) (any, error) {
			return call(ctx, unbox[S](s), items, i, next)
		}
	}
	if catch := n.Catch; catch != nil {
		hidden.Catch = func(ctx context.Context, s any, items Items, i int, err error) (any, error) {
			return catch(ctx, unbox[S](s), items, i, err)
		}
	}
	if sub := n.Sub; sub != nil {
		hidden.Sub = &Subgraph[any, any]{
			Child: sub.Child,
			In:    func(s any, items Items, i int) any { return sub.In(unbox[S](s), items, i) },
			Out:   func(state any) any { return sub.Out(state) },
		}
	}
	for _, r := range n.Routers {
		hidden.Routers = append(hidden.Routers, PlanRouter[any]{
			Targets: r.Targets,
			Route:   func(s any) Next { return r.Route(unbox[S](s)) },
		})
	}
	return hidden
}

func boxed[T any](decode func([]byte) (T, error)) func([]byte) (any, error) {
	return func(data []byte) (any, error) { return decode(data) }
}

// unbox undoes boxing. A nil box is the zero value: an update that was never set, or a value of an interface type.
func unbox[T any](v any) T {
	if v == nil {
		return *new(T)
	}
	return v.(T) //nolint:forcetypeassert // only hideTypes boxes, and it knows the type
}
