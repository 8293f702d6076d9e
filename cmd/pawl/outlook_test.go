package main

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/sqlite"
	"github.com/pawl-go/pawl/superstep"
)

func TestARunWhoseProcessIsGoneIsToBeRunAgain(t *testing.T) {
	sh := newShell(t)
	sh.with(func(db *sqlite.Store) {
		put(t, db, workflow("r"))
		assert.Contains(t, sh.ok("runs", "list"), "held by worker-1, lease ends in")
	})
	assert.Contains(t, sh.ok("runs", "list"), "its process is gone: run it again\n")
	out := sh.ok("runs", "show", "r")
	assert.Contains(t, out, "): its process is gone: run it again\n")
	assert.NotContains(t, out, "worker-1")
	assert.Empty(t, read[page](sh, "runs", "list").Runs[0].Owner)
}

func TestWhatARunWaitsForInWords(t *testing.T) {
	now := time.Now()
	s := &session{now: now}
	soon, past := now.Add(3*time.Minute+time.Second), now.Add(-time.Minute)
	ask := func(id string) durable.Wait { return durable.Wait{Question: id} }
	answer := func(id string) journal.Message { return journal.Message{Kind: journal.AnswerMessage, Name: id} }
	signal := func(name string) journal.Message { return journal.Message{Kind: journal.SignalMessage, Name: name} }
	for want, o := range map[string]outlook{
		"":                              {},
		"asks 1 question":               {waits: []durable.Wait{ask("a")}, inbox: []journal.Message{answer("b"), signal("a")}},
		"asks 2 questions":              {waits: []durable.Wait{ask("a"), ask("b")}},
		"has 1 answer, asks 1 question": {waits: []durable.Wait{ask("a"), ask("b")}, inbox: []journal.Message{answer("b")}},
		"answered: run it again":        {waits: []durable.Wait{ask("a")}, inbox: []journal.Message{answer("a"), answer("a")}},
		"waits for signal go":           {waits: []durable.Wait{{Signal: "go"}}, inbox: []journal.Message{answer("go")}},
		"signal go is there, waits for signal go":         {waits: []durable.Wait{{Signal: "go"}, {Signal: "go"}}, inbox: []journal.Message{signal("go")}},
		"signal go is there: run it again":                {waits: []durable.Wait{{Signal: "go", Due: soon}}, inbox: []journal.Message{signal("go")}},
		"waits for signal go, due in 3m":                  {waits: []durable.Wait{{Signal: "go", Due: soon}}},
		"waits for signal go, due since 1m: run it again": {waits: []durable.Wait{{Signal: "go", Due: past}, {Due: soon}}},
		"waits for run c":                                 {waits: []durable.Wait{{Child: "c"}}},
		"waits for runs a, b":                             {waits: []durable.Wait{{Child: "a"}, {Child: "b"}}},
		"waits for 4 runs":                                {waits: []durable.Wait{{Child: "a"}, {Child: "b"}, {Child: "c"}, {Child: "d"}}},
		"asks 1 question, waits for signal go":            {waits: []durable.Wait{{Signal: "go"}, ask("a")}},
		"given up for now: replay_failed":                 {given: true, reason: "replay_failed"},
		"given up for now":                                {given: true},
		"its journal cannot be read":                      {unread: true},
	} {
		assert.Equal(t, want, s.outlook(&journal.Run{Status: journal.Suspended}, &o))
	}
	assert.Empty(t, s.outlook(&journal.Run{Status: journal.Completed}, &outlook{}))
}

func TestListSaysWhatSuspendedRunsWaitFor(t *testing.T) {
	sh := newShell(t)
	note := func() string { return sh.ok("runs", "list") }
	asks[int](sh, "r", "a", "b")
	assert.Contains(t, note(), "asks 2 questions\n")
	sh.ok("runs", "answer", "r", "a#1/ask1", "1")
	assert.Contains(t, note(), "has 1 answer, asks 1 question\n")
	sh.ok("runs", "answer", "r", "b#1/ask1", "1")
	assert.Contains(t, note(), "answered: run it again\n")
	assert.Contains(t, sh.ok("runs", "show", "r"), "ago): answered: run it again\n")
	sh.with(func(db *sqlite.Store) {
		_, err := durable.Resume(t.Context(), db, asking[int]("a", "b"), "r")
		require.NoError(t, err)
	})
	assert.NotContains(t, note(), "run it again")
}

// Whether a signal of an earlier time was taken is told by the events since the last checkpoint, and by that.
func TestMessagesThatWereTakenAreNotThereAnyMore(t *testing.T) {
	sh := newShell(t)
	meta := func(text string) json.RawMessage { return json.RawMessage(text) }
	waits := journal.Event{Kind: journal.RunSuspended, Meta: meta(`{"waits":[{"signal":"go"}]}`)}
	received := func(text string) journal.Event {
		return journal.Event{Kind: journal.SignalReceived, Name: "go", N: 1, Meta: meta(text)}
	}
	sh.with(func(db *sqlite.Store) {
		put(t, db, workflow("taken"), received(`{"message":1}`), waits)
		put(t, db, workflow("early"), received(`{"message":1}`), journal.Event{Kind: journal.Checkpoint, Meta: meta(`{"taken":[1]}`)}, waits)
		put(t, db, workflow("late"), journal.Event{Kind: journal.Checkpoint, Meta: meta(`{}`)}, received(`{"message":1}`), waits)
		_, err := db.Create(t.Context(), journal.NewRun{Run: workflow("copied"), Events: []journal.Event{
			{Kind: journal.RunStart, Meta: meta(`{"copied":1}`)}, received(`{"message":1}`), waits,
		}})
		require.NoError(t, err)
		for _, id := range []string{"taken", "early", "late", "copied"} {
			require.NoError(t, durable.Signal(t.Context(), db, id, "go", 1))
			r, err := db.Load(t.Context(), id)
			require.NoError(t, err)
			o, err := outlookOf(t.Context(), db, &r)
			require.NoError(t, err)
			assert.Equal(t, id == "copied", len(o.inbox) > 0, id)
		}
	})
}

func TestAPendingRunThatWasGivenUpSaysWhy(t *testing.T) {
	sh := newShell(t)
	sh.with(func(db *sqlite.Store) {
		put(t, db, workflow("r"), journal.Event{Kind: journal.RunRequeued, Meta: json.RawMessage(`{"reason":"replay_failed"}`)})
	})
	assert.Contains(t, sh.ok("runs", "list"), "given up for now: replay_failed\n")
	assert.Contains(t, sh.ok("runs", "show", "r"), "given up for now: replay_failed\n")

	// Tried with code that cannot read it, a suspended run is pending, and waits still.
	asks[int](sh, "q", "a")
	sh.with(func(db *sqlite.Store) {
		l, err := db.Acquire(t.Context(), "q", journal.Claim{Owner: "x", TTL: time.Minute})
		require.NoError(t, err)
		_, err = db.Renew(t.Context(), l, 0)
		require.NoError(t, err)
	})
	assert.Regexp(t, `q +workflow +asking +pending .* asks 1 question\n`, sh.ok("runs", "list"))
}

func TestShowOfAFailedRunTellsOfItsRetry(t *testing.T) {
	sh := newShell(t)
	fails(sh, "r")
	assert.Contains(t, sh.ok("runs", "show", "r"), "\nGo on where it failed: pawl --store "+sh.path+" runs retry r\n")
	sh.ok("runs", "retry", "r")
	out := sh.ok("runs", "show", "r")
	assert.Contains(t, out, "\nRetried as r-retry, which is pending; your program goes on with it: durable.Resume(ctx, store, workflow, \"r-retry\")")
	assert.NotContains(t, out, "Go on where it failed")
	end := func(id string, with error) {
		wf := durable.Workflow("sync", func(context.Context, string) (string, error) { return "", with })
		sh.with(func(db *sqlite.Store) {
			_, err := durable.Resume(t.Context(), db, wf, id)
			assert.Equal(t, with == nil, err == nil)
		})
	}
	end("r-retry", errors.New("no"))
	assert.Contains(t, sh.ok("runs", "show", "r"), "\nRetried as r-retry, which is failed: pawl --store "+sh.path+" runs show r-retry\n")
	sh.ok("runs", "retry", "r", "--id", "r2")
	end("r2", nil)
	assert.Contains(t, sh.ok("runs", "show", "r"), "\nRetried as r2, which has completed\n", "the last one counts")
}

func TestCopiedSuperStepsTookWhatTheirEventsSay(t *testing.T) {
	sh := newShell(t)
	synctest.Test(t, func(t *testing.T) {
		down := false
		sh.with(func(db *sqlite.Store) {
			r := runner(t, db, &down)
			_, err := r.Run(t.Context(), draft{Topics: []string{"tides"}}, superstep.RunID("tides-42"))
			require.ErrorAs(t, err, new(*durable.SuspendedError))
			time.Sleep(10 * time.Minute)
			_, err = r.Fork(t.Context(), "tides-42", 2, nil, superstep.RunID("fork"))
			require.ErrorAs(t, err, new(*durable.SuspendedError))
		})
		golden(t, "graph-fork.txt", sh.ok("runs", "show", "fork"))
	})
}
