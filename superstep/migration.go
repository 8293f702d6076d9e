package superstep

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

// GraphChangedError says that a run was started with another version of the graph than the one that is to go on with it.
type GraphChangedError struct {
	RunID, Graph string
	// Gone are the lines of the old graph's outline that the new one has not, and New the reverse.
	Gone, New []string
}

// Error says what has changed.
func (e *GraphChangedError) Error() string {
	var out strings.Builder
	fmt.Fprintf(&out, "pawl: run %q was started with another version of graph %q: ", e.RunID, e.Graph)
	for i, lines := range [][]string{e.Gone, e.New} {
		for _, line := range lines {
			fmt.Fprintf(&out, "%c[%s] ", "-+"[i], line)
		}
	}
	out.WriteString("(- was, + is): run it with the graph it was started with, or say with WithMigration what became of it")
	return out.String()
}

// changed says what differs between the graph a run was started with and the one at hand.
func changed(run journal.Run, start journal.Event, outline []string) error {
	e := &GraphChangedError{RunID: run.ID, Graph: run.Name}
	var m durable.StartMeta
	if err := json.Unmarshal(start.Meta, &m); err != nil {
		return &durable.ReplayError{RunID: run.ID, Seq: start.Seq, Err: err}
	}
	for _, line := range m.Outline {
		if !slices.Contains(outline, line) {
			e.Gone = append(e.Gone, line)
		}
	}
	for _, line := range outline {
		if !slices.Contains(m.Outline, line) {
			e.New = append(e.New, line)
		}
	}
	return e
}

// Migration says what became of a graph's parts between the version a run was started with and the present one. What is
// recorded is read through it and not changed, so it is given each time such a run goes on. The routers must still send the
// run where it has already been.
type Migration struct {
	// Rename maps names of nodes that have a new one, in subgraphs too. A name that is freed so cannot be that of another
	// node now: what was recorded before the change could not be told from what was recorded since.
	Rename map[string]string
	// State and Update map the JSON of recorded states and updates of the run's own graph. They also see what was recorded since
	// the change, and leave that as it is. nil: all is read as it is.
	State, Update func(json.RawMessage) (json.RawMessage, error)
}

// check refuses a renaming that the names of the present graph make ambiguous.
func (m *Migration) check(names []string) error {
	var errs []error
	for from, to := range m.Rename {
		if slices.Contains(names, from) {
			errs = append(errs, fmt.Errorf("pawl: superstep.Migration renames %q, but there is a node of that name: "+
				"call that one something else", from))
		}
		if !slices.Contains(names, to) {
			errs = append(errs, fmt.Errorf("pawl: superstep.Migration renames %q to %q, which is no node of the graph", from, to))
		}
	}
	return errors.Join(errs...)
}

func (m *Migration) rename(node string) string {
	if to, ok := m.Rename[node]; ok {
		return to
	}
	return node
}

// renameScope renames the nodes in a path such as "2/research[0]/1/fetch[3]/left#1".
func (m *Migration) renameScope(scope string) string {
	parts := strings.Split(scope, "/")
	for i, p := range parts {
		if strings.Contains(p, "#") { // a branch of the node's own
			continue
		}
		if name, index, found := strings.Cut(p, "["); found {
			parts[i] = m.rename(name) + "[" + index
		}
	}
	return strings.Join(parts, "/")
}

func (m *Migration) all(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = m.rename(n)
	}
	return out
}
