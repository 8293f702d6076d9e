package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/sqlite"
)

func TestARunIsStartedForAWorkerAndItsResultIsPrinted(t *testing.T) {
	sh := newShell(t)
	sh.with(func(*sqlite.Store) {})
	assert.Equal(t, "started run a in queue default\n", sh.ok("runs", "start", "approval", `"x"`, "--id", "a"))
	assert.Equal(t, "run a is there already, and is pending\n", sh.ok("runs", "start", "approval", "x", "-s", "--id", "a"))
	v := read[started](sh, "runs", "start", "approval", "--queue", "night", "--version", "v2", "--dedup", "k")
	assert.False(t, v.Existing)
	assert.Equal(t, journal.Run{
		ID: v.Run.ID, Kind: journal.WorkflowRun, Name: "approval", Version: "v2", Queue: "night", Dedup: "k",
		Status: journal.Pending, Created: v.Run.Created, Updated: v.Run.Updated, Head: 1,
	}, v.Run)
	again := read[started](sh, "runs", "start", "approval", "5", "--version", "v2", "--dedup", "k")
	assert.True(t, again.Existing)
	assert.Equal(t, v.Run.ID, again.Run.ID)

	out := sh.ok("runs", "list")
	assert.Regexp(t, `ID +KIND +NAME +QUEUE +STATUS`, out)
	assert.Regexp(t, `a +workflow +approval +default +pending .* waits for a worker\n`, out)
	assert.Len(t, read[page](sh, "runs", "list", "--queue", "night").Runs, 1)

	approvesQueued(sh, "a")
	assert.Regexp(t, `a +workflow +approval +default +suspended .* waits for signal approval\n`, sh.ok("runs", "list"))
	assert.Equal(t, "sent signal approval to run a, which goes on when a worker of queue default goes on with it\n",
		sh.ok("runs", "signal", "a", "approval", "-s", "ho"))
	approvesQueued(sh, "a")
	sh.ok("runs", "signal", "a", "copies", "2")
	approvesQueued(sh, "a")
	assert.Equal(t, "\"hoho\"\n", sh.ok("runs", "result", "a"))
	assert.Equal(t, outcome{Run: "a", Result: []byte(`"hoho"`)}, read[outcome](sh, "runs", "result", "a", "--timeout", "1m"))
}

// approvesQueued does what a worker would: it goes on with a run of approval.
func approvesQueued(sh *shell, id string) {
	sh.t.Helper()
	sh.with(func(db *sqlite.Store) { _, _ = durable.Resume(sh.t.Context(), db, approval(), id) })
}

func TestARunCanBeStartedLater(t *testing.T) {
	sh := newShell(t)
	synctest.Test(t, func(t *testing.T) {
		sh.with(func(*sqlite.Store) {})
		assert.Equal(t, "started run a in queue default, not before 2000-01-01 02:00:00Z\n",
			sh.ok("runs", "start", "sync", "--delay", "2h", "--id", "a"))
		assert.Equal(t, "started run b in queue default, not before 2000-01-02 00:00:00Z\n",
			sh.ok("runs", "start", "sync", "--at", "2000-01-02T00:00:00Z", "--id", "b"))
		assert.Regexp(t, `b .* starts in 24h\n`, sh.ok("runs", "list"))
		assert.Contains(t, sh.ok("runs", "show", "a"), "): starts in 2h\n")
		time.Sleep(2 * time.Hour)
		assert.Contains(t, sh.ok("runs", "show", "a"), "): waits for a worker\n")
	})
}

func TestARunIsStartedLikeAnother(t *testing.T) {
	sh := newShell(t)
	approves(t, sh, "r")
	v := read[started](sh, "runs", "start-like", "r", "--id", "s")
	assert.Equal(t, "approval", v.Run.Name)
	assert.Equal(t, "default", v.Run.Queue)
	sh.in = `"y"`
	assert.Equal(t, "started run t in queue night\n", sh.ok("runs", "start-like", "r", "-", "--queue", "night", "--id", "t"))
	assert.Equal(t, "night", read[started](sh, "runs", "start-like", "t").Run.Queue, "also where it waits")
	assert.Contains(t, sh.ok("runs", "events", "t", "--payloads"), `payload "y"`)
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"start-like", "nobody"}, exitNotFound, `run "nobody": run not found`},
		{[]string{"start-like", "r", "x"}, exitUsage, `the input "x" is no JSON`},
		{[]string{"start-like", "r", "5", "--id", "s"}, exitRefused, `run "s" exists with another input`},
		{[]string{"start", "other", `""`, "--id", "s"}, exitRefused, `run "s" exists with another name`},
		{[]string{"start", "sync", "--delay", "1s", "--at", "2000-01-02T00:00:00Z"}, exitUsage, "--delay and --at exclude each other"},
		{[]string{"start", "sync", "--delay=-1s"}, exitUsage, "--delay -1s: it is not negative"},
		{[]string{"start", "sync", "--at", "tomorrow"}, exitUsage, "tomorrow"},
		{[]string{"start", ""}, exitUsage, "the program has no name"},
	} {
		r := sh.pawl(append([]string{"runs"}, tt.args...)...)
		assert.Equal(t, tt.code, r.code, tt.args)
		assert.Contains(t, r.err, tt.want)
	}
}

func TestTheExitCodeOfResultTellsHowTheRunHasEnded(t *testing.T) {
	sh := newShell(t)
	fails(sh, "failed")
	approves(t, sh, "cancelled")
	sh.ok("runs", "cancel", "cancelled", "--reason", "not wanted")
	approves(t, sh, "waits")
	sh.with(func(db *sqlite.Store) {
		put(t, db, workflow("lost"), journal.Event{Kind: journal.RunContinued, Meta: []byte(`{"next":"lost~2"}`)})
	})
	for _, tt := range []struct {
		id   string
		code int
		want string
	}{
		{"failed", exitFailure, `run "failed" failed (internal): no: pawl --store`},
		{"cancelled", exitFailure, `run "cancelled" was cancelled: not wanted`},
		{"waits", exitLate, `run "waits" has not ended in time: it goes on: pawl --store`},
		{"nobody", exitNotFound, `run "nobody": run not found`},
		{"lost", exitRefused, `run "lost" was continued as "lost~2", which cannot be followed: missing`},
	} {
		timeout := "1m"
		if tt.code == exitLate {
			timeout = "20ms"
		}
		r := sh.pawl("runs", "result", tt.id, "--timeout", timeout)
		assert.Equal(t, tt.code, r.code, tt.id)
		assert.Contains(t, r.err, tt.want)
		assert.Empty(t, r.out)
	}
}

func TestRunsWhosePayloadsAreEncodedAreLeftToTheirProgram(t *testing.T) {
	sh := newShell(t)
	codec, err := journal.AESGCM(journal.Key{ID: "k1", Secret: make([]byte, 32)})
	require.NoError(t, err)
	sh.with(func(db *sqlite.Store) {
		runs, err := client.New(db, client.Config{Codec: codec})
		require.NoError(t, err)
		h, err := client.Start(t.Context(), runs, approval(), "secret", client.ID("r"))
		require.NoError(t, err)
		for name, value := range map[string]any{"approval": "x", "copies": 1} {
			require.NoError(t, h.Signal(t.Context(), name, value))
		}
		_, err = durable.Resume(t.Context(), db, approval(), "r", durable.Using(durable.Settings{Codec: codec}))
		require.NoError(t, err)
	})
	r := sh.pawl("runs", "start-like", "r")
	assert.Equal(t, exitRefused, r.code)
	assert.Contains(t, r.err, "start it from a program that has the codec")
	r = sh.pawl("runs", "result", "r")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.err, "read it from a program that has the codec")
}

func TestQuestionsAreListedWithWhatTheyWant(t *testing.T) {
	sh := newShell(t)
	asks[int](sh, "r", "a", "b")
	sh.ok("runs", "answer", "r", "b#1/ask1", "1")
	out := sh.ok("runs", "questions", "r")
	assert.Contains(t, out, "a#1/ask1: open\n")
	assert.Contains(t, out, "What of a?\n")
	assert.Contains(t, out, "wants a whole number\n")
	assert.Contains(t, out, "b#1/ask1: has an answer, which the run takes when your program runs it again\n")
	q := read[question](sh, "runs", "questions", "r", "--open")
	assert.Equal(t, "a#1/ask1", q.ID)
	sh.ok("runs", "cancel", "r")
	assert.Contains(t, sh.ok("runs", "questions", "r"), "a#1/ask1: never answered\n")
	assert.Empty(t, sh.ok("runs", "questions", "r", "--open"))
	assert.Equal(t, exitNotFound, sh.pawl("runs", "questions", "nobody").code)
}

func TestEventsAreFollowedUntilTheRunHasEnded(t *testing.T) {
	sh := newShell(t)
	approves(t, sh, "r")
	for name, value := range map[string]string{"approval": `"x"`, "copies": "1"} {
		sh.ok("runs", "signal", "r", name, value)
	}
	done := make(chan string)
	go func() { done <- sh.ok("runs", "events", "r", "--follow", "--after", "1") }()
	sh.with(func(db *sqlite.Store) {
		_, err := durable.Resume(t.Context(), db, approval(), "r")
		require.NoError(t, err)
	})
	out := <-done
	assert.Contains(t, out, "signal:wait")
	assert.Regexp(t, `run:complete .*\n$`, out)
	assert.Equal(t, out, sh.ok("runs", "events", "r", "-f", "--after", "1"), "of a run that has ended it prints what there is")
	assert.Equal(t, exitNotFound, sh.pawl("runs", "events", "nobody", "-f").code)
}

// unbuffered counts what has been written, line by line.
type unbuffered chan string

func (u unbuffered) Write(p []byte) (int, error) {
	u <- string(p)
	return len(p), nil
}

func TestFollowedEventsArePrintedAtOnce(t *testing.T) {
	sh := newShell(t)
	approves(t, sh, "r")
	ctx, cancel := context.WithCancel(t.Context())
	out, done := make(unbuffered), make(chan int)
	var errs strings.Builder
	go func() {
		done <- run(ctx, []string{"runs", "events", "r", "--follow", "--store", sh.path}, nil, out, &errs, os.Getenv)
	}()
	assert.Contains(t, <-out, "run:start")
	assert.Contains(t, <-out, "signal:wait")
	assert.Contains(t, <-out, "run:suspended")
	cancel()
	assert.Equal(t, exitFailed, <-done)
	assert.Equal(t, "pawl: interrupted\n", errs.String())
}
