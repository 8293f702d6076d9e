package client_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
)

func TestUpdatesChangeARunAndQueriesReadIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		c := newClient(t, store)
		h, err := client.Start(t.Context(), c, cart, "tea", client.ID("c"))
		require.NoError(t, err)
		defer attend(t.Context(), store, cart, "c")()
		for range 2 {
			size, err := client.Update[int](t.Context(), h, "add", "milk", durable.SendKey("k"))
			require.NoError(t, err)
			assert.Equal(t, 2, size, "the same key is the same update")
		}
		size, err := client.Query[int](t.Context(), c.Handle("c"), "size", struct{}{})
		require.NoError(t, err)
		assert.Equal(t, 2, size)

		_, err = client.Update[int](t.Context(), h, "add", "")
		rejected := as[*durable.UpdateRejectedError](t, err)
		assert.Equal(t, durable.RefusedInvalid, rejected.Reason)
		require.ErrorIs(t, err, errNothing)
		_, err = client.Update[int](t.Context(), h, "drop", "tea")
		assert.Equal(t, durable.RefusedUnknown, as[*durable.UpdateRejectedError](t, err).Reason)
		_, err = client.Update[int](t.Context(), h, "add", "glass")
		assert.Equal(t, "c", as[*durable.UpdateFailedError](t, err).RunID)
		require.ErrorIs(t, err, errBroken)
		_, err = client.Query[int](t.Context(), h, "weight", struct{}{})
		assert.Equal(t, durable.RefusedUnknown, as[*durable.QueryError](t, err).Reason)
		_, err = client.Query[string](t.Context(), h, "size", struct{}{})
		assert.ErrorAs(t, err, new(*durable.ReplayError), "the answer is of another type")

		_, err = client.Update[bool](t.Context(), h, "close", struct{}{})
		require.NoError(t, err)
		got, err := h.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"tea", "milk"}, got)
		_, err = client.Update[int](t.Context(), h, "add", "sugar")
		assert.Equal(t, journal.Completed, as[*client.RunFinishedError](t, err).Status)
		_, err = client.Query[int](t.Context(), h, "size", struct{}{})
		assert.Equal(t, journal.Completed, as[*client.RunFinishedError](t, err).Status)
		_, err = client.Query[int](t.Context(), c.Handle("nobody"), "size", struct{}{})
		assert.ErrorAs(t, err, new(*client.RunNotFoundError))
	})
}

func TestUpdatesAndQueriesThatNobodyHandlesEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		c := newClient(t, store)
		h, err := client.Start(t.Context(), c, cart, "tea", client.ID("c"))
		require.NoError(t, err)
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = client.Update[int](short, h, "add", "milk", durable.SendKey("k"))
		late := as[*durable.UpdateTimeoutError](t, err)
		assert.True(t, late.Timeout())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = client.Query[int](short, h, "size", struct{}{})
		require.ErrorIs(t, err, context.DeadlineExceeded)

		defer attend(t.Context(), store, cart, "c")()
		size, err := client.Update[int](t.Context(), h, "add", "milk", durable.SendKey(late.Key))
		require.NoError(t, err)
		assert.Equal(t, 2, size, "it is the update that was sent before")
	})
}

func TestAPausedRunRestsUntilItIsResumed(t *testing.T) {
	store := memory.New()
	c := newClient(t, store)
	h, err := client.Start(t.Context(), c, echo, "say ", client.ID("e"))
	require.NoError(t, err)
	require.NoError(t, h.Pause(t.Context(), "a look at it"))
	require.NoError(t, h.Signal(t.Context(), "word", "hello"))
	works(t.Context(), store, echo, "e")
	run, err := h.Get(t.Context())
	require.NoError(t, err)
	assert.Equal(t, journal.Suspended, run.Status)
	require.NoError(t, h.Resume(t.Context()))
	works(t.Context(), store, echo, "e")
	got, err := h.Result(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "say hello", got)

	assert.ErrorAs(t, h.Pause(t.Context(), ""), new(*client.RunFinishedError))
	assert.ErrorAs(t, h.Resume(t.Context()), new(*client.RunFinishedError))
	assert.ErrorAs(t, c.Pause(t.Context(), "nobody", ""), new(*client.RunNotFoundError))
	assert.ErrorAs(t, c.Resume(t.Context(), "nobody"), new(*client.RunNotFoundError))
}
