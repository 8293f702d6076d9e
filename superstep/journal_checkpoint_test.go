package superstep_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/superstep"
)

// collecting is a loop of so many super-steps, each of which adds a note of a kilobyte to the state.
func collecting(tb testing.TB, steps int) *graph.Graph[st, up] {
	tb.Helper()
	return build(tb, func(b *bld) {
		n := b.Node("n", func(context.Context, st) (up, error) {
			return up{N: 1, Log: []string{strings.Repeat("x", 1<<10)}}, nil
		})
		b.Start(n)
		b.Route(n, func(s st) graph.Next {
			if s.N < steps {
				return graph.To(n)
			}
			return graph.To(graph.End)
		}, n, graph.End)
	})
}

// The state is written whole once the updates since the last time outweigh it: seldom, and the more seldom the larger it is. So a
// journal grows with what the nodes wrote.
func TestJournal_ACheckpointComesWhenTheUpdatesOutweighIt(t *testing.T) {
	bytes := map[int]int{}
	for _, steps := range []int{200, 400, 800} {
		store := newStore()
		cfg := stored(store)
		cfg.MaxSuperSteps = steps
		res, err := runner(t, collecting(t, steps), cfg).Run(t.Context(), st{}, in("r"))
		require.NoError(t, err)
		require.Len(t, res.State.Log, steps)
		last, since, written := 0, 0, 0
		for _, e := range eventsOf(t, store, "r") {
			written += len(e.Payload) + len(e.Meta)
			switch e.Kind {
			case journal.StepDone:
				since += len(e.Payload)
			case journal.Checkpoint:
				assert.GreaterOrEqual(t, since, last, "the updates outweigh the last checkpoint")
				last, since = len(e.Payload), 0
			default:
			}
		}
		assert.NotZero(t, last, "there is a checkpoint")
		assert.LessOrEqual(t, since, last, "and another one as soon as it pays")
		bytes[steps] = written
	}
	for _, steps := range []int{200, 400} {
		growth := float64(bytes[2*steps]) / float64(bytes[steps])
		assert.Less(t, growth, 2.6, "twice the super-steps, about twice the bytes: %v", bytes)
	}
}

// A run goes on from its last checkpoint: only the updates behind it are folded, and the state is what it was.
func TestJournal_ARunGoesOnFromItsLastCheckpoint(t *testing.T) {
	const steps = 100
	store, c := newStore(), newMeter()
	g := build(t, func(b *bld) {
		n := b.Node("n", counted(c, "n", func(context.Context, st) (up, error) {
			return up{N: 1, Log: []string{strings.Repeat("x", 1<<10)}}, nil
		}))
		ask := b.Node("ask", asks("?"))
		b.Start(n)
		b.Route(n, func(s st) graph.Next {
			if s.N < steps {
				return graph.To(n)
			}
			return graph.To(ask)
		}, n, ask)
	})
	cfg := stored(store)
	cfg.MaxSuperSteps = 2 * steps
	r := runner(t, g, cfg)
	_, err := r.Run(t.Context(), st{V: "in"}, in("r"))
	require.NoError(t, r.Answer(t.Context(), "r", questionsOf(t, err)[0], "end"))
	run, err := store.Load(t.Context(), "r")
	require.NoError(t, err)
	require.Positive(t, run.Checkpoint)
	res, err := r.Resume(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, "in", res.State.V)
	require.Equal(t, steps, res.State.N)
	require.Len(t, res.State.Log, steps+1)
	require.Equal(t, steps+1, res.SuperSteps)
	require.Equal(t, steps, c.all()["n"])
}

// Each outcome is written when it is there; the last one of a super-step together with the super-step itself.
func TestJournal_TheLastOutcomeAndItsSuperStepAreOneAppend(t *testing.T) {
	store := journaltest.NewFaulty(newStore())
	var appends []string
	store.OnWrite(func(w journaltest.Write) {
		if w.Op != journaltest.OpAppend || w.When != journaltest.Before {
			return
		}
		var kinds []string
		for _, e := range w.Events {
			kinds = append(kinds, string(e.Kind))
		}
		appends = append(appends, strings.Join(kinds, " "))
	})
	var nodes []nodeFn
	turn := make([]chan struct{}, 4)
	for i := range turn {
		turn[i] = make(chan struct{})
	}
	for i := range 3 { // one after the other
		nodes = append(nodes, func(context.Context, st) (up, error) {
			<-turn[i]
			return up{Log: []string{fmt.Sprint(i)}}, nil
		})
	}
	g := build(t, func(b *bld) {
		end := b.Node("end", say("end"))
		for i, fn := range nodes {
			n := b.Node(fmt.Sprint("n", i), fn)
			b.Start(n)
			b.Edge(n, end)
		}
	})
	close(turn[0])
	written := 0
	cfg := superstep.Config{Store: hooked{store, func(journal.Append) {
		if written++; written < 3 { // its outcome is durable: the next one's turn
			close(turn[written])
		}
	}}}
	_, err := runner(t, g, cfg).Run(t.Context(), st{}, in("r"))
	require.NoError(t, err)
	require.Equal(t, []string{"step:done", "step:done", "step:done superstep:done", "step:done superstep:done run:complete"}, appends)
}

// hooked is a store that calls a function behind each append.
type hooked struct {
	journal.Store
	appended func(journal.Append)
}

func (h hooked) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	err := h.Store.Append(ctx, l, a)
	h.appended(a)
	return err
}
