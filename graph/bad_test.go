package graph_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/stretchr/testify/require"
)

// badGraphs are wrong in one way each, or in ways that belong together. What they are told is in testdata/bad-graphs.txt.
var badGraphs = []struct {
	name  string
	build func(b *builder, ok graph.Node) // b is a graph that compiles: Start(ok)
}{
	{"a node without a name", func(b *builder, ok graph.Node) { b.Edge(ok, b.Node("", work)) }},
	{"a name with a slash", func(b *builder, ok graph.Node) { b.Edge(ok, b.Node("a/b", work)) }},
	{"a name with a bracket", func(b *builder, ok graph.Node) { b.Edge(ok, b.Node("a[1]", work)) }},
	{"a name with a newline", func(b *builder, ok graph.Node) { b.Edge(ok, b.Node("a\nb", work)) }},
	{"a name with a C1 control character", func(b *builder, ok graph.Node) { b.Edge(ok, b.Node("a\u0085b", work)) }},
	{"a name with a line separator", func(b *builder, ok graph.Node) { b.Edge(ok, b.Node("a\u2028b", work)) }},
	{"a name that is not UTF-8", func(b *builder, ok graph.Node) { b.Edge(ok, b.Node("a\xff", work)) }},
	{"one name for two nodes", func(b *builder, ok graph.Node) { b.Edge(ok, b.Func("ok", plain)) }},
	{"a node without a function", func(b *builder, ok graph.Node) { b.Edge(ok, b.Node("a", nil)) }},
	{"a Func without a function", func(b *builder, ok graph.Node) { b.Edge(ok, b.Func("a", nil)) }},
	{"a Goto without a function", func(b *builder, ok graph.Node) {
		n := b.Goto("a", nil)
		b.Targets(n, ok)
		b.Edge(ok, n)
	}},
	{"a task without a function", func(b *builder, ok graph.Node) {
		b.Route(ok, nowhere, graph.Task[State, Update, string](b, "a", nil))
	}},
	{"a Sub without a child", func(b *builder, ok graph.Node) {
		b.Edge(ok, graph.Sub(b, "a", (compile)(nil), in, out))
	}},
	{"a Sub without in", func(b *builder, ok graph.Node) {
		b.Edge(ok, graph.Sub(b, "a", child(), nil, out))
	}},
	{"a SubTask without in", func(b *builder, ok graph.Node) {
		b.Route(ok, nowhere, graph.SubTask[State, Update, string](b, "a", child(), nil, out))
	}},
	{"a Sub without out", func(b *builder, ok graph.Node) {
		b.Edge(ok, graph.Sub[State, Update](b, "a", child(), in, nil))
	}},
	{"a nil option", func(b *builder, ok graph.Node) { b.Edge(ok, b.Node("a", work, nil)) }},
	{"End as a start", func(b *builder, _ graph.Node) { b.Start(graph.End) }},
	{"a zero Node as a start", func(b *builder, _ graph.Node) { b.Start(graph.Node{}) }},
	{"a start of another builder", func(b *builder, _ graph.Node) { b.Start(newBuilder("other").Node("a", work)) }},
	{"an edge from End", func(b *builder, ok graph.Node) { b.Edge(graph.End, ok) }},
	{"an edge from a zero Node", func(b *builder, ok graph.Node) { b.Edge(graph.Node{}, ok) }},
	{"an edge from a zero TaskNode", func(b *builder, ok graph.Node) { b.Edge(graph.TaskNode[int]{}, ok) }},
	{"an edge from a nil Ref", func(b *builder, ok graph.Node) { b.Edge(nil, ok) }},
	{"an edge to a zero Node", func(b *builder, ok graph.Node) { b.Edge(ok, graph.Node{}) }},
	{"an edge to a node of another builder", func(b *builder, ok graph.Node) {
		b.Edge(ok, newBuilder("other").Node("a", work))
	}},
	{"an edge from a node of another builder is the only mistake", func(b *builder, _ graph.Node) {
		b.Edge(newBuilder("other").Node("a", work), b.Node("b", work))
	}},
	{"a nil router", func(b *builder, ok graph.Node) { b.Route(ok, nil, graph.End) }},
	{"a router without targets", func(b *builder, ok graph.Node) { b.Route(ok, nowhere) }},
	{"a router of End", func(b *builder, ok graph.Node) { b.Route(graph.End, nowhere, ok) }},
	{"a router of a zero Node is the only mistake", func(b *builder, _ graph.Node) {
		b.Route(graph.Node{}, nowhere, b.Node("a", work))
	}},
	{"a router to a node of another builder", func(b *builder, ok graph.Node) {
		b.Route(ok, nowhere, graph.Task(newBuilder("other"), "a", workOn))
	}},
	{"a router to a zero TaskNode", func(b *builder, ok graph.Node) { b.Route(ok, nowhere, graph.TaskNode[string]{}) }},
	{"targets of a plain node are the only mistake", func(b *builder, ok graph.Node) {
		b.Targets(ok, b.Node("a", work))
	}},
	{"targets of End", func(b *builder, ok graph.Node) { b.Targets(graph.End, ok) }},
	{"a Goto without targets", func(b *builder, ok graph.Node) { b.Edge(ok, b.Goto("a", workAndGo)) }},
	{"a Goto with an empty list of targets", func(b *builder, ok graph.Node) {
		n := b.Goto("a", workAndGo)
		b.Edge(ok, n)
		b.Targets(n)
	}},
	{"a Goto with a zero Node for a target", func(b *builder, ok graph.Node) {
		n := b.Goto("a", workAndGo)
		b.Edge(ok, n)
		b.Targets(n, graph.Node{})
	}},
	{"a join without sources", func(b *builder, ok graph.Node) { b.Join(nil, ok) }},
	{"a join of one node", func(b *builder, ok graph.Node) { b.Join([]graph.Ref{ok}, ok) }},
	{"a join of one node twice", func(b *builder, ok graph.Node) { b.Join([]graph.Ref{ok, ok}, b.Node("a", work)) }},
	{"a join of End", func(b *builder, ok graph.Node) { b.Join([]graph.Ref{ok, graph.End}, ok) }},
	{"a join into End", func(b *builder, ok graph.Node) {
		n := b.Node("a", work)
		b.Start(n)
		b.Join([]graph.Ref{ok, n}, graph.End)
	}},
	{"a join with zero Nodes and one of another builder", func(b *builder, _ graph.Node) {
		b.Join([]graph.Ref{graph.Node{}, newBuilder("other").Node("a", work)}, graph.Node{})
	}},
	{"a nil handler", func(b *builder, ok graph.Node) { b.Catch(ok, nil) }},
	{"two handlers", func(b *builder, ok graph.Node) {
		b.Catch(ok, recoverFrom)
		b.Catch(ok, recoverFrom)
	}},
	{"a handler on a Sub", func(b *builder, ok graph.Node) {
		n := graph.Sub(b, "a", child(), in, out)
		b.Edge(ok, n)
		b.Catch(n, recoverFrom)
	}},
	{"a handler on a SubTask", func(b *builder, ok graph.Node) {
		n := graph.SubTask(b, "a", child(), inItem, out)
		b.Route(ok, nowhere, n)
		graph.CatchTask(b, n, recoverOn)
	}},
	{"a handler on End", func(b *builder, _ graph.Node) { b.Catch(graph.End, recoverFrom) }},
	{"a handler on a zero TaskNode", func(b *builder, _ graph.Node) {
		graph.CatchTask(b, graph.TaskNode[string]{}, recoverOn)
	}},
	{"a node that nothing leads to", func(b *builder, _ graph.Node) { b.Node("a", work) }},
	{"a ring that nothing leads to", func(b *builder, ok graph.Node) {
		n, m := b.Node("a", work), b.Node("b", work)
		b.Edge(n, m)
		b.Edge(m, n)
		b.Edge(m, ok)
	}},
	{"a timeout of zero", func(b *builder, ok graph.Node) { b.Edge(ok, b.Node("a", work, graph.Timeout(0))) }},
	{"a negative timeout", func(b *builder, ok graph.Node) {
		b.Edge(ok, b.Node("a", work, graph.Timeout(-time.Second)))
	}},
	{"no concurrency", func(b *builder, ok graph.Node) { b.Edge(ok, b.Node("a", work, graph.MaxConcurrency(0))) }},
	{"super-steps of a plain node", func(b *builder, ok graph.Node) {
		b.Edge(ok, b.Node("a", work, graph.MaxSuperSteps(3)))
	}},
	{"a Sub with what belongs to its nodes", func(b *builder, ok graph.Node) {
		b.Edge(ok, graph.Sub(b, "a", child(), in, out, graph.Retry(retrypolicy.New()), graph.Timeout(-1), graph.MaxSuperSteps(0)))
	}},
	{"a timeout and retries on a Func", func(b *builder, ok graph.Node) {
		b.Edge(ok, b.Func("a", plain, graph.Timeout(time.Second), graph.Retry(retrypolicy.Standard())))
	}},
	{"everything at once", func(b *builder, ok graph.Node) {
		b.Start(graph.End)
		b.Edge(ok, b.Node("ok", nil, graph.Timeout(0)))
		b.Node("island", work, graph.Retry(retrypolicy.WorkflowNodeRetryPolicy{}))
		b.Route(ok, nil)
		b.Join(nil, graph.End)
	}},
}

// badPolicies are changes of a policy that is good.
var badPolicies = []struct {
	name   string
	change func(*retrypolicy.WorkflowNodeRetryPolicy)
}{
	{"no attempts", func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.MaxAttempts = 0 }},
	{"negative attempts", func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.MaxAttempts = math.MinInt }},
	{"a negative delay", func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.InitialDelay = -1 }},
	{"a delay that is too long", func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.InitialDelay = 4294967295 * time.Millisecond }},
	{"a multiplier that is no number", func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.BackoffMultiplier = math.NaN() }},
	{"an infinite multiplier", func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.BackoffMultiplier = math.Inf(1) }},
	{"a negative multiplier", func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.BackoffMultiplier = -2 }},
	{"a negative cap", func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.MaxDelay = -time.Hour }},
	{"more than all of it random", func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.Jitter = 1.01 }},
	{"negative jitter", func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.Jitter = -0.5 }},
	{"jitter that is no number", func(p *retrypolicy.WorkflowNodeRetryPolicy) { p.Jitter = math.NaN() }},
	{"every field", func(p *retrypolicy.WorkflowNodeRetryPolicy) {
		*p = retrypolicy.WorkflowNodeRetryPolicy{
			MaxAttempts: -1, InitialDelay: -1, BackoffMultiplier: math.Inf(-1), MaxDelay: -1, Jitter: 2,
		}
	}},
}

type (
	notAStruct  []string
	inner       struct{ Notes []string }
	innerToo    struct{ Notes []string }
	withPointer struct{ *inner }
	onlyState   struct{ N int }
	unknownTag  struct {
		N int `merge:"add"`
	}
	unknownField struct{ M int }
	setNothing   struct {
		Clear []string `merge:"set:"`
	}
	setUnknown struct {
		Clear []string `merge:"set:notes"`
	}
	unexported   struct{ n int }          //nolint:unused // that is what is wrong
	hiddenState  struct{ notes []string } //nolint:unused // that is what is wrong
	wrongType    struct{ N string }
	wrongPointer struct{ N **int }
	appendScalar struct {
		N int `merge:"append"`
	}
	appendOther struct {
		Notes notAStruct `merge:"append"`
	}
	notesOnly struct{ Notes []string }
	anyNotes  struct {
		Notes []any `merge:"union"`
	}
	deepNotes struct {
		Notes [][2]struct{ A []int } `merge:"union"`
	}
	unionScalar struct {
		N int `merge:"union"`
	}
	maxOther struct {
		N int64 `merge:"max"`
	}
	boolState struct{ B bool }
	maxBool   struct {
		B bool `merge:"max"`
	}
	sumText struct {
		Draft string `merge:"sum"`
	}
	minSlice struct {
		Notes *[]string `merge:"min"`
	}
	tagOnInner struct {
		inner `merge:"append"`
	}
	twoInner struct {
		inner
		innerToo
	}
	hidesInner struct {
		inner
		Notes []string
	}
	holdsInner  struct{ Inner inner }
	embedsInner struct{ Inner }
	Inner       struct{ Notes []string }
	overlapping struct {
		Inner Inner
		Notes []string `merge:"append"`
	}
	doublySet struct {
		A []string `merge:"set:Notes"`
		B []string `merge:"set:Notes"`
	}
	manyMistakes struct {
		N     string
		x     int //nolint:unused // that is what is wrong
		Notes int `merge:"append"`
	}
)

// badTypes are states and updates that graph.Fields cannot merge, and reducers that are none.
var badTypes = []struct {
	name  string
	build func() error
}{
	{"no reducer", compileWith(graph.Reducer[State, Update]{})},
	{"a nil fold", compileWith(graph.Reduce[State, Update](nil))},
	{"a nil merge", compileWith(graph.Merge[State, Update](nil))},
	{"a state that is no struct", compileWith(graph.Fields[notAStruct, Update]())},
	{"an update that is a pointer", compileWith(graph.Fields[State, *Update]())},
	{"an unknown tag", compileWith(graph.Fields[onlyState, unknownTag]())},
	{"a field that the state has not", compileWith(graph.Fields[onlyState, unknownField]())},
	{"a set of no field", compileWith(graph.Fields[State, setNothing]())},
	{"a set of an unknown field", compileWith(graph.Fields[State, setUnknown]())},
	{"a field that is not exported", compileWith(graph.Fields[onlyState, unexported]())},
	{"a field that the state does not export", compileWith(graph.Fields[hiddenState, notesOnly]())},
	{"a type that does not fit", compileWith(graph.Fields[onlyState, wrongType]())},
	{"a pointer too many", compileWith(graph.Fields[onlyState, wrongPointer]())},
	{"append to a number", compileWith(graph.Fields[onlyState, appendScalar]())},
	{"append of another slice type", compileWith(graph.Fields[State, appendOther]())},
	{"union of interfaces", compileWith(graph.Fields[anyNotes, anyNotes]())},
	{"union of elements that hold slices", compileWith(graph.Fields[deepNotes, deepNotes]())},
	{"union of numbers", compileWith(graph.Fields[onlyState, unionScalar]())},
	{"max of another number type", compileWith(graph.Fields[onlyState, maxOther]())},
	{"max of truths", compileWith(graph.Fields[boolState, maxBool]())},
	{"sum of texts", compileWith(graph.Fields[State, sumText]())},
	{"min of slices", compileWith(graph.Fields[State, minSlice]())},
	{"an embedded pointer in the update", compileWith(graph.Fields[State, withPointer]())},
	{"an embedded pointer in the state", compileWith(graph.Fields[withPointer, notesOnly]())},
	{"an embedded struct with a tag", compileWith(graph.Fields[State, tagOnInner]())},
	{"two embedded fields of one name", compileWith(graph.Fields[State, twoInner]())},
	{"an embedded field that is hidden", compileWith(graph.Fields[State, hidesInner]())},
	{"a struct and a field of it", compileWith(graph.Fields[embedsInner, overlapping]())},
	{"a struct that the state has only embedded", compileWith(graph.Fields[State, holdsInner]())},
	{"two fields that set one", compileWith(graph.Fields[State, doublySet]())},
	{"many mistakes", compileWith(graph.Fields[onlyState, manyMistakes]())},
}

// compileWith compiles a graph that has nothing wrong but its reducer.
func compileWith[S, U any](r graph.Reducer[S, U]) func() error {
	return func() error {
		b := graph.New("bad", r)
		b.Start(b.Func("ok", func(S) (u U, err error) { return u, nil }))
		_, err := b.Compile()
		return err
	}
}

func TestBadGraphsAreRefusedWithTheseTexts(t *testing.T) {
	var all strings.Builder
	add := func(name string, err error) {
		var refused *graph.CompileError
		require.ErrorAs(t, err, &refused, name)
		require.Equal(t, classifier.CompilationFailed, refused.RunErrorClass())
		for _, p := range refused.Problems {
			require.NotEmpty(t, p.Where, name)
			require.NotEmpty(t, p.What, name)
			require.NotEmpty(t, p.Remedy, name)
			require.ErrorIs(t, err, p)
		}
		fmt.Fprintf(&all, "# %s\n%v\n\n", name, err)
	}
	for _, tt := range badGraphs {
		b := newBuilder("bad")
		ok := b.Node("ok", work)
		b.Start(ok)
		tt.build(b, ok)
		_, err := b.Compile()
		add(tt.name, err)
	}
	for _, tt := range badPolicies {
		p := retrypolicy.Standard()
		tt.change(&p)
		b := newBuilder("bad")
		b.Start(b.Node("ok", work, graph.Retry(p)))
		_, err := b.Compile()
		add("a policy with "+tt.name, err)
		var field *retrypolicy.FieldError
		require.ErrorAs(t, err, &field)
	}
	for _, tt := range badTypes {
		add(tt.name, tt.build())
	}
	for _, tt := range []struct {
		name  string
		build func(*builder)
		title string
	}{
		{"a graph without a name", func(b *builder) { b.Start(b.Node("ok", work)) }, ""},
		{"a graph with a newline in its name", func(b *builder) { b.Start(b.Node("ok", work)) }, "a\nb"},
		{"a graph whose name is not UTF-8", func(b *builder) { b.Start(b.Node("ok", work)) }, "\xff"},
		{"a graph without nodes", func(*builder) {}, "bad"},
		{"a graph without a start", func(b *builder) { b.Node("ok", work) }, "bad"},
		{"a graph that starts at a node of another builder", func(b *builder) {
			b.Node("ok", work)
			b.Start(newBuilder("other").Node("a", work))
		}, "bad"},
	} {
		b := newBuilder(tt.title)
		tt.build(b)
		_, err := b.Compile()
		add(tt.name, err)
	}
	golden(t, "bad-graphs.txt", all.String())
}
