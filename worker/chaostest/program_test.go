package chaostest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/superstep"
)

// What the workers run: each program makes all kinds of durable calls, and its result depends on all of them.

// calls writes down each call to the outside, so that it outlives the process.
type calls struct {
	mu   sync.Mutex
	file *os.File
}

func (c *calls) note(ctx context.Context, kind, name string) error {
	info := durable.Info(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := fmt.Fprintf(c.file, "%s %s %s|%s\n", kind, info.RunID, info.Scope, name)
	return err
}

// order is a workflow: steps with retries, Once, timers, a child, signals and updates.
type order struct {
	ID, Signals, Updates int
}

type receipt struct {
	Total    int
	Signals  []int
	Updates  []int
	Attempts string
}

type programs struct {
	calls *calls
	order *durable.Definition[order, receipt]
	part  *durable.Definition[int, int]
	graph *superstep.Runner[state, update]
}

func newPrograms(c *calls) (*programs, error) {
	p := &programs{calls: c}
	p.part = durable.Workflow("part", p.runPart)
	p.order = durable.Workflow("order", p.runOrder)
	g, err := p.newGraph()
	if err != nil {
		return nil, err
	}
	p.graph, err = superstep.NewRunner(g, superstep.Config{Grace: time.Second})
	return p, err
}

var quick = retrypolicy.WorkflowNodeRetryPolicy{
	MaxAttempts: 3, InitialDelay: time.Millisecond, BackoffMultiplier: 1, Retryable: retrypolicy.AnyError,
}

func (p *programs) step(ctx context.Context, name string, v int, d time.Duration) (int, error) {
	return durable.Step(ctx, name, func(ctx context.Context) (int, error) {
		if err := p.calls.note(ctx, "step", name); err != nil {
			return 0, err
		}
		select {
		case <-time.After(d):
			return v, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
}

func (p *programs) once(ctx context.Context, name string, v int) (int, error) {
	out, err := durable.Once(ctx, name, func(ctx context.Context) (int, error) {
		return v, p.calls.note(ctx, "once", name)
	})
	if _, is := errors.AsType[*durable.OutcomeUnknownError](err); is {
		return v, nil // look it up: it was made, or will not be
	}
	return out, err
}

func (p *programs) runOrder(ctx context.Context, o order) (receipt, error) {
	var r receipt
	err := durable.HandleUpdate(ctx, "add", func(ctx context.Context, n int) (int, error) {
		v, err := p.step(ctx, "apply", n, time.Millisecond)
		if err != nil {
			return 0, err
		}
		r.Updates = append(r.Updates, v)
		return len(r.Updates), nil
	})
	if err != nil {
		return r, err
	}
	for i := range 3 {
		v, err := p.step(ctx, "work", o.ID+i, 10*time.Millisecond)
		if err != nil {
			return r, err
		}
		r.Total += v
	}
	v, err := p.once(ctx, "charge", o.ID)
	if err != nil {
		return r, err
	}
	r.Total += v
	if err := durable.Sleep(ctx, 1100*time.Millisecond+time.Duration(o.ID%10)*50*time.Millisecond); err != nil {
		return r, err
	}
	for range o.Signals {
		n, err := durable.WaitForSignal[int](ctx, "paid")
		if err != nil {
			return r, err
		}
		r.Signals = append(r.Signals, n)
	}
	child, err := durable.RunChild(ctx, p.part, o.ID)
	if err != nil {
		return r, err
	}
	r.Total += child
	if err := durable.Await(ctx, func() bool { return len(r.Updates) == o.Updates }); err != nil {
		return r, err
	}
	tries := 0
	v, err = durable.Step(ctx, "flaky", func(context.Context) (int, error) {
		if tries++; tries < 2 {
			return 0, errors.New("not yet")
		}
		return 1, nil
	}, durable.Retry(quick))
	r.Total += v
	slices.Sort(r.Signals) // their order is that of the senders
	slices.Sort(r.Updates)
	return r, err
}

// runPart is a child that waits, so that it is taken by itself.
func (p *programs) runPart(ctx context.Context, n int) (int, error) {
	v, err := p.step(ctx, "part", n, 5*time.Millisecond)
	if err != nil {
		return 0, err
	}
	if n%2 == 0 {
		if err := durable.Sleep(ctx, 1200*time.Millisecond); err != nil {
			return 0, err
		}
	}
	return p.once(ctx, "ship", v)
}

// undisturbed is what an order comes to.
func (o order) undisturbed() receipt {
	r := receipt{Total: 3*o.ID + 3 + o.ID + o.ID + 1}
	for n := range o.Signals {
		r.Signals = append(r.Signals, n)
	}
	for n := range o.Updates {
		r.Updates = append(r.Updates, n)
	}
	return r
}

// The graph has a fan-out, a join, a loop, and a node with durable calls.
type state struct {
	ID    int
	Items []int
	Seen  []int
	Sum   int
	Round int
}

type update struct {
	Items []int
	Seen  []int `merge:"union"`
	Sum   int   `merge:"sum"`
	Round int
}

const rounds = 3

func (p *programs) newGraph() (*graph.Graph[state, update], error) {
	b := graph.New("fan", graph.Fields[state, update]())
	plan := b.Node("plan", func(ctx context.Context, s state) (update, error) {
		if err := p.calls.note(ctx, "node", fmt.Sprint("plan", s.Round)); err != nil {
			return update{}, err
		}
		return update{Items: []int{s.ID + s.Round*10, s.ID + s.Round*10 + 1, s.ID + s.Round*10 + 2}, Round: s.Round + 1}, nil
	})
	item := graph.Task(b, "item", func(ctx context.Context, _ state, n int) (update, error) {
		v, err := p.step(ctx, "look", n, 5*time.Millisecond)
		if err != nil {
			return update{}, err
		}
		w, err := p.once(ctx, "buy", v)
		return update{Seen: []int{n}, Sum: w}, err
	})
	rest := b.Node("rest", func(ctx context.Context, _ state) (update, error) {
		return update{}, durable.Sleep(ctx, 1100*time.Millisecond)
	})
	b.Start(plan)
	b.Route(plan, func(s state) graph.Next { return item.Each(s.Items) }, item)
	b.Edge(item, rest)
	b.Route(rest, func(s state) graph.Next {
		if s.Round < rounds {
			return graph.To(plan)
		}
		return graph.To(graph.End)
	}, plan, graph.End)
	return b.Compile()
}

// undisturbedSum is what the graph comes to.
func undisturbedSum(id int) (sum int) {
	for r := range rounds {
		sum += 3*(id+r*10) + 3
	}
	return sum
}
