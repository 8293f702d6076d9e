package client_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
	"github.com/pawl-go/pawl/retrypolicy"
)

func TestASignalReachesTheRun(t *testing.T) {
	store := memory.New()
	c := newClient(t, store)
	h, err := client.Start(t.Context(), c, echo, "say ", client.ID("e"))
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, h.Signal(t.Context(), "word", "hello", durable.SendKey("k")))
	}
	works(t.Context(), store, echo, "e")
	got, err := h.Result(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "say hello", got)
}

func TestAnAnswerIsTakenOnceAndMustFit(t *testing.T) {
	store := memory.New()
	c := newClient(t, store)
	h, err := client.Start(t.Context(), c, approval, "tides", client.ID("a"))
	require.NoError(t, err)
	err = h.Answer(t.Context(), "ask1", true)
	assert.Equal(t, "ask1", as[*client.RunNotWaitingError](t, err).Question, "it has not asked yet")
	works(t.Context(), store, approval, "a")
	questions, err := h.Questions(t.Context())
	require.NoError(t, err)
	require.Len(t, questions, 1)
	err = h.Answer(t.Context(), questions[0].ID, "maybe")
	assert.Equal(t, durable.WrongType, as[*durable.AnswerError](t, err).Reason)
	assert.NotErrorAs(t, err, new(*client.RunNotWaitingError), "it is open still")
	require.NoError(t, h.Answer(t.Context(), questions[0].ID, true))
	err = h.Answer(t.Context(), questions[0].ID, false)
	assert.Equal(t, "a", as[*client.RunNotWaitingError](t, err).RunID)
	assert.Equal(t, durable.AlreadyAnswered, as[*durable.AnswerError](t, err).Reason)
	assert.EqualError(t, err, `pawl: run "a" does not wait for an answer to question "ask1": already answered: Questions lists what it asks`)
	works(t.Context(), store, approval, "a")
	got, err := h.Result(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "tides true", got)
	err = h.Answer(t.Context(), questions[0].ID, true)
	assert.Equal(t, journal.Completed, as[*client.RunFinishedError](t, err).Status)
}

func TestCallsToARunThatHasEndedSayHow(t *testing.T) {
	store := memory.New()
	c := newClient(t, store)
	for status, kind := range map[journal.Status]journal.Kind{
		journal.Completed: journal.RunComplete, journal.Failed: journal.RunError, journal.Cancelled: journal.RunCancelled,
	} {
		create(t, store, workflow(string(status), "echo"), journal.Event{Kind: kind, Time: durable.Now()})
		for what, err := range map[string]error{
			"signal": c.Signal(t.Context(), string(status), "word", "x"),
			"answer": c.Answer(t.Context(), string(status), "ask1", "x"),
		} {
			finished := as[*client.RunFinishedError](t, err)
			assert.Equal(t, status, finished.Status, what)
			assert.Equal(t, string(status), finished.RunID)
			assert.ErrorContains(t, err, "has ended: it is "+string(status))
			assert.ErrorIs(t, err, journal.ErrEnded)
		}
	}
	assert.ErrorAs(t, c.Cancel(t.Context(), "completed", ""), new(*client.RunFinishedError))
	assert.NoError(t, c.Cancel(t.Context(), "cancelled", ""), "cancelling twice is harmless")
}

func TestCallsToARunThatIsNotThereSaySo(t *testing.T) {
	c := newClient(t, memory.New())
	_, got := c.Get(t.Context(), "nobody")
	_, questions := c.Questions(t.Context(), "nobody")
	_, retry := c.Retry(t.Context(), "nobody", "")
	_, like := c.StartLike(t.Context(), "nobody", nil)
	for what, err := range map[string]error{
		"get": got, "questions": questions, "retry": retry, "like": like,
		"signal": c.Signal(t.Context(), "nobody", "word", "x"),
		"answer": c.Answer(t.Context(), "nobody", "ask1", "x"),
		"cancel": c.Cancel(t.Context(), "nobody", ""),
	} {
		assert.Equal(t, "nobody", as[*client.RunNotFoundError](t, err).RunID, what)
		assert.ErrorContains(t, err, `pawl: run "nobody": run not found: check the id`)
	}
}

func TestCancelReachesChildren(t *testing.T) {
	store := memory.New()
	c := newClient(t, store)
	h, err := client.Start(t.Context(), c, parent, "", client.ID("p"))
	require.NoError(t, err)
	works(t.Context(), store, parent, "p")
	require.NoError(t, h.Cancel(t.Context(), "enough"))
	for _, id := range []string{"p", "kid"} {
		run, err := c.Get(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, journal.Cancelled, run.Status, id)
	}
}

func TestRetryGoesOnInTheSameQueue(t *testing.T) {
	store := memory.New()
	c := newClient(t, store)
	h, err := client.Start(t.Context(), c, double, -1, client.ID("d"), client.Queue("night"))
	require.NoError(t, err)
	_, err = h.Retry(t.Context(), "")
	assert.Equal(t, durable.RetryNotFailed, as[*durable.RetryError](t, err).Code)
	works(t.Context(), store, double, "d")
	for range 2 {
		again, err := h.Retry(t.Context(), "")
		require.NoError(t, err)
		assert.Equal(t, "d-retry", again.ID())
		run, err := again.Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, journal.Pending, run.Status)
		assert.Equal(t, "night", run.Queue)
		assert.Equal(t, journal.Link{Kind: journal.RetryOf, Run: "d"}, run.Link)
	}
	named, err := h.Retry(t.Context(), "d2")
	require.NoError(t, err)
	assert.Equal(t, "d2", named.ID())
	_, err = h.Retry(t.Context(), "d")
	assert.ErrorAs(t, err, new(*durable.RunConflictError))
	require.NoError(t, named.Cancel(t.Context(), ""))
	_, err = named.Retry(t.Context(), "")
	assert.Equal(t, durable.RetryCancelled, as[*durable.RetryError](t, err).Code)
}

func TestErrorsThatNoRetryHelpsSaySo(t *testing.T) {
	for _, err := range []retrypolicy.Unretryable{
		&client.RunNotFoundError{}, &client.RunFinishedError{}, &client.RunNotWaitingError{}, &client.UnsupportedError{}, &client.OptionError{},
	} {
		assert.True(t, err.Unretryable(), "%T", err)
	}
	for err, want := range map[error]string{
		&client.RunNotWaitingError{RunID: "r", Question: "q"}:           `pawl: run "r" does not wait for an answer to question "q": not asked: Questions lists what it asks`,
		&client.RunFinishedError{RunID: "r"}:                            `pawl: run "r" has ended`,
		&client.RunFinishedError{RunID: "r", Status: journal.Continued}: `pawl: run "r" has ended: it is continued as a new run: ask that one`,
		&client.StartUnknownError{RunID: "r", Err: journal.ErrUnavailable}: `pawl: run "r" may have been started, or not: store unavailable: ` +
			"start it again with this id",
		&client.UnsupportedError{Call: "List", Needs: "journal.Lister", Store: "x"}: "pawl: client: List needs a store that is a journal.Lister, and x is none",
	} {
		assert.EqualError(t, err, want)
	}
}
