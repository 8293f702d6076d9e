package graph_test

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/stretchr/testify/require"
)

// script turns fuzzed bytes into choices. When they run out, every choice is 0.
type script []byte

func (s *script) next(n int) int {
	if len(*s) == 0 || n == 0 {
		return 0
	}
	c := (*s)[0]
	*s = (*s)[1:]
	return int(c) % n
}

// handles are what a fuzzed builder has returned, and some that it has not.
type handles struct {
	refs  []graph.Ref
	nodes []graph.Node
	tasks []graph.TaskNode[string]
}

func (h *handles) node(n graph.Node) {
	h.nodes = append(h.nodes, n)
	h.refs = append(h.refs, n)
}

func (h *handles) task(n graph.TaskNode[string]) {
	h.tasks = append(h.tasks, n)
	h.refs = append(h.refs, n)
}

func pick[T any](s *script, from []T) T { return from[s.next(len(from))] }

func (h *handles) some(s *script) []graph.Ref {
	var out []graph.Ref
	for range s.next(4) {
		out = append(out, pick(s, h.refs))
	}
	return out
}

// call makes one call of a builder.
func (h *handles) call(s *script, b *builder, sub compile) {
	name := pick(s, []string{"a", "b", "c", "d", "e", "f", "", "x/y", "é"})
	opts := h.options(s)
	switch s.next(14) {
	case 0, 1:
		h.node(b.Node(name, work, opts...))
	case 2:
		h.node(b.Func(name, plain, opts...))
	case 3:
		h.node(b.Goto(name, workAndGo, opts...))
	case 4:
		h.task(graph.Task(b, name, workOn, opts...))
	case 5:
		h.node(graph.Sub(b, name, sub, in, out, opts...))
	case 6:
		h.task(graph.SubTask(b, name, sub, inItem, out, opts...))
	case 7:
		b.Start(pick(s, h.nodes))
	case 8, 9:
		b.Edge(pick(s, h.refs), pick(s, h.nodes))
	case 10:
		b.Route(pick(s, h.refs), nowhere, h.some(s)...)
	case 11:
		b.Targets(pick(s, h.nodes), h.some(s)...)
	case 12:
		b.Join(h.some(s), pick(s, h.nodes))
	case 13:
		b.Catch(pick(s, h.nodes), recoverFrom)
		graph.CatchTask(b, pick(s, h.tasks), recoverOn)
	}
}

func (h *handles) options(s *script) []graph.Option {
	return [][]graph.Option{
		nil, nil, nil, nil, {graph.Defer()}, {graph.Retry(retrypolicy.Standard())}, {graph.Timeout(time.Second)},
		{graph.MaxConcurrency(s.next(3))}, {graph.MaxSuperSteps(s.next(3))}, {nil}, {graph.Retry(retrypolicy.WorkflowNodeRetryPolicy{})},
	}[s.next(11)]
}

// No calls make a builder panic, and in a graph that compiles every node can be reached.
func FuzzCompile(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 0, 0, 7, 1})                                // one node, and its start
	f.Add([]byte{0, 0, 0, 0, 0, 7, 1, 1, 0, 1, 1, 0, 8, 1, 2})        // two nodes in a row
	f.Add([]byte{0, 0, 3, 0, 0, 7, 1, 0, 0, 11, 1, 2, 2, 3, 2, 0, 4}) // a Goto
	f.Fuzz(func(t *testing.T, data []byte) {
		s := script(data)
		sub := child()
		b := newBuilder("fuzz")
		foreign := newBuilder("other").Node("foreign", work)
		h := &handles{}
		h.node(graph.End)
		h.task(graph.Task(b, "first", workOn))
		for len(s) > 0 {
			h.call(&s, b, sub)
			if len(s) > 20 && s[0] == 255 {
				h.node(foreign)
				h.node(graph.Node{})
			}
		}
		g, err := b.Compile()
		again, errAgain := b.Compile()
		if err != nil {
			require.EqualError(t, errAgain, err.Error())
			return
		}
		require.Equal(t, g.Fingerprint(), again.Fingerprint())
		require.Empty(t, unreached(g.Plan()))
		checkMermaid(t, g.Mermaid())
		checkDOT(t, g.DOT())
	})
}

// unreached lists the nodes that nothing leads to, found in another way than Compile's.
func unreached(p *graph.Plan[State, Update]) []string {
	reached := map[int]bool{-1: true}
	for _, i := range p.Start {
		reached[i] = true
	}
	for range p.Nodes { // a path has at most that many steps
		for i, n := range p.Nodes {
			if !reached[i] {
				continue
			}
			next := slices.Concat(n.Edges, n.Targets)
			for _, r := range n.Routers {
				next = append(next, r.Targets...)
			}
			for _, j := range n.Joins {
				next = append(next, p.Joins[j].Target)
			}
			for _, to := range next {
				reached[to] = true
			}
		}
	}
	var out []string
	for i, n := range p.Nodes {
		if !reached[i] {
			out = append(out, n.Name)
		}
	}
	return out
}

// No name breaks out of its quotes.
func FuzzDraw(f *testing.F) {
	for _, name := range hostileNames {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		b := newBuilder(name)
		n, m := b.Node("-"+name, work), b.Goto(name, workAndGo)
		b.Start(n)
		b.Join([]graph.Ref{n, m}, m)
		b.Targets(m, n, graph.End)
		g, err := b.Compile()
		if err != nil {
			return // a name that Compile refuses
		}
		outer := newBuilder("-" + name)
		outer.Start(graph.Sub(outer, name, g, in, out))
		g = mustCompile(t, outer)
		checkMermaid(t, g.Mermaid())
		checkDOT(t, g.DOT())
	})
}

var (
	mermaidLine = regexp.MustCompile(`^ *(` +
		`(subgraph )?n[\w]*(\[{1,2}|\{\{|\(\[|\[\\)"[^"` + "`" + `<>{}\[\]%&;|$~]*"(\]{1,2}|\}\}|\]\)|/\])` +
		`|end|n\w+ (-->|-\.->|-\. "[a-z, ]+" \.->) n\w+)$`)
	mermaidCode = regexp.MustCompile(`#\d+;|<br/>`)
	dotLine     = regexp.MustCompile(`^ *(` +
		`digraph \{|labelloc=t|fontname="Helvetica"|(node|edge) \[[^"\\]*fontname="Helvetica"\]|subgraph cluster_n\w+ \{|\}` +
		`|(n\w+ \[)?label="([^"\\]|\\["\\n])*"(, [a-z]+=[a-z0-9]+)?\]?` +
		`|n\w+ -> n\w+( \[style=dashed(, label="[a-z, ]+")?\])?)$`)
)

// checkMermaid checks each line against what a flowchart of ours consists of.
func checkMermaid(t *testing.T, text string) {
	t.Helper()
	require.True(t, utf8.ValidString(text))
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	require.Regexp(t, `^title: "([^"\\]|\\U[0-9a-f]{8})*"$`, lines[1])
	require.Equal(t, []string{"---", "---", "flowchart TD"}, []string{lines[0], lines[2], lines[3]})
	depth := 0
	for _, line := range lines[4:] {
		require.Regexp(t, mermaidLine, mermaidCode.ReplaceAllString(line, ""))
		require.NotRegexp(t, `direction\s`, line)
		switch {
		case strings.TrimSpace(line) == "end":
			depth--
		case strings.HasPrefix(strings.TrimSpace(line), "subgraph "):
			depth++
		}
		require.GreaterOrEqual(t, depth, 0)
	}
	require.Zero(t, depth)
}

// checkDOT does the same for DOT.
func checkDOT(t *testing.T, text string) {
	t.Helper()
	require.True(t, utf8.ValidString(text))
	for line := range strings.Lines(text) {
		require.Regexp(t, dotLine, strings.TrimSuffix(line, "\n"))
	}
}

type folded struct {
	App []int
	Max *float64
	Min float64
	Sum int8
	Set []int
}

type foldedUpdate struct {
	App []int    `merge:"append"`
	Max *float64 `merge:"max"`
	Min float64  `merge:"min"`
	Sum int8     `merge:"sum"`
	Set []int    `merge:"set:App"`
}

// Fields does what a naive fold over the updates does.
func FuzzFields(f *testing.F) {
	f.Add([]byte{3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	f.Add([]byte{1, 255, 255, 255, 255, 0, 0, 0, 7, 7, 7, 7, 7})
	plan := planOf(f, graph.Fields[folded, foldedUpdate]())
	f.Fuzz(func(t *testing.T, data []byte) {
		s := script(data)
		var got, want folded
		var kept []folded
		for len(s) > 0 {
			writes := make([]graph.Write[foldedUpdate], s.next(5))
			for i := range writes {
				writes[i] = graph.Write[foldedUpdate]{Node: "n", Index: i, Update: fuzzedUpdate(&s)}
			}
			err := plan.Reduce(&got, writes)
			next, ok := naive(want, writes)
			require.Equal(t, ok, err == nil)
			if !ok {
				return
			}
			want = next
			requireSame(t, want, got)
			view := got
			plan.Clip(&view)
			kept = append(kept, view, next)
		}
		for i := 0; i < len(kept); i += 2 {
			requireSame(t, kept[i+1], kept[i]) // what was handed out is as it was
		}
	})
}

func fuzzedUpdate(s *script) foldedUpdate {
	var u foldedUpdate
	floats := []float64{0, 1, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e300}
	for i := range s.next(4) {
		u.App = append(u.App, s.next(256)+i)
	}
	if s.next(2) == 1 {
		u.Max = new(pick(s, floats))
	}
	u.Min = pick(s, floats)
	u.Sum = int8(s.next(256))
	if s.next(8) == 7 {
		u.Set = make([]int, s.next(3), 5)
	}
	return u
}

// naive folds updates without any sharing.
func naive(s folded, writes []graph.Write[foldedUpdate]) (folded, bool) {
	s.App = slices.Clone(s.App)
	set := false
	for _, w := range writes {
		if w.Update.Set != nil {
			if set {
				return s, false
			}
			s.App, set = slices.Clone(w.Update.Set), true
		}
	}
	for _, w := range writes {
		u := w.Update
		s.App = append(s.App, u.App...)
		s.Sum += u.Sum
		if u.Max != nil && !math.IsNaN(*u.Max) && (s.Max == nil || *u.Max > *s.Max) {
			s.Max = new(*u.Max)
		}
		if u.Min < s.Min {
			s.Min = u.Min
		}
	}
	return s, true
}

func requireSame(t *testing.T, want, got folded) {
	t.Helper()
	require.Equal(t, slices.Clip(want.App), slices.Clip(got.App))
	require.Equal(t, want.Max, got.Max)
	require.InDelta(t, want.Min, got.Min, 0)
	require.Equal(t, want.Sum, got.Sum)
}
