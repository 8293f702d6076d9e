package superstep

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/task"
)

// What happens at the barrier between two super-steps: Advance calls reduce, route, arrive and begin.

func (m *Machine[S, U]) reduce() error {
	m.next = m.state
	var err error
	if m.plan.SafeReduce {
		err = m.plan.Reduce(&m.next, m.writes)
	} else {
		err = m.callReducer()
	}
	if err != nil {
		e := &ReduceError{SuperStep: m.step, Err: err}
		for _, n := range m.ranNodes() {
			e.Nodes = append(e.Nodes, m.plan.Nodes[n].Name)
		}
		return e
	}
	return nil
}

func (m *Machine[S, U]) callReducer() (err error) {
	defer task.Recover("reducer", &err)
	return m.plan.Reduce(&m.next, m.writes)
}

// reduceEdit folds an update from outside into the state that is not accepted yet.
func (m *Machine[S, U]) reduceEdit(update U) (err error) {
	defer task.Recover("reducer", &err)
	if err := m.plan.Reduce(&m.next, []graph.Write[U]{{Node: editor, Index: -1, Update: update}}); err != nil {
		return &ReduceError{SuperStep: m.step, Nodes: []string{editor}, Err: err}
	}
	return nil
}

// editor is whose update it is that comes from outside, for a Merge function.
const editor = "(edit)"

// ranNodes lists the nodes of the current tasks, each once, in task order.
func (m *Machine[S, U]) ranNodes() []int {
	m.ran = m.ran[:0]
	for i, t := range m.tasks {
		if i == 0 || t.Node != m.tasks[i-1].Node { // tasks of one node stand together
			m.ran = append(m.ran, t.Node)
		}
	}
	return m.ran
}

// route collects what edges, routers and Gotos activate. It changes nothing but scratch: a router may still fail.
func (m *Machine[S, U]) route() error {
	m.nextView = m.next
	m.plan.Clip(&m.nextView)
	m.plain, m.fans = m.plain[:0], m.fans[:0]
	// The shortest way for the commonest node: one edge, and nothing to ask.
	if next := m.shape.successor[m.tasks[0].Node]; next >= 0 && len(m.tasks) == 1 && !m.shape.hasGoto {
		m.ran = append(m.ran[:0], m.tasks[0].Node)
		m.plain = append(m.plain, next)
		return nil
	}
	for _, n := range m.ranNodes() {
		node := &m.plan.Nodes[n]
		for _, to := range node.Edges { //nolint:staticcheck // mostly one, for which append would cost more
			m.plain = append(m.plain, to)
		}
		for i := range node.Routers {
			var next graph.Next
			if err := m.ask(&node.Routers[i], &next); err != nil {
				return fmt.Errorf("pawl: super-step %d: router of %q: %w", m.step, node.Name, err)
			}
			if err := m.follow(node.Name, node.Routers[i].Targets, &next); err != nil {
				return err
			}
		}
	}
	for i := range m.nexts {
		node := &m.plan.Nodes[m.tasks[i].Node]
		if err := m.follow(node.Name, node.Targets, &m.nexts[i]); err != nil {
			return err
		}
	}
	return nil
}

func (m *Machine[S, U]) ask(r *graph.PlanRouter[S], next *graph.Next) (err error) {
	defer task.Recover("router", &err)
	*next = r.Route(m.nextView)
	return nil
}

// allowed checks what a Goto named against what it declared.
func (m *Machine[S, U]) allowed(source string, targets []int, next *graph.Next) error {
	for i := range next.Len() {
		if _, err := m.target(source, targets, next.At(i)); err != nil {
			return err
		}
	}
	return nil
}

// target is the node that a router or a Goto named, if it has declared it.
func (m *Machine[S, U]) target(source string, targets []int, t graph.Target) (int, error) {
	n, ours := m.plan.Index(t)
	if !ours || !slices.Contains(targets, n) {
		return 0, &RouteError{SuperStep: m.step, Source: source, Target: t.Name(), Foreign: !ours}
	}
	return n, nil
}

// follow collects what a router or a Goto named.
func (m *Machine[S, U]) follow(source string, targets []int, next *graph.Next) error {
	for i := range next.Len() {
		t := next.At(i)
		n, err := m.target(source, targets, t)
		switch {
		case err != nil:
			return err
		case n < 0: // End
		case t.Items == nil:
			m.plain = append(m.plain, n)
		case t.Items.Len() > 0:
			m.fans = append(m.fans, fan{node: n, items: t.Items})
		}
	}
	return nil
}

// successor is the node that follows node i where only one edge leads away from it, to a node that is not deferred.
func successor[S, U any](plan *graph.Plan[S, U], i int) int {
	n := &plan.Nodes[i]
	if n.Kind == graph.KindGoto || len(n.Edges) != 1 || len(n.Routers) > 0 || len(n.Joins) > 0 || plan.Nodes[n.Edges[0]].Deferred {
		return -1
	}
	return n.Edges[0]
}

// goStraight does what arrive and begin do where one task has activated one node, as in most super-steps.
func (m *Machine[S, U]) goStraight() bool {
	n := m.tasks[0].Node
	if len(m.tasks) > 1 || len(m.plain) != 1 || len(m.fans) > 0 || m.tasks[0].Items != nil || m.shape.hasGoto {
		return false
	}
	next := m.plain[0]
	if m.shape.deferred[next] || len(m.plan.Nodes[n].Joins) > 0 {
		return false
	}
	m.nodes[n].ran = true
	m.plain = m.plain[:0]
	m.tasks[0].Node = next
	m.writes[0] = graph.Write[U]{Node: m.plan.Nodes[next].Name, Index: -1}
	m.done[0] = false
	m.step++
	return true
}

// arrive makes active, or defers, what was routed to and the targets of the joins that fire.
func (m *Machine[S, U]) arrive() {
	joined := false
	for _, n := range m.ran {
		m.nodes[n].ran = true
		for _, j := range m.plan.Nodes[n].Joins {
			joined = true
			join := &m.joins[j]
			if k := slices.Index(m.plan.Joins[j].Sources, n); !join.arrived[k] {
				join.arrived[k] = true
				join.missing--
			}
		}
	}
	if joined {
		m.fire()
	}
	plain := m.plain
	m.plain = m.plain[:0]
	for _, n := range plain {
		m.activate(n)
	}
	if len(m.fans) > 0 {
		m.deferFans()
	}
}

// deferFans puts the fan-outs of deferred nodes off.
func (m *Machine[S, U]) deferFans() {
	fans := m.fans
	m.fans = m.fans[:0]
	for _, f := range fans {
		if m.plan.Nodes[f.node].Deferred {
			m.deferred.fans = append(m.deferred.fans, f)
		} else {
			m.fans = append(m.fans, f)
		}
	}
}

// fire adds the targets of the joins that wait for nothing more. It comes after all arrivals of the super-step: one that
// is not needed any more belongs to the round that ends here.
func (m *Machine[S, U]) fire() {
	for j := range m.joins {
		if join := &m.joins[j]; join.missing == 0 {
			clear(join.arrived)
			join.missing, join.fired = len(join.arrived), true
			m.plain = append(m.plain, m.plan.Joins[j].Target)
		}
	}
}

// activate makes a node active in the next super-step, once, or puts it off if it is deferred.
func (m *Machine[S, U]) activate(n int) {
	state := &m.nodes[n]
	switch {
	case m.shape.deferred[n]:
		if !state.waiting {
			state.waiting = true
			m.deferred.plain = append(m.deferred.plain, n)
		}
	case state.activated != m.step+1:
		state.activated = m.step + 1
		m.plain = append(m.plain, n)
	}
}

// begin turns what is activated into the tasks of the next super-step. If nothing else is active, what was deferred is.
func (m *Machine[S, U]) begin() {
	if len(m.plain) == 0 && len(m.fans) == 0 {
		m.releaseDeferred()
	}
	before := len(m.tasks)
	m.tasks = m.tasks[:0]
	if len(m.plain) > 1 {
		slices.Sort(m.plain)
	}
	for _, n := range m.plain {
		m.tasks = append(m.tasks, Activation{Node: n})
	}
	m.plain = m.plain[:0]
	if len(m.fans) > 0 {
		m.fanOut()
	}
	m.resetOutcomes(before)
	if len(m.tasks) > 0 {
		m.step++
	}
}

func (m *Machine[S, U]) releaseDeferred() {
	m.plain = append(m.plain, m.deferred.plain...)
	m.fans = append(m.fans, m.deferred.fans...)
	for _, n := range m.deferred.plain {
		m.nodes[n].waiting = false
	}
	m.deferred.plain = m.deferred.plain[:0]
	clear(m.deferred.fans)
	m.deferred.fans = m.deferred.fans[:0]
}

// fanOut adds a task for each item, by node. Several fan-outs of one node in one super-step are numbered through.
func (m *Machine[S, U]) fanOut() {
	slices.SortStableFunc(m.fans, func(a, b fan) int { return cmp.Compare(a.node, b.node) })
	index := 0
	for i, f := range m.fans {
		if i == 0 || f.node != m.fans[i-1].node {
			index = 0
		}
		m.tasks = slices.Grow(m.tasks, f.items.Len())
		for k := range f.items.Len() {
			m.tasks = append(m.tasks, Activation{Node: f.node, Index: index, Items: f.items, Item: k})
			index++
		}
	}
	clear(m.fans)
	m.fans = m.fans[:0]
}

// resetOutcomes makes room for the outcomes of the new tasks, and lets go of what the super-step before had more.
func (m *Machine[S, U]) resetOutcomes(before int) {
	n := len(m.tasks)
	if n == 1 && before == 1 && m.tasks[0].Items == nil && !m.shape.hasGoto { // what most super-steps are
		m.writes[0] = graph.Write[U]{Node: m.plan.Nodes[m.tasks[0].Node].Name, Index: -1}
		m.done[0] = false
		return
	}
	if n < before {
		clear(m.tasks[n:before])
		clear(m.writes[n:])
	}
	clear(m.done)
	clear(m.nexts)
	m.writes, m.done = resize(m.writes, n), resize(m.done, n)
	if m.shape.hasGoto {
		m.nexts = resize(m.nexts, n)
	}
	for i, t := range m.tasks {
		w := &m.writes[i]
		*w = graph.Write[U]{Node: m.plan.Nodes[t.Node].Name, Index: -1}
		if t.Items != nil {
			w.Index = t.Index
		}
	}
}

// resize returns s with length n, or a new slice if s has not the room.
func resize[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	return make([]T, n)
}
