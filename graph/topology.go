package graph

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

// topology is all of a graph that does not depend on its types: what is checked, drawn and fingerprinted.
type topology struct {
	name    string
	nodes   []nodeInfo
	start   []int
	edges   []edge
	routers []routerInfo
	joins   []joinInfo
	// reducer and fields describe how updates meet.
	reducer string
	fields  []string
}

type nodeInfo struct {
	name     string
	kind     Kind
	set      settings
	catch    bool
	targets  []int     // of a Goto
	sub      *topology // of a Sub or SubTask
	item     string    // type of the items of a fanned-out node
	hasCall  bool
	targeted bool // Targets was called
}

type edge struct{ from, to int }

type routerInfo struct {
	from    int
	targets []int
}

type joinInfo struct {
	sources []int
	target  int
}

// adjacency lists what each node can activate, End left out; a join counts as an edge from each of its sources.
func (t *topology) adjacency() [][]int {
	out := make([][]int, len(t.nodes))
	add := func(from int, targets ...int) {
		for _, to := range targets {
			if to != endIndex {
				out[from] = append(out[from], to)
			}
		}
	}
	for _, e := range t.edges {
		add(e.from, e.to)
	}
	for _, r := range t.routers {
		add(r.from, r.targets...)
	}
	for _, j := range t.joins {
		for _, s := range j.sources {
			add(s, j.target)
		}
	}
	for i, n := range t.nodes {
		add(i, n.targets...)
	}
	return out
}

// targetName is the name of the node at index i, or End's.
func (t *topology) targetName(i int) string {
	if i == endIndex {
		return End.r.name
	}
	return t.nodes[i].name
}
