package graph

import (
	"fmt"
	"strings"
)

// DOT draws the graph in the language of Graphviz. See Mermaid for what is drawn and how.
func (g *Graph[S, U]) DOT() string {
	d := dot{}
	d.linef(0, "digraph {")
	d.linef(1, `label=%s`, dotLabel([]string{g.top.name}))
	d.linef(1, "labelloc=t")
	d.linef(1, `fontname="Helvetica"`)
	d.linef(1, `node [shape=box, style=rounded, fontname="Helvetica"]`)
	d.linef(1, `edge [fontname="Helvetica"]`)
	d.sketch(1, g.top.draw("n"))
	d.linef(0, "}")
	return d.String()
}

type dot struct{ strings.Builder }

func (d *dot) linef(depth int, format string, args ...any) {
	d.WriteString(strings.Repeat("    ", depth))
	fmt.Fprintf(&d.Builder, format+"\n", args...)
}

func (d *dot) sketch(depth int, s *sketch) {
	for _, b := range s.boxes {
		look := [...]string{
			shapeStart: ", shape=circle", shapeEnd: ", shape=doublecircle", shapeNode: "",
			shapeGoto: ", shape=hexagon", shapeTask: ", peripheries=2", shapeJoin: ", shape=invtrapezium",
		}[b.shape]
		d.linef(depth, "%s [label=%s%s]", b.id, dotLabel(b.lines), look)
	}
	for _, inner := range s.inner {
		d.linef(depth, "subgraph cluster_%s {", inner.id)
		d.linef(depth+1, "label=%s", dotLabel(inner.lines))
		d.sketch(depth+1, inner)
		d.linef(depth, "}")
	}
	for _, a := range s.arrows {
		switch {
		case a.label != "":
			d.linef(depth, `%s -> %s [style=dashed, label="%s"]`, a.from, a.to, a.label)
		case a.dashed:
			d.linef(depth, "%s -> %s [style=dashed]", a.from, a.to)
		default:
			d.linef(depth, "%s -> %s", a.from, a.to)
		}
	}
}

// dotLabel quotes lines. Within quotes a backslash has a meaning, and Graphviz reads entities of HTML everywhere.
func dotLabel(lines []string) string {
	escaped := make([]string, len(lines))
	for i, line := range lines {
		escaped[i] = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "&", "&amp;").Replace(shorten(line))
	}
	return `"` + strings.Join(escaped, `\n`) + `"`
}
