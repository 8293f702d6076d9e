package superstep

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/task"
)

// Machine is for executors, and the heart of Runner: given the outcomes of the active tasks it says which tasks are active next. It is
// pure: it has no goroutine, clock, channel or I/O, and two machines that are told the same do the same. Runner drives
// one with goroutines.
//
//	for !m.Done() {
//		for i, t := range m.Tasks() { m.Complete(i, update, next) }
//		if err := m.Advance(); err != nil { ... }
//	}
//
// Complete may be called concurrently for different tasks. Everything else needs the machine for itself.
type Machine[S, U any] struct {
	plan  *graph.Plan[S, U]
	limit int
	step  int // the current super-step, from 1
	taken int // how many were accepted

	// state is the master: its slices may have room behind their length, for appends. view is the same state clipped,
	// and the only one that is handed out. next and nextView are the same of a super-step that is not accepted yet.
	state, view, next, nextView S

	tasks  []Activation
	writes []graph.Write[U] // by task
	nexts  []graph.Next     // by task; empty in a graph without Goto nodes
	done   []bool           // by task

	nodes    []nodeState
	joins    []joinState
	ran      []int // scratch: nodes that ran in this super-step
	plain    []int // scratch: nodes that are active next
	fans     []fan // scratch: fan-outs that are active next
	deferred struct {
		plain []int
		fans  []fan
	}
	hasGoto bool
}

// Activation is one active task: a node, and the item it runs on if it is fanned out.
type Activation struct {
	Node  int // index in the graph's plan
	Index int // number among the node's tasks of this super-step; 0 for a node that is not fanned out
	Items graph.Items
	Item  int // place in Items
}

// nodeState is what the machine remembers of a node.
type nodeState struct {
	activated int  // the last super-step it was activated for, so that several edges activate it once
	ran       bool // ever
	waiting   bool // deferred, and activated
}

type joinState struct {
	arrived []bool // by source
	missing int
	fired   bool // ever
}

type fan struct {
	node  int
	items graph.Items
}

// NewMachine returns a machine before its first super-step. The limit is the number of super-steps allowed; below 1 it is
// refused.
func NewMachine[S, U any](g *graph.Graph[S, U], in S, limit int) (*Machine[S, U], error) {
	if limit < 1 {
		return nil, fmt.Errorf("pawl: graph %q: MaxSuperSteps %d is below 1: allow at least one super-step", g.Name(), limit)
	}
	return newMachine(g.Plan(), in, limit), nil
}

func newMachine[S, U any](plan *graph.Plan[S, U], in S, limit int) *Machine[S, U] {
	m := &Machine[S, U]{plan: plan, limit: limit, state: in, nodes: make([]nodeState, len(plan.Nodes))}
	plan.Clip(&m.state) // the caller may hold what lies behind the length
	m.view = m.state
	for i := range plan.Nodes {
		m.hasGoto = m.hasGoto || plan.Nodes[i].Kind == graph.KindGoto
	}
	if len(plan.Joins) > 0 {
		m.joins = make([]joinState, len(plan.Joins))
	}
	for i, j := range plan.Joins {
		m.joins[i] = joinState{arrived: make([]bool, len(j.Sources)), missing: len(j.Sources)}
	}
	for _, n := range plan.Start {
		m.activate(n)
	}
	m.begin()
	return m
}

// State returns the state after the last accepted super-step. Its slices are clipped and safe to append to.
func (m *Machine[S, U]) State() S { return m.view }

// SuperSteps is how many super-steps are part of the state.
func (m *Machine[S, U]) SuperSteps() int { return m.taken }

// SuperStep is the number of the super-step that the active tasks belong to, from 1. When the machine is done, it is that
// of the last one.
func (m *Machine[S, U]) SuperStep() int { return m.step }

// SuperStepsLeft is how many super-steps the limit allows after the current one.
func (m *Machine[S, U]) SuperStepsLeft() int { return m.limit - m.step }

// Tasks are the active tasks, in task order: nodes in the order of their declaration, then fan-outs, by node and in the
// order of their items. The slice is valid until Advance.
func (m *Machine[S, U]) Tasks() []Activation { return m.tasks }

// Done reports whether nothing is active.
func (m *Machine[S, U]) Done() bool { return len(m.tasks) == 0 }

// Complete records the outcome of the i-th task: its update, and what a Goto node named. A task completes once. The error
// is a *RouteError for a target that is not declared, a *MaxSuperStepsError beyond the limit, or tells of misuse.
func (m *Machine[S, U]) Complete(i int, update U, next graph.Next) error {
	if err := m.limitError(); err != nil {
		return err
	}
	if i < 0 || i >= len(m.tasks) {
		return fmt.Errorf("pawl: super-step %d has no task %d", m.step, i)
	}
	if m.done[i] {
		return fmt.Errorf("pawl: super-step %d: task %d (%s) was completed before: complete each task once",
			m.step, i, m.plan.Nodes[m.tasks[i].Node].Name)
	}
	if next.Len() > 0 {
		node := &m.plan.Nodes[m.tasks[i].Node]
		if err := m.allowed(node.Name, node.Targets, next); err != nil {
			return err
		}
		m.nexts[i] = next
	}
	m.writes[i].Update = update
	m.done[i] = true
	return nil
}

// Advance is the barrier: all tasks must be complete. It reduces their updates in task order, asks the routers, and makes
// the next tasks active. On an error nothing of the super-step is accepted and the machine stays where it is: a
// *ReduceError, a *RouteError, or a *task.PanicError of a router. A *MaxSuperStepsError is different: the super-step is
// accepted, and a further one would be one too many.
func (m *Machine[S, U]) Advance() error {
	if m.Done() {
		return errors.New("pawl: the machine is done: there is no super-step to accept")
	}
	if err := m.limitError(); err != nil {
		return err
	}
	if i := slices.Index(m.done, false); i >= 0 {
		return fmt.Errorf("pawl: super-step %d: task %d (%s) is not complete: call Complete for every task first",
			m.step, i, m.plan.Nodes[m.tasks[i].Node].Name)
	}
	if err := m.reduce(); err != nil {
		return err
	}
	if err := m.route(); err != nil {
		return err
	}
	m.state, m.view = m.next, m.nextView
	m.taken++
	m.arrive()
	m.begin()
	return m.limitError()
}

// limitError is a *MaxSuperStepsError if the current super-step is one more than the limit allows.
func (m *Machine[S, U]) limitError() error {
	if m.step <= m.limit {
		return nil
	}
	e := &MaxSuperStepsError{Limit: m.limit}
	for _, n := range m.ranNodes() {
		e.Active = append(e.Active, m.plan.Nodes[n].Name)
	}
	return e
}

func (m *Machine[S, U]) reduce() error {
	m.next = m.state
	if err := m.callReducer(); err != nil {
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
	for _, n := range m.ranNodes() {
		node := &m.plan.Nodes[n]
		m.plain = append(m.plain, node.Edges...)
		for i := range node.Routers {
			next, err := m.ask(&node.Routers[i])
			if err != nil {
				return fmt.Errorf("pawl: super-step %d: router of %q: %w", m.step, node.Name, err)
			}
			if err := m.allowed(node.Name, node.Routers[i].Targets, next); err != nil {
				return err
			}
			m.follow(next)
		}
	}
	for i := range m.nexts {
		m.follow(m.nexts[i])
	}
	return nil
}

func (m *Machine[S, U]) ask(r *graph.PlanRouter[S]) (next graph.Next, err error) {
	defer task.Recover("router", &err)
	return r.Route(m.nextView), nil
}

// allowed checks what a router or a Goto named against what it declared.
func (m *Machine[S, U]) allowed(source string, targets []int, next graph.Next) error {
	for i := range next.Len() {
		t := next.At(i)
		n, ours := m.plan.Index(t)
		if !ours || !slices.Contains(targets, n) {
			return &RouteError{SuperStep: m.step, Source: source, Target: t.Name(), Foreign: !ours}
		}
	}
	return nil
}

func (m *Machine[S, U]) follow(next graph.Next) {
	for i := range next.Len() {
		t := next.At(i)
		n, _ := m.plan.Index(t)
		switch {
		case n < 0: // End
		case t.Items == nil:
			m.plain = append(m.plain, n)
		case t.Items.Len() > 0:
			m.fans = append(m.fans, fan{node: n, items: t.Items})
		}
	}
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
	plain, fans := m.plain, m.fans
	m.plain, m.fans = m.plain[:0], m.fans[:0]
	for _, n := range plain {
		m.activate(n)
	}
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
	case m.plan.Nodes[n].Deferred:
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
	if n < before {
		clear(m.tasks[n:before])
		clear(m.writes[n:])
	}
	clear(m.done)
	clear(m.nexts)
	m.writes, m.done = resize(m.writes, n), resize(m.done, n)
	if m.hasGoto {
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

// Unfired lists the joins that did not fire, or that hold arrivals, and the nodes that never ran.
func (m *Machine[S, U]) Unfired() []task.Unfired {
	var out []task.Unfired
	for i, j := range m.plan.Joins {
		state := &m.joins[i]
		if state.fired && state.missing == len(j.Sources) {
			continue
		}
		u := task.Unfired{Target: m.plan.Nodes[j.Target].Name, Join: true}
		for k, s := range j.Sources {
			if name := m.plan.Nodes[s].Name; state.arrived[k] {
				u.Arrived = append(u.Arrived, name)
			} else {
				u.Missing = append(u.Missing, name)
			}
		}
		out = append(out, u)
	}
	for i := range m.nodes {
		if !m.nodes[i].ran {
			out = append(out, task.Unfired{Target: m.plan.Nodes[i].Name})
		}
	}
	return out
}
