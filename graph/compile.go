package graph

import (
	"fmt"
	"slices"
	"strings"
)

// Compile checks the graph and returns it, or a *CompileError with every mistake. The builder may be used further; the
// graph does not change with it.
func (b *Builder[S, U]) Compile() (*Graph[S, U], error) {
	top := b.top.clone()
	c := checker{top: top}
	c.check()
	problems := slices.Concat(b.problems, b.reducer.problems, c.problems)
	if b.reducer.apply == nil && len(b.reducer.problems) == 0 {
		problems = append(problems, &Problem{Where: "reducer", What: "it is missing or has no function",
			Remedy: "pass graph.Fields, graph.Replace, graph.Reduce or graph.Merge to graph.New"})
	}
	if len(problems) > 0 {
		return nil, &CompileError{Graph: top.name, Problems: problems}
	}
	top.reducer, top.fields = b.reducer.kind, b.reducer.describe()
	return &Graph[S, U]{top: top, plan: b.plan(top), fingerprint: top.fingerprint(), warnings: c.warnings}, nil
}

func (b *Builder[S, U]) plan(top *topology) Plan[S, U] {
	p := Plan[S, U]{
		Nodes:  make([]PlanNode[S, U], len(top.nodes)),
		Start:  top.start,
		Reduce: b.reducer.apply,
		Clip:   clipper[S](),
		owner:  b.top, // handles point to the builder's, not to the copy
	}
	for i, info := range top.nodes {
		n := &p.Nodes[i]
		n.NodeConfig = info.config()
		n.Catch, n.Sub = b.calls[i].catch, b.calls[i].sub
		if n.Sub == nil {
			n.Call = b.calls[i].call
		}
	}
	for _, e := range top.edges {
		n := &p.Nodes[e.from]
		if e.to != endIndex && !slices.Contains(n.Edges, e.to) {
			n.Edges = append(n.Edges, e.to)
		}
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

func (n *nodeInfo) config() NodeConfig {
	c := NodeConfig{Name: n.name, Kind: n.kind, Retry: n.set.retry, Deferred: n.set.deferred, Targets: n.targets}
	if n.set.timeout != nil {
		c.Timeout = *n.set.timeout
	}
	if n.set.maxConcurrency != nil {
		c.MaxConcurrency = *n.set.maxConcurrency
	}
	if n.set.maxSuperSteps != nil {
		c.MaxSuperSteps = *n.set.maxSuperSteps
	}
	return c
}

// clone copies what a builder can still change.
func (t *topology) clone() *topology {
	c := *t
	c.nodes, c.start, c.edges = slices.Clone(t.nodes), slices.Clone(t.start), slices.Clone(t.edges)
	c.routers, c.joins = slices.Clone(t.routers), slices.Clone(t.joins)
	for i := range c.nodes {
		c.nodes[i].targets = slices.Clone(c.nodes[i].targets)
	}
	return &c
}

// checker finds what is wrong with a topology.
type checker struct {
	top      *topology
	problems []*Problem
	warnings []string
}

func (c *checker) check() {
	if c.top.name == "" {
		c.problem("graph", "it has no name", "pass one to graph.New")
	}
	if len(c.top.nodes) == 0 {
		c.problem("graph", "it has no node", "add one with Node, Func, Goto, Task or Sub")
		return
	}
	c.names()
	for i := range c.top.nodes {
		c.node(&c.top.nodes[i])
	}
	if len(c.top.start) == 0 {
		c.problem("start", "no node is a start", "name at least one with Start")
		return // everything would be unreachable
	}
	c.reach()
}

// names must be unique, and readable inside the path of a task.
func (c *checker) names() {
	seen := make(map[string]bool, len(c.top.nodes))
	for _, n := range c.top.nodes {
		where := fmt.Sprintf("node %q", n.name)
		switch {
		case n.name == "":
			c.problem(where, "the name is empty", "give it a name")
		case strings.ContainsFunc(n.name, func(r rune) bool { return r < ' ' || strings.ContainsRune("/[]\x7f", r) }):
			c.problem(where, "the name has a '/', '[', ']' or control character, which paths of tasks use", "choose another")
		case seen[n.name]:
			c.problem(where, "the name is used twice", "give each node a name of its own")
		}
		seen[n.name] = true
	}
}

func (c *checker) node(n *nodeInfo) {
	where := fmt.Sprintf("node %q", n.name)
	isSub := n.kind == KindSub || n.kind == KindSubTask
	if !n.hasCall {
		if isSub {
			c.problem(where, "the child graph, its in or its out function is nil", "compile the child first and pass all three")
		} else {
			c.problem(where, "the function is nil", "pass the function that does the node's work")
		}
	}
	if n.kind == KindGoto && !n.targeted {
		c.problem(where, "a Goto node declares no targets", "call Targets with every node it may name, graph.End included")
	}
	if d := n.set.timeout; d != nil && *d <= 0 {
		c.problem(where, fmt.Sprintf("timeout %v is not positive", *d), "give it a positive one, or drop graph.Timeout for none")
	}
	if m := n.set.maxConcurrency; m != nil && *m < 1 {
		c.problem(where, fmt.Sprintf("MaxConcurrency %d is below 1", *m), "allow at least one task, or drop graph.MaxConcurrency for no limit")
	}
	if m := n.set.maxSuperSteps; m != nil && *m < 1 {
		c.problem(where, fmt.Sprintf("MaxSuperSteps %d is below 1", *m), "allow at least one super-step, or drop graph.MaxSuperSteps for the executor's limit")
	} else if m != nil && !isSub {
		c.problem(where, "only a subgraph has super-steps of its own", "drop graph.MaxSuperSteps; the whole run's limit is the executor's")
	}
	if isSub {
		c.subgraph(where, n)
		return
	}
	c.retry(where, n)
}

func (c *checker) subgraph(where string, n *nodeInfo) {
	if n.set.retry != nil {
		c.problem(where, "a subgraph takes no retry policy", "set graph.Retry on the nodes of the subgraph")
	}
	if n.set.timeout != nil {
		c.problem(where, "a subgraph takes no timeout", "set graph.Timeout on the nodes of the subgraph")
	}
}

func (c *checker) retry(where string, n *nodeInfo) {
	p := n.set.retry
	if p == nil {
		return
	}
	for _, err := range flatten(p.Validate()) {
		c.problems = append(c.problems, &Problem{Where: where, What: "invalid retry policy", Remedy: err.Error(), Err: err})
	}
	for _, w := range p.Warnings() {
		c.warnings = append(c.warnings, fmt.Sprintf("%s: %s", where, w))
	}
	if n.kind == KindFunc && n.set.timeout != nil && p.MaxAttempts > 1 {
		c.problem(where, fmt.Sprintf("timeout %v together with %d attempts on a Func, which cannot be cancelled: an abandoned call would overlap the next attempt", *n.set.timeout, p.MaxAttempts),
			"drop one of them, or make it a Node whose function takes a context")
	}
}

// flatten splits a joined error into its parts, so that each becomes a problem of its own.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// reach reports the nodes that no path from a start leads to.
func (c *checker) reach() {
	next := c.top.adjacency()
	reached := make([]bool, len(c.top.nodes))
	queue := slices.Clone(c.top.start)
	for len(queue) > 0 {
		i := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if !reached[i] {
			reached[i] = true
			queue = append(queue, next[i]...)
		}
	}
	for i, ok := range reached {
		if !ok {
			c.problem(fmt.Sprintf("node %q", c.top.nodes[i].name), "no path from a start leads to it",
				"connect it with Edge, Route, Join, Targets or Start, or remove it")
		}
	}
}

func (c *checker) problem(where, what, remedy string) {
	c.problems = append(c.problems, &Problem{Where: where, What: what, Remedy: remedy})
}
