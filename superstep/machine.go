package superstep

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/task"
)

// Machine is for executors, and the heart of Runner: given the outcomes of the active tasks it says which tasks are active
// next. It is pure: it has no goroutine, clock, channel or I/O, and two machines that are told the same do the same. Runner
// drives one with goroutines.
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
	shape *shape // of the plan

	// first is where the slices above start: enough for super-steps of one task, without an allocation for each.
	first struct {
		tasks      [1]Activation
		writes     [1]graph.Write[U]
		done       [1]bool
		plain, ran [2]int
	}
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
	m := &Machine[S, U]{}
	m.init(g.Plan(), shapeOf(g.Plan()), in, limit)
	return m, nil
}

// shape is what a machine asks of a plan again and again, in a form that answers at once. All runs of a graph share it.
type shape struct {
	hasGoto  bool
	deferred []bool // by node
	// successor is the one node that always follows a node, and nothing else can; -1 if it is not as simple.
	successor []int
}

func shapeOf[S, U any](plan *graph.Plan[S, U]) *shape {
	s := &shape{deferred: make([]bool, len(plan.Nodes)), successor: make([]int, len(plan.Nodes))}
	for i := range plan.Nodes {
		s.hasGoto = s.hasGoto || plan.Nodes[i].Kind == graph.KindGoto
		s.deferred[i] = plan.Nodes[i].Deferred
		s.successor[i] = successor(plan, i)
	}
	return s
}

func (m *Machine[S, U]) init(plan *graph.Plan[S, U], shape *shape, in S, limit int) {
	m.shape, m.plan, m.limit, m.state, m.nodes = shape, plan, limit, in, make([]nodeState, len(plan.Nodes))
	m.tasks, m.writes, m.done = m.first.tasks[:0], m.first.writes[:0], m.first.done[:0]
	m.plain, m.ran = m.first.plain[:0], m.first.ran[:0]
	plan.Clip(&m.state) // the caller may hold what lies behind the length
	m.view = m.state
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
	return m.complete(i, &update, &next)
}

func (m *Machine[S, U]) complete(i int, update *U, next *graph.Next) error {
	if m.step > m.limit {
		return m.limitError()
	}
	if i < 0 || i >= len(m.tasks) {
		return fmt.Errorf("pawl: super-step %d has no task %d", m.step, i)
	}
	if m.done[i] {
		return fmt.Errorf("pawl: super-step %d: task %d (%s) was completed before: complete each task once",
			m.step, i, m.plan.Nodes[m.tasks[i].Node].Name)
	}
	if next.Len() > 0 {
		if err := m.named(i, next); err != nil {
			return err
		}
	}
	m.writes[i].Update = *update
	m.done[i] = true
	return nil
}

// named keeps what the i-th task, a Goto, named.
func (m *Machine[S, U]) named(i int, next *graph.Next) error {
	node := &m.plan.Nodes[m.tasks[i].Node]
	if err := m.allowed(node.Name, node.Targets, next); err != nil {
		return err
	}
	m.nexts[i] = *next
	return nil
}

// Advance is the barrier: all tasks must be complete. It reduces their updates in task order, asks the routers, and makes
// the next tasks active. On an error nothing of the super-step is accepted and the machine stays where it is: a
// *ReduceError, a *RouteError, or a *task.PanicError of a router. A *MaxSuperStepsError is different: the super-step is
// accepted, and a further one would be one too many.
func (m *Machine[S, U]) Advance() error { return m.advance(nil) }

// advance is Advance with an update more, of somebody outside; nil for none.
func (m *Machine[S, U]) advance(edit *U) error {
	if m.Done() {
		return errors.New("pawl: the machine is done: there is no super-step to accept")
	}
	if m.step > m.limit {
		return m.limitError()
	}
	if i := slices.Index(m.done, false); i >= 0 {
		return fmt.Errorf("pawl: super-step %d: task %d (%s) is not complete: call Complete for every task first",
			m.step, i, m.plan.Nodes[m.tasks[i].Node].Name)
	}
	if err := m.reduce(); err != nil {
		return err
	}
	if edit != nil {
		if err := m.reduceEdit(*edit); err != nil {
			return err
		}
	}
	if err := m.route(); err != nil {
		return err
	}
	m.state, m.view = m.next, m.nextView
	m.taken++
	if !m.goStraight() {
		m.arrive()
		m.begin()
	}
	if m.step > m.limit {
		return m.limitError()
	}
	return nil
}

// limitError says that the current super-step is one more than the limit allows.
func (m *Machine[S, U]) limitError() error {
	e := &MaxSuperStepsError{Limit: m.limit}
	for i, t := range m.tasks {
		if i == 0 || t.Node != m.tasks[i-1].Node {
			e.Active = append(e.Active, m.plan.Nodes[t.Node].Name)
		}
	}
	return e
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
