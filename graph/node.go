package graph

// Ref is a handle of a node: a Node or a TaskNode.
type Ref interface{ ref() *nodeRef }

// Node is the handle of a node that edges and routers activate. The zero Node belongs to no graph; Compile and the
// executor refuse it. Handles may be copied and used concurrently.
type Node struct{ r *nodeRef }

// TaskNode is the handle of a node that runs once for each item of type I it is sent. Nothing but Each reaches it.
type TaskNode[I any] struct{ r *nodeRef }

// End ends a branch: as the target of an edge, a router or a Goto. The run ends when no branch is left.
var End = Node{r: &nodeRef{name: "End", index: endIndex}}

// endIndex is the index of End wherever nodes are given by index.
const endIndex = -1

// nodeRef is what a handle points to. Its owner tells the nodes of one builder from another's.
type nodeRef struct {
	owner *topology
	name  string
	index int
}

func (n Node) ref() *nodeRef        { return n.r }
func (n TaskNode[I]) ref() *nodeRef { return n.r }

// Each sends every item to the node as a task of its own, in this order, in the next super-step. No items: the branch
// ends here. The items are not copied; the slice must not be changed afterwards.
func (n TaskNode[I]) Each(items []I) Next {
	return Next{first: Target{ref: n.r, Items: itemsOf[I](items)}, n: 1}
}

// Items are the items sent to a task node. An executor hands them back to the node that takes them.
type Items interface{ Len() int }

// itemsOf keeps the items as the typed slice they are, so that a fan-out boxes one slice and not each item.
type itemsOf[I any] []I

func (s itemsOf[I]) Len() int { return len(s) }
