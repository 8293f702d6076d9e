package superstep

import (
	"context"
	"fmt"

	"github.com/pawl-go/pawl/task"
)

// subgraph runs a graph as a node. The child's function nodes make attempts; the node itself counts as one.
func (c *call[S, U]) subgraph(ctx context.Context) error {
	c.s.at().attempt = 1
	in, err := c.in()
	if err != nil {
		return c.failed(err)
	}
	path := c.d.pathOf(c.node.Name)
	if c.node.Kind.FannedOut() {
		path = fmt.Sprintf("%s[%d]", path, c.t.Index)
	}
	child := &driver[any, any]{
		place: place{
			run: c.d.run, path: path, limit: c.prog.child.limit,
			scope: fmt.Sprintf("%s%d/%s[%d]/", c.d.scope, c.d.m.SuperStep(), c.node.Name, c.t.Index),
		},
		prog: c.prog.child,
	}
	if c.d.ledger != nil {
		child.ledger = &ledger[any, any]{x: c.d.ledger.x, d: child, salt: c.d.ledger.salt}
	}
	child.m.init(c.prog.child.plan, c.prog.child.shape, in, c.prog.child.limit)
	if err = child.drive(ctx, c.s); c.s.lost() {
		return err
	}
	if err != nil {
		if _, is := err.(*NodeError); is || isVerdict(err) { //nolint:errorlint // a node's own
			return err // it names the node that failed, by its whole path
		}
		return c.failed(err)
	}
	if err := c.out(child.m.State()); err != nil {
		return c.failed(err)
	}
	return nil
}

func (c *call[S, U]) in() (in any, err error) {
	c.s.whose = c.prog.whoseIn
	defer task.Recover(c.s.whose, &err)
	return c.node.Sub.In(c.d.m.State(), c.t.Items, c.t.Item), nil
}

func (c *call[S, U]) out(state any) (err error) {
	c.s.whose = c.prog.whoseOut
	defer task.Recover(c.s.whose, &err)
	c.u = c.node.Sub.Out(state)
	return nil
}
