package graph_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/stretchr/testify/require"
)

func TestDrawGolden(t *testing.T) {
	for name, build := range map[string]func(*testing.T) compile{
		"research": research, "everything": everything, "hostile": hostile, "nested": nested,
	} {
		t.Run(name, func(t *testing.T) {
			g := build(t)
			golden(t, name+".mmd", g.Mermaid())
			golden(t, name+".dot", g.DOT())
		})
	}
}

func TestDrawIsTheSameEachTime(t *testing.T) {
	a, b := everything(t), everything(t)
	for range 20 {
		require.Equal(t, a.Mermaid(), b.Mermaid())
		require.Equal(t, a.DOT(), b.DOT())
	}
}

func TestDrawLeavesOutAnEndThatNothingReaches(t *testing.T) {
	b := newBuilder("loop")
	n := b.Node("n", work)
	b.Start(n)
	b.Edge(n, n)
	g := mustCompile(t, b)
	require.NotContains(t, g.Mermaid(), "End")
	require.NotContains(t, g.DOT(), "End")
}

func TestDrawShowsTheEndOfADeadEnd(t *testing.T) {
	b := newBuilder("dead end")
	b.Start(b.Node("n", work))
	require.Contains(t, mustCompile(t, b).Mermaid(), "n0 --> nend\n")
}

func TestDrawTellsPolicies(t *testing.T) {
	type policy = retrypolicy.WorkflowNodeRetryPolicy
	for want, p := range map[string]policy{
		"retry x1": retrypolicy.New(),
		"retry x3, 100ms x2, cap 30s, jitter 0.5": retrypolicy.Standard(),
		"retry x3, 1s x2, cap 30s": {
			MaxAttempts: 3, InitialDelay: time.Second, BackoffMultiplier: 2, MaxDelay: 30 * time.Second,
		},
		"retry x5, 1m30s x1.5": {MaxAttempts: 5, InitialDelay: 90 * time.Second, BackoffMultiplier: 1.5},
		"retry x2, 0s x0":      {MaxAttempts: 2},
		"retry x9, 1ns x1e+300, cap 1h0m0.001s": {
			MaxAttempts: 9, InitialDelay: 1, BackoffMultiplier: 1e300, MaxDelay: time.Hour + time.Millisecond,
		},
	} {
		b := newBuilder("policies")
		b.Start(b.Node("n", work, graph.Retry(p)))
		g := mustCompile(t, b)
		require.Contains(t, g.Mermaid(), `n0["n<br/>`+want+`"]`)
		require.Contains(t, g.DOT(), `n0 [label="n\n`+want+`"]`)
	}
}

func TestDrawShortensLongNames(t *testing.T) {
	long := strings.Repeat("é", 5_000) + "tail"
	b := newBuilder(long)
	b.Start(b.Node(long, work))
	g := mustCompile(t, b)
	want := strings.Repeat("é", 40) + "…" + strings.Repeat("é", 35) + "tail"
	require.Contains(t, g.Mermaid(), `title: "`+want+`"`)
	require.Contains(t, g.Mermaid(), `n0["`+want+`"]`)
	require.Contains(t, g.DOT(), `n0 [label="`+want+`"]`)
}

func research(t *testing.T) compile {
	t.Helper()
	policy := retrypolicy.WorkflowNodeRetryPolicy{
		MaxAttempts: 3, InitialDelay: time.Second, BackoffMultiplier: 2, MaxDelay: 30 * time.Second,
	}
	b := newBuilder("research")
	plan := b.Node("plan", work, graph.Retry(policy), graph.Timeout(30*time.Second))
	search := graph.Task(b, "search", workOn, graph.Retry(policy))
	write := b.Node("write", work)
	review := b.Node("review", work)
	b.Start(plan)
	b.Route(plan, nowhere, search, write)
	b.Edge(search, write)
	b.Edge(write, review)
	b.Route(review, nowhere, write, graph.End)
	return mustCompile(t, b)
}

// everything has each thing that can be drawn.
func everything(t *testing.T) compile {
	t.Helper()
	b := newBuilder("everything")
	a := b.Node("a", work, graph.MaxConcurrency(4), graph.Timeout(1500*time.Millisecond))
	fn := b.Func("fn", plain, graph.Retry(retrypolicy.Standard()))
	supervisor := b.Goto("supervisor", workAndGo)
	task := graph.Task(b, "task", workOn, graph.MaxConcurrency(2))
	sub := graph.Sub(b, "sub", research(t), in, out, graph.MaxSuperSteps(20))
	subtask := graph.SubTask(b, "subtask", child(), inItem, out, graph.Defer())
	last := b.Node("last", work, graph.Defer())
	b.Start(a, fn)
	b.Edge(a, supervisor)
	b.Targets(supervisor, sub, task, supervisor, graph.End)
	b.Route(a, nowhere, subtask, last)
	b.Route(a, nowhere, graph.End)
	b.Edge(fn, sub)
	b.Edge(sub, sub)
	b.Join([]graph.Ref{task, subtask, sub}, last)
	b.Join([]graph.Ref{fn, a}, sub)
	b.Edge(last, graph.End)
	b.Catch(a, recoverFrom)
	graph.CatchTask(b, task, recoverOn)
	return mustCompile(t, b)
}

// nested has a graph in a graph in a graph.
func nested(t *testing.T) compile {
	t.Helper()
	g := child()
	for _, name := range []string{"middle", "outer"} {
		b := newBuilder(name)
		b.Start(graph.Sub(b, "first", g, in, out))
		second := graph.SubTask(b, "second", g, inItem, out)
		only := b.Node("only", work)
		b.Start(only)
		b.Route(only, nowhere, second)
		g = mustCompile(t, b)
	}
	return g
}

// hostileNames are legal names that a picture must quote.
var hostileNames = []string{
	`end`, `End`, `subgraph`, `n0`, `graph`, `style`, `class`, `click`, `%%{init: {"theme":"dark"}}%%`, `%% comment`,
	`"`, `""`, `\`, `\"`, `a\`, `\n`, `\N \G`, `'`, "`md`", `{`, `}`, `(`, `)`, `((`, `|`, `||`, `-->`, `---`, `-.->`, `==>`, `:::x`,
	`<b>bold<b>`, `<script>alert(1)<script>`, `&amp;`, `&lt;`, `&#35;`, `#35;`, `#quot;`, `#`, `;`, `a;b`, `$x$`, `$$x^2$$`, `@`, `~~~`,
	`style a:b#c;d`, `classDef x:y#z;`, ` `, ` leading`, `日本語`, `שלום`, `مرحبا`, `é`, "e\u0301", `😀`,
	"👩\u200d🚀", "\u200b", "\u202eabc", "\ufeff",
	`ﬂ°°35¶ß`, `ﬂ°quot¶ß`, `*`, `_`, `1. list`, `- list`, `# head`, `o--o`, `x--x`, `default`, `linkStyle`, `call`, `href`, `direction TB`,
	`true`, `null`, `%`, `\u0022`, `\x22`, `"+"`, `^`, `?`, `=`, `digraph`, `node`, `edge`, `strict`, `cluster_x`, `!`,
}

func hostile(t *testing.T) compile {
	t.Helper()
	inner := newBuilder(`in"ner %%{ </b> \`)
	inner.Start(inner.Node(`end`, work))
	innerGraph := mustCompile(t, inner)
	b := newBuilder(`"; } %%{init: {}}%% --- # <b>&amp;</b> \`)
	var all []graph.Ref
	for i, name := range hostileNames {
		var n graph.Node
		if i%3 == 0 {
			n = graph.Sub(b, name, innerGraph, in, out)
		} else {
			n = b.Node(name, work)
		}
		b.Start(n)
		all = append(all, n)
	}
	b.Join(all, b.Node("last", work))
	return mustCompile(t, b)
}
