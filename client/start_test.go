package client_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/journal/memory"
)

func TestStartMakesAPendingRunInAQueue(t *testing.T) {
	store := memory.New()
	c := newClient(t, store)
	h, err := client.Start(t.Context(), c, double, 3)
	require.NoError(t, err)
	other, err := client.Start(t.Context(), c, double, 3)
	require.NoError(t, err)
	assert.NotEqual(t, h.ID(), other.ID(), "without a name each is a run of its own")
	assert.False(t, h.Existing())
	run, err := h.Get(t.Context())
	require.NoError(t, err)
	assert.Equal(t, journal.DefaultQueue, run.Queue)
	assert.Equal(t, journal.Pending, run.Status)
	assert.Equal(t, double.Program(), run.Program())
	assert.Zero(t, run.Due)

	h, err = client.Start(t.Context(), c, double, 3, client.ID("d"), client.Queue("night"), nil)
	require.NoError(t, err)
	assert.Equal(t, "d", h.ID())
	run, err = h.Get(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "night", run.Queue)
}

// take is what a worker could take of the default queue.
func take(t *testing.T, store journal.Queue) []string {
	t.Helper()
	taken, err := store.Take(t.Context(), journal.Take{
		Claim: journal.Claim{Owner: "w", TTL: time.Hour}, Queue: journal.DefaultQueue, Programs: []journal.Program{double.Program()}, Limit: 10,
	})
	require.NoError(t, err)
	var ids []string
	for _, r := range taken {
		ids = append(ids, r.Run.ID)
	}
	return ids
}

func TestADelayedRunIsNotTakenEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Nanosecond) // a time that is none of whole microseconds
		store := memory.New()
		c := newClient(t, store)
		begun := time.Now()
		_, err := client.Start(t.Context(), c, double, 1, client.ID("delayed"), client.Delay(time.Minute))
		require.NoError(t, err)
		_, err = client.Start(t.Context(), c, double, 1, client.ID("at"), client.StartAt(begun.Add(2*time.Minute)))
		require.NoError(t, err)
		_, err = client.Start(t.Context(), c, double, 1, client.ID("past"), client.StartAt(begun.Add(-time.Hour)))
		require.NoError(t, err)
		_, err = client.Start(t.Context(), c, double, 1, client.ID("now"), client.Delay(time.Hour), client.StartAt(time.Time{}))
		require.NoError(t, err)
		assert.ElementsMatch(t, []string{"past", "now"}, take(t, store))
		time.Sleep(time.Until(begun.Add(time.Minute)))
		assert.Empty(t, take(t, store))
		time.Sleep(time.Microsecond)
		assert.Equal(t, []string{"delayed"}, take(t, store))
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"at"}, take(t, store))
	})
}

func TestStartAttachesToTheSameRun(t *testing.T) {
	store := memory.New()
	c := newClient(t, store)
	for _, existing := range []bool{false, true, true} {
		h, err := client.Start(t.Context(), c, double, 3, client.ID("d"))
		require.NoError(t, err)
		assert.Equal(t, existing, h.Existing())
		works(t.Context(), store, double, "d")
		got, err := h.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 6, got)
	}
	events := 0
	for range c.Events(t.Context(), "d", 0) {
		events++
	}
	assert.Equal(t, 2, events, "it has run once")

	g, err := client.Start(t.Context(), c, adder(t, store), tally{N: 1}, client.ID("g"))
	require.NoError(t, err)
	assert.False(t, g.Existing())
	g, err = client.Start(t.Context(), c, adder(t, store), tally{N: 1}, client.ID("g"))
	require.NoError(t, err)
	assert.True(t, g.Existing())
}

func TestStartRefusesARunThatIsSomethingElse(t *testing.T) {
	store := memory.New()
	c := newClient(t, store)
	_, err := client.Start(t.Context(), c, double, 3, client.ID("d"))
	require.NoError(t, err)
	graph := adder(t, store)
	other := graph.Program()
	other.Fingerprint = "other"
	create(t, store, journal.Run{ID: "g", Kind: other.Kind, Name: other.Name, Fingerprint: other.Fingerprint})

	next := durable.Workflow("double", func(_ context.Context, n int) (int, error) { return n + n, nil }, durable.SetVersion("2"))
	start := func(_ any, err error) error { return err }
	for what, err := range map[string]error{
		"input":   start(client.Start(t.Context(), c, double, 4, client.ID("d"))),
		"name":    start(client.Start(t.Context(), c, echo, "3", client.ID("d"))),
		"version": start(client.Start(t.Context(), c, next, 3, client.ID("d"))),
		"kind":    start(client.Start(t.Context(), c, graph, tally{}, client.ID("d"))),
		"graph":   start(client.Start(t.Context(), c, graph, tally{}, client.ID("g"))),
	} {
		conflict := as[*durable.RunConflictError](t, err)
		assert.Equal(t, what, conflict.What, err)
		assert.Contains(t, err.Error(), "use another id")
	}

	works(t.Context(), store, double, "d")
	h, err := client.Start(t.Context(), c, next, 3, client.ID("d"))
	require.NoError(t, err, "how an older version has ended is the outcome")
	got, err := h.Result(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 6, got)
}

func TestADedupKeyThatIsTakenLeadsToTheRunThatHasIt(t *testing.T) {
	store := memory.New()
	c := newClient(t, store)
	key := client.Dedup("order-7")
	first, err := client.Start(t.Context(), c, echo, "a", key)
	require.NoError(t, err)
	second, err := client.Start(t.Context(), c, echo, "b", key)
	require.NoError(t, err)
	assert.Equal(t, first.ID(), second.ID())
	assert.False(t, first.Existing())
	assert.True(t, second.Existing())
	again, err := client.Start(t.Context(), c, echo, "a", key, client.ID(first.ID()))
	require.NoError(t, err)
	assert.True(t, again.Existing())
	_, err = client.Start(t.Context(), c, double, 1, key)
	assert.Equal(t, "name", as[*durable.RunConflictError](t, err).What, "another program's")

	require.NoError(t, first.Cancel(t.Context(), ""))
	third, err := client.Start(t.Context(), c, echo, "b", key)
	require.NoError(t, err)
	assert.NotEqual(t, first.ID(), third.ID(), "the key is free again")
}

func TestAQueueNeedsAStoreThatHasQueues(t *testing.T) {
	c := newClient(t, plain{memory.New()})
	_, err := client.Start(t.Context(), c, double, 1)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	assert.Equal(t, &client.UnsupportedError{Call: "Start", Needs: "journal.Queue", Store: "client_test.plain"}, as[*client.UnsupportedError](t, err))
	assert.EqualError(t, err, `pawl: client: Start needs a store that is a journal.Queue, and client_test.plain is none: use one that `+
		`workers can take runs from, or say client.Queue("") and run the run yourself`)
	h, err := client.Start(t.Context(), c, double, 1, client.Queue(""))
	require.NoError(t, err)
	run, err := h.Get(t.Context())
	require.NoError(t, err)
	assert.Empty(t, run.Queue)
}

func TestARunWhoseStartWasNotAcknowledgedIsMadeOnce(t *testing.T) {
	store := journaltest.NewFaulty(memory.New())
	c := newClient(t, store)
	store.FailWrite(1, journaltest.After, journaltest.OpCreate)
	h, err := client.Start(t.Context(), c, double, 1, client.Queue(""))
	require.NoError(t, err)
	assert.False(t, h.Existing())
	page, err := store.List(t.Context(), journal.Query{})
	require.NoError(t, err)
	assert.Len(t, page.Runs, 1)

	store.FailWrite(1, journaltest.After, journaltest.OpCreate)
	store.FailWrite(2, journaltest.After, journaltest.OpCreate)
	_, err = client.Start(t.Context(), c, double, 1, client.Queue(""))
	unknown := as[*client.StartUnknownError](t, err)
	require.ErrorIs(t, err, journal.ErrUnavailable)
	h, err = client.Start(t.Context(), c, double, 1, client.Queue(""), client.ID(unknown.RunID))
	require.NoError(t, err)
	assert.True(t, h.Existing())

	store.FailWrite(1, journaltest.Before, journaltest.OpCreate)
	_, err = client.Start(t.Context(), c, double, 1, client.Queue(""))
	require.ErrorIs(t, err, journal.ErrUnavailable)
	assert.NotErrorAs(t, err, new(*client.StartUnknownError), "nothing was made")
}

func TestStartRefusesOptionsAndInputsThatCannotWork(t *testing.T) {
	c := newClient(t, memory.New())
	_, err := client.Start(t.Context(), c, double, 1, client.ID(""), client.Delay(-time.Second))
	assert.ErrorContains(t, err, "pawl: client.ID: the id is empty: pass a name")
	assert.ErrorContains(t, err, "pawl: client.Delay: -1s is negative")
	assert.ErrorAs(t, err, new(*client.OptionError))
	bad := durable.Workflow("bad", func(context.Context, func()) (int, error) { return 0, nil })
	_, err = client.Start(t.Context(), c, bad, func() {})
	assert.ErrorAs(t, err, new(*journal.NotSerializableError))
	nameless := durable.Workflow("", func(context.Context, int) (int, error) { return 0, nil })
	_, err = client.Start(t.Context(), c, nameless, 1)
	assert.ErrorAs(t, err, new(*durable.OptionError))

	small, err := client.New(memory.New(), client.Config{PayloadLimit: 3})
	require.NoError(t, err)
	_, err = client.Start(t.Context(), small, echo, "too long")
	assert.ErrorAs(t, err, new(*journal.PayloadTooLargeError))
}

func TestNewNamesEachFieldThatIsWrong(t *testing.T) {
	_, err := client.New(memory.New(), client.Config{PayloadLimit: -1, Poll: -1, Capture: "some"})
	for _, field := range []string{"PayloadLimit", "Poll", "Capture"} {
		assert.ErrorContains(t, err, "pawl: client.Config."+field)
	}
	_, err = client.New(nil, client.Config{})
	assert.ErrorContains(t, err, "the store is nil")
}
