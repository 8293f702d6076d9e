package graph

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Ref is a handle of a node: a Node or a TaskNode.
type Ref interface{ ref() *nodeRef }

// Node is the handle of a node that edges and routers activate. The zero Node belongs to no graph; Compile and the
// executor refuse it. Handles may be copied and used concurrently.
type Node struct{ r *nodeRef }

// TaskNode is the handle of a node that runs once for each item of type I it is sent. Nothing but Each reaches it.
type TaskNode[I any] struct {
	_ [0]*I // so that no handle can be converted to one of another type
	r *nodeRef
}

// End ends a branch: as the target of an edge, a router or a Goto. The run ends when no branch is left.
var End = Node{r: &nodeRef{name: "End", index: endIndex}} //nolint:gochecknoglobals // a handle like any other, and used as one

// endIndex is the index of End wherever nodes are given by index.
const endIndex = -1

// nodeRef is what a handle points to. Its owner tells the nodes of one builder from another's.
type nodeRef struct {
	owner *topology
	name  string
	index int
}

// Name is the node's name; empty for the zero Node.
func (n Node) Name() string { return nameOf(n.r) }

// Name is the node's name; empty for the zero TaskNode.
func (n TaskNode[I]) Name() string { return nameOf(n.r) }

func nameOf(r *nodeRef) string {
	if r == nil {
		return ""
	}
	return r.name
}

func (n Node) ref() *nodeRef        { return n.r }
func (n TaskNode[I]) ref() *nodeRef { return n.r }

// Each sends every item to the node as a task of its own, in this order, in the next super-step. The items are not copied;
// the slice must not be changed afterwards. No items: the branch ends here, and what follows the node does not run; a
// router that may have none names another target for that case.
func (n TaskNode[I]) Each(items []I) Next {
	return Next{first: Target{ref: n.r, Items: itemsOf[I](items)}, n: 1}
}

// Items are the items sent to a task node. An executor hands them back to the node that takes them.
type Items interface {
	Len() int
	// At returns the i-th item.
	At(i int) any
}

// itemsOf keeps the items as the typed slice they are, so that a fan-out boxes one slice and not each item.
type itemsOf[I any] []I

func (s itemsOf[I]) Len() int     { return len(s) }
func (s itemsOf[I]) At(i int) any { return s[i] }

// decodeItems reads items of type I from JSON.
func decodeItems[I any](data []byte) (Items, error) {
	var items itemsOf[I]
	if err := json.Unmarshal(data, &items); err != nil {
		return nil, err
	}
	return items, nil
}

// item returns the i-th of the items; the handle that made them has seen to their type.
func item[I any](items Items, i int) I {
	return items.(itemsOf[I])[i] //nolint:forcetypeassert // see above
}

// source resolves a handle that something starts from, which End cannot be.
func (b *Builder[S, U]) source(where func() string, r Ref) (int, bool) {
	i, ok := b.resolve(where, r)
	if ok && i == endIndex {
		b.problem(where(), "nothing can follow End", "name the node that comes before")
		return 0, false
	}
	return i, ok
}

// resolveAll resolves handles and leaves out doubles and those that it has reported.
func (b *Builder[S, U]) resolveAll(where func() string, refs []Ref) []int {
	var out []int
	for _, r := range refs {
		if i, ok := b.resolve(where, r); ok {
			out = appendNew(out, i)
		}
	}
	return out
}

// resolve returns the index of a handle's node, or reports why it has none. Where is only asked in the second case.
func (b *Builder[S, U]) resolve(where func() string, r Ref) (int, bool) {
	if r == nil || r.ref() == nil {
		b.problem(where(), "a handle is the zero Node", "use the handle that Node, Func, Goto, Task, Sub or SubTask returned")
		return 0, false
	}
	ref := r.ref()
	if ref.index != endIndex && ref.owner != b.top {
		b.problem(where(), fmt.Sprintf("node %q belongs to another builder (graph %q)", ref.name, ref.owner.name),
			"add the node to this builder, or use graph.Sub for a whole graph")
		return 0, false
	}
	return ref.index, true
}

// label names a handle in messages.
func label(r Ref) string {
	switch {
	case r == nil || r.ref() == nil:
		return "a zero Node"
	case r.ref().index == endIndex:
		return "End"
	}
	return fmt.Sprintf("%q", r.ref().name)
}

// appendNew appends what is not there yet.
func appendNew(s []int, more ...int) []int {
	for _, i := range more {
		if !slices.Contains(s, i) {
			s = append(s, i)
		}
	}
	return s
}

// NameOf is the name of a handle's node; empty for a zero handle.
func NameOf(r Ref) string {
	if r == nil {
		return ""
	}
	return nameOf(r.ref())
}
