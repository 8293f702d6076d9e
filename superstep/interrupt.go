package superstep

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
)

// Static interrupts: the questions that InterruptBefore and InterruptAfter ask.

// stop is what such a question says.
type stop struct {
	Node      string `json:"node"`
	When      string `json:"when"` // "before" or "after"
	SuperStep int    `json:"super_step"`
}

// ask asks before a super-step what is to be asked of the nodes that have run and of those that are next, all at once.
func (l *ledger[S, U]) ask(ctx context.Context) error {
	err := l.askAfter(ctx, l.d.m.SuperStep()-1)
	var next []int
	for _, t := range l.d.m.Tasks() {
		if len(next) == 0 || next[len(next)-1] != t.Node {
			next = append(next, t.Node)
		}
	}
	return firstOf(err, l.askAbout(ctx, "before", l.d.m.SuperStep(), next, l.stops().before))
}

// askAfter asks behind a super-step of the nodes that have run in it.
func (l *ledger[S, U]) askAfter(ctx context.Context, step int) error {
	if !l.asks() || step < 1 {
		return nil
	}
	return l.askAbout(ctx, "after", step, l.d.m.ran, l.stops().after)
}

// asks reports whether there can be anything to ask.
func (l *ledger[S, U]) asks() bool {
	return l.d.scope == "" && (l.options != nil || l.x.Replaying())
}

func (l *ledger[S, U]) stops() runOptions {
	if l.options == nil {
		return runOptions{}
	}
	return *l.options
}

func (l *ledger[S, U]) askAbout(ctx context.Context, when string, step int, nodes []int, about []graph.Ref) error {
	var first error
	for _, n := range nodes {
		name := l.d.prog.plan.Nodes[n].Name
		path := fmt.Sprintf("%d/%s/%s", step, name, when)
		wanted := slices.ContainsFunc(about, func(r graph.Ref) bool { return graph.NameOf(r) == name })
		if !wanted && len(l.x.History(path)) == 0 { // what was asked once has to be answered, whoever goes on
			continue
		}
		scope := l.x.Task(path, nil)
		_, err := durable.Interrupt[json.RawMessage](scope.Context(ctx), stop{Node: name, When: when, SuperStep: step})
		first = firstOf(first, err)
	}
	return first
}

// firstOf returns the failure among two errors rather than a suspension, and the first of two failures.
func firstOf(a, b error) error {
	if a == nil || (isSuspended(a) && b != nil) {
		return b
	}
	return a
}
