package graph

import "slices"

// Graph is a compiled graph. It is immutable and safe for any number of concurrent runs.
type Graph[S, U any] struct {
	top      *topology
	plan     Plan[S, U]
	warnings []string
	// fingerprint is made once, when it is first asked for.
	fingerprint func() string
	// hidden is the graph without its types, as it is run inside others; made once, when it is first needed.
	hidden func() *Graph[any, any]
}

// Name is the name given to New.
func (g *Graph[S, U]) Name() string { return g.top.name }

// Fingerprint identifies what the graph is: the names, kinds, order and connections of its nodes, its subgraphs, its kind
// of reducer, and the fields, types and merge tags of its state and update. It is the same in every process built from the
// same source. It does not depend on timeouts, policies or the code inside functions, on the order in which nodes were
// connected, or on what the types of fields consist of. It is 64 characters of lower-case hex.
func (g *Graph[S, U]) Fingerprint() string { return g.fingerprint() }

// Has reports whether a handle is of a node of this graph, which End and the nodes of its subgraphs are not.
func (g *Graph[S, U]) Has(r Ref) bool {
	if r == nil || r.ref() == nil {
		return false
	}
	return r.ref().owner == g.plan.owner && r.ref().index >= 0 && r.ref().index < len(g.plan.Nodes)
}

// NodeNames lists the names of all nodes, those of subgraphs too, each once and in order.
func (g *Graph[S, U]) NodeNames() []string {
	names := g.top.nodeNames(nil)
	slices.Sort(names)
	return slices.Compact(names)
}

// Warnings lists what is legal but seldom meant, such as a policy that retries without any delay, also in subgraphs.
// Executors log it.
func (g *Graph[S, U]) Warnings() []string { return slices.Clone(g.warnings) }
