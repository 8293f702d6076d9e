package graph_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/stretchr/testify/require"
)

// A change of these values makes journals of earlier versions unreadable: it needs a line in the changelog.
func TestFingerprintIsTheSameInEveryProcess(t *testing.T) {
	require.Len(t, research(t).Fingerprint(), 64)
	golden(t, "fingerprints.txt", "research "+research(t).Fingerprint()+"\neverything "+everything(t).Fingerprint()+"\n")
	first := everything(t).Fingerprint()
	for range 20 {
		require.Equal(t, first, everything(t).Fingerprint())
	}
}

// base is the graph that the variants below differ from.
func base(b *builder) {
	n, m, o := b.Node("n", work), b.Node("m", work), b.Goto("o", workAndGo)
	k := graph.Task(b, "k", workOn)
	b.Start(n, m)
	b.Edge(n, o)
	b.Edge(n, m)
	b.Targets(o, n, m)
	b.Route(n, nowhere, k, m)
	b.Join([]graph.Ref{n, m}, o)
	b.Join([]graph.Ref{n, k}, o)
}

func fingerprintOf(t *testing.T, name string, build func(*builder)) string {
	t.Helper()
	b := newBuilder(name)
	build(b)
	return mustCompile(t, b).Fingerprint()
}

func TestFingerprintDoesNotChangeWithHowNodesAreRun(t *testing.T) {
	want := fingerprintOf(t, "a", base)
	require.Equal(t, want, fingerprintOf(t, "a", func(b *builder) {
		n := b.Node("n", func(context.Context, State) (Update, error) { return Update{Draft: "x"}, errTest },
			graph.Timeout(time.Second), graph.Retry(retrypolicy.Standard()), graph.MaxConcurrency(3))
		m, o := b.Node("m", work), b.Goto("o", workAndGo)
		k := graph.Task(b, "k", workOn)
		b.Join([]graph.Ref{k, n}, o) // the order of connections does not matter
		b.Join([]graph.Ref{n, m, n}, o)
		b.Targets(o, m)
		b.Targets(o, n)
		b.Edge(n, m)
		b.Edge(n, o)
		b.Edge(n, o)
		b.Start(m, n)
		b.Route(n, func(State) graph.Next { return graph.To(m) }, m, k)
	}))
}

func TestFingerprintChangesWithWhatTheGraphIs(t *testing.T) {
	one := func(b *builder) graph.Node {
		n := b.Node("n", work)
		b.Start(n)
		return n
	}
	innerAs := func(name string) func(b *builder) {
		return func(b *builder) {
			i := newBuilder("inner")
			i.Start(i.Node(name, work))
			b.Start(graph.Sub(b, "n", mustCompile(t, i), in, out))
		}
	}
	seen := map[string]string{}
	add := func(what, fingerprint string) {
		require.NotContains(t, seen, fingerprint, "%s is the same as %s", what, seen[fingerprint])
		seen[fingerprint] = what
	}
	for what, build := range map[string]func(*builder){
		"base":            base,
		"one node":        func(b *builder) { one(b) },
		"another name":    func(b *builder) { b.Start(b.Node("m", work)) },
		"a quoted name":   func(b *builder) { b.Start(b.Node(`n" node item "`, work)) },
		"Func":            func(b *builder) { b.Start(b.Func("n", plain)) },
		"Goto":            func(b *builder) { n := b.Goto("n", workAndGo); b.Start(n); b.Targets(n, n) },
		"Goto to End":     func(b *builder) { n := b.Goto("n", workAndGo); b.Start(n); b.Targets(n, graph.End) },
		"deferred":        func(b *builder) { b.Start(b.Node("n", work, graph.Defer())) },
		"catch":           func(b *builder) { b.Catch(one(b), recoverFrom) },
		"edge":            func(b *builder) { n := one(b); b.Edge(n, n) },
		"edge to End":     func(b *builder) { b.Edge(one(b), graph.End) },
		"router":          func(b *builder) { n := one(b); b.Route(n, nowhere, n) },
		"router to End":   func(b *builder) { b.Route(one(b), nowhere, graph.End) },
		"two routers":     func(b *builder) { n := one(b); b.Route(n, nowhere, n); b.Route(n, nowhere, n) },
		"two nodes":       func(b *builder) { b.Start(one(b), b.Node("m", work)) },
		"in other order":  func(b *builder) { b.Start(b.Node("m", work)); one(b) },
		"one starts":      func(b *builder) { b.Edge(one(b), b.Node("m", work)) },
		"join":            func(b *builder) { n, m := one(b), b.Node("m", work); b.Start(m); b.Join([]graph.Ref{n, m}, n) },
		"join the other":  func(b *builder) { n, m := one(b), b.Node("m", work); b.Start(m); b.Join([]graph.Ref{n, m}, m) },
		"task of strings": func(b *builder) { b.Route(one(b), nowhere, graph.Task(b, "k", workOn)) },
		"task of ints": func(b *builder) {
			b.Route(one(b), nowhere, graph.Task(b, "k", func(context.Context, State, int) (Update, error) { return Update{}, nil }))
		},
		"subgraph":         innerAs("n"),
		"another subgraph": innerAs("m"),
		"subtask":          func(b *builder) { b.Route(one(b), nowhere, graph.SubTask(b, "k", child(), inItem, out)) },
	} {
		add(what, fingerprintOf(t, "a", build))
	}
	add("another graph name", fingerprintOf(t, "b", base))
}

func printOf[S, U any](t *testing.T, r graph.Reducer[S, U]) string {
	t.Helper()
	b := graph.New("types", r)
	b.Start(b.Func("n", func(S) (u U, err error) { return u, nil }))
	g, err := b.Compile()
	require.NoError(t, err)
	return g.Fingerprint()
}

type (
	fpA       struct{ N int }
	fpRenamed struct{ N int }
	fpOuter   struct{ fpA }
	fpMax     struct {
		N int `merge:"max"`
	}
	fpLast struct {
		N int `json:"n" merge:"last"`
	}
	fpState struct{ A, B []int }
)

func TestFingerprintChangesWithFieldsTypesAndTags(t *testing.T) {
	seen := map[string]string{}
	for what, fingerprint := range map[string]string{
		"fields":                   printOf(t, graph.Fields[fpA, fpA]()),
		"max":                      printOf(t, graph.Fields[fpA, fpMax]()),
		"last, as a tag":           printOf(t, graph.Fields[fpA, fpLast]()),
		"reduce":                   printOf(t, graph.Reduce(func(s fpA, _ fpA) fpA { return s })),
		"reduce, another update":   printOf(t, graph.Reduce(func(s fpA, _ struct{ N, M int }) fpA { return s })),
		"reduce, no struct":        printOf(t, graph.Reduce(func(s fpA, _ int) fpA { return s })),
		"merge":                    printOf(t, graph.Merge(func(s fpA, _ []graph.Write[fpA]) (fpA, error) { return s, nil })),
		"replace":                  printOf(t, graph.Replace[fpA]()),
		"another name":             printOf(t, graph.Replace[struct{ M int }]()),
		"another type":             printOf(t, graph.Replace[struct{ N int8 }]()),
		"a field more":             printOf(t, graph.Replace[struct{ N, M int }]()),
		"fields in other order":    printOf(t, graph.Replace[struct{ M, N int }]()),
		"A and B":                  printOf(t, graph.Fields[fpState, struct{ A []int }]()),
		"a slice of a type":        printOf(t, graph.Replace[struct{ N []fpA }]()),
		"a slice of another":       printOf(t, graph.Replace[struct{ N []fpMax }]()),
		"a pointer":                printOf(t, graph.Replace[struct{ N *fpA }]()),
		"an array":                 printOf(t, graph.Replace[struct{ N [3]fpA }]()),
		"another array":            printOf(t, graph.Replace[struct{ N [4]fpA }]()),
		"a map":                    printOf(t, graph.Replace[struct{ N map[string]fpA }]()),
		"a generic type":           printOf(t, graph.Replace[struct{ N pair[fpA] }]()),
		"a generic type, other":    printOf(t, graph.Replace[struct{ N pair[fpMax] }]()),
		"a func":                   printOf(t, graph.Replace[struct{ N func(fpA) }]()),
		"a chan":                   printOf(t, graph.Replace[struct{ N chan fpA }]()),
		"any":                      printOf(t, graph.Replace[struct{ N any }]()),
		"no struct":                printOf(t, graph.Replace[map[string]any]()),
		"one struct, other update": printOf(t, graph.Fields[fpState, struct{ B []int }]()),
	} {
		require.NotContains(t, seen, fingerprint, "%s is the same as %s", what, seen[fingerprint])
		seen[fingerprint] = what
	}
}

func TestFingerprintDoesNotChangeWithTheNamesOfStateAndUpdate(t *testing.T) {
	want := printOf(t, graph.Fields[fpA, fpA]())
	require.Equal(t, want, printOf(t, graph.Fields[fpRenamed, fpRenamed]()))
	require.Equal(t, want, printOf(t, graph.Fields[fpOuter, fpOuter]()), "nor with embedding")
}
