package superstep

import (
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/retrypolicy"
)

// program is a graph made ready to run under a Config. NewRunner builds it once; all runs share it.
type program[S, U any] struct {
	plan  *graph.Plan[S, U]
	shape *shape
	limit int
	nodes []nodeProgram
}

// children are the programs of subgraphs: one that several nodes share is made ready once.
type children map[childKey]*program[any, any]

type childKey struct {
	plan  *graph.Plan[any, any]
	limit int
}

func (c children) program(plan *graph.Plan[any, any], limit int, cfg *Config) (*program[any, any], error) {
	key := childKey{plan, limit}
	if p := c[key]; p != nil {
		return p, nil
	}
	p, err := newProgram(plan, limit, cfg, c)
	c[key] = p
	return p, err
}

type nodeProgram struct {
	loop  retrypolicy.Loop
	whose string // names the node when it panics
	// of a subgraph, the same for its in and out functions
	whoseIn, whoseOut string
	child             *program[any, any] // of a subgraph
}

// newProgram fits cfg, which is complete and valid, to a graph. The default policy is checked against each node as
// Compile checks a node's own.
func newProgram[S, U any](plan *graph.Plan[S, U], limit int, cfg *Config, known children) (*program[S, U], error) {
	p := &program[S, U]{plan: plan, shape: shapeOf(plan), limit: limit, nodes: make([]nodeProgram, len(plan.Nodes))}
	var errs []error
	for i := range plan.Nodes {
		n := &plan.Nodes[i]
		np := &p.nodes[i]
		np.whose = fmt.Sprintf("node %q", n.Name)
		if n.Sub != nil {
			np.whoseIn, np.whoseOut = "in function of "+np.whose, "out function of "+np.whose
			childLimit := n.MaxSuperSteps
			if childLimit == 0 {
				childLimit = cfg.MaxSuperSteps
			}
			var err error
			np.child, err = known.program(n.Sub.Child.Plan(), childLimit, cfg)
			errs = append(errs, err)
			continue
		}
		np.loop = retrypolicy.Loop{Policy: *cfg.Retry, Classifier: cfg.Classifier, Timeout: n.Timeout, Logger: cfg.Logger}
		if n.Retry != nil {
			np.loop.Policy = *n.Retry
		} else if n.Kind == graph.KindFunc && n.Timeout > 0 && cfg.Retry.MaxAttempts > 1 {
			errs = append(errs, fmt.Errorf("pawl: node %q: timeout %v together with the %d attempts of Config.Retry on a Func, "+
				"which cannot be cancelled: drop one of them, give the node graph.Retry(retrypolicy.New()), or make it a Node",
				n.Name, n.Timeout, cfg.Retry.MaxAttempts))
		}
	}
	return p, errors.Join(errs...)
}
