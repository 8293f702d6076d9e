package graph

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pawl-go/pawl/retrypolicy"
)

// sketch is a graph as boxes and arrows, in no language yet. A subgraph is a cluster with a Start and an End of its own,
// where the arrows of the outer graph begin and end.
type sketch struct {
	id     string   // of a cluster
	lines  []string // its title
	boxes  []box
	inner  []*sketch
	arrows []arrow
}

type box struct {
	id    string
	shape shape
	lines []string
}

type shape int

const (
	shapeStart shape = iota
	shapeEnd
	shapeNode
	shapeGoto
	shapeTask
	shapeJoin
)

type arrow struct {
	from, to string
	dashed   bool // it may be taken, or not
	label    string
}

// draw sketches a topology. The prefix begins the ids of all that is in it.
func (t *topology) draw(prefix string) *sketch {
	d := &drawer{top: t, prefix: prefix, sketch: &sketch{lines: []string{t.name}}}
	d.box(d.prefix+"start", shapeStart, "Start")
	for i := range t.nodes {
		d.node(i)
	}
	for i := range t.joins {
		d.box(d.join(i), shapeJoin, "join")
	}
	for _, i := range t.start {
		d.arrow(d.prefix+"start", i, false, "")
	}
	for i := range t.nodes {
		d.follow(i)
	}
	for i, j := range t.joins {
		d.arrow(d.join(i), j.target, false, "")
	}
	return d.sketch
}

type drawer struct {
	*sketch

	top    *topology
	prefix string
	ends   bool // there is an End
}

func (d *drawer) box(id string, s shape, lines ...string) {
	d.boxes = append(d.boxes, box{id, s, lines})
}

func (d *drawer) id(i int) string   { return d.prefix + strconv.Itoa(i) }
func (d *drawer) join(j int) string { return d.prefix + "join" + strconv.Itoa(j) }

// end is the id of the End, which is drawn when it is first asked for.
func (d *drawer) end() string {
	id := d.prefix + "end"
	if !d.ends {
		d.ends = true
		d.box(id, shapeEnd, "End")
	}
	return id
}

func (d *drawer) node(i int) {
	n := &d.top.nodes[i]
	lines := append([]string{n.name}, n.marks()...)
	switch {
	case n.sub != nil:
		inner := n.sub.top.draw(d.id(i) + "_")
		inner.id, inner.lines = d.id(i), lines
		d.inner = append(d.inner, inner)
	case n.kind == KindGoto:
		d.box(d.id(i), shapeGoto, lines...)
	case n.kind == KindTask:
		d.box(d.id(i), shapeTask, lines...)
	default:
		d.box(d.id(i), shapeNode, lines...)
	}
}

// follow draws what may come after a node. Where nothing does, its branch ends.
func (d *drawer) follow(i int) {
	n := &d.top.nodes[i]
	from := d.id(i)
	if n.sub != nil {
		from += "_end"
	}
	before := len(d.arrows)
	for _, to := range n.edges {
		d.arrow(from, to, false, "")
	}
	for _, r := range d.top.routers {
		if r.from == i {
			d.routes(from, r.targets, "")
		}
	}
	d.routes(from, n.targets, "goto")
	for j, join := range d.top.joins {
		for _, s := range join.sources {
			if s == i {
				d.arrows = append(d.arrows, arrow{from: from, to: d.join(j)})
			}
		}
	}
	if len(d.arrows) == before {
		d.arrow(from, endIndex, false, "")
	}
}

func (d *drawer) routes(from string, targets []int, label string) {
	for _, to := range targets {
		words := strings.Fields(label)
		if to != endIndex && d.top.nodes[to].kind.FannedOut() {
			words = append(words, "each")
		}
		d.arrow(from, to, true, strings.Join(words, ", "))
	}
}

func (d *drawer) arrow(from string, to int, dashed bool, label string) {
	var id string
	switch {
	case to == endIndex:
		id = d.end()
	case d.top.nodes[to].sub != nil:
		id = d.id(to) + "_start"
	default:
		id = d.id(to)
	}
	d.arrows = append(d.arrows, arrow{from, id, dashed, label})
}

// marks are what a picture says of a node below its name.
func (n *nodeInfo) marks() []string {
	var out []string
	if p := n.set.retry; p != nil {
		out = append(out, "retry "+policyText(p))
	}
	if d := n.set.timeout; d != nil {
		out = append(out, "timeout "+d.String())
	}
	if m := n.set.maxConcurrency; m != nil {
		out = append(out, fmt.Sprintf("at most %d at once", *m))
	}
	if m := n.set.maxSuperSteps; m != nil {
		out = append(out, fmt.Sprintf("at most %d super-steps", *m))
	}
	if n.set.deferred {
		out = append(out, "deferred")
	}
	if n.catch {
		out = append(out, "catch")
	}
	return out
}

// policyText tells attempts, first delay, growth, cap and jitter: "x3, 1s x2, cap 30s, jitter 0.5".
func policyText(p *retrypolicy.WorkflowNodeRetryPolicy) string {
	out := fmt.Sprintf("x%d", p.MaxAttempts)
	if p.MaxAttempts == 1 {
		return out // it never waits
	}
	out += fmt.Sprintf(", %v x%g", p.InitialDelay, p.BackoffMultiplier)
	if p.MaxDelay > 0 {
		out += fmt.Sprintf(", cap %v", p.MaxDelay)
	}
	if p.Jitter > 0 {
		out += fmt.Sprintf(", jitter %g", p.Jitter)
	}
	return out
}

// longestLine is how many characters of a name a picture shows.
const longestLine = 80

// shorten cuts the middle out of a long line.
func shorten(line string) string {
	r := []rune(line)
	if len(r) <= longestLine {
		return line
	}
	return string(r[:longestLine/2]) + "…" + string(r[len(r)-longestLine/2+1:])
}
