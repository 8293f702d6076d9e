package graph

import (
	"fmt"
	"strings"
	"unicode"
)

// Mermaid draws the graph as a Mermaid flowchart. What always follows has a solid arrow, what a router or a Goto may name
// a dashed one, a fan-out one that says "each". A join is a box behind its sources, a subgraph a cluster. Names may be
// anything: they are escaped, and shortened in the middle when they are longer than 80 characters. The same graph always
// gives the same text.
func (g *Graph[S, U]) Mermaid() string {
	m := mermaid{}
	m.linef(0, "---")
	m.linef(0, `title: "%s"`, mermaidTitle(g.top.name))
	m.linef(0, "---")
	m.linef(0, "flowchart TD")
	m.sketch(1, g.top.draw("n"))
	return m.String()
}

type mermaid struct{ strings.Builder }

func (m *mermaid) linef(depth int, format string, args ...any) {
	m.WriteString(strings.Repeat("    ", depth))
	fmt.Fprintf(&m.Builder, format+"\n", args...)
}

func (m *mermaid) sketch(depth int, s *sketch) {
	for _, b := range s.boxes {
		around := [...][2]string{
			shapeStart: {"([", "])"}, shapeEnd: {"([", "])"}, shapeNode: {"[", "]"},
			shapeGoto: {"{{", "}}"}, shapeTask: {"[[", "]]"}, shapeJoin: {`[\`, "/]"},
		}[b.shape]
		m.linef(depth, `%s%s"%s"%s`, b.id, around[0], mermaidLabel(b.lines), around[1])
	}
	for _, inner := range s.inner {
		m.linef(depth, `subgraph %s["%s"]`, inner.id, mermaidLabel(inner.lines))
		m.sketch(depth+1, inner)
		m.linef(depth, "end")
	}
	for _, a := range s.arrows {
		switch {
		case a.label != "":
			m.linef(depth, `%s -. "%s" .-> %s`, a.from, a.label, a.to)
		case a.dashed:
			m.linef(depth, "%s -.-> %s", a.from, a.to)
		default:
			m.linef(depth, "%s --> %s", a.from, a.to)
		}
	}
}

func mermaidLabel(lines []string) string {
	escaped := make([]string, len(lines))
	for i, line := range lines {
		escaped[i] = mermaidEscape(shorten(line), "#%d;")
	}
	return strings.Join(escaped, "<br/>")
}

// mermaidTitle escapes a name for the double-quoted YAML string that a title is.
func mermaidTitle(name string) string { return mermaidEscape(shorten(name), `\U%08x`) }

// mermaidEscape writes all but harmless characters as codes. Mermaid gives a meaning to quotes, brackets, backticks,
// "%%", "#", ";" and, in places, ":".
func mermaidEscape(s, code string) string {
	var out strings.Builder
	for _, r := range s {
		harmless := strings.ContainsRune(" -_.,()+*=/!?'", r) || unicode.IsLetter(r) || unicode.IsDigit(r) ||
			r > unicode.MaxASCII && unicode.IsPrint(r)
		if harmless {
			out.WriteRune(r)
		} else {
			fmt.Fprintf(&out, code, r)
		}
	}
	// Within quotes, too, Mermaid takes "direction TB" for a statement.
	return strings.ReplaceAll(out.String(), "direction ", "direction"+fmt.Sprintf(code, ' '))
}
