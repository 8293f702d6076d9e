package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
)

// asked is a workflow with a query for what it has come to, and for what fails.
func asked(c *counter) *durable.Definition[int, int] {
	return durable.Workflow("asked", func(ctx context.Context, _ int) (int, error) {
		stage := "begun"
		for name, handler := range map[string]func(bool) (string, error){
			"stage":  func(bool) (string, error) { c.add("query"); return stage, nil },
			"fails":  func(bool) (string, error) { return "", &broken{Item: "query"} },
			"panics": func(bool) (string, error) { panic("query") },
		} {
			if err := durable.HandleQuery(ctx, name, handler); err != nil {
				return 0, err
			}
		}
		err := durable.HandleQuery(ctx, "channel", func(bool) (chan int, error) { return make(chan int), nil })
		if err != nil {
			return 0, err
		}
		if _, err := counted(ctx, c, "a", 1); err != nil {
			return 0, err
		}
		stage = "behind a"
		return 0, suspend(ctx)
	})
}

func TestAQueryIsAnsweredByARunThatIsTakenUp(t *testing.T) {
	store, c := memory.New(), &counter{}
	waits(t, store, asked(c), "r", 0)
	post(t, store, "r", journal.QueryMessage, "stage", true)
	waits(t, store, asked(c), "r", 0)
	answers := of(t, store, "r", journal.QueryAnswered)
	require.Len(t, answers, 1)
	assert.JSONEq(t, `{"message": 1}`, string(answers[0].Meta))
	assert.Equal(t, "stage", answers[0].Name)
	assert.JSONEq(t, `"behind a"`, string(answers[0].Payload), "as it is where the run has come to, not while it is replayed")
	release(t, store, "r")
	ends(t, store, asked(c), "r", 0)
	assert.Equal(t, 1, c.of("query"), "a replay does not answer again")
	assert.Equal(t, 1, c.of("a"))
}

func TestQueriesThatHaveNoAnswerAreToldWhy(t *testing.T) {
	store, c := memory.New(), &counter{}
	waits(t, store, asked(c), "r", 0)
	post(t, store, "r", journal.QueryMessage, "other", true)
	post(t, store, "r", journal.QueryMessage, "stage", "no bool")
	post(t, store, "r", journal.QueryMessage, "fails", true)
	post(t, store, "r", journal.QueryMessage, "panics", true)
	post(t, store, "r", journal.QueryMessage, "channel", true)
	waits(t, store, asked(c), "r", 0)
	answers := of(t, store, "r", journal.QueryAnswered)
	require.Len(t, answers, 5)
	for i, want := range []struct{ code, text string }{
		{"unknown", ""}, {"wrong argument", "does not fit bool"}, {"failed", "query is broken"}, {"failed", "panic"},
		{"failed", "cannot be journaled"},
	} {
		var m map[string]any
		require.NoError(t, json.Unmarshal(answers[i].Meta, &m))
		assert.Equal(t, true, m["failed"], want)
		assert.Equal(t, want.code, m["code"])
		assert.Contains(t, string(answers[i].Payload), want.text)
	}
	release(t, store, "r")
	ends(t, store, asked(c), "r", 0)
}

func TestAQueryIsAnsweredBeforeALiveCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := memory.New(), &counter{}
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
			n := 0
			err := durable.HandleQuery(ctx, "n", func(struct{}) (int, error) { return n, nil })
			if err != nil {
				return 0, err
			}
			for ; n < 3; n++ {
				if n == 1 {
					post(t, store, "r", journal.QueryMessage, "n", struct{}{}) //nolint:contextcheck // it is the test's
					synctest.Wait()                                            // until the owner has heard of it
				}
				if _, err := counted(ctx, c, "s", n); err != nil {
					return 0, err
				}
			}
			return n, nil
		})
		ends(t, store, wf, "r", 0)
		assert.Equal(t, []string{
			"run:start", "step:done s", "query:answered n", "step:done s", "step:done s", "run:complete",
		}, kinds(t, store, "r"))
		assert.JSONEq(t, "1", string(of(t, store, "r", journal.QueryAnswered)[0].Payload))
	})
}

// What waits is a branch, so the body comes to no call of its own again.
func TestARunThatWaitsInABranchAnswersQueriesAndKnowsWhatItDoesNotKnow(t *testing.T) {
	store := memory.New()
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		n := 0
		err := errors.Join(
			durable.HandleQuery(ctx, "n", func(struct{}) (int, error) { return n, nil }),
			durable.HandleUpdate(ctx, "inc", func(_ context.Context, by int) (int, error) { n += by; return n, nil }),
		)
		if err != nil {
			return 0, err
		}
		n = 7
		if err := durable.Branch(ctx, "b", suspend); err != nil {
			return 0, err
		}
		_, err = durable.Step(ctx, "s", func(context.Context) (int, error) { return n, nil })
		return n, err
	})
	waits(t, store, wf, "r", 0)
	post(t, store, "r", journal.QueryMessage, "n", struct{}{})
	post(t, store, "r", journal.UpdateMessage, "inc", 1)
	post(t, store, "r", journal.UpdateMessage, "other", 1)
	waits(t, store, wf, "r", 0)
	assert.Equal(t, []string{
		"run:start", "signal:wait release in b#1", "run:suspended", "query:answered n", "update:rejected other", "run:suspended",
	}, kinds(t, store, "r"))
	assert.JSONEq(t, "7", string(of(t, store, "r", journal.QueryAnswered)[0].Payload))
	release(t, store, "r")
	assert.Equal(t, 8, ends(t, store, wf, "r", 0))
}

func TestAQueryThatUsesTheBodysContextIsFoundOut(t *testing.T) {
	store := memory.New()
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		err := durable.HandleQuery(ctx, "q", func(int) (int, error) {
			return durable.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil })
		})
		if err != nil {
			return 0, err
		}
		return 0, suspend(ctx)
	})
	waits(t, store, wf, "r", 0)
	post(t, store, "r", journal.QueryMessage, "q", 1)
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.OverlapError](t, err)
}
