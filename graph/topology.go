package graph

import "slices"

// Kind says how a node is called.
type Kind string

// The kinds of nodes. The strings are part of a graph's fingerprint.
const (
	KindNode    Kind = "node"    // func(ctx, S) (U, error)
	KindFunc    Kind = "func"    // func(S) (U, error): cannot be cancelled
	KindGoto    Kind = "goto"    // func(ctx, S) (U, Next, error)
	KindTask    Kind = "task"    // func(ctx, S, I) (U, error): fanned out
	KindSub     Kind = "sub"     // a graph
	KindSubTask Kind = "subtask" // a graph, fanned out
)

// FannedOut reports whether nodes of the kind run once for each item they are sent.
func (k Kind) FannedOut() bool { return k == KindTask || k == KindSubTask }

func (k Kind) isSub() bool { return k == KindSub || k == KindSubTask }

// topology is all of a graph that does not depend on its types: what is checked, drawn and fingerprinted.
type topology struct {
	name    string
	nodes   []nodeInfo
	start   []int
	routers []routerInfo
	joins   []joinInfo
	// presumed are nodes that a refused edge, router or join leads to.
	presumed []int
}

type nodeInfo struct {
	name     string
	kind     Kind
	set      settings
	catch    bool
	edges    []int
	targets  []int    // of a Goto
	targeted bool     // Targets was called with some
	item     string   // type of the items of a fanned-out node
	hasCall  bool     // its function is given
	sub      *subInfo // of a Sub or SubTask
}

// subInfo is what is known of a subgraph.
type subInfo struct {
	missing     string // what the caller left out; all else is empty then
	top         *topology
	fingerprint string
	warnings    []string
}

type routerInfo struct {
	from    int
	targets []int
}

type joinInfo struct {
	sources []int // sorted
	target  int
}

// addJoin adds a join that is not there yet.
func (t *topology) addJoin(j joinInfo) {
	same := func(o joinInfo) bool { return o.target == j.target && slices.Equal(o.sources, j.sources) }
	if !slices.ContainsFunc(t.joins, same) {
		t.joins = append(t.joins, j)
	}
}

// nodeNames appends the names of the nodes, those of subgraphs too.
func (t *topology) nodeNames(names []string) []string {
	for i := range t.nodes {
		names = append(names, t.nodes[i].name)
		if sub := t.nodes[i].sub; sub != nil && sub.top != nil {
			names = sub.top.nodeNames(names)
		}
	}
	return names
}

// clone copies what a builder changes in place: its nodes. To all else it only appends, behind what the copy sees.
func (t *topology) clone() *topology {
	c := *t
	c.nodes = slices.Clone(t.nodes)
	return &c
}

// adjacency lists what each node can activate, and End where it can end a branch; a join counts as an edge from each of
// its sources.
func (t *topology) adjacency() [][]int {
	out := make([][]int, len(t.nodes))
	for i := range t.nodes {
		out[i] = append(slices.Clip(t.nodes[i].edges), t.nodes[i].targets...)
	}
	for _, r := range t.routers {
		out[r.from] = append(out[r.from], r.targets...)
	}
	for _, j := range t.joins {
		for _, s := range j.sources {
			out[s] = append(out[s], j.target)
		}
	}
	return out
}
