package superstep_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	memstore "github.com/pawl-go/pawl/journal/memory"
	"github.com/pawl-go/pawl/superstep"
)

// meter counts the calls of whatever must not be repeated, by name.
type meter struct {
	mu    sync.Mutex
	calls map[string]int
}

func newMeter() *meter { return &meter{calls: map[string]int{}} }

//nolint:goprintffuncname // it is not its output that counts
func (c *meter) hit(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[fmt.Sprintf(format, args...)]++
}

func (c *meter) all() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]int{}
	maps.Copy(out, c.calls)
	return out
}

var errBroken = errors.New("tool is broken")

// everything is a graph with a fan-out, a join, a loop, a subgraph, a catch handler, a Goto, a deferred node and durable
// steps inside nodes.
func everything(tb testing.TB, c *meter) *graph.Graph[st, up] {
	tb.Helper()
	node := func(name string, words ...string) nodeFn {
		return func(context.Context, st) (up, error) {
			c.hit("%s", name)
			return up{Log: append([]string{name}, words...)}, nil
		}
	}
	inner := build(tb, func(b *bld) {
		first := b.Node("first", node("inner first"))
		leaf := graph.Task(b, "leaf", func(_ context.Context, _ st, i int) (up, error) {
			c.hit("inner leaf %d", i)
			return up{Log: []string{fmt.Sprint("leaf", i)}}, nil
		})
		last := b.Node("last", node("inner last"))
		b.Start(first)
		b.Route(first, each(leaf, 1, 2), leaf)
		b.Edge(leaf, last)
	})
	return build(tb, func(b *bld) {
		plan := b.Node("plan", node("plan"))
		search := graph.Task(b, "search", func(ctx context.Context, _ st, i int) (up, error) {
			v, err := durable.Step(ctx, "fetch", func(context.Context) (string, error) {
				c.hit("fetch %d", i)
				return fmt.Sprint("page", i), nil
			})
			if err != nil {
				return up{}, err
			}
			_, err = durable.Step(ctx, "broken", func(context.Context) (int, error) {
				c.hit("broken %d", i)
				return 0, errBroken
			})
			if !errors.Is(err, errBroken) {
				return up{}, fmt.Errorf("another error: %w", err)
			}
			_, err = durable.Once(ctx, "notify", func(context.Context) (int, error) {
				c.hit("notify %d", i)
				return i, nil
			})
			if err != nil && !errors.As(err, new(*durable.OutcomeUnknownError)) {
				return up{}, err
			}
			return up{Log: []string{v}, N: i}, nil
		})
		side := b.Node("side", node("side"))
		join := b.Node("join", node("join"))
		fragile := b.Node("fragile", func(context.Context, st) (up, error) {
			c.hit("fragile")
			return up{}, errBroken
		})
		b.Catch(fragile, func(_ context.Context, _ st, err error) (up, error) {
			c.hit("handler")
			if !errors.Is(err, errBroken) {
				return up{}, err
			}
			return up{Log: []string{"caught"}}, nil
		})
		sub := graph.Sub(b, "sub", inner, func(s st) st { return st{N: s.N} }, func(s st) up { return up{Log: s.Log} })
		loop := b.Node("loop", func(_ context.Context, s st) (up, error) {
			c.hit("loop %d", s.N)
			return up{N: 100}, nil
		})
		jump := b.Goto("jump", func(_ context.Context, s st) (up, graph.Next, error) {
			c.hit("jump")
			return up{Log: []string{"jump"}}, graph.To(sub), nil
		})
		sum := b.Node("sum", node("sum"), graph.Defer())
		b.Start(plan, side)
		b.Route(plan, each(search, 1, 2, 3), search)
		b.Edge(plan, sum)
		b.Join([]graph.Ref{search, side}, join)
		b.Edge(join, fragile)
		b.Edge(fragile, loop)
		b.Route(loop, func(s st) graph.Next {
			if s.N < 300 {
				return graph.To(loop)
			}
			return graph.To(jump)
		}, loop, jump)
		b.Targets(jump, sub)
	})
}

func durableRunner(tb testing.TB, g *graph.Graph[st, up], store journal.Store) *superstep.Runner[st, up] {
	tb.Helper()
	r, err := superstep.NewRunner(g, superstep.Config{Store: store})
	require.NoError(tb, err)
	return r
}

// After a crash anywhere, going on runs only what has no recorded outcome, and ends in the state of an undisturbed run.
func TestJournal_CrashAtEveryWrite(t *testing.T) {
	calm := newMeter()
	whole := journaltest.NewFaulty(memstore.New())
	want, err := durableRunner(t, everything(t, calm), whole).Run(t.Context(), st{N: 1}, superstep.RunID("r"))
	require.NoError(t, err)
	writes := whole.Writes()
	t.Log("writes:", writes, "state:", want.State)

	for n := 1; n <= writes; n++ {
		for _, when := range []journaltest.When{journaltest.Before, journaltest.After} {
			t.Run(fmt.Sprint(n, " ", when), func(t *testing.T) {
				c := newMeter()
				inner := memstore.New()
				store := journaltest.NewFaulty(inner)
				store.FailWrite(n, when, journaltest.OpCreate, journaltest.OpAppend)
				g := everything(t, c)
				_, err := durableRunner(t, g, store).Run(t.Context(), st{N: 1}, superstep.RunID("r"))
				if err != nil {
					require.ErrorIs(t, err, journal.ErrUnavailable)
				}
				before := c.all()
				got, err := durableRunner(t, g, inner).Run(t.Context(), st{N: 1}, superstep.RunID("r"))
				require.NoError(t, err)
				assert.Equal(t, want.State, got.State)
				assert.Equal(t, want.SuperSteps, got.SuperSteps)
				for what, n := range c.all() {
					assert.LessOrEqual(t, n, 2, "%s (before: %v)", what, before)
				}
				repeated := 0
				for _, n := range c.all() {
					repeated += n - 1
				}
				assert.LessOrEqual(t, repeated, 4, "only what was in flight: %v", c.all())
			})
		}
	}
}
