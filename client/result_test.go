package client_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/journal/memory"
)

func TestResultWaitsForTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		c := newClient(t, store)
		h, err := client.Start(t.Context(), c, double, 21, client.ID("d"))
		require.NoError(t, err)
		begun := time.Now()
		time.AfterFunc(time.Minute, func() { works(t.Context(), store, double, "d") })
		got, err := h.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 42, got)
		assert.Less(t, time.Since(begun), time.Minute+250*time.Millisecond+time.Millisecond)

		raw, err := c.Handle("d").Result(t.Context())
		require.NoError(t, err)
		assert.JSONEq(t, "42", string(raw))

		graph := adder(t, store)
		g, err := client.Start(t.Context(), c, graph, tally{N: 1}, client.ID("g"))
		require.NoError(t, err)
		time.AfterFunc(time.Second, func() { _, _ = graph.Resume(t.Context(), "g") })
		state, err := g.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, tally{N: 2}, state)
	})
}

// counting counts how often a run's record is read.
type counting struct {
	journal.Store

	loads atomic.Int64
}

func (s *counting) Load(ctx context.Context, run string) (journal.Run, error) {
	s.loads.Add(1)
	return s.Store.Load(ctx, run)
}

func TestResultLooksOftenAtFirstAndThenFourTimesASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counting{Store: memory.New()}
		c := newClient(t, store)
		h, err := client.Start(t.Context(), c, double, 1, client.Queue(""))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		before := store.loads.Load()
		go func() { _, _ = h.Result(ctx) }()
		looks := func(d time.Duration) int64 { // since the last time
			time.Sleep(d)
			synctest.Wait()
			last := before
			before = store.loads.Load()
			return before - last
		}
		assert.EqualValues(t, 6, looks(156*time.Millisecond), "at 0, 5, 15, 35, 75 and 155 ms")
		looks(time.Minute)
		assert.EqualValues(t, 40, looks(10*time.Second))
	})
}

func TestResultOfARunThatHasFailedOrWasCancelled(t *testing.T) {
	store := memory.New()
	c := newClient(t, store)
	h, err := client.Start(t.Context(), c, double, -1, client.ID("d"))
	require.NoError(t, err)
	works(t.Context(), store, double, "d")
	_, err = h.Result(t.Context())
	assert.Equal(t, "d", as[*client.InvocationError](t, err).RunID)
	failed := as[*durable.RunFailedError](t, err)
	assert.Equal(t, durable.CodeInternal, failed.Code)
	require.ErrorIs(t, err, errNegative)
	assert.EqualError(t, err, `pawl: run "d" failed (internal): negative: Retry makes a new run that goes on where it failed`)

	e, err := client.Start(t.Context(), c, echo, "", client.ID("e"))
	require.NoError(t, err)
	require.NoError(t, e.Cancel(t.Context(), "no longer wanted"))
	_, err = e.Result(t.Context())
	assert.Equal(t, "e", as[*client.InvocationCancelledError](t, err).RunID)
	assert.Equal(t, "no longer wanted", as[*durable.RunCancelledError](t, err).Reason)
	require.ErrorIs(t, err, context.Canceled)
	assert.EqualError(t, err, `pawl: run "e" was cancelled: no longer wanted: it is over for good: start another run`)

	_, err = client.Attach(c, double, "nobody").Result(t.Context())
	assert.Equal(t, "nobody", as[*client.RunNotFoundError](t, err).RunID)
	assert.ErrorIs(t, err, journal.ErrNotFound)

	_, err = client.Attach(c, approval, "e2").Result(t.Context())
	assert.ErrorAs(t, err, new(*client.RunNotFoundError))
}

func TestResultEndsWithItsContextAndTheRunGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		c := newClient(t, store)
		late, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		_, err := client.Run(late, c, double, 3, client.ID("d"))
		assert.Equal(t, time.Minute, time.Since(begun))
		timeout := as[*client.InvocationTimeoutError](t, err)
		assert.Equal(t, "d", timeout.RunID)
		assert.True(t, timeout.Timeout())
		assert.Equal(t, classifier.Timeout, timeout.RunErrorClass())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.EqualError(t, err, `pawl: run "d" has not ended in time: context deadline exceeded: it goes on: wait for its Result again, or Cancel it`)

		left, leave := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { leave(errNegative) })
		_, err = client.Attach(c, double, "d").Result(left)
		timeout = as[*client.InvocationTimeoutError](t, err)
		assert.False(t, timeout.Timeout())
		assert.Equal(t, classifier.Canceled, timeout.RunErrorClass())
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, errNegative, "a cause may be another call's failure")
		assert.ErrorContains(t, err, "is not waited for any longer: negative")

		works(t.Context(), store, double, "d")
		got, err := client.Run(t.Context(), c, double, 3, client.ID("d"))
		require.NoError(t, err)
		assert.Equal(t, 6, got)
	})
}

func TestResultFollowsARunThatWasContinuedAsNew(t *testing.T) {
	store := memory.New()
	c := newClient(t, store)
	h, err := client.Start(t.Context(), c, countdown, 3, client.ID("c"))
	require.NoError(t, err)
	works(t.Context(), store, countdown, "c")
	got, err := h.Result(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "lift-off", got)
	run, err := h.Get(t.Context())
	require.NoError(t, err)
	assert.Equal(t, journal.Continued, run.Status)
}

func TestAChainThatCannotBeFollowedSaysWhy(t *testing.T) {
	store := memory.New()
	c := newClient(t, store)
	goesOn := func(id, next string, link journal.Link) {
		r := workflow(id, "countdown")
		r.Link = link
		create(t, store, r, journal.Event{Kind: journal.RunContinued, Time: durable.Now(), Meta: json.RawMessage(`{"next":"` + next + `"}`)})
	}
	after := func(id string) journal.Link { return journal.Link{Kind: journal.Continuation, Run: id} }
	goesOn("missing", "missing~2", journal.Link{})
	goesOn("foreign", "foreign~2", journal.Link{})
	create(t, store, workflow("foreign~2", "countdown"))
	goesOn("cycle", "cycle~2", after("cycle~2"))
	goesOn("cycle~2", "cycle", after("cycle"))
	for _, reason := range []durable.ChainReason{durable.ChainMissing, durable.ChainForeign, durable.ChainCycle} {
		_, err := c.Handle(string(reason)).Result(t.Context())
		broken := as[*durable.ContinuationChainError](t, err)
		assert.Equal(t, reason, broken.Reason)
		assert.NotErrorAs(t, err, new(*client.RunNotFoundError))
	}
	goesOn("lost", "", journal.Link{})
	_, err := c.Handle("lost").Result(t.Context())
	assert.ErrorAs(t, err, new(*durable.ReplayError))
}

func TestResultBearsAStoreThatIsAwayForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New()
		store := journaltest.NewFaulty(inner)
		var warned atomic.Int64
		log := slog.New(slog.NewTextHandler(writer(func(p []byte) { warned.Add(1) }), nil))
		c, err := client.New(store, client.Config{Logger: log})
		require.NoError(t, err)
		h, err := client.Start(t.Context(), c, double, 1, client.ID("d"), client.Queue(""))
		require.NoError(t, err)
		store.Outage(true)
		time.AfterFunc(50*time.Second, func() {
			store.Outage(false)
			works(t.Context(), inner, double, "d")
		})
		got, err := h.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2, got)
		assert.EqualValues(t, 1, warned.Load(), "once for each outage")

		store.Outage(true)
		begun := time.Now()
		_, err = h.Result(t.Context())
		require.ErrorIs(t, err, journal.ErrUnavailable)
		assert.InDelta(t, time.Minute, time.Since(begun), float64(time.Second))
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = h.Result(short)
		timeout := as[*client.InvocationTimeoutError](t, err)
		require.ErrorIs(t, timeout.Store, journal.ErrUnavailable)
		assert.ErrorContains(t, err, "the store could not be read")

		hasty, err := client.New(store, client.Config{Patience: -1, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		begun = time.Now()
		_, err = hasty.Handle("d").Result(t.Context())
		require.ErrorIs(t, err, journal.ErrUnavailable)
		assert.Zero(t, time.Since(begun))
	})
}

type writer func(p []byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

func TestAResultThatIsOfAnotherTypeIsAnError(t *testing.T) {
	store := memory.New()
	c := newClient(t, store)
	_, err := client.Start(t.Context(), c, double, 1, client.ID("d"))
	require.NoError(t, err)
	works(t.Context(), store, double, "d")
	_, err = client.Attach(c, echo, "d").Result(t.Context())
	assert.ErrorAs(t, err, new(*durable.ReplayError))
}
