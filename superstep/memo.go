package superstep

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/pawl-go/pawl/journal"
)

// memo is what a machine remembers beside its state, by names, so that a graph that has grown still understands it.
type memo struct {
	Step     int        `json:"step"`
	Taken    int        `json:"taken"`
	Active   []string   `json:"active,omitempty"`
	Before   []string   `json:"before,omitempty"` // what ran in the super-step before
	Ran      []string   `json:"ran,omitempty"`    // ever
	Deferred []string   `json:"deferred,omitempty"`
	Joins    []joinMemo `json:"joins,omitempty"`
}

type joinMemo struct {
	Target  string   `json:"target"`
	Sources []string `json:"sources"`
	Arrived []string `json:"arrived,omitempty"`
	Fired   bool     `json:"fired,omitempty"`
}

// memo writes down what the machine remembers. It is false between super-steps that a memo cannot tell: items that are on
// their way to a fan-out are part of no state, and what a Goto named is asked for once only.
func (m *Machine[S, U]) memo() (memo, bool) {
	if len(m.deferred.fans) > 0 {
		return memo{}, false
	}
	out := memo{Step: m.step, Taken: m.taken, Deferred: m.names(m.deferred.plain), Before: m.names(m.ran)}
	for _, t := range m.tasks {
		if t.Items != nil {
			return memo{}, false
		}
		out.Active = append(out.Active, m.plan.Nodes[t.Node].Name)
	}
	for i := range m.nodes {
		if m.nodes[i].ran {
			out.Ran = append(out.Ran, m.plan.Nodes[i].Name)
		}
	}
	for i, j := range m.plan.Joins {
		state := joinMemo{Target: m.plan.Nodes[j.Target].Name, Sources: m.names(j.Sources), Fired: m.joins[i].fired}
		for k, arrived := range m.joins[i].arrived {
			if arrived {
				state.Arrived = append(state.Arrived, m.plan.Nodes[j.Sources[k]].Name)
			}
		}
		out.Joins = append(out.Joins, state)
	}
	return out, true
}

func (m *Machine[S, U]) names(nodes []int) []string {
	out := make([]string, 0, len(nodes))
	for _, n := range nodes {
		out = append(out, m.plan.Nodes[n].Name)
	}
	return out
}

// setState replaces the state by one that is the same to JSON.
func (m *Machine[S, U]) setState(s S) {
	m.state = s
	m.plan.Clip(&m.state)
	m.view = m.state
}

// recall puts a machine where a memo says that another one was.
func (m *Machine[S, U]) recall(from memo, state S) error {
	index := make(map[string]int, len(m.plan.Nodes))
	for i := range m.plan.Nodes {
		index[m.plan.Nodes[i].Name] = i
	}
	var unknown error
	find := func(names []string) []int {
		var out []int
		for _, name := range names {
			i, ok := index[name]
			if !ok {
				unknown = fmt.Errorf("the graph has no node %q", name)
				continue
			}
			out = append(out, i)
		}
		return out
	}
	m.setState(state)
	m.step, m.taken = from.Step, from.Taken
	clear(m.nodes)
	for _, n := range find(from.Ran) {
		m.nodes[n].ran = true
	}
	m.ran = find(from.Before)
	m.deferred.plain = find(from.Deferred)
	for _, n := range m.deferred.plain {
		m.nodes[n].waiting = true
	}
	before := len(m.tasks)
	m.tasks = m.tasks[:0]
	for _, n := range find(from.Active) {
		m.tasks = append(m.tasks, Activation{Node: n})
		m.nodes[n].activated = m.step
	}
	m.resetOutcomes(before)
	for i, j := range m.plan.Joins {
		k := slices.IndexFunc(from.Joins, func(o joinMemo) bool {
			return o.Target == m.plan.Nodes[j.Target].Name && slices.Equal(o.Sources, m.names(j.Sources))
		})
		if k < 0 {
			continue // a new one
		}
		state := &m.joins[i]
		clear(state.arrived)
		state.missing, state.fired = len(state.arrived), from.Joins[k].Fired
		for _, n := range find(from.Joins[k].Arrived) {
			if s := slices.Index(j.Sources, n); s >= 0 && !state.arrived[s] {
				state.arrived[s] = true
				state.missing--
			}
		}
	}
	return unknown
}

// planned are the active tasks as a barrier's record has them: by node, and with a hash of each item. Where payloads are
// encoded the hash is salted, or it could be guessed what was.
type planned struct {
	Node  string   `json:"node"`
	Items []string `json:"items,omitempty"`
}

func (m *Machine[S, U]) planned(salt string) ([]planned, error) {
	out := make([]planned, 0, 1)
	for _, t := range m.tasks {
		name := m.plan.Nodes[t.Node].Name
		if t.Items == nil {
			out = append(out, planned{Node: name})
			continue
		}
		hash, err := hashItem(salt, name, &t)
		if err != nil {
			return nil, err
		}
		if n := len(out); n == 0 || out[n-1].Node != name || t.Index == 0 {
			out = append(out, planned{Node: name})
		}
		out[len(out)-1].Items = append(out[len(out)-1].Items, hash)
	}
	return out, nil
}

func hashItem(salt, node string, t *Activation) (string, error) {
	item := t.Items.At(t.Item)
	data, err := journal.Marshal("", item)
	if err != nil {
		data, err = journal.Marshal(fmt.Sprintf("%s[%d]", node, t.Index), item)
	}
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append([]byte(salt), data...))
	return hex.EncodeToString(sum[:8]), nil
}

func samePlan(a, b []planned) bool {
	return slices.EqualFunc(a, b, func(a, b planned) bool { return a.Node == b.Node && slices.Equal(a.Items, b.Items) })
}

// renamed gives nodes their new names.
func (m *memo) renamed(by *Migration) {
	m.Active, m.Before, m.Ran, m.Deferred = by.all(m.Active), by.all(m.Before), by.all(m.Ran), by.all(m.Deferred)
	for i := range m.Joins {
		j := &m.Joins[i]
		j.Target, j.Sources, j.Arrived = by.rename(j.Target), by.all(j.Sources), by.all(j.Arrived)
	}
}
