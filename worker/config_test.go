package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
	"github.com/pawl-go/pawl/worker"
)

// plain is a store without queues.
type plain struct{ journal.Store }

func TestEveryBadFieldIsReportedAtOnce(t *testing.T) {
	_, err := worker.New(worker.Config{
		Queues:      []worker.Queue{{}, {Name: "a", Held: -1}, {Name: "a"}},
		Concurrency: -1, LockTTL: -1, Poll: -1, PayloadLimit: -1, StrandedTimeout: -1, Stranded: "maybe", Heartbeat: time.Hour,
		Budgets: durable.Budgets{PoisonTTL: -1},
	})
	for _, field := range []string{
		"Store is nil", "Queues[0].Name", "Queues[1]", `Queues[2]: "a"`, "Concurrency", "LockTTL", "Poll", "PayloadLimit",
		"StrandedTimeout", `Stranded is "maybe"`, "Heartbeat", "Budgets.PoisonTTL",
	} {
		assert.ErrorContains(t, err, field)
	}
	_, err = worker.New(worker.Config{Store: plain{memory.New()}})
	assert.ErrorContains(t, err, "worker_test.plain, which has no queues")
}

func TestRegistrationsThatCannotWorkAreRefused(t *testing.T) {
	w, err := worker.New(worker.Config{Store: memory.New()})
	require.NoError(t, err)
	require.ErrorContains(t, w.Run(t.Context()), "nothing is registered")
	require.NoError(t, w.Register(double))
	require.ErrorContains(t, w.Register(double), "registered twice")
	require.ErrorContains(t, w.Register(nil), "argument 1 is nil")
	require.ErrorContains(t, w.Register(durable.Workflow("", func(context.Context, int) (int, error) { return 0, nil })), "the name is empty")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, w.Run(ctx))
	require.ErrorContains(t, w.Run(ctx), "has run")
	require.ErrorContains(t, w.Register(waiter), "before Run")
}
