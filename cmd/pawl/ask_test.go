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
	"github.com/pawl-go/pawl/worker"
)

// cart collects items until it is closed.
func cart() *durable.Definition[string, []string] {
	return durable.Workflow("cart", func(ctx context.Context, first string) ([]string, error) {
		items, closed := []string{first}, false
		err := errors.Join(
			durable.HandleUpdate(ctx, "add", func(ctx context.Context, item string) (int, error) {
				if item == "glass" {
					return 0, errors.New("it has broken")
				}
				price, err := durable.Step(ctx, "price", func(context.Context) (int, error) { return len(item), nil })
				items = append(items, item)
				return price, err
			}, durable.Validator(func(item string) error {
				if item == "" {
					return errors.New("nothing to add")
				}
				return nil
			})),
			durable.HandleUpdate(ctx, "close", func(context.Context, struct{}) (bool, error) {
				closed = true
				return true, nil
			}),
			durable.HandleQuery(ctx, "items", func(struct{}) ([]string, error) { return items, nil }),
			durable.HandleQuery(ctx, "weight", func(struct{}) (int, error) { return 0, errors.New("no scales") }),
		)
		if err != nil {
			return nil, err
		}
		return items, durable.Await(ctx, func() bool { return closed })
	})
}

// worked runs a worker of these programs while f runs.
func worked(sh *shell, f func(), code ...durable.Executable) {
	sh.t.Helper()
	sh.with(func(db *sqlite.Store) {
		w, err := worker.New(worker.Config{Store: db})
		require.NoError(sh.t, err)
		require.NoError(sh.t, w.Register(code...))
		ctx, cancel := context.WithCancel(sh.t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		defer func() {
			cancel()
			require.NoError(sh.t, <-done)
		}()
		f()
	})
}

func TestAWorkflowIsChangedAndAskedByUpdatesAndQueries(t *testing.T) {
	sh := newShell(t)
	worked(sh, func() {
		sh.ok("runs", "start", "cart", "tea", "-s", "--id", "c")
		for range 2 {
			assert.Equal(t, "4\n", sh.ok("runs", "update", "c", "add", "milk", "-s", "--key", "k"))
		}
		assert.Equal(t, "[\"tea\",\"milk\"]\n", sh.ok("runs", "query", "c", "items"))
		assert.Equal(t, answerTo{Run: "c", Query: "items", Result: []byte(`["tea","milk"]`)}, read[answerTo](sh, "runs", "query", "c", "items"))
		sh.in = `"sugar"`
		assert.Equal(t, answerTo{Run: "c", Update: "add", Result: []byte("5")}, read[answerTo](sh, "runs", "update", "c", "add", "-"))
		for _, tt := range []struct {
			args []string
			code int
			want string
		}{
			{[]string{"update", "c", "add", ""}, exitUsage, "is no JSON"},
			{[]string{"update", "c", "add", "", "-s"}, exitRefused, `run "c": update "add" was rejected: invalid (nothing to add): the run is as it was`},
			{[]string{"update", "c", "add", "5"}, exitRefused, `update "add" was rejected: wrong argument`},
			{[]string{"update", "c", "drop"}, exitNotFound, `update "drop" was rejected: unknown`},
			{[]string{"update", "c", "add", "glass", "-s"}, exitFailure, `update "add" failed: it has broken: the run goes on`},
			{[]string{"query", "c", "weight"}, exitFailure, `query "weight" was not answered: failed (no scales)`},
			{[]string{"query", "c", "size"}, exitNotFound, `query "size" was not answered: unknown`},
			{[]string{"query", "nobody", "items"}, exitNotFound, `run "nobody": run not found`},
		} {
			r := sh.pawl(append([]string{"runs"}, tt.args...)...)
			assert.Equal(t, tt.code, r.code, "%q: %s", tt.args, r.err)
			assert.Contains(t, r.err, tt.want)
			assert.Empty(t, r.out)
		}
		assert.Equal(t, "true\n", sh.ok("runs", "update", "c", "close"))
		assert.Equal(t, "[\"tea\",\"milk\",\"sugar\"]\n", sh.ok("runs", "result", "c"))
	}, cart())
	for _, what := range []string{"update", "query"} {
		r := sh.pawl("runs", what, "c", "items")
		assert.Equal(t, exitRefused, r.code)
		assert.Contains(t, r.err, `run "c" has ended: it is completed: pawl --store`)
	}
	out := sh.ok("runs", "show", "c")
	assert.Regexp(t, `update add: done.*\n.* price: done`, out, "what a handler has done stands in it")
	assert.Contains(t, out, "update add: rejected: invalid\n")
	assert.Contains(t, out, "query size: unanswered: unknown\n")
	assert.NotContains(t, out, "has not come to it")
}

func TestUpdatesAndQueriesThatNobodyHandlesAreLate(t *testing.T) {
	sh := newShell(t)
	sh.with(func(*sqlite.Store) {})
	sh.ok("runs", "start", "cart", "tea", "-s", "--id", "c")
	r := sh.pawl("runs", "update", "c", "add", "milk", "-s", "--timeout", "20ms", "--key", "k 1")
	assert.Equal(t, exitLate, r.code)
	assert.Equal(t, "pawl: update \"add\" was not handled by run \"c\" in time: it may still be: ask again with --key 'k 1', which does not "+
		"send it twice\n", r.err)
	r = sh.pawl("runs", "query", "c", "items", "--timeout", "20ms")
	assert.Equal(t, exitLate, r.code)
	assert.Contains(t, r.err, `query "items" was not answered: no answer in time`)
	out := sh.ok("runs", "show", "c")
	assert.Contains(t, out, "\nupdate add, sent 0s ago: the run has not come to it\n")
	worked(sh, func() {
		assert.Equal(t, "4\n", sh.ok("runs", "update", "c", "add", "milk", "-s", "--key", "k 1"))
		assert.Equal(t, "[\"tea\",\"milk\"]\n", sh.ok("runs", "query", "c", "items"))
	}, cart())
	assert.Contains(t, sh.ok("runs", "list"), "waits for an update\n")
}

func TestAPausedRunSaysSoAndRestsUntilItIsResumed(t *testing.T) {
	sh := newShell(t)
	approves(t, sh, "r")
	assert.Equal(t, "run r is paused\n", sh.ok("runs", "pause", "r", "--reason", "a look\nat it"))
	assert.True(t, read[paused](sh, "runs", "pause", "r", "--reason", "a look\nat it").Paused)
	sh.ok("runs", "signal", "r", "approval", "-s", "x")
	approves(t, sh, "r")
	assert.Contains(t, sh.ok("runs", "list"), `paused: "a look\nat it"`+"\n")
	out := sh.ok("runs", "show", "r")
	assert.Contains(t, out, `): paused: "a look\nat it"`+"\n")
	assert.Contains(t, out, "; let it go on: pawl --store "+sh.path+" runs resume r\n")
	assert.Equal(t, "run r is paused no longer\n", sh.ok("runs", "resume", "r"))
	assert.False(t, read[paused](sh, "runs", "resume", "r").Paused)
	assert.Contains(t, sh.ok("runs", "list"), "resumed, signal approval is there: run it again\n")
	assert.NotContains(t, sh.ok("runs", "show", "r"), "let it go on")
	approves(t, sh, "r")
	assert.Contains(t, sh.ok("runs", "list"), "waits for signal copies")

	sh.with(func(db *sqlite.Store) {
		put(t, db, workflow("busy"))
		assert.Equal(t, "run busy is held by worker-1, and rests from its next durable call on\n", sh.ok("runs", "pause", "busy"))
		assert.Contains(t, sh.ok("runs", "show", "busy"), "): to be paused\n")
		put(t, db, workflow("over"), journal.Event{Kind: journal.RunComplete})
	})
	for _, what := range []string{"pause", "resume"} {
		assert.Equal(t, exitRefused, sh.pawl("runs", what, "over").code)
		assert.Equal(t, exitNotFound, sh.pawl("runs", what, "nobody").code)
	}
}

// What workers and clients do to a run, in its timeline.
func TestShowDrawsWhatWorkersAndClientsDo(t *testing.T) {
	sh := newShell(t)
	meta := func(text string) json.RawMessage { return json.RawMessage(text) }
	synctest.Test(t, func(t *testing.T) {
		sh.with(func(db *sqlite.Store) {
			r := workflow("cart-7")
			r.Queue, r.Dedup = "night", "cart 7"
			put(t, db, r,
				journal.Event{Kind: journal.RunRequeued, Meta: meta(`{"reason":"owner_gone"}`)},
				journal.Event{Kind: journal.RunTaken, Meta: meta(`{"owner":"worker-2"}`)},
				journal.Event{Kind: journal.RunRequeued, Meta: meta(`{"reason":"store_unavailable"}`)},
				journal.Event{Kind: journal.RunRequeued, Meta: meta(`{"reason":"owner_gone"}`)},
				journal.Event{Kind: journal.StepDone, Scope: "update[1]", Name: "price", N: 1, Attempts: 1},
				journal.Event{Kind: journal.RunSuspended, Meta: meta(`{"waits":[{"await":true,"due":"2000-01-01T01:00:00Z"}]}`)},
				journal.Event{Kind: journal.UpdateDone, Scope: "update[1]", Name: "add", Meta: meta(`{"message":1}`), Took: time.Millisecond},
				journal.Event{Kind: journal.UpdateError, Scope: "update[2]", Name: "add", Meta: meta(`{"message":2,"class":"unknown","error_type":"*x.Err"}`),
					Payload: []byte(`{"argument":"glass","error":{"type":"*x.Err","text":"it has broken"}}`)},
				journal.Event{Kind: journal.UpdateRejected, Name: "add", Meta: meta(`{"message":3,"reason":"invalid","class":"unknown","error_type":"*x.Err"}`),
					Payload: []byte(`{"type":"*x.Err","text":"nothing to add"}`)},
				journal.Event{Kind: journal.UpdateRejected, Name: "drop", Meta: meta(`{"message":4,"reason":"unknown"}`)},
				journal.Event{Kind: journal.QueryAnswered, Name: "items", Meta: meta(`{"message":5}`), Payload: []byte(`["tea"]`)},
				journal.Event{Kind: journal.QueryAnswered, Name: "size", Meta: meta(`{"message":6,"failed":true,"code":"unknown"}`)},
				journal.Event{Kind: journal.SignalWait, Name: "await", N: 1, Meta: meta(`{"await":true,"due":"2000-01-01T01:00:00Z"}`)},
				journal.Event{Kind: journal.StepDone, Name: "await", N: 1, Meta: meta(`{"await":true}`)},
				journal.Event{Kind: journal.SignalTimeout, Name: "await", N: 2, Meta: meta(`{"await":true}`)},
				journal.Event{Kind: journal.RunSuspended, Meta: meta(`{"waits":[{"paused":true}]}`)},
			)
		})
		golden(t, "queued.txt", sh.ok("runs", "show", "cart-7")+"\n"+sh.ok("runs", "events", "cart-7"))
	})
}
