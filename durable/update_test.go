package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
)

// cart collects what others add to it, until somebody sends "done". Each item is priced in a step.
func cart(c *counter) *durable.Definition[int, []string] {
	return durable.Workflow("cart", func(ctx context.Context, _ int) ([]string, error) {
		var items []string
		if err := register(ctx, c, &items); err != nil {
			return nil, err
		}
		if _, err := counted(ctx, c, "first", 1); err != nil {
			return nil, err
		}
		_, err := durable.WaitForSignal[bool](ctx, "done")
		return items, err
	})
}

func register(ctx context.Context, c *counter, items *[]string) error {
	return durable.HandleUpdate(ctx, "add", func(ctx context.Context, item string) (int, error) {
		price, err := counted(ctx, c, "price "+item, len(item))
		if err != nil {
			return 0, err
		}
		*items = append(*items, fmt.Sprint(item, " ", price))
		if item == "broken" {
			return 0, &broken{Item: item}
		}
		return len(*items), nil
	}, durable.Validator(func(item string) error {
		if item == "" {
			return &broken{Item: "nothing"}
		}
		return nil
	}))
}

// broken is what handlers fail with.
type broken struct{ Item string }

func (e *broken) Error() string { return e.Item + " is broken" }

// post puts a message into an inbox, as Update and Query do.
func post(tb testing.TB, store journal.Store, id string, kind journal.MessageKind, name string, v any) {
	tb.Helper()
	_, err := store.Send(tb.Context(), id, journal.Message{Kind: kind, Name: name, Time: time.Now(), Payload: mustJSON(v)})
	require.NoError(tb, err)
}

func add(tb testing.TB, store journal.Store, id, item string) {
	tb.Helper()
	post(tb, store, id, journal.UpdateMessage, "add", item)
}

func done(tb testing.TB, store journal.Store) {
	tb.Helper()
	require.NoError(tb, durable.Signal(tb.Context(), store, "r", "done", true))
}

// waits runs a run that is suspended in the end.
func waits[I, O any](tb testing.TB, store journal.Store, wf *durable.Definition[I, O], id string, in I) *durable.SuspendedError {
	tb.Helper()
	_, err := durable.Run(tb.Context(), store, wf, id, in)
	return asError[*durable.SuspendedError](tb, err)
}

// ends runs a run that completes.
func ends[I, O any](tb testing.TB, store journal.Store, wf *durable.Definition[I, O], id string, in I) O {
	tb.Helper()
	out, err := durable.Run(tb.Context(), store, wf, id, in)
	require.NoError(tb, err)
	return out
}

// of returns the events of a kind.
func of(tb testing.TB, store journal.Store, id string, kind journal.Kind) []journal.Event {
	tb.Helper()
	var found []journal.Event
	for _, e := range events(tb, store, id) {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

func TestUpdatesAreHandledInOrderBeforeTheCallThatTheBodyEnters(t *testing.T) {
	store, c := memory.New(), &counter{}
	waits(t, store, cart(c), "r", 0)
	for _, item := range []string{"tea", "milk"} {
		add(t, store, "r", item)
	}
	waits(t, store, cart(c), "r", 0)
	add(t, store, "r", "oats")
	done(t, store)
	for range 2 { // and again from the record
		assert.Equal(t, []string{"tea 3", "milk 4", "oats 4"}, ends(t, store, cart(c), "r", 0))
	}
	assert.Equal(t, []string{
		"run:start", "step:done first", "signal:wait done", "run:suspended",
		"step:done price tea in update[1]", "update:done add in update[1]",
		"step:done price milk in update[2]", "update:done add in update[2]", "run:suspended",
		"step:done price oats in update[3]", "update:done add in update[3]", "signal:received done", "run:complete",
	}, kinds(t, store, "r"))
	for _, e := range of(t, store, "r", journal.UpdateDone) {
		var p map[string]any
		require.NoError(t, json.Unmarshal(e.Meta, &p))
		assert.Equal(t, map[string]any{"name": "done", "n": 1.0}, p["before"])
		require.NoError(t, json.Unmarshal(e.Payload, &p))
		assert.NotEmpty(t, p["argument"])
	}
	for name, n := range c.calls {
		assert.Equal(t, 1, n, name)
	}
}

func TestAnUpdateComesNotBeforeWhatIsRecorded(t *testing.T) {
	store, c := memory.New(), &counter{}
	var seen []string
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		n := 0
		err := durable.HandleUpdate(ctx, "inc", func(_ context.Context, by int) (int, error) { n += by; return n, nil })
		if err != nil {
			return 0, err
		}
		for _, name := range []string{"a", "b"} {
			seen = append(seen, fmt.Sprint(name, n))
			if _, err := counted(ctx, c, fmt.Sprint(name, n), n); err != nil {
				return 0, err
			}
		}
		err = suspend(ctx)
		return n, err
	})
	waits(t, store, wf, "r", 0)
	post(t, store, "r", journal.UpdateMessage, "inc", 5)
	release(t, store, "r")
	assert.Equal(t, 5, ends(t, store, wf, "r", 0))
	assert.Equal(t, []string{"a0", "b0", "a0", "b0"}, seen, "the steps that were done before it are done before it again")
	assert.Equal(t, 1, c.of("a0"))
}

func TestAFailingHandlerIsAnOutcomeAndTheRunGoesOn(t *testing.T) {
	store, c := memory.New(), &counter{}
	waits(t, store, cart(c), "r", 0)
	add(t, store, "r", "broken")
	add(t, store, "r", "tea")
	waits(t, store, cart(c), "r", 0)
	done(t, store)
	assert.Equal(t, []string{"broken 6", "tea 3"}, ends(t, store, cart(c), "r", 0), "what it has changed it has changed, also on replay")
	failed := of(t, store, "r", journal.UpdateError)
	require.Len(t, failed, 1)
	m, err := durable.FailureOf(failed[0])
	require.NoError(t, err)
	assert.Contains(t, m.Type, "durable_test.broken")
	assert.Equal(t, 1, c.of("price broken"))
}

func TestAFailedStepOfAHandlerIsServedOnReplay(t *testing.T) {
	store, c := memory.New(), &counter{}
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
		way := "none"
		err := durable.HandleUpdate(ctx, "try", func(ctx context.Context, _ bool) (bool, error) {
			_, err := durable.Step(ctx, "fails", func(context.Context) (int, error) { c.add("fails"); return 0, errBoom })
			if errors.Is(err, errBoom) || err != nil && err.Error() == errBoom.Error() {
				way = "handled"
				return true, err
			}
			return false, err
		})
		if err != nil {
			return "", err
		}
		err = suspend(ctx)
		return way, err
	})
	waits(t, store, wf, "r", 0)
	post(t, store, "r", journal.UpdateMessage, "try", true)
	waits(t, store, wf, "r", 0)
	release(t, store, "r")
	assert.Equal(t, "handled", ends(t, store, wf, "r", 0))
	assert.Equal(t, 1, c.of("fails"))
	assert.Len(t, of(t, store, "r", journal.UpdateError), 1)
}

func TestAValidatorRejectsAndTheRunIsAsItWas(t *testing.T) {
	store, c := memory.New(), &counter{}
	waits(t, store, cart(c), "r", 0)
	add(t, store, "r", "")
	post(t, store, "r", journal.UpdateMessage, "add", map[string]int{"not": 1})
	waits(t, store, cart(c), "r", 0)
	done(t, store)
	assert.Empty(t, ends(t, store, cart(c), "r", 0))
	rejected := of(t, store, "r", journal.UpdateRejected)
	require.Len(t, rejected, 2)
	for i, reason := range []string{"invalid", "wrong argument"} {
		var m map[string]any
		require.NoError(t, json.Unmarshal(rejected[i].Meta, &m))
		assert.Equal(t, reason, m["reason"])
		assert.InDelta(t, i+1, m["message"], 0)
	}
	assert.Empty(t, of(t, store, "r", journal.UpdateDone))
}

func TestAnUnknownUpdateIsRejectedWhenTheBodyWaitsOrEndsAndNotEarlier(t *testing.T) {
	store, c := memory.New(), &counter{}
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		n := 0
		if _, err := counted(ctx, c, "a", 1); err != nil {
			return 0, err
		}
		if _, err := counted(ctx, c, "b", 1); err != nil {
			return 0, err
		}
		err := durable.HandleUpdate(ctx, "late", func(_ context.Context, by int) (int, error) { n += by; return n, nil })
		if err != nil {
			return 0, err
		}
		return n, suspend(ctx)
	})
	_, err := store.Create(t.Context(), journal.NewRun{
		Run:    journal.Run{ID: "r", Kind: journal.WorkflowRun, Name: "w"},
		Events: []journal.Event{{Kind: journal.RunStart, Payload: []byte("0")}},
		Messages: []journal.Message{
			{Kind: journal.UpdateMessage, Name: "never", Payload: []byte("1")},
			{Kind: journal.UpdateMessage, Name: "late", Payload: []byte("2")},
		},
	})
	require.NoError(t, err)
	waits(t, store, wf, "r", 0)
	assert.Equal(t, []string{
		"run:start", "step:done a", "step:done b", "update:done late in update[2]", "signal:wait release",
		"update:rejected never", "run:suspended",
	}, kinds(t, store, "r"))
}

func TestUpdatesThatTheBodyDoesNotComeToAreRejectedAtItsEnd(t *testing.T) {
	for name, end := range map[string]error{"run:complete": nil, "run:error": errBoom} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.New()
			wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
				err := durable.HandleUpdate(ctx, "inc", func(context.Context, int) (int, error) { return 0, nil })
				if err != nil {
					return 0, err
				}
				post(t, store, "r", journal.UpdateMessage, "inc", 1)   //nolint:contextcheck // it is the test's
				post(t, store, "r", journal.UpdateMessage, "other", 1) //nolint:contextcheck // it is the test's
				post(t, store, "r", journal.QueryMessage, "size", 1)   //nolint:contextcheck // it is the test's
				synctest.Wait()                                        // until the owner has heard of them
				return 0, end
			})
			_, err := durable.Run(t.Context(), store, wf, "r", 0)
			assert.Equal(t, end == nil, err == nil)
			assert.Equal(t, []string{
				"run:start", "update:rejected inc", "update:rejected other", "query:answered size", name,
			}, kinds(t, store, "r"))
			for _, e := range of(t, store, "r", journal.UpdateRejected) {
				assert.Contains(t, string(e.Meta), "run has ended")
			}
		})
	}
}

func TestUpdatesGoAlongWhenARunContinuesAsNew(t *testing.T) {
	store, c := memory.New(), &counter{}
	wf := durable.Workflow("w", func(ctx context.Context, items []string) ([]string, error) {
		if len(items) == 0 { // has no handler, and does not wait
			if _, err := counted(ctx, c, "first", 1); err != nil {
				return nil, err
			}
			return nil, durable.ContinueAsNew(ctx, []string{"begun"})
		}
		if err := register(ctx, c, &items); err != nil {
			return nil, err
		}
		err := durable.Await(ctx, func() bool { return len(items) > 1 })
		return items, err
	})
	_, err := store.Create(t.Context(), journal.NewRun{
		Run:      journal.Run{ID: "r", Kind: journal.WorkflowRun, Name: "w"},
		Events:   []journal.Event{{Kind: journal.RunStart, Payload: []byte("null")}},
		Messages: []journal.Message{{Kind: journal.UpdateMessage, Name: "add", Payload: []byte(`"tea"`)}},
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"begun", "tea 3"}, ends(t, store, wf, "r", nil))
	assert.Len(t, of(t, store, "r~2", journal.UpdateDone), 1)
	assert.Equal(t, []string{"run:start", "step:done first", "run:continued"}, kinds(t, store, "r"))
}

// A context of the code's own ends at another moment each time.
func TestAHandlerIsNotCalledWithTheContextOfTheCall(t *testing.T) {
	store, c := memory.New(), &counter{}
	wf := durable.Workflow("w", func(ctx context.Context, _ int) ([]string, error) {
		var items []string
		if err := register(ctx, c, &items); err != nil {
			return nil, err
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := counted(ended, c, "cut", 1); err == nil {
			return nil, errors.New("it was not cut")
		}
		err := suspend(ctx)
		return items, err
	})
	_, err := store.Create(t.Context(), journal.NewRun{
		Run:      journal.Run{ID: "r", Kind: journal.WorkflowRun, Name: "w"},
		Events:   []journal.Event{{Kind: journal.RunStart, Payload: []byte("0")}},
		Messages: []journal.Message{{Kind: journal.UpdateMessage, Name: "add", Payload: []byte(`"tea"`)}},
	})
	require.NoError(t, err)
	waits(t, store, wf, "r", 0)
	assert.Equal(t, []string{
		"run:start", "step:done price tea in update[1]", "update:done add in update[1]", "step:error cut", "signal:wait release",
		"run:suspended",
	}, kinds(t, store, "r"))
	release(t, store, "r")
	assert.Equal(t, []string{"tea 3"}, ends(t, store, wf, "r", 0))
}

// A call that was added before the place of an update is no reason to handle later ones first.
func TestUpdatesThatHaveComeSinceStandBehindThoseThatAreRecorded(t *testing.T) {
	store, c := memory.New(), &counter{}
	wf := durable.Workflow("w", func(ctx context.Context, _ int) ([]string, error) {
		var items []string
		if err := register(ctx, c, &items); err != nil {
			return nil, err
		}
		for _, name := range []string{"new", "old"} {
			if _, err := counted(ctx, c, name, 1); err != nil {
				return nil, err
			}
		}
		err := suspend(ctx)
		return items, err
	})
	_, err := store.Create(t.Context(), journal.NewRun{
		Run: journal.Run{ID: "r", Kind: journal.WorkflowRun, Name: "w"},
		Events: []journal.Event{
			{Kind: journal.RunStart, Payload: []byte("0")},
			{Kind: journal.StepDone, Scope: "update[1]", Name: "price tea", N: 1, Payload: []byte("3")},
			{
				Kind: journal.UpdateDone, Scope: "update[1]", Name: "add", Meta: []byte(`{"message": 1, "before": {"name": "old", "n": 1}}`),
				Payload: []byte(`{"argument": "tea", "result": 1}`),
			},
		},
		Messages: []journal.Message{
			{Kind: journal.UpdateMessage, Name: "add", Payload: []byte(`"tea"`)},
			{Kind: journal.UpdateMessage, Name: "add", Payload: []byte(`"milk"`)},
		},
	})
	require.NoError(t, err)
	waits(t, store, wf, "r", 0)
	release(t, store, "r")
	assert.Equal(t, []string{"tea 3", "milk 4"}, ends(t, store, wf, "r", 0))
}
