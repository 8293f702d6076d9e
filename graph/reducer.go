package graph

import "fmt"

// Reducer folds the updates of a super-step into the state: made by Fields, Replace, Reduce or Merge. A value, safe for
// concurrent use if the functions given to it are.
type Reducer[S, U any] struct {
	problems

	kind  string // for the fingerprint
	apply func(dst *S, writes []Write[U]) error
	safe  bool // apply cannot panic
}

// Write is the update of one task, as Merge's function sees it.
type Write[U any] struct {
	Node   string // the node's name
	Index  int    // the task's place in its fan-out; -1 for a node that is not fanned out
	Update U
}

// task names the task that wrote, for messages.
func (w *Write[U]) task() string {
	if w.Index < 0 {
		return w.Node
	}
	return fmt.Sprintf("%s[%d]", w.Node, w.Index)
}

// Reduce folds updates one by one, in task order. What the function does with two updates of one super-step is up to it.
// It may append to the slices of the state it is given, but must change no element or map in place: tasks may still read
// them. A slice that it takes from an update belongs to a node, too: slices.Clip it if later updates are appended to it.
func Reduce[S, U any](fold func(S, U) S) Reducer[S, U] {
	r := Reducer[S, U]{kind: "reduce"}
	if fold == nil {
		return r
	}
	r.apply = func(dst *S, writes []Write[U]) error {
		for i := range writes {
			*dst = fold(*dst, writes[i].Update)
		}
		return nil
	}
	return r
}

// Merge folds all updates of a super-step at once, in task order, and may refuse them: an error fails the run, and
// nothing of the super-step becomes part of the state. What Reduce may do with state and updates holds here as well. The
// slice of writes must not be kept.
func Merge[S, U any](merge func(S, []Write[U]) (S, error)) Reducer[S, U] {
	r := Reducer[S, U]{kind: "merge"}
	if merge == nil {
		return r
	}
	r.apply = func(dst *S, writes []Write[U]) error {
		s, err := merge(*dst, writes)
		if err == nil {
			*dst = s
		}
		return err
	}
	return r
}

// Replace is for nodes that return the next state whole. Two tasks in one super-step are a *ConflictError.
func Replace[S any]() Reducer[S, S] {
	return Reducer[S, S]{kind: "replace", safe: true, apply: func(dst *S, writes []Write[S]) error {
		if len(writes) > 1 {
			return &ConflictError{Nodes: [2]string{writes[0].task(), writes[1].task()}}
		}
		for i := range writes {
			*dst = writes[i].Update
		}
		return nil
	}}
}
