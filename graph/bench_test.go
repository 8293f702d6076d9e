package graph_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/retrypolicy"
)

// hundredNodes builds a graph of 100 nodes: 20 times a router that fans out or goes on, a task, an edge and a join.
func hundredNodes() *builder {
	b := newBuilder("hundred")
	first := b.Node("first", work)
	b.Start(first)
	last := first
	for i := range 20 {
		plan := b.Node(fmt.Sprintf("plan %d", i), work, graph.Retry(retrypolicy.Standard()))
		search := graph.Task(b, fmt.Sprintf("search %d", i), workOn)
		side := b.Func(fmt.Sprintf("side %d", i), plain)
		write := b.Node(fmt.Sprintf("write %d", i), work)
		b.Edge(last, plan)
		b.Edge(last, side)
		b.Route(plan, nowhere, search, write, graph.End)
		b.Join([]graph.Ref{search, side}, write)
		if i < 19 {
			last = b.Node(fmt.Sprintf("done %d", i), work)
			b.Edge(write, last)
		}
	}
	return b
}

// The target is at most 100 us. The floor is the least that a hand-written check of names and paths does.
func BenchmarkCompile100(b *testing.B) {
	b.Run("pawl", func(b *testing.B) {
		builder := hundredNodes()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := builder.Compile(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("floor", func(b *testing.B) {
		names := make([]string, 100)
		next := make([][]int, len(names))
		for i := range names {
			names[i] = fmt.Sprintf("node %d", i)
			if i > 0 {
				next[i-1] = []int{i}
			}
		}
		b.ReportAllocs()
		for b.Loop() {
			seen, reached := make(map[string]bool, len(names)), make([]bool, len(names))
			for _, name := range names {
				if seen[name] {
					b.Fatal(name)
				}
				seen[name] = true
			}
			for queue := []int{0}; len(queue) > 0; queue = queue[1:] {
				reached[queue[0]] = true
				queue = append(queue, next[queue[0]]...)
			}
			if slices.Contains(reached, false) {
				b.Fatal("unreachable")
			}
		}
	})
}

func BenchmarkBuildAndCompile100(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := hundredNodes().Compile(); err != nil {
			b.Fatal(err)
		}
	}
}

// A typical update sets some of its fields: here two of four, every time on the same state.
func BenchmarkMergeUpdate(b *testing.B) {
	state := State{Notes: make([]string, 0, 1), Score: 1}
	writes := []graph.Write[Update]{{Node: "n", Index: -1, Update: Update{Draft: "draft", Score: new(0.5)}}}
	run := func(b *testing.B, r graph.Reducer[State, Update]) {
		b.Helper()
		plan := planOf(b, r)
		s := state
		b.ReportAllocs()
		for b.Loop() {
			if err := plan.Reduce(&s, writes); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("Fields", func(b *testing.B) { run(b, graph.Fields[State, Update]()) })
	b.Run("by hand", func(b *testing.B) {
		run(b, graph.Reduce(func(s State, u Update) State {
			if u.Queries != nil {
				s.Queries = u.Queries
			}
			s.Notes = append(s.Notes, u.Notes...)
			if u.Draft != "" {
				s.Draft = u.Draft
			}
			if u.Score != nil {
				s.Score = max(s.Score, *u.Score)
			}
			return s
		}))
	})
}

// The cost a step is the same at 10 as at 10,000 elements: one append, and the state handed out. The state starts anew
// every 1,000 steps, since it grows.
func BenchmarkAppendStep(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint("at ", n), func(b *testing.B) {
			var step func() int
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%1_000 == 0 {
					b.StopTimer()
					step = appendStep(b, n)
					for range 3 {
						step() // the first one copies, since the state is full
					}
					b.StartTimer()
				}
				step()
			}
		})
	}
}

func BenchmarkMermaid100(b *testing.B) {
	g, err := hundredNodes().Compile()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		g.Mermaid()
	}
}
