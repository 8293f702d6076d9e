package superstep_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

// What the journal of another run says is a failure like others to the run whose node returns it.
func TestJournal_WhatAnotherRunHasMetIsAFailure(t *testing.T) {
	for name, err := range map[string]error{
		"suspended": &durable.SuspendedError{RunID: "x"}, "store": &durable.StoreUnavailableError{RunID: "x", Err: journal.ErrUnavailable},
		"lost": &durable.RunLostError{RunID: "x", Err: journal.ErrFenced}, "cancelled": &durable.RunCancelledError{RunID: "x"},
		"replay": &durable.ReplayError{RunID: "x", Err: errOther}, "determinism": &durable.NonDeterminismError{RunID: "x"},
		"refused": &durable.StoreError{RunID: "x", Err: errOther}, "value": &journal.NotSerializableError{Path: "x"},
	} {
		for _, journaled := range []bool{false, true} {
			for _, nodes := range []int{1, 2} {
				t.Run(name, func(t *testing.T) {
					all := []nodeFn{fails(err), say("b")}
					cfg := superstep.Config{}
					if journaled {
						cfg.Store = newStore()
					}
					o := play(t.Context(), t, sideBySide(t, all[:nodes]...), cfg, st{}, in("r"))
					node := asError[*superstep.NodeError](t, o.err)
					require.Equal(t, "a", node.Node)
					require.ErrorContains(t, o.err, err.Error())
					require.NotEmpty(t, only[*task.TaskFailed](o.events))
					require.Empty(t, only[*task.TaskSuspended](o.events))
					require.Len(t, only[*task.RunFailed](o.events), 1)
					if journaled {
						require.Equal(t, journal.Failed, statusOf(t, cfg.Store, "r"))
					}
				})
			}
		}
		t.Run(name+", caught", func(t *testing.T) {
			g := build(t, func(b *bld) {
				a := b.Node("a", fails(err))
				b.Catch(a, func(_ context.Context, _ st, got error) (up, error) {
					return up{V: got.Error()}, nil
				})
				b.Start(a)
			})
			res, err2 := runner(t, g, stored(newStore())).Run(t.Context(), st{})
			require.NoError(t, err2)
			require.Contains(t, res.State.V, err.Error())
		})
	}
}

// A node that runs another run, which waits, has not suspended its own.
func TestJournal_ARunInsideANodeIsARunOfItsOwn(t *testing.T) {
	store := newStore()
	inner := runner(t, one(t, asks("inner")), stored(store))
	outer := one(t, func(ctx context.Context, s st) (up, error) {
		_, err := durable.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil })
		if err != nil {
			return up{}, err
		}
		res, err := inner.Run(ctx, st{}, in("inner"))
		if waiting := (*durable.SuspendedError)(nil); errors.As(err, &waiting) {
			word, err := durable.Interrupt[string](ctx, "outer")
			return up{Log: []string{word}}, err
		}
		return up{Log: res.State.Log}, err
	})
	r := runner(t, outer, stored(store))
	_, err := r.Run(t.Context(), st{}, in("outer"))
	require.Equal(t, []string{"1/a[0]/ask1"}, questionsOf(t, err))
	require.Equal(t, journal.Suspended, statusOf(t, store, "inner"))
	require.NoError(t, r.Answer(t.Context(), "outer", "1/a[0]/ask1", "mine"))
	res, err := r.Resume(t.Context(), "outer")
	require.NoError(t, err)
	require.Equal(t, []string{"mine"}, res.State.Log)
}

// A step cut short by a context of the node's own is an outcome if the node goes on.
func TestJournal_AStepThatEndsWithAContextOfTheNodesOwnIsRecordedIfTheNodeGoesOn(t *testing.T) {
	c, store := newMeter(), newStore()
	working := make(chan struct{})
	g := one(t, func(ctx context.Context, _ st) (up, error) {
		eg, inner := errgroup.WithContext(ctx)
		eg.Go(func() error {
			return durable.Branch(inner, "fails", func(ctx context.Context) error {
				_, err := durable.Step(ctx, "f", func(context.Context) (int, error) {
					c.hit("f")
					<-working
					return 0, errBroken
				})
				return err
			})
		})
		eg.Go(func() error {
			return durable.Branch(inner, "waits", func(ctx context.Context) error {
				_, err := durable.Step(ctx, "w", func(ctx context.Context) (int, error) {
					c.hit("w")
					close(working)
					<-ctx.Done()
					return 0, ctx.Err()
				})
				return err
			})
		})
		if err := eg.Wait(); err == nil { // which of the two is first may differ in a replay
			return up{}, errOther
		}
		word, err := durable.Interrupt[string](ctx, "and now?")
		return up{Log: []string{word}}, err
	})
	r := runner(t, g, stored(store))
	_, err := r.Run(t.Context(), st{}, in("r"))
	require.NoError(t, r.Answer(t.Context(), "r", questionsOf(t, err)[0], "go"))
	res, err := r.Resume(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, []string{"go"}, res.State.Log)
	require.Equal(t, map[string]int{"f": 1, "w": 1}, c.all())
}

// However a cancel meets the run, the run is cancelled and has not failed.
func TestJournal_ACancelIsACancelHoweverItIsHeardOf(t *testing.T) {
	for range 50 {
		store, inside := newStore(), make(chan struct{}, 10)
		busy := func(ctx context.Context, _ st) (up, error) { //nolint:unparam // a node
			inside <- struct{}{}
			for i := 0; ; i++ {
				if _, err := durable.Step(ctx, "s", func(context.Context) (int, error) { return i, nil }); err != nil {
					return up{}, err
				}
			}
		}
		child := sideBySide(t, busy, busy)
		g := build(t, func(b *bld) {
			s := graph.Sub(b, "sub", child, func(s st) st { return s }, func(s st) up { return up{} })
			b.Start(s, b.Node("busy", busy, graph.Retry(stubborn(3)), graph.Timeout(time.Minute)))
		})
		r := runner(t, g, stored(store))
		done := make(chan error)
		go func() {
			_, err := r.Run(t.Context(), st{}, in("r"))
			done <- err
		}()
		<-inside
		require.NoError(t, durable.Cancel(t.Context(), store, "r", "enough"))
		err := <-done
		require.Equal(t, "enough", asError[*durable.RunCancelledError](t, err).Reason)
		require.Equal(t, journal.Cancelled, statusOf(t, store, "r"))
	}
}
