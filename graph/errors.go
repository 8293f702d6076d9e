package graph

import (
	"fmt"
	"strings"

	"github.com/pawl-go/pawl/classifier"
)

// CompileError is what Compile returns: all that is wrong with a graph. Its class is compilation_failed.
type CompileError struct {
	Graph    string
	Problems []*Problem
}

// Error lists every problem on a line of its own.
func (e *CompileError) Error() string {
	var s strings.Builder
	fmt.Fprintf(&s, "pawl: graph %q does not compile (%d to mend):", e.Graph, len(e.Problems))
	for _, p := range e.Problems {
		s.WriteString("\n- " + p.Error())
	}
	return s.String()
}

// Unwrap gives errors.As and errors.Is the problems.
func (e *CompileError) Unwrap() []error {
	errs := make([]error, len(e.Problems))
	for i, p := range e.Problems {
		errs[i] = p
	}
	return errs
}

// RunErrorClass tells the classifier what kind of failure this is.
func (e *CompileError) RunErrorClass() classifier.RunErrorClass { return classifier.CompilationFailed }

// Problem is one mistake in a graph.
type Problem struct { //nolint:errname // it is part of a CompileError, and Problems []*Problem says what it is
	// Where names the thing, What says what is wrong with it, Remedy what to do.
	Where, What, Remedy string
	// Err is the cause where another package found the mistake: the *retrypolicy.FieldError of an invalid policy.
	Err error
}

// Error is Where, What and Remedy in one line.
func (p *Problem) Error() string { return fmt.Sprintf("%s: %s: %s", p.Where, p.What, p.Remedy) }

// Unwrap returns the cause, if another package found the mistake.
func (p *Problem) Unwrap() error { return p.Err }

// problems collects mistakes.
type problems struct{ list []*Problem }

func (p *problems) problem(where, what, remedy string) {
	p.list = append(p.list, &Problem{Where: where, What: what, Remedy: remedy})
}

// ConflictError says that two tasks of one super-step changed what only one may change.
type ConflictError struct {
	// Field is the field of the state; empty where the whole state is replaced.
	Field string
	// Key is the key, as text, that a map in the field was given two values for; empty where the field is no map.
	Key string
	// Nodes are the two tasks, in task order, as "draft" or "search[3]".
	Nodes [2]string
}

// Error names the field, the tasks and the remedies.
func (e *ConflictError) Error() string {
	what, remedy := fmt.Sprintf("field %q is set", e.Field), "give the field a merge tag that takes both"
	switch {
	case e.Field == "":
		what, remedy = "the state is replaced", "use graph.Fields, graph.Reduce or graph.Merge"
	case e.Key != "":
		what, remedy = fmt.Sprintf("key %q of field %q is given two values", e.Key, e.Field), "let each write keys of its own"
	}
	return fmt.Sprintf("pawl: conflict: %s by %q and %q in one super-step: run them one after the other, or %s",
		what, e.Nodes[0], e.Nodes[1], remedy)
}
