package superstep_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

// A random graph is drawn from a blueprint. It is run three times: by Runner, by Machine with the outcomes told in a
// random order, and by the interpreter below, which is written from the rules and shares no code with either.

// trail is the state of random graphs: what ran, in the order in which it was reduced.
type trail struct{ Log []string }

// blueprint says what a random graph is. Nodes are named by their place.
type blueprint struct {
	nodes []roughNode
	start []int
	joins []roughJoin
	limit int
}

type roughNode struct {
	fan, gone, deferred bool // a Task, a Goto
	edges               []int
	routers             [][]int // targets by router; end for graph.End
	targets             []int   // of a Goto
}

type roughJoin struct {
	sources []int
	target  int
}

func (j roughJoin) equal(k roughJoin) bool {
	return j.target == k.target && slices.Equal(j.sources, k.sources)
}

const end = -1

// dice is where a blueprint's choices come from: a random source, or a fuzzer's bytes.
type dice interface{ roll(n int) int }

type randDice struct{ *rand.Rand }

func (d randDice) roll(n int) int { return d.IntN(n) }

// byteDice runs out of bytes in time, and then always gives zero.
type byteDice struct{ data []byte }

func (d *byteDice) roll(n int) int {
	if len(d.data) == 0 {
		return 0
	}
	v := int(d.data[0]) % n
	d.data = d.data[1:]
	return v
}

func drawBlueprint(d dice) *blueprint {
	p := &blueprint{nodes: make([]roughNode, 1+d.roll(8)), limit: 1 + d.roll(16)}
	var plain, all []int
	for i := range p.nodes {
		n := &p.nodes[i]
		switch kind := d.roll(6); {
		case i > 0 && kind == 1: // node 0 can always be a start
			n.fan = true
		case kind == 2:
			n.gone = true
		}
		n.deferred = d.roll(6) == 1
		all = append(all, i)
		if !n.fan {
			plain = append(plain, i)
		}
	}
	for i := range p.nodes {
		n := &p.nodes[i]
		for range d.roll(3) {
			if e := plain[d.roll(len(plain))]; e > i || d.roll(8) == 1 { // few static cycles, or no run would end
				n.edges = append(n.edges, e)
			}
		}
		for range d.roll(3) {
			n.routers = append(n.routers, pick(d, all))
		}
		if n.gone {
			n.targets = pick(d, all)
		}
	}
	for range 1 + d.roll(2) {
		if s := plain[d.roll(len(plain))]; !slices.Contains(p.start, s) {
			p.start = append(p.start, s)
		}
	}
	for range d.roll(3) {
		sources := slices.Concat(pick(d, all)[1:], pick(d, all)[1:])
		slices.Sort(sources)
		j := roughJoin{slices.Compact(sources), plain[d.roll(len(plain))]}
		if len(j.sources) >= 2 && !slices.ContainsFunc(p.joins, j.equal) { // the same join twice is one
			p.joins = append(p.joins, j)
		}
	}
	p.reach()
	return p
}

// pick draws some nodes, each once, with End in front.
func pick(d dice, from []int) []int {
	out := []int{end}
	for range 1 + d.roll(3) {
		if n := from[d.roll(len(from))]; !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// reach lets a router of the first start reach every node, so that the graph compiles: it names those seldom.
func (p *blueprint) reach() {
	everything := []int{end}
	for i := range p.nodes {
		everything = append(everything, i)
	}
	n := &p.nodes[p.start[0]]
	n.routers = append(n.routers, everything)
}

// answer is a router's or a Goto's answer: a pure function of the state and of who asks.
type answer struct {
	node  int
	items []string // for a fan-out
}

func answers(p *blueprint, who string, log []string, targets []int) []answer {
	h := fnv.New64a()
	fmt.Fprint(h, who, len(log), log[max(0, len(log)-3):])
	r := rand.New(rand.NewPCG(h.Sum64(), 1))
	var out []answer
	for range r.IntN(3) {
		a := answer{node: targets[r.IntN(len(targets))]}
		if a.node != end && p.nodes[a.node].fan {
			for i := range r.IntN(4) {
				a.items = append(a.items, fmt.Sprint(who, ">", i))
			}
		}
		out = append(out, a)
	}
	return out
}

// entry is what a task writes to the log: it tells all that the task saw.
func entry(node int, item string, seen []string) string {
	h := fnv.New32a()
	fmt.Fprint(h, len(seen), seen[max(0, len(seen)-6):]) // which in turn tell what came before
	return fmt.Sprintf("%d(%s)%x", node, item, h.Sum32())
}

// interpret is the reference: one super-step after another, everything by name and by hand.
func interpret(p *blueprint) (log []string, superSteps int, unfired []string, over bool) {
	type active struct {
		node int
		item string
		fan  bool
	}
	arrived := make([]map[int]bool, len(p.joins))
	fired := make([]bool, len(p.joins))
	ran := make([]bool, len(p.nodes))
	for i := range arrived {
		arrived[i] = map[int]bool{}
	}
	var waiting []answer // deferred
	activate := func(asked []answer) []active {
		var now []answer
		for _, a := range asked {
			switch {
			case a.node == end || (p.nodes[a.node].fan && len(a.items) == 0):
			case p.nodes[a.node].deferred:
				waiting = append(waiting, a)
			default:
				now = append(now, a)
			}
		}
		if len(now) == 0 {
			now, waiting = waiting, nil
		}
		var out []active
		for n := range p.nodes { // plain ones first, each once
			if !p.nodes[n].fan && slices.ContainsFunc(now, func(a answer) bool { return a.node == n }) {
				out = append(out, active{node: n})
			}
		}
		for n := range p.nodes {
			for _, a := range now {
				if p.nodes[n].fan && a.node == n {
					for _, item := range a.items {
						out = append(out, active{n, item, true})
					}
				}
			}
		}
		return out
	}
	var asked []answer
	for _, s := range p.start {
		asked = append(asked, answer{node: s})
	}
	for tasks := activate(asked); len(tasks) > 0; tasks = activate(asked) {
		if superSteps == p.limit {
			over = true
			break
		}
		superSteps++
		seen := slices.Clone(log)
		var who []int
		for _, t := range tasks {
			log = append(log, entry(t.node, t.item, seen))
			if !slices.Contains(who, t.node) {
				who = append(who, t.node)
			}
		}
		asked = nil
		for _, n := range who {
			for _, e := range p.nodes[n].edges {
				asked = append(asked, answer{node: e})
			}
			for i, targets := range p.nodes[n].routers {
				asked = append(asked, answers(p, fmt.Sprint("r", n, ".", i), log, targets)...)
			}
			ran[n] = true
		}
		for _, n := range who { // a Goto answers on what it saw
			if p.nodes[n].gone {
				asked = append(asked, answers(p, fmt.Sprint("g", n), seen, p.nodes[n].targets)...)
			}
		}
		for i, j := range p.joins {
			for _, n := range who {
				if slices.Contains(j.sources, n) {
					arrived[i][n] = true
				}
			}
			if len(arrived[i]) == len(j.sources) { // what arrives in the super-step in which it fires comes before it fires
				arrived[i], fired[i] = map[int]bool{}, true
				asked = append(asked, answer{node: j.target})
			}
		}
	}
	for i, j := range p.joins {
		if !fired[i] || len(arrived[i]) > 0 {
			var have []int
			for _, s := range j.sources {
				if arrived[i][s] {
					have = append(have, s)
				}
			}
			unfired = append(unfired, fmt.Sprintf("join %d %v", j.target, have))
		}
	}
	for n := range p.nodes {
		if !ran[n] {
			unfired = append(unfired, fmt.Sprint("node ", n))
		}
	}
	return log, superSteps, unfired, over
}

// unfiredOf writes what the executor says in the interpreter's words.
func unfiredOf(us []task.Unfired) []string {
	var out []string
	for _, u := range us {
		if u.Join {
			out = append(out, fmt.Sprintf("join %s [%s]", u.Target[1:], joinNames(u.Arrived)))
		} else {
			out = append(out, "node "+u.Target[1:])
		}
	}
	return out
}

func joinNames(names []string) string {
	s := ""
	for i, n := range names {
		if i > 0 {
			s += " "
		}
		s += n[1:]
	}
	return s
}

type randomBuilder struct {
	p     *blueprint
	b     *graph.Builder[trail, string]
	plain map[int]graph.Node
	fans  map[int]graph.TaskNode[string]
}

// compile builds the graph of a blueprint. The nodes call between before they return.
func (p *blueprint) compile(between func()) (*graph.Graph[trail, string], error) {
	rb := &randomBuilder{p, graph.New("random", graph.Reduce(func(s trail, u string) trail {
		s.Log = append(s.Log, u)
		return s
	})), map[int]graph.Node{}, map[int]graph.TaskNode[string]{}}
	for i := range p.nodes {
		rb.node(i, between)
	}
	for i, n := range p.nodes {
		for _, e := range n.edges {
			rb.b.Edge(rb.ref(i), rb.plain[e])
		}
		for k, targets := range n.routers {
			rb.b.Route(rb.ref(i), func(s trail) graph.Next {
				return rb.next(answers(p, fmt.Sprint("r", i, ".", k), s.Log, targets))
			}, rb.refs(targets)...)
		}
		if n.gone {
			rb.b.Targets(rb.plain[i], rb.refs(n.targets)...)
		}
	}
	for _, s := range p.start {
		rb.b.Start(rb.plain[s])
	}
	for _, j := range p.joins {
		rb.b.Join(rb.refs(j.sources), rb.plain[j.target])
	}
	return rb.b.Compile()
}

func (rb *randomBuilder) node(i int, between func()) {
	var opts []graph.Option
	n := rb.p.nodes[i]
	if n.deferred {
		opts = append(opts, graph.Defer())
	}
	name := fmt.Sprint("n", i)
	work := func(s trail, item string) string {
		e := entry(i, item, s.Log)
		_ = append(s.Log, "private")
		between()
		return e
	}
	switch {
	case n.fan:
		rb.fans[i] = graph.Task(
			rb.b,
			name,
			func(_ context.Context, s trail, item string) (string, error) { return work(s, item), nil },
			opts...)
	case n.gone:
		rb.plain[i] = rb.b.Goto(name, func(_ context.Context, s trail) (string, graph.Next, error) {
			next := rb.next(answers(rb.p, fmt.Sprint("g", i), s.Log, n.targets))
			return work(s, ""), next, nil
		}, opts...)
	default:
		rb.plain[i] = rb.b.Node(name, func(_ context.Context, s trail) (string, error) { return work(s, ""), nil }, opts...)
	}
}

func (rb *randomBuilder) ref(i int) graph.Ref {
	if i == end {
		return graph.End
	}
	if rb.p.nodes[i].fan {
		return rb.fans[i]
	}
	return rb.plain[i]
}

func (rb *randomBuilder) refs(is []int) []graph.Ref {
	var out []graph.Ref
	for _, i := range is {
		out = append(out, rb.ref(i))
	}
	return out
}

func (rb *randomBuilder) next(as []answer) graph.Next {
	var out []graph.Next
	for _, a := range as {
		switch {
		case a.node == end:
			out = append(out, graph.To(graph.End))
		case rb.p.nodes[a.node].fan:
			out = append(out, rb.fans[a.node].Each(a.items))
		default:
			out = append(out, graph.To(rb.plain[a.node]))
		}
	}
	return graph.All(out...)
}

// call calls the node of a task.
func call[S, U any](g *graph.Graph[S, U], t superstep.Activation, s S) (u U, next graph.Next, err error) {
	u, err = g.Plan().Nodes[t.Node].Call(context.Background(), s, t.Items, t.Item, &next)
	return u, next, err
}

// verdict is what a run of a random graph came to.
type verdict struct {
	Log     []string
	Steps   int
	Unfired []string
	Over    bool // over the limit
}

func reference(p *blueprint) verdict {
	log, n, unfired, over := interpret(p)
	if over {
		unfired = nil // Result.Unfired is for runs that succeeded
	}
	return verdict{log, n, unfired, over}
}

// byMachine drives a Machine, telling it the outcomes of each super-step in the order that shuffle makes.
func byMachine(g *graph.Graph[trail, string], limit int, shuffle func([]int)) (verdict, error) {
	m, err := superstep.NewMachine(g, trail{}, limit)
	if err != nil {
		return verdict{}, err
	}
	over := false
	for !m.Done() && !over {
		order := make([]int, len(m.Tasks()))
		for i := range order {
			order[i] = i
		}
		shuffle(order)
		for _, i := range order {
			t := m.Tasks()[i]
			u, next, err := call(g, t, m.State())
			if err != nil {
				return verdict{}, err
			}
			if err := m.Complete(i, u, next); err != nil {
				return verdict{}, err
			}
		}
		if err := m.Advance(); err != nil {
			if _, over = errors.AsType[*superstep.MaxSuperStepsError](err); !over {
				return verdict{}, err
			}
		}
	}
	v := verdict{Log: m.State().Log, Steps: m.SuperSteps(), Over: over}
	if !v.Over {
		v.Unfired = unfiredOf(m.Unfired())
	}
	return v, nil
}

func TestDeterminism_RandomGraphsGiveWhatTheReferenceInterpreterGives(t *testing.T) {
	graphs := 2500
	if testing.Short() {
		graphs = 300
	}
	begin := time.Now()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var over, joins, fans int
	for procs := range 4 {
		runtime.GOMAXPROCS([]int{1, 2, 4, 8}[procs])
		var wg sync.WaitGroup
		for worker := range 4 {
			wg.Go(func() {
				for i := worker; i < graphs/4; i += 4 {
					differential(t, uint64(procs*graphs+i))
				}
			})
		}
		wg.Wait()
		for i := range graphs / 4 {
			p := drawBlueprint(randDice{rand.New(rand.NewPCG(uint64(procs*graphs+i), 7))})
			v := reference(p)
			if v.Over {
				over++
			}
			if len(p.joins) > 0 && v.Steps > 2 {
				joins++
			}
			if slices.ContainsFunc(v.Log, func(e string) bool { return !strings.Contains(e, "()") }) {
				fans++
			}
		}
	}
	t.Logf(
		"%d graphs in %v: %d over their limit, %d with joins and several super-steps, %d that fan out",
		graphs,
		time.Since(begin),
		over,
		joins,
		fans,
	)
	require.Greater(t, graphs-over, graphs/3, "the graphs must not be trivial")
	require.Greater(t, joins, graphs/10)
	require.Greater(t, fans, graphs/10)
}

// differential runs the graph of a seed every way.
func differential(t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 7))
	p := drawBlueprint(randDice{random})
	want := reference(p)
	yields := seed % 3
	g, err := p.compile(func() {
		for range rand.Uint64N(1 + 3*yields) {
			runtime.Gosched()
		}
	})
	if err != nil {
		t.Errorf("seed %d: %v", seed, err)
		return
	}
	for range 2 {
		got, err := byMachine(g, p.limit, func(o []int) { random.Shuffle(len(o), func(i, k int) { o[i], o[k] = o[k], o[i] }) })
		same(t, seed, "Machine", want, got, err)
	}
	for _, concurrency := range []int{0, 1, 2, 7} {
		r, err := superstep.NewRunner(g, superstep.Config{MaxSuperSteps: p.limit, MaxConcurrency: concurrency})
		if err != nil {
			t.Error(err)
			return
		}
		res, err := r.Run(t.Context(), trail{})
		got := verdict{Log: res.State.Log, Steps: res.SuperSteps, Unfired: unfiredOf(res.Unfired)}
		if got.Over = errors.As(err, new(*superstep.MaxSuperStepsError)); got.Over {
			err = nil
		}
		same(t, seed, fmt.Sprint("Runner, MaxConcurrency ", concurrency), want, got, err)
	}
}

func same(t *testing.T, seed uint64, who string, want, got verdict, err error) {
	t.Helper()
	if err == nil && slices.Equal(want.Log, got.Log) && want.Steps == got.Steps && want.Over == got.Over &&
		slices.Equal(want.Unfired, got.Unfired) {
		return
	}
	i := 0
	for i < min(len(want.Log), len(got.Log)) && want.Log[i] == got.Log[i] {
		i++
	}
	t.Errorf(
		"seed %d, %s: error %v; the logs differ from entry %d\nwant %v\ngot  %v\n"+
			"want %d super-steps, %v, over the limit: %v\ngot  %d super-steps, %v, over the limit: %v",
		seed,
		who,
		err,
		i,
		want.Log[i:min(i+5, len(want.Log))],
		got.Log[i:min(i+5, len(got.Log))],
		want.Steps,
		want.Unfired,
		want.Over,
		got.Steps,
		got.Unfired,
		got.Over,
	)
}

func FuzzMachine(f *testing.F) {
	f.Add([]byte{}, uint64(1))
	f.Add([]byte("a graph of bytes, with nodes and edges"), uint64(2))
	for i := range 10 {
		r := rand.New(rand.NewPCG(uint64(i), 3))
		data := make([]byte, 80)
		for k := range data {
			data[k] = byte(r.Uint32())
		}
		f.Add(data, r.Uint64())
	}
	f.Fuzz(func(t *testing.T, data []byte, order uint64) {
		p := drawBlueprint(&byteDice{data})
		want := reference(p)
		g, err := p.compile(func() {})
		require.NoError(t, err)
		random := rand.New(rand.NewPCG(order, 1))
		for _, shuffle := range []func([]int){
			func([]int) {}, slices.Reverse[[]int],
			func(o []int) { random.Shuffle(len(o), func(i, k int) { o[i], o[k] = o[k], o[i] }) },
		} {
			got, err := byMachine(g, p.limit, shuffle)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	})
}
