package client_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/journal/memory"
)

func TestEventsFollowsARunUntilItHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		c := newClient(t, store)
		h, err := client.Start(t.Context(), c, echo, "", client.ID("e"))
		require.NoError(t, err)
		begun := time.Now()
		time.AfterFunc(time.Minute, func() { works(t.Context(), store, echo, "e") })
		time.AfterFunc(2*time.Minute, func() {
			_ = h.Signal(t.Context(), "word", "hello")
			works(t.Context(), store, echo, "e")
		})
		var got []string
		for e, err := range h.Events(t.Context()) {
			require.NoError(t, err)
			got = append(got, fmt.Sprintf("%d %s %s", e.Seq, e.Kind, time.Since(begun).Truncate(time.Second)))
		}
		assert.Equal(t, []string{
			"1 run:start 0s", "2 signal:wait 1m0s", "3 run:suspended 1m0s", "4 signal:received 2m0s", "5 run:complete 2m0s",
		}, got)

		begun, got = time.Now(), nil
		for e, err := range c.Events(t.Context(), "e", 3) {
			require.NoError(t, err)
			got = append(got, string(e.Kind))
		}
		assert.Equal(t, []string{"signal:received", "run:complete"}, got)
		for range c.Events(t.Context(), "e", 5) {
			t.Error("there is nothing behind the end")
		}
		assert.Zero(t, time.Since(begun), "nobody waits for a run that has ended")
	})
}

func TestEventsEndsWithItsContextOrWithItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		c := newClient(t, store)
		_, err := client.Start(t.Context(), c, echo, "", client.ID("e"))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var errs []error
		for _, err := range c.Events(ctx, "e", 0) {
			errs = append(errs, err)
		}
		assert.Equal(t, []error{nil, context.DeadlineExceeded}, errs)
		for range c.Events(t.Context(), "e", 0) {
			break
		}
		for _, err := range c.Events(t.Context(), "nobody", 0) {
			assert.ErrorAs(t, err, new(*client.RunNotFoundError))
		}
	})
}

func TestEventsGoesOnWhereAnOutageHasCutIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New()
		store := journaltest.NewFaulty(inner)
		c := newClient(t, store)
		_, err := client.Start(t.Context(), c, double, 1, client.ID("d"), client.Queue(""))
		require.NoError(t, err)
		var got []int64
		for e, err := range c.Events(t.Context(), "d", 0) {
			require.NoError(t, err)
			if got = append(got, e.Seq); e.Seq == 1 {
				store.Outage(true)
				time.AfterFunc(10*time.Second, func() { works(t.Context(), inner, double, "d") })
				time.AfterFunc(20*time.Second, func() { store.Outage(false) })
			}
		}
		assert.Equal(t, []int64{1, 2}, got)
	})
}

func TestEventsShowsShapesWhereValuesMustNotBeSeen(t *testing.T) {
	store := memory.New()
	codec, err := journal.AESGCM(journal.Key{ID: "k", Secret: make([]byte, 32)})
	require.NoError(t, err)
	for _, codec := range []journal.Codec{nil, codec} {
		full, err := client.New(store, client.Config{Codec: codec})
		require.NoError(t, err)
		h, err := client.Start(t.Context(), full, echo, "secret", client.Queue(""))
		require.NoError(t, err)
		require.NoError(t, h.Cancel(t.Context(), ""))
		shapes, err := client.New(store, client.Config{Codec: codec, Capture: journal.CaptureShapes})
		require.NoError(t, err)
		for e, err := range shapes.Events(t.Context(), h.ID(), 0) {
			require.NoError(t, err)
			if e.Kind == journal.RunStart {
				assert.JSONEq(t, `"string(6)"`, string(e.Payload))
			}
		}
	}
}

func TestRunsListsPageByPage(t *testing.T) {
	store := memory.New()
	c := newClient(t, store)
	for i := range 5 {
		queue := "a"
		if i == 4 {
			queue = "b"
		}
		_, err := client.Start(t.Context(), c, double, i, client.ID(fmt.Sprint(i)), client.Queue(queue))
		require.NoError(t, err)
	}
	var ids []string
	for run, err := range c.Runs(t.Context(), journal.Query{Queue: "a", Limit: 3}) {
		require.NoError(t, err)
		ids = append(ids, run.ID)
	}
	assert.Equal(t, []string{"3", "2", "1", "0"}, ids)
	for run := range c.Runs(t.Context(), journal.Query{}) {
		assert.Equal(t, "4", run.ID)
		break
	}
	page, err := c.List(t.Context(), journal.Query{Limit: 2})
	require.NoError(t, err)
	assert.Len(t, page.Runs, 2)
	assert.NotEmpty(t, page.Next)

	c = newClient(t, plain{store})
	for _, err := range c.Runs(t.Context(), journal.Query{}) {
		assert.Equal(t, "journal.Lister", as[*client.UnsupportedError](t, err).Needs)
	}
}
