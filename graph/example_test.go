package graph_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/superstep"
)

// run compiles and runs a graph, as every example that runs one does.
func run[S, U any](b *graph.Builder[S, U], in S) S {
	g, err := b.Compile()
	if err != nil {
		panic(err)
	}
	r, err := superstep.NewRunner(g, superstep.Config{})
	if err != nil {
		panic(err)
	}
	result, err := r.Run(context.Background(), in)
	if err != nil {
		fmt.Println("error:", err)
	}
	return result.State
}

// A draft is written and reviewed until it is good enough.
func Example() {
	type State struct {
		Draft string
		Score int
	}
	type Update struct {
		Draft string
		Score int `merge:"sum"`
	}
	b := graph.New("draft", graph.Fields[State, Update]())
	write := b.Node("write", func(_ context.Context, s State) (Update, error) {
		return Update{Draft: s.Draft + "x"}, nil
	})
	review := b.Node("review", func(_ context.Context, _ State) (Update, error) {
		return Update{Score: 4}, nil
	})
	b.Start(write)
	b.Edge(write, review)
	b.Route(review, func(s State) graph.Next {
		if s.Score < 10 {
			return graph.To(write)
		}
		return graph.To(graph.End)
	}, write, graph.End)

	fmt.Printf("%+v\n", run(b, State{}))
	// Output: {Draft:xxx Score:12}
}

// How the updates of two nodes of one super-step meet is said by tags.
func ExampleFields() {
	type State struct {
		Title string
		Notes []string
		Tags  []string
		Best  float64
		Calls int
	}
	type Update struct {
		Title string
		Notes []string `merge:"append"`
		Tags  []string `merge:"union"`
		Best  *float64 `merge:"max"` // a pointer can set a zero
		Calls int      `merge:"sum"`
	}
	b := graph.New("tags", graph.Fields[State, Update]())
	b.Start(
		b.Func("a", func(State) (Update, error) {
			return Update{Title: "Tides", Notes: []string{"high"}, Tags: []string{"sea"}, Best: new(0.0), Calls: 1}, nil
		}),
		b.Func("b", func(State) (Update, error) {
			return Update{Notes: []string{"low"}, Tags: []string{"moon", "sea"}, Best: new(-2.0), Calls: 1}, nil
		}))

	fmt.Printf("%+v\n", run(b, State{Notes: []string{"first"}, Best: -1}))
	// Output: {Title:Tides Notes:[first high low] Tags:[sea moon] Best:0 Calls:2}
}

// A field that only grows is replaced through another one.
func ExampleFields_set() {
	type State struct{ Messages []string }
	type Update struct {
		Messages []string  `merge:"append"`
		Replace  *[]string `merge:"set:Messages"`
	}
	b := graph.New("compact", graph.Fields[State, Update]())
	summarise := b.Func("summarise", func(s State) (Update, error) {
		return Update{Replace: &[]string{fmt.Sprintf("summary of %d messages", len(s.Messages))}, Messages: []string{"go on"}}, nil
	})
	b.Start(summarise)

	fmt.Printf("%q\n", run(b, State{Messages: []string{"a", "b", "c"}}).Messages)
	// Output: ["summary of 3 messages" "go on"]
}

// Two nodes of one super-step may not set the same field, unless its tag says how.
func ExampleConflictError() {
	type State struct{ Draft string }
	b := graph.New("conflict", graph.Fields[State, State]())
	b.Start(
		b.Func("a", func(State) (State, error) { return State{"mine"}, nil }),
		b.Func("b", func(State) (State, error) { return State{"no, mine"}, nil }))
	g, err := b.Compile()
	if err != nil {
		panic(err)
	}
	r, err := superstep.NewRunner(g, superstep.Config{})
	if err != nil {
		panic(err)
	}
	_, err = r.Run(context.Background(), State{})
	if conflict, ok := errors.AsType[*graph.ConflictError](err); ok {
		fmt.Println(conflict.Field, conflict.Nodes)
	}
	// Output: Draft [a b]
}

func ExampleReduce() {
	b := graph.New("sum", graph.Reduce(func(total, n int) int { return total + n }))
	b.Start(
		b.Func("one", func(int) (int, error) { return 1, nil }),
		b.Func("two", func(int) (int, error) { return 2, nil }))

	fmt.Println(run(b, 10))
	// Output: 13
}

// Merge sees all updates of a super-step together, here to take a vote.
func ExampleMerge() {
	b := graph.New("vote", graph.Merge(func(_ string, votes []graph.Write[string]) (string, error) {
		count := map[string]int{}
		for _, v := range votes {
			count[v.Update]++
			if count[v.Update] > len(votes)/2 {
				return v.Update, nil
			}
		}
		return "", errors.New("no majority")
	}))
	vote := func(answer string) func(string) (string, error) {
		return func(string) (string, error) { return answer, nil }
	}
	b.Start(b.Func("a", vote("yes")), b.Func("b", vote("no")), b.Func("c", vote("yes")))

	fmt.Println(run(b, ""))
	// Output: yes
}

func ExampleReplace() {
	b := graph.New("replace", graph.Replace[int]())
	double := b.Func("double", func(n int) (int, error) { return 2 * n, nil })
	b.Start(double)
	b.Route(double, func(n int) graph.Next {
		if n < 100 {
			return graph.To(double)
		}
		return graph.To()
	}, double)

	fmt.Println(run(b, 3))
	// Output: 192
}

// lines is the state of the examples below: what nodes have said, in order.
type lines struct{ Lines []string }

type said struct {
	Lines []string `merge:"append"`
}

// says returns a node that adds a line.
func says(line string) func(lines) (said, error) {
	return func(lines) (said, error) { return said{[]string{line}}, nil }
}

// A router sees the merged state and names what runs next.
func ExampleBuilder_Route() {
	b := graph.New("route", graph.Fields[lines, said]())
	first, short, long := b.Func("first", says("hi")), b.Func("short", says("short")), b.Func("long", says("long"))
	b.Start(first)
	b.Route(first, func(s lines) graph.Next {
		if len(s.Lines[0]) > 10 {
			return graph.To(long)
		}
		return graph.To(short)
	}, short, long)

	fmt.Println(run(b, lines{}).Lines)
	// Output: [hi short]
}

// A fan-out runs a node once for each item; updates meet in the order of the items.
func ExampleTaskNode_Each() {
	b := graph.New("fan-out", graph.Fields[lines, said]())
	plan := b.Func("plan", says("plan"))
	search := graph.Task(b, "search", func(_ context.Context, _ lines, query string) (said, error) {
		return said{[]string{"found " + query}}, nil
	}, graph.MaxConcurrency(2))
	b.Start(plan)
	b.Route(plan, func(lines) graph.Next { return search.Each([]string{"tides", "moon", "sun"}) }, search)
	b.Edge(search, b.Func("write", says("done"))) // runs once, after all of them

	fmt.Printf("%q\n", run(b, lines{}).Lines)
	// Output: ["plan" "found tides" "found moon" "found sun" "done"]
}

// An answer may name several targets.
func ExampleAll() {
	b := graph.New("all", graph.Fields[lines, said]())
	plan, log := b.Func("plan", says("plan")), b.Func("log", says("log"))
	search := graph.Task(b, "search", func(_ context.Context, _ lines, n int) (said, error) {
		return said{[]string{fmt.Sprint("search ", n)}}, nil
	})
	b.Start(plan)
	b.Route(plan, func(lines) graph.Next { return graph.All(search.Each([]int{1, 2}), graph.To(log)) }, search, log)

	fmt.Printf("%q\n", run(b, lines{}).Lines)
	// Output: ["plan" "log" "search 1" "search 2"]
}

// A join waits for branches of different lengths.
func ExampleBuilder_Join() {
	b := graph.New("join", graph.Fields[lines, said]())
	short, long, longer := b.Func("short", says("short")), b.Func("long", says("long")), b.Func("longer", says("longer"))
	b.Start(short, long)
	b.Edge(long, longer)
	b.Join([]graph.Ref{short, longer}, b.Func("last", says("last")))

	fmt.Println(run(b, lines{}).Lines)
	// Output: [short long longer last]
}

// A Goto node says itself where to go, so that two of them can hand over to each other.
func ExampleBuilder_Goto() {
	b := graph.New("hand over", graph.Fields[lines, said]())
	var coder graph.Node
	planner := b.Goto("planner", func(_ context.Context, s lines) (said, graph.Next, error) {
		if len(s.Lines) > 2 {
			return said{[]string{"planner: good"}}, graph.To(graph.End), nil
		}
		return said{[]string{"planner: code it"}}, graph.To(coder), nil
	})
	coder = b.Goto("coder", func(context.Context, lines) (said, graph.Next, error) {
		return said{[]string{"coder: look"}}, graph.To(planner), nil
	})
	b.Targets(planner, coder, graph.End)
	b.Targets(coder, planner)
	b.Start(planner)

	for _, line := range run(b, lines{}).Lines {
		fmt.Println(line)
	}
	// Output:
	// planner: code it
	// coder: look
	// planner: code it
	// coder: look
	// planner: good
}

// A graph can be a node of another; nothing crosses the border but in and out.
func ExampleSub() {
	inner := graph.New("double", graph.Replace[int]())
	inner.Start(inner.Func("double", func(n int) (int, error) { return 2 * n, nil }))
	double, err := inner.Compile()
	if err != nil {
		panic(err)
	}

	b := graph.New("outer", graph.Fields[lines, said]())
	b.Start(graph.Sub(b, "sub", double,
		func(s lines) int { return len(s.Lines) },
		func(n int) said { return said{[]string{fmt.Sprint("doubled: ", n)}} }))

	fmt.Printf("%q\n", run(b, lines{[]string{"a", "b"}}).Lines)
	// Output: ["a" "b" "doubled: 4"]
}

// A graph can be fanned out, each run of it on a state of its own.
func ExampleSubTask() {
	inner := graph.New("square", graph.Replace[int]())
	inner.Start(inner.Func("square", func(n int) (int, error) { return n * n, nil }))
	square, err := inner.Compile()
	if err != nil {
		panic(err)
	}

	b := graph.New("squares", graph.Fields[lines, said]())
	first := b.Func("first", says("squares:"))
	squares := graph.SubTask(b, "squares", square,
		func(_ lines, n int) int { return n },
		func(n int) said { return said{[]string{fmt.Sprint(n)}} })
	b.Start(first)
	b.Route(first, func(lines) graph.Next { return squares.Each([]int{1, 2, 3}) }, squares)

	fmt.Println(run(b, lines{}).Lines)
	// Output: [squares: 1 4 9]
}

// A handler turns the failure of a node into an update; the run goes on.
func ExampleBuilder_Catch() {
	b := graph.New("catch", graph.Fields[lines, said]())
	offline := errors.New("no network")
	fetch := b.Func("fetch", func(lines) (said, error) { return said{}, offline })
	b.Catch(fetch, func(_ context.Context, _ lines, err error) (said, error) {
		if errors.Is(err, offline) {
			return said{[]string{"from the cache"}}, nil
		}
		return said{}, err
	})
	b.Start(fetch)
	b.Edge(fetch, b.Func("use", says("used")))

	fmt.Printf("%q\n", run(b, lines{}).Lines)
	// Output: ["from the cache" "used"]
}

// The handler of a task node is given the item, too.
func ExampleCatchTask() {
	b := graph.New("catch", graph.Fields[lines, said]())
	first := b.Func("first", says("results:"))
	fetch := graph.Task(b, "fetch", func(_ context.Context, _ lines, page string) (said, error) {
		if page == "b" {
			return said{}, errors.New("not found")
		}
		return said{[]string{page}}, nil
	})
	graph.CatchTask(b, fetch, func(_ context.Context, _ lines, page string, _ error) (said, error) {
		return said{[]string{"no " + page}}, nil
	})
	b.Start(first)
	b.Route(first, func(lines) graph.Next { return fetch.Each([]string{"a", "b", "c"}) }, fetch)

	fmt.Printf("%q\n", run(b, lines{}).Lines)
	// Output: ["results:" "a" "no b" "c"]
}

// A deferred node waits until nothing else is active.
func ExampleDefer() {
	b := graph.New("defer", graph.Fields[lines, said]())
	first, second, third := b.Func("first", says("first")), b.Func("second", says("second")), b.Func("third", says("third"))
	b.Start(first, b.Func("sum up", says("the sum"), graph.Defer()))
	b.Edge(first, second)
	b.Edge(second, third)

	fmt.Printf("%q\n", run(b, lines{}).Lines)
	// Output: ["first" "second" "third" "the sum"]
}

// Compile reports every mistake at once.
func ExampleBuilder_Compile() {
	type State struct{ Notes []string }
	type Update struct{ Note string }
	b := graph.New("wrong", graph.Fields[State, Update]())
	b.Node("lonely", nil, graph.Timeout(0))
	_, err := b.Compile()
	if refused, ok := errors.AsType[*graph.CompileError](err); ok {
		for _, p := range refused.Problems {
			fmt.Printf("%s: %s.\n\t%s.\n", p.Where, p.What, p.Remedy)
		}
	}
	// Output:
	// field "Note" of update graph_test.Update: state graph_test.State has no exported field "Note" to merge it into.
	// 	add the field to the state, rename this one, or name the state's field with `merge:"set:Name"`.
	// node "lonely": the function is nil.
	// 	pass the function that does the node's work (nodes.Chat makes none without provider, ask and take).
	// node "lonely": timeout 0s is not positive.
	// 	give it a positive one, or drop graph.Timeout for none.
	// start: no node is a start.
	// 	name at least one with Start.
}
