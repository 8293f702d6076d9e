package graph

import (
	"encoding/json"
	"slices"
	"sync"
)

// Compile checks the graph and returns it, or a *CompileError with every mistake. The builder may be used further; the
// graph does not change with it.
func (b *Builder[S, U]) Compile() (*Graph[S, U], error) {
	top := b.top.clone()
	c := checker{top: top}
	c.check()
	if b.reducer.apply == nil && len(b.reducer.list) == 0 {
		c.problem("reducer", "it is missing or has no function",
			"pass graph.Fields, graph.Replace, graph.Reduce or graph.Merge to graph.New")
	}
	if list := slices.Concat(b.list, b.reducer.list, c.list); len(list) > 0 {
		return nil, &CompileError{Graph: top.name, Problems: list}
	}
	kind := b.reducer.kind
	g := &Graph[S, U]{top: top, plan: b.plan(top), warnings: c.warnings}
	g.fingerprint = sync.OnceValue(func() string {
		return top.fingerprint([]string{kind, describeType[S](), describeType[U]()})
	})
	g.hidden = sync.OnceValue(func() *Graph[any, any] { return hideTypes(g) })
	return g, nil
}

// plan is the graph for an executor. It shares top's slices: neither changes.
func (b *Builder[S, U]) plan(top *topology) Plan[S, U] {
	p := Plan[S, U]{
		Nodes:  make([]PlanNode[S, U], len(top.nodes)),
		Start:  top.start,
		Reduce: b.reducer.apply,

		SafeReduce: b.reducer.safe,
		Clip:       clipper[S](),
		owner:      b.top, // handles point to the builder's, not to the copy

		DecodeState:  decode[S],
		DecodeUpdate: decode[U],
	}
	for i := range top.nodes {
		n := &p.Nodes[i]
		n.NodeConfig = top.nodes[i].config()
		n.Catch, n.Sub, n.Call = b.calls[i].catch, b.calls[i].sub, b.calls[i].call
		n.DecodeItems = b.calls[i].decodeItems
	}
	for i, r := range top.routers {
		n := &p.Nodes[r.from]
		n.Routers = append(n.Routers, PlanRouter[S]{Targets: r.targets, Route: b.routes[i]})
	}
	for i, j := range top.joins {
		p.Joins = append(p.Joins, PlanJoin{Sources: j.sources, Target: j.target})
		for _, s := range j.sources {
			p.Nodes[s].Joins = append(p.Nodes[s].Joins, i)
		}
	}
	return p
}

func decode[T any](data []byte) (v T, err error) {
	err = json.Unmarshal(data, &v)
	return v, err
}

func (n *nodeInfo) config() NodeConfig {
	return NodeConfig{
		Name:           n.name,
		Kind:           n.kind,
		Retry:          n.set.retry,
		Timeout:        orZero(n.set.timeout),
		MaxConcurrency: orZero(n.set.maxConcurrency),
		MaxSuperSteps:  orZero(n.set.maxSuperSteps),
		Deferred:       n.set.deferred,
		Edges:          withoutEnd(n.edges),
		Targets:        n.targets,
	}
}

func withoutEnd(nodes []int) []int {
	if i := slices.Index(nodes, endIndex); i >= 0 {
		return slices.Concat(nodes[:i], nodes[i+1:])
	}
	return nodes
}

// orZero is what p points to, zero where it points to nothing.
func orZero[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}
