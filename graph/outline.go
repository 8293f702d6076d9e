package graph

import (
	"fmt"
	"strings"
)

// Outline lists what the fingerprint is made of, a line for each node, connection and field, in words. Two graphs with the
// same outline have the same fingerprint, and the lines that differ say what has changed.
func (g *Graph[S, U]) Outline() []string {
	out := g.top.outline("")
	for _, t := range [][2]string{{"state", describeType[S]()}, {"update", describeType[U]()}} {
		for line := range strings.Lines(t[1]) {
			out = append(out, t[0]+" "+strings.TrimSpace(line))
		}
	}
	return out
}

func (t *topology) outline(path string) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	name := func(i int) string {
		if i == endIndex {
			return "End"
		}
		return path + t.nodes[i].name
	}
	for _, i := range t.start {
		add("start %s", name(i))
	}
	for i := range t.nodes {
		n := &t.nodes[i]
		line := fmt.Sprintf("%s %s", n.kind, name(i))
		if n.item != "" {
			line += " of " + n.item
		}
		if n.catch {
			line += ", catch"
		}
		if n.set.deferred {
			line += ", deferred"
		}
		out = append(out, line)
		for _, to := range n.edges {
			add("edge %s -> %s", name(i), name(to))
		}
		for _, to := range n.targets {
			add("goto %s -> %s", name(i), name(to))
		}
		if n.sub != nil && n.sub.top != nil {
			out = append(out, n.sub.top.outline(name(i)+"/")...)
		}
	}
	for k, r := range t.routers {
		for _, to := range r.targets {
			add("router %d of %s -> %s", k, name(r.from), name(to))
		}
	}
	for _, j := range sortedJoins(t.joins) {
		var sources []string
		for _, s := range j.sources {
			sources = append(sources, name(s))
		}
		add("join %s -> %s", strings.Join(sources, " + "), name(j.target))
	}
	return out
}
