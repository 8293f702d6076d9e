package graph

// Graph is a compiled graph. It is immutable and safe for any number of concurrent runs.
type Graph[S, U any] struct {
	top         *topology
	plan        Plan[S, U]
	fingerprint string
	warnings    []string
}

// Name is the name given to New.
func (g *Graph[S, U]) Name() string { return g.top.name }

// Fingerprint identifies what the graph is: the names, kinds and edges of its nodes, and the fields, types and merge tags
// of its state and update. It is the same in every process built from the same source, and does not depend on timeouts,
// policies or the code inside functions. It is 64 characters of lower-case hex.
func (g *Graph[S, U]) Fingerprint() string { return g.fingerprint }

// Warnings lists what is legal but seldom meant, such as a policy that retries without any delay. Executors log it.
func (g *Graph[S, U]) Warnings() []string { return append([]string(nil), g.warnings...) }
