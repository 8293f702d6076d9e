package graph_test

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/retrypolicy"
)

// drawn is a small graph to draw.
func drawn() *graph.Graph[lines, said] {
	policy := retrypolicy.WorkflowNodeRetryPolicy{
		MaxAttempts: 3, InitialDelay: time.Second, BackoffMultiplier: 2, MaxDelay: 30 * time.Second,
	}
	b := graph.New("research", graph.Fields[lines, said]())
	plan := b.Func("plan", says("plan"))
	search := graph.Task(b, "search", func(context.Context, lines, string) (said, error) { return said{}, nil }, graph.Retry(policy))
	write := b.Func("write", says("write"))
	b.Start(plan)
	b.Route(plan, func(s lines) graph.Next { return search.Each(s.Lines) }, search, graph.End)
	b.Edge(search, write)
	g, err := b.Compile()
	if err != nil {
		panic(err)
	}
	return g
}

func ExampleGraph_Mermaid() {
	fmt.Print(drawn().Mermaid())
	// Output:
	// ---
	// title: "research"
	// ---
	// flowchart TD
	//     nstart(["Start"])
	//     n0["plan"]
	//     n1[["search<br/>retry x3, 1s x2, cap 30s"]]
	//     n2["write"]
	//     nend(["End"])
	//     nstart --> n0
	//     n0 -. "each" .-> n1
	//     n0 -.-> nend
	//     n1 --> n2
	//     n2 --> nend
}

func ExampleGraph_DOT() {
	fmt.Print(drawn().DOT())
	// Output:
	// digraph {
	//     label="research"
	//     labelloc=t
	//     fontname="Helvetica"
	//     node [shape=box, style=rounded, fontname="Helvetica"]
	//     edge [fontname="Helvetica"]
	//     nstart [label="Start", shape=circle]
	//     n0 [label="plan"]
	//     n1 [label="search\nretry x3, 1s x2, cap 30s", peripheries=2]
	//     n2 [label="write"]
	//     nend [label="End", shape=doublecircle]
	//     nstart -> n0
	//     n0 -> n1 [style=dashed, label="each"]
	//     n0 -> nend [style=dashed]
	//     n1 -> n2
	//     n2 -> nend
	// }
}
