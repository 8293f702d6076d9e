// Package graph says what a graph is: function nodes over one state type, the edges between them, and how their updates
// meet. It runs nothing; package superstep does.
//
//	b := graph.New("draft", graph.Fields[State, Update]())
//	write := b.Node("write", writeFn, graph.Retry(policy))
//	review := b.Node("review", reviewFn)
//	b.Start(write)
//	b.Edge(write, review)
//	b.Route(review, func(s State) graph.Next {
//		if s.Score < 0.8 {
//			return graph.To(write)
//		}
//		return graph.To(graph.End)
//	}, write, graph.End)
//	g, err := b.Compile() // every mistake at once, each with its remedy
//	fmt.Println(g.Mermaid())
//
// A node reads a snapshot of the state S and returns an update U; the Reducer folds updates into the state. Two types,
// because a node that returned its whole changed state would append what it had been given once more.
//
// Handles, not names, connect nodes: what one function returns is what the next one takes, and a handle that cannot be
// used in a place does not compile there.
package graph
