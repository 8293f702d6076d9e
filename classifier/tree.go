package classifier

import (
	"iter"
	"reflect"

	"github.com/pawl-go/pawl/task"
)

const (
	// maxNodes bounds the walk through a tree that never ends, such as an Unwrap that makes a new error each time.
	maxNodes = 1 << 18
	// trackFrom is the number of nodes from which on visited ones are remembered. Real trees are far smaller, and
	// remembering costs an allocation.
	trackFrom = 64
)

// node is one error of a tree, with the place of its parent in the list (-1 for the root).
type node struct {
	err    error
	parent int
}

// Tree returns err and everything it wraps, through Unwrap() error and Unwrap() []error, level by level, so that an outer
// error comes before the ones it wraps. Nil pointers are left out. Cycles and shared branches are walked once, and a tree
// that never ends is cut after 262144 errors. An Unwrap that panics counts as a leaf.
func Tree(err error) iter.Seq[error] {
	return func(yield func(error) bool) {
		var buf [8]node
		for _, n := range flatten(err, buf[:0]) {
			if !yield(n.err) {
				return
			}
		}
	}
}

// flatten appends the tree of err to nodes, which must be empty. A parent always stands before its children.
func flatten(err error, nodes []node) []node {
	if !present(err) {
		return nodes
	}
	nodes = append(nodes, node{err: err, parent: -1})
	var seen map[error]struct{}
	for i := 0; i < len(nodes); i++ {
		one, many := unwrap(nodes[i].err)
		if one != nil {
			nodes = grow(nodes, &seen, one, i)
		}
		for _, child := range many {
			nodes = grow(nodes, &seen, child, i)
		}
		if len(nodes) >= maxNodes {
			break
		}
	}
	return nodes
}

// grow appends child unless it is nil or known. Only pointers are remembered: a cycle without one is stopped by maxNodes,
// and comparing arbitrary values can panic.
func grow(nodes []node, seen *map[error]struct{}, child error, parent int) []node {
	if !present(child) || len(nodes) >= maxNodes {
		return nodes
	}
	if len(nodes) >= trackFrom && isPointer(child) {
		if *seen == nil {
			*seen = pointersOf(nodes)
		}
		if _, known := (*seen)[child]; known {
			return nodes
		}
		(*seen)[child] = struct{}{}
	}
	return append(nodes, node{err: child, parent: parent})
}

func pointersOf(nodes []node) map[error]struct{} {
	seen := make(map[error]struct{}, 2*len(nodes))
	for _, n := range nodes {
		if isPointer(n.err) {
			seen[n.err] = struct{}{}
		}
	}
	return seen
}

// present reports whether err is an error at all: older go-openai releases wrap a nil *APIError.
func present(err error) bool {
	if err == nil {
		return false
	}
	v := reflect.ValueOf(err)
	return v.Kind() != reflect.Pointer || !v.IsNil()
}

func isPointer(err error) bool {
	return reflect.TypeOf(err).Kind() == reflect.Pointer
}

// unwrap asks err for what it wraps.
func unwrap(err error) (one error, many []error) { //nolint:revive,staticcheck // one is not this function's own error
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		one, _ = ask(e.Unwrap)
	case interface{ Unwrap() []error }:
		many, _ = ask(e.Unwrap)
	}
	return one, many
}

// ask calls a method of an error that somebody else wrote. One that panics has nothing to say.
func ask[T any](method func() T) (v T, err error) {
	defer task.Recover("error", &err)
	return method(), nil
}
