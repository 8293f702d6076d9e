package superstep_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/superstep"
)

// spent is an error whose class is budget_exceeded.
type spent struct{}

func (spent) Error() string                           { return "spent" }
func (spent) RunErrorClass() classifier.RunErrorClass { return classifier.BudgetExceeded }

// The code of run:error says why a graph's run has failed, and comes back with every later call.
func TestJournal_ARunEndsWithTheCodeOfItsFailure(t *testing.T) {
	loop := build(t, func(b *bld) {
		n := b.Node("n", say("n"))
		b.Start(n)
		b.Edge(n, n)
	})
	conflict := func(context.Context, st) (up, error) { return up{V: "v"}, nil }
	for name, tt := range map[string]struct {
		g     *graph.Graph[st, up]
		cfg   superstep.Config
		code  durable.Code
		class classifier.RunErrorClass
	}{
		"node":         {one(t, fails(errBroken)), superstep.Config{}, durable.CodeAgentError, classifier.Unknown},
		"panic":        {one(t, func(context.Context, st) (up, error) { panic("ouch") }), superstep.Config{}, durable.CodeAgentError, classifier.Panic},
		"reducer":      {sideBySide(t, conflict, conflict), superstep.Config{}, durable.CodeAgentError, classifier.Unknown},
		"poison":       {one(t, fails(classifier.Poison(errBroken))), superstep.Config{}, durable.CodePoison, classifier.Unknown},
		"fatal":        {one(t, fails(classifier.Fatal(errBroken))), superstep.Config{}, durable.CodeFatal, classifier.Unknown},
		"budget":       {one(t, fails(spent{})), superstep.Config{}, durable.CodeBudgetExceeded, classifier.BudgetExceeded},
		"step limit":   {loop, superstep.Config{MaxSuperSteps: 3}, durable.CodeMaxSuperSteps, classifier.Unknown},
		"run's time":   {one(t, waits), superstep.Config{RunTimeout: time.Second}, durable.CodeTimeout, classifier.Timeout},
		"serializable": {one(t, stepOf(math.Inf(1))), superstep.Config{}, durable.CodeNotSerializable, classifier.InvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore()
				tt.cfg.Store = store
				for range 2 {
					_, err := runner(t, tt.g, tt.cfg).Run(t.Context(), st{}, in("r"))
					failed := asError[*durable.RunFailedError](t, err)
					require.Equal(t, tt.code, failed.Code)
					require.Equal(t, tt.class, failed.Class)
				}
				m, err := durable.FailureOf(lastOf(t, store, "r"))
				require.NoError(t, err)
				require.Equal(t, tt.code, m.Code)
				require.Equal(t, string(tt.class), m.Class)
				require.NotEmpty(t, m.Type)
				require.Len(t, m.Fingerprint, 64)
				require.Equal(t, journal.RunError, lastOf(t, store, "r").Kind)
			})
		})
	}
}

// stepOf is a node with a step that returns v.
func stepOf(v any) nodeFn {
	return func(ctx context.Context, _ st) (up, error) {
		_, err := durable.Step(ctx, "s", func(context.Context) (any, error) { return v, nil })
		return up{}, err
	}
}
