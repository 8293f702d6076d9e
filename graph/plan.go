package graph

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/retrypolicy"
)

// Plan is for executors: a compiled graph as they read it. Nodes are given by their index in Nodes, End as a negative one. It
// belongs to the graph and must not be modified.
type Plan[S, U any] struct {
	Nodes []PlanNode[S, U]
	Start []int
	Joins []PlanJoin
	// Reduce folds the updates of one super-step, in task order, into *dst. It appends to dst's slices in place where they
	// have room, so dst is the executor's own, and what it hands out is clipped. On an error *dst is void.
	Reduce func(dst *S, writes []Write[U]) error
	// SafeReduce is true if Reduce calls no code of the user's, and so cannot panic.
	SafeReduce bool
	// Clip cuts the capacity of every slice that the state holds, in nested structs and arrays too, down to its length, so
	// that a holder of the copy can append to it without touching what others see. What is behind a pointer, map or
	// interface, or in an element of a slice, is shared by all copies.
	Clip func(*S)
	// DecodeState and DecodeUpdate read what encoding/json has written of a state and an update. Where the types are hidden,
	// as in a subgraph, nothing else could.
	DecodeState  func(data []byte) (S, error)
	DecodeUpdate func(data []byte) (U, error)

	owner *topology
}

// NodeConfig is what a plan says of a node apart from its functions.
type NodeConfig struct {
	Name string
	Kind Kind
	// Retry is nil where the executor's default applies.
	Retry          *retrypolicy.WorkflowNodeRetryPolicy
	Timeout        time.Duration // 0: none
	MaxConcurrency int           // 0: no limit
	MaxSuperSteps  int           // of a subgraph; 0: the executor's
	Deferred       bool
	// Edges are the nodes that always follow, Targets those that a Goto may name, Joins the joins that wait for the node
	// (indexes in Plan.Joins).
	Edges, Targets, Joins []int
}

// PlanNode is one node of a plan. It has either a Call or a Sub.
type PlanNode[S, U any] struct {
	NodeConfig
	// Call runs the node on item i of items, which are nil unless the node is fanned out. A Goto leaves in *next what it
	// names; no other node touches it.
	Call func(ctx context.Context, s S, items Items, i int, next *Next) (U, error)
	// Catch runs when the node has failed for good; nil if it has no handler.
	Catch   func(ctx context.Context, s S, items Items, i int, err error) (U, error)
	Sub     *Subgraph[S, U]
	Routers []PlanRouter[S]
	// DecodeItems reads what encoding/json has written of the items sent to the node; nil for a node that is not fanned out.
	DecodeItems func(data []byte) (Items, error)
}

// PlanRouter is a router with the targets it may name.
type PlanRouter[S any] struct {
	Targets []int
	Route   func(S) Next
}

// PlanJoin is a join.
type PlanJoin struct {
	Sources []int
	Target  int
}

// Plan returns the graph as an executor reads it.
func (g *Graph[S, U]) Plan() *Plan[S, U] { return &g.plan }

// Index returns the index of a target, negative for End. It is false for a node that is not of this graph.
func (p *Plan[S, U]) Index(t Target) (int, bool) {
	switch {
	case t.ref == nil:
		return 0, false
	case t.ref.index == endIndex:
		return endIndex, true
	case t.ref.owner != p.owner || t.ref.index >= len(p.Nodes):
		return 0, false
	}
	return t.ref.index, true
}

// Target is the reverse of Index, with the items that are sent to a node that is fanned out; a negative index is End.
func (p *Plan[S, U]) Target(node int, items Items) Target {
	if node < 0 {
		return Target{ref: End.r}
	}
	return Target{ref: &nodeRef{owner: p.owner, name: p.Nodes[node].Name, index: node}, Items: items}
}

// NextOf is a Next that names the targets, in this order.
func NextOf(targets ...Target) Next {
	var next Next
	for _, t := range targets {
		next = next.and(t)
	}
	return next
}
