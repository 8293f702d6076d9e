package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
	"github.com/pawl-go/pawl/superstep"
)

func newClient(t *testing.T, store journal.Store) *client.Client {
	t.Helper()
	c, err := client.New(store, client.Config{})
	require.NoError(t, err)
	return c
}

// double doubles a number, unless that is negative.
var double = durable.Workflow("double", func(_ context.Context, n int) (int, error) {
	if n < 0 {
		return 0, errNegative
	}
	return 2 * n, nil
})

var errNegative = errors.New("negative")

// echo waits for a signal and says what it was.
var echo = durable.Workflow("echo", func(ctx context.Context, prefix string) (string, error) {
	word, err := durable.WaitForSignal[string](ctx, "word")
	return prefix + word, err
})

// approval asks a person.
var approval = durable.Workflow("approval", func(ctx context.Context, what string) (string, error) {
	ok, err := durable.Interrupt[bool](ctx, "Publish "+what+"?")
	return fmt.Sprint(what, " ", ok), err
})

// countdown goes on as new until it comes to nothing.
var countdown = durable.Workflow("countdown", func(ctx context.Context, n int) (string, error) {
	if n > 0 {
		return "", durable.ContinueAsNew(ctx, n-1)
	}
	return "lift-off", nil
})

// works does what a worker would: it goes on with a run, and takes no interest in how it ends.
func works[I, O any](ctx context.Context, store journal.Store, wf *durable.Definition[I, O], id string) {
	_, _ = durable.Resume(ctx, store, wf, id)
}

type tally struct{ N int }

type plus struct {
	N int `merge:"sum"`
}

// adder is a graph that adds one.
func adder(t *testing.T, store journal.Store) *superstep.Runner[tally, plus] {
	t.Helper()
	b := graph.New("adder", graph.Fields[tally, plus]())
	b.Start(b.Node("add", func(context.Context, tally) (plus, error) { return plus{N: 1}, nil }))
	g, err := b.Compile()
	require.NoError(t, err)
	r, err := superstep.NewRunner(g, superstep.Config{Store: store})
	require.NoError(t, err)
	return r
}

// plain is a store without abilities.
type plain struct{ journal.Store }

// as is errors.AsType for tests.
func as[E error](t *testing.T, err error) E {
	t.Helper()
	e, ok := errors.AsType[E](err)
	require.True(t, ok, "%T: %v", err, err)
	return e
}

// create writes a run.
func create(t *testing.T, store journal.Store, r journal.Run, events ...journal.Event) {
	t.Helper()
	start := journal.Event{Kind: journal.RunStart, Time: durable.Now(), Payload: []byte("1")}
	_, err := store.Create(t.Context(), journal.NewRun{Run: r, Events: append([]journal.Event{start}, events...)})
	require.NoError(t, err)
}

func workflow(id, name string) journal.Run {
	return journal.Run{ID: id, Kind: journal.WorkflowRun, Name: name}
}

// parent waits for a child that waits.
var parent = durable.Workflow("parent", func(ctx context.Context, in string) (string, error) {
	return durable.RunChild(ctx, echo, in, durable.ChildID("kid"))
})

// cart collects items until it is closed.
var cart = durable.Workflow("cart", func(ctx context.Context, first string) ([]string, error) {
	items := []string{first}
	closed := false
	err := errors.Join(
		durable.HandleUpdate(ctx, "add", func(_ context.Context, item string) (int, error) {
			if item == "glass" {
				return 0, errBroken
			}
			items = append(items, item)
			return len(items), nil
		}, durable.Validator(func(item string) error {
			if item == "" {
				return errNothing
			}
			return nil
		})),
		durable.HandleUpdate(ctx, "close", func(context.Context, struct{}) (bool, error) {
			closed = true
			return true, nil
		}),
		durable.HandleQuery(ctx, "size", func(struct{}) (int, error) { return len(items), nil }),
	)
	if err != nil {
		return nil, err
	}
	return items, durable.Await(ctx, func() bool { return closed })
})

var (
	errBroken  = errors.New("it has broken")
	errNothing = errors.New("nothing to add")
)

// attend does what a worker would, until the returned function is called: it goes on with a run when there is a message.
func attend[I, O any](ctx context.Context, store *memory.Store, wf *durable.Definition[I, O], id string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	changed, unwatch := store.Watch(id)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer unwatch()
		for {
			works(ctx, store, wf, id)
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
