package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/sqlite"
)

// asking asks the questions of these names at once, each for a value of type T.
func asking[T any](names ...string) *durable.Definition[string, []T] {
	return durable.Workflow("asking", func(ctx context.Context, _ string) ([]T, error) {
		got := make([]T, len(names))
		errs := make([]error, len(names))
		for i, name := range names {
			errs[i] = durable.Branch(ctx, name, func(ctx context.Context) (err error) {
				got[i], err = durable.Interrupt[T](ctx, "What of "+name+"?")
				return err
			})
		}
		return got, errors.Join(errs...)
	})
}

// asks begins a run of asking, which is suspended then.
func asks[T any](sh *shell, id string, names ...string) {
	sh.t.Helper()
	sh.with(func(db *sqlite.Store) {
		_, err := durable.Run(sh.t.Context(), db, asking[T](names...), id, "")
		require.ErrorAs(sh.t, err, new(*durable.SuspendedError))
	})
}

func goesOn[T any](sh *shell, id string, names ...string) (got []T) {
	sh.t.Helper()
	sh.with(func(db *sqlite.Store) {
		var err error
		got, err = durable.Resume(sh.t.Context(), db, asking[T](names...), id)
		require.NoError(sh.t, err)
	})
	return got
}

func TestAnAnswerIsTakenByTheRun(t *testing.T) {
	sh := newShell(t)
	asks[string](sh, "r", "a", "b", "c")
	assert.Equal(t, "answered a#1/ask1 of run r, which still asks b#1/ask1, c#1/ask1\n", sh.ok("runs", "answer", "r", "a#1/ask1", `"yes"`))
	assert.Equal(t, answered{Run: "r", Question: "c#1/ask1", Open: []string{"b#1/ask1"}},
		read[answered](sh, "runs", "answer", "r", "c#1/ask1", "--string", `say "no"`))
	sh.in = "from\nstdin\n"
	assert.Equal(t, "answered b#1/ask1 of run r, which goes on when your program runs it again\n",
		sh.ok("runs", "answer", "r", "-", "-", "-s"), "the only open question")
	assert.Equal(t, []string{"yes", "from\nstdin", `say "no"`}, goesOn[string](sh, "r", "a", "b", "c"))
}

func TestAnAnswerMayBeAnyJSON(t *testing.T) {
	sh := newShell(t)
	asks[int](sh, "n", "a")
	sh.ok("runs", "answer", "n", "-", "--", "-5")
	assert.Equal(t, []int{-5}, goesOn[int](sh, "n", "a"))
	asks[report](sh, "o", "a")
	sh.in = `{"ok": true, "note": "fine"}`
	sh.ok("runs", "answer", "o", "-", "-")
	assert.Equal(t, []report{{OK: true, Note: "fine"}}, goesOn[report](sh, "o", "a"))
	asks[bool](sh, "f", "a")
	sh.ok("runs", "answer", "f", "-", "false")
	assert.Equal(t, []bool{false}, goesOn[bool](sh, "f", "a"))
}

func TestAnAnswerThatIsNoneIsRefusedAndTheQuestionStaysOpen(t *testing.T) {
	sh := newShell(t)
	asks[int](sh, "r", "a")
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"r", "a#1/ask1", "yes"}, exitUsage, `the answer "yes" is no JSON`},
		{[]string{"r", "a#1/ask1", "yes"}, exitUsage, "or --string for a text"},
		{[]string{"r", "a#1/ask1", "1 2"}, exitUsage, "is no JSON"},
		{[]string{"r", "a#1/ask1", `"yes"`}, exitRefused, `the answer does not fit question "a#1/ask1" of run "r", which wants a whole number`},
		{[]string{"r", "a#1/ask1", "--string", "5"}, exitRefused, "which wants a whole number"},
		{[]string{"r", "b#1/ask1", "5"}, exitNotFound, `run "r" has asked no question "b#1/ask1": pawl --store`},
		{[]string{"nobody", "a#1/ask1", "5"}, exitNotFound, `run "nobody": run not found: check the id`},
		{[]string{"nobody", "-", "5"}, exitNotFound, "the store is "},
		{[]string{"r", "-"}, exitUsage, `expected "<value>": see "pawl runs answer --help"`},
		{[]string{"r", "-", "-5"}, exitUsage, "put -- before values and ids that begin with a dash"},
	} {
		r := sh.pawl(append([]string{"runs", "answer"}, tt.args...)...)
		assert.Equal(t, tt.code, r.code, tt.args)
		assert.Contains(t, r.err, tt.want)
		assert.Empty(t, r.out)
	}
	sh.ok("runs", "answer", "r", "-", "5")
	assert.Equal(t, []int{5}, goesOn[int](sh, "r", "a"))
}

func TestASecondAnswerAndOneToAnEndedRunAreRefused(t *testing.T) {
	sh := newShell(t)
	asks[int](sh, "r", "a")
	sh.ok("runs", "answer", "r", "-", "5")
	for _, question := range []string{"a#1/ask1", "-"} {
		r := sh.pawl("runs", "answer", "r", question, "6")
		assert.Equal(t, exitRefused, r.code)
		assert.Contains(t, r.err, "answered")
	}
	assert.Equal(t, []int{5}, goesOn[int](sh, "r", "a"))
	r := sh.pawl("runs", "answer", "r", "a#1/ask1", "6")
	assert.Equal(t, exitRefused, r.code)
	assert.Contains(t, r.err, `run "r" has ended and takes no answers`)

	sh.with(func(db *sqlite.Store) { put(t, db, workflow("silent")) })
	r = sh.pawl("runs", "answer", "silent", "-", "6")
	assert.Equal(t, exitNotFound, r.code)
	assert.Equal(t, "pawl: run \"silent\" has asked no question\n", r.err)
}

func TestCancelEndsARunThatNobodyHolds(t *testing.T) {
	sh := newShell(t)
	asks[int](sh, "r", "a")
	assert.Equal(t, "run r is cancelled\n", sh.ok("runs", "cancel", "r", "--reason", "no longer wanted"))
	assert.Equal(t, "run r is cancelled\n", sh.ok("runs", "cancel", "r"), "twice is harmless")
	assert.True(t, read[cancelled](sh, "runs", "cancel", "r").Done)
	shown := sh.ok("runs", "show", "r")
	assert.Contains(t, shown, "run: cancelled: no longer wanted\n")
	assert.NotContains(t, shown, "open question", "nobody waits for an answer any more")
	r := sh.pawl("runs", "retry", "r")
	assert.Equal(t, exitRefused, r.code)
	assert.Contains(t, r.err, "retry_cancelled")
}

func TestCancelTellsTheOwnerOfARunThatIsUnderWay(t *testing.T) {
	sh := newShell(t)
	sh.with(func(db *sqlite.Store) {
		put(t, db, workflow("r"))
		assert.Equal(t, "run r is held by worker-1, who is told to cancel it\n", sh.ok("runs", "cancel", "r"))
		assert.False(t, read[cancelled](sh, "runs", "cancel", "r").Done)
		inbox, err := db.Inbox(t.Context(), "r", 0)
		require.NoError(t, err)
		require.Len(t, inbox, 1)
		assert.Equal(t, journal.CancelMessage, inbox[0].Kind)
	})
}

func TestCancelOfWhatIsOverOrNotThereIsRefused(t *testing.T) {
	sh := newShell(t)
	sh.with(func(db *sqlite.Store) {
		put(t, db, workflow("r"), journal.Event{Kind: journal.RunComplete})
	})
	r := sh.pawl("runs", "cancel", "r")
	assert.Equal(t, exitRefused, r.code)
	assert.Contains(t, r.err, `run "r" has ended: it is completed: pawl --store`)
	assert.Equal(t, exitNotFound, sh.pawl("runs", "cancel", "nobody").code)
}

// fails begins a run that fails.
func fails(sh *shell, id string) {
	sh.t.Helper()
	wf := durable.Workflow("sync", func(context.Context, string) (string, error) { return "", errors.New("no") })
	sh.with(func(db *sqlite.Store) {
		_, err := durable.Run(sh.t.Context(), db, wf, id, "")
		require.ErrorAs(sh.t, err, new(*durable.RunFailedError))
	})
}

func TestRetryMakesTheLinkedRunOnceAndSaysHowToRunIt(t *testing.T) {
	sh := newShell(t)
	fails(sh, "r")
	made := read[prepared](sh, "runs", "retry", "r")
	assert.True(t, made.Made)
	assert.Equal(t, "r-retry", made.Run.ID)
	assert.Equal(t, journal.Link{Kind: journal.RetryOf, Run: "r"}, made.Run.Link)
	assert.Equal(t, journal.Pending, made.Run.Status)
	assert.Contains(t, made.Call, `durable.Resume(ctx, store, workflow, "r-retry")`)
	assert.False(t, read[prepared](sh, "runs", "retry", "r").Made, "it is there already")

	r := sh.pawl("runs", "retry", "r-retry")
	assert.Equal(t, exitRefused, r.code, "it has not failed")
	assert.Contains(t, r.err, "run it again with the same id and it goes on")
	r = sh.pawl("runs", "retry", "r", "--id", "r")
	assert.Equal(t, exitRefused, r.code)
	assert.Contains(t, r.err, `run "r" is there already, and is no retry of "r" but a run of workflow sync: give the new run another id`)
	fails(sh, "q")
	r = sh.pawl("runs", "retry", "q", "--id", "r-retry")
	assert.Equal(t, exitRefused, r.code)
	assert.Contains(t, r.err, "but a run of workflow sync (retry of r): give")
	sh.ok("runs", "retry", "r", "--id", "another")
	assert.Equal(t, exitNotFound, sh.pawl("runs", "retry", "nobody").code)
}

func TestTheIDsOfRetriesAreCountedOn(t *testing.T) {
	for _, tt := range []struct{ id, want string }{
		{"r", "r-retry"},
		{"r-retry", "r-retry-2"},
		{"r-retry-2", "r-retry-3"},
		{"r-retry-x", "r-retry-x-retry"},
		{"a\nb-retry", "a\nb-retry-2"},
		{"r-retry-99999999999999999999", "r-retry-99999999999999999999-retry"},
	} {
		assert.Equal(t, tt.want, durable.RetryID(tt.id))
	}
}

func TestARunWithACodecIsShownAndItsQuestionsAreLeftToItsProgram(t *testing.T) {
	sh := newShell(t)
	codec, err := journal.AESGCM(journal.Key{ID: "k1", Secret: make([]byte, 32)})
	require.NoError(t, err)
	using := durable.Using(durable.Settings{Codec: codec})
	sh.with(func(db *sqlite.Store) {
		_, err := durable.Run(t.Context(), db, asking[int]("a"), "r", "", using)
		require.ErrorAs(t, err, new(*durable.SuspendedError))
	})
	out := sh.ok("runs", "show", "r")
	assert.Contains(t, out, "(encoded): answer it from a program that has the codec")
	assert.NotContains(t, out, "What of")
	assert.Contains(t, sh.ok("runs", "events", "r", "--payloads"), "payload (encoded, ")
	r := sh.pawl("runs", "answer", "r", "-", "5")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.err, "answer it from a program that has the codec")

	sh.with(func(db *sqlite.Store) {
		require.NoError(t, durable.Answer(t.Context(), db, "r", "a#1/ask1", 5, using))
	})
	assert.Equal(t, sent, read[shown](sh, "runs", "show", "r").Questions[0].State)
	assert.Equal(t, "run r is cancelled\n", sh.ok("runs", "cancel", "r", "--reason", "x"))
}

func TestEventsArePrintedWithPayloadsOnlyIfAsked(t *testing.T) {
	sh := newShell(t)
	sh.with(func(db *sqlite.Store) {
		put(t, db, workflow("r"),
			journal.Event{Kind: journal.StepDone, Name: "pull", N: 1, Took: 1500 * time.Microsecond, Attempts: 2, Payload: []byte(`{"secret": "\u001b[31m"}`)},
			journal.Event{Kind: journal.StepDone, Scope: "b#1", Name: "push", N: 2, Attempts: 1, Payload: []byte{0xff, 0}},
			journal.Event{Kind: journal.RunComplete})
	})
	out := sh.ok("runs", "events", "r")
	assert.NotContains(t, out, "secret")
	assert.Equal(t, 4, strings.Count(out, "\n"))
	assert.Contains(t, out, "step:done          pull#1  1.5ms  2 attempts\n")
	out = sh.ok("runs", "events", "r", "--payloads", "--after", "1")
	assert.Equal(t, 3, strings.Count(out, "\n"))
	assert.Contains(t, out, `payload {"secret":"\u001b[31m"}`)
	assert.Contains(t, out, "b#1  push#2  payload (encoded, 2 bytes)")

	lines := strings.Split(sh.ok("runs", "events", "r", "--json"), "\n")
	require.Len(t, lines, 5)
	assert.NotContains(t, lines[1], "secret")
	assert.Contains(t, lines[1], `"payload_bytes":24`)
	lines = strings.Split(sh.ok("runs", "events", "r", "--json", "--payloads"), "\n")
	assert.Contains(t, lines[1], `"payload":{"secret":"\u001b[31m"}`)
	assert.Contains(t, lines[2], `"payload_encoded":"/wA="`)
	assert.Equal(t, exitNotFound, sh.pawl("runs", "events", "nobody").code)
}

func TestRetryOfAGraphRunNamesTheRunner(t *testing.T) {
	assert.Equal(t, `runner.Resume(ctx, "g\n1"), of a runner of graph "article" with this store`,
		resumeCall(journal.Run{ID: "g\n1", Kind: journal.GraphRun, Name: "article"}))
}

func TestDrawOfARunWithoutADrawing(t *testing.T) {
	sh := newShell(t)
	sh.with(func(db *sqlite.Store) {
		put(t, db, workflow("w"))
		put(t, db, journal.Run{ID: "g", Kind: journal.GraphRun, Name: "article"})
	})
	for id, want := range map[string]string{
		"w": `run "w" is a workflow: only runs of graphs have a drawing`,
		"g": `run "g" has recorded no drawing of its graph`,
	} {
		r := sh.pawl("graph", "draw", id)
		assert.Equal(t, exitFailed, r.code)
		assert.Equal(t, fmt.Sprintf("pawl: %s\n", want), r.err)
	}
	assert.Equal(t, exitNotFound, sh.pawl("graph", "draw", "nobody").code)
	assert.Equal(t, exitUsage, sh.pawl("graph", "draw", "g", "--format", "dot").code)
}
