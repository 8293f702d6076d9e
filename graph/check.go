package graph

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-go/pawl/retrypolicy"
)

// checker finds what is wrong with a topology.
type checker struct {
	problems

	top      *topology
	warnings []string
}

func (c *checker) check() {
	if c.top.name == "" {
		c.problem("graph", "it has no name", "pass one to graph.New")
	} else if fault := unprintable(c.top.name); fault != "" {
		c.problem(fmt.Sprintf("graph %q", c.top.name), fault, "choose another name")
	}
	if len(c.top.nodes) == 0 {
		c.problem("graph", "it has no node", "add one with Node, Func, Goto, Task, Sub or SubTask")
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

// names must be unique, and readable in a log and inside the path of a task.
func (c *checker) names() {
	seen := make(map[string]bool, len(c.top.nodes))
	for i := range c.top.nodes {
		n := &c.top.nodes[i]
		name := n.name
		switch {
		case name == "":
			c.problem(fmt.Sprintf("node number %d", i+1), "the name is empty", "give it a name")
		case strings.ContainsAny(name, "/[]"):
			c.fault(n, "the name has a '/', '[' or ']', which have a meaning in paths of tasks", "choose another name")
		case unprintable(name) != "":
			c.fault(n, unprintable(name), "choose another name")
		case seen[name]:
			c.fault(n, "the name is used twice", "give each node a name of its own")
		}
		seen[name] = true
	}
}

// unprintable says why a name does not fit on a line, or "".
func unprintable(name string) string {
	if !utf8.ValidString(name) {
		return "the name is not valid UTF-8"
	}
	for _, r := range name {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' { // the last two separate lines and paragraphs
			return fmt.Sprintf("the name has the control character %q", r)
		}
	}
	return ""
}

func (c *checker) node(n *nodeInfo) {
	if n.kind == KindGoto && !n.targeted {
		c.fault(n, "a Goto node declares no targets", "call Targets with every node it may name, graph.End included")
	}
	if m := n.set.maxConcurrency; m != nil && *m < 1 {
		c.fault(n, fmt.Sprintf("MaxConcurrency %d is below 1", *m),
			"allow at least one task, or drop graph.MaxConcurrency for no limit")
	}
	if n.sub != nil {
		c.subgraph(n)
	} else {
		c.function(n)
	}
}

func (c *checker) function(n *nodeInfo) {
	if !n.hasCall {
		c.fault(n, "the function is nil",
			"pass the function that does the node's work (nodes.Chat makes none without provider, ask and take)")
	}
	if d := n.set.timeout; d != nil && *d <= 0 {
		c.fault(n, fmt.Sprintf("timeout %v is not positive", *d), "give it a positive one, or drop graph.Timeout for none")
	}
	if n.set.maxSuperSteps != nil {
		c.fault(n, "only a subgraph has super-steps of its own",
			"drop graph.MaxSuperSteps; the limit of a whole run is the executor's")
	}
	if n.set.retry != nil {
		c.retry(n)
	}
}

func (c *checker) subgraph(n *nodeInfo) {
	if n.sub.missing != "" {
		c.fault(n, n.sub.missing+" is nil", "compile the child first, and pass it with its in and out functions")
	}
	if n.set.retry != nil {
		c.fault(n, "a subgraph takes no retry policy", "set graph.Retry on the nodes of the subgraph")
	}
	if n.set.timeout != nil {
		c.fault(n, "a subgraph takes no timeout", "set graph.Timeout on the nodes of the subgraph")
	}
	if m := n.set.maxSuperSteps; m != nil && *m < 1 {
		c.fault(n, fmt.Sprintf("MaxSuperSteps %d is below 1", *m),
			"allow at least one super-step, or drop graph.MaxSuperSteps for the executor's limit")
	}
	for _, w := range n.sub.warnings {
		c.warnings = append(c.warnings, n.where()+": "+w)
	}
}

func (c *checker) retry(n *nodeInfo) {
	p := n.set.retry
	for _, err := range flatten(p.Validate()) {
		problem := &Problem{Where: n.where(), What: err.Error(), Remedy: "correct the retry policy", Err: err}
		if field, ok := errors.AsType[*retrypolicy.FieldError](err); ok {
			problem.What = fmt.Sprintf("retry policy: %s is %s", field.Field, field.Value)
			problem.Remedy = field.Remedy
		}
		c.list = append(c.list, problem)
	}
	for _, w := range p.Warnings() {
		c.warnings = append(c.warnings, n.where()+": "+w)
	}
	if n.kind == KindFunc && n.set.timeout != nil && p.MaxAttempts > 1 {
		c.fault(n, fmt.Sprintf("timeout %v together with %d attempts on a Func, which cannot be cancelled: "+
			"an abandoned call would overlap the next attempt", *n.set.timeout, p.MaxAttempts),
			"drop one of them, or make it a Node, whose function takes a context")
	}
}

// flatten splits a joined error into its parts, so that each becomes a problem of its own.
func flatten(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// reach reports the nodes that no path from a start leads to.
func (c *checker) reach() {
	next := c.top.adjacency()
	reached := make([]bool, len(c.top.nodes))
	queue := slices.Concat(c.top.start, c.top.presumed)
	for len(queue) > 0 {
		i := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if i != endIndex && !reached[i] {
			reached[i] = true
			queue = append(queue, next[i]...)
		}
	}
	for i, ok := range reached {
		if !ok {
			c.fault(&c.top.nodes[i], "no path from a start leads to it",
				"connect it with Edge, Route, Join, Targets or Start, or remove it")
		}
	}
}

// fault is a problem of a node.
func (c *checker) fault(n *nodeInfo, what, remedy string) { c.problem(n.where(), what, remedy) }

// where names a node in messages.
func (n *nodeInfo) where() string { return fmt.Sprintf("node %q", n.name) }
