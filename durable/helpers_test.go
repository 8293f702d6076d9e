package durable_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
	"github.com/pawl-go/pawl/retrypolicy"
)

var errBoom = errors.New("boom")

// counter counts calls by name.
type counter struct {
	mu    sync.Mutex
	calls map[string]int
	order []string
}

func (c *counter) add(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = map[string]int{}
	}
	c.calls[name]++
	c.order = append(c.order, name)
	return c.calls[name]
}

func (c *counter) of(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[name]
}

// counted is a step that returns v and counts.
func counted[T any](ctx context.Context, c *counter, name string, v T, opts ...durable.StepOption) (T, error) {
	return durable.Step(ctx, name, func(context.Context) (T, error) {
		c.add(name)
		return v, nil
	}, opts...)
}

// attempts is a policy of n attempts without delay, for any error.
func attempts(n int) durable.StepOption {
	return durable.Retry(retrypolicy.WorkflowNodeRetryPolicy{MaxAttempts: n, Retryable: retrypolicy.AnyError})
}

// events returns what is recorded of a run.
func events(tb testing.TB, store journal.Store, id string) []journal.Event {
	tb.Helper()
	var all []journal.Event
	for e, err := range store.Events(tb.Context(), id, 0) {
		require.NoError(tb, err)
		all = append(all, e)
	}
	return all
}

// kinds returns the kinds of a run's events, with the names of their calls.
func kinds(tb testing.TB, store journal.Store, id string) []string {
	tb.Helper()
	var all []string
	for _, e := range events(tb, store, id) {
		k := string(e.Kind)
		if e.Name != "" {
			k += " " + e.Name
		}
		if e.Scope != "" {
			k += " in " + e.Scope
		}
		all = append(all, k)
	}
	return all
}

func status(tb testing.TB, store journal.Store, id string) journal.Status {
	tb.Helper()
	run, err := store.Load(tb.Context(), id)
	require.NoError(tb, err)
	return run.Status
}

// asError is errors.As with a test's failure.
func asError[E error](tb testing.TB, err error) E {
	tb.Helper()
	var e E
	require.ErrorAs(tb, err, &e, "%v", err)
	return e
}

// suspend is a workflow's way to stop until the test goes on with it: it waits for a signal that release sends.
func suspend(ctx context.Context) error {
	_, err := durable.WaitForSignal[bool](ctx, "release")
	return err
}

func release(tb testing.TB, store journal.Store, id string) {
	tb.Helper()
	require.NoError(tb, durable.Signal(tb.Context(), store, id, "release", true))
}

// logged returns settings whose warnings go to the buffer.
func logged() (durable.CommonOption, *lockedBuffer) {
	var b lockedBuffer
	return durable.Using(durable.Settings{Logger: slog.New(slog.NewTextHandler(&b, nil))}), &b
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// hold takes a run as another process would.
func hold(tb testing.TB, store journal.Store, id string) journal.Lease {
	tb.Helper()
	lease, err := store.Acquire(tb.Context(), id, journal.Claim{Owner: "other", TTL: time.Minute})
	require.NoError(tb, err)
	return lease
}

func mustJSON(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprint(err))
	}
	return data
}

// reborn returns a store with the same runs as they are found after the death of their owners: nobody holds them.
func reborn(tb testing.TB, store *memory.Store) *memory.Store {
	tb.Helper()
	ctx, again := tb.Context(), memory.New()
	page, err := store.List(ctx, journal.Query{Limit: 1000})
	require.NoError(tb, err)
	for _, run := range slices.Backward(page.Runs) {
		n := journal.NewRun{Run: run, Events: events(tb, store, run.ID)} //nolint:contextcheck // it is the test's
		n.Messages, err = store.Inbox(ctx, run.ID, 0)
		require.NoError(tb, err)
		_, err = again.Create(ctx, n)
		require.NoError(tb, err)
	}
	return again
}
