package main

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/sqlite"
)

// approval waits for one signal, and then for another.
func approval() *durable.Definition[string, string] {
	return durable.Workflow("approval", func(ctx context.Context, _ string) (string, error) {
		by, err := durable.WaitForSignal[string](ctx, "approval")
		if err != nil {
			return "", err
		}
		n, err := durable.WaitForSignal[int](ctx, "copies", durable.WaitTimeout(time.Hour))
		return strings.Repeat(by, n), err
	})
}

// approves runs approval until it waits again.
func approves(t *testing.T, sh *shell, id string, opts ...durable.RunOption) {
	t.Helper()
	sh.with(func(db *sqlite.Store) {
		_, err := durable.Run(t.Context(), db, approval(), id, "", opts...)
		require.ErrorAs(t, err, new(*durable.SuspendedError))
	})
}

func TestASignalIsTakenByTheRun(t *testing.T) {
	sh := newShell(t)
	synctest.Test(t, func(t *testing.T) {
		approves(t, sh, "r")
		assert.Contains(t, sh.ok("runs", "list"), "waits for signal approval\n")
		assert.Contains(t, sh.ok("runs", "show", "r"), "\nwaits for signal approval\n    Send it: pawl --store "+sh.path+" runs signal r approval VALUE\n")

		assert.Equal(t, "sent signal approved to run r, which keeps it, and waits for signal approval\n",
			sh.ok("runs", "signal", "r", "approved", `"me"`), "of another name")
		time.Sleep(3 * time.Minute)
		out := sh.ok("runs", "show", "r")
		assert.Contains(t, out, "\nsignal approved, sent 3m ago: nobody has waited for it\n")
		assert.Contains(t, out, "runs signal r approval VALUE")
		v := read[shown](sh, "runs", "show", "r")
		require.Len(t, v.Messages, 1)
		assert.Equal(t, message{Seq: 1, Kind: journal.SignalMessage, Name: "approved", Time: v.Messages[0].Time}, v.Messages[0])

		for range 2 {
			assert.Equal(t, "sent signal approval to run r, which goes on when your program runs it again\n",
				sh.ok("runs", "signal", "r", "approval", "--string", "me", "--key", "k1"))
		}
		assert.Contains(t, sh.ok("runs", "list"), "signal approval is there: run it again\n")
		out = sh.ok("runs", "show", "r")
		assert.Contains(t, out, "\nsignal approval was sent 0s ago, and the run takes it when your program runs it again\n")
		assert.NotContains(t, out, "VALUE")
		assert.Len(t, read[shown](sh, "runs", "show", "r").Messages, 2, "the second of a key is none")

		approves(t, sh, "r")
		assert.Contains(t, sh.ok("runs", "list"), "waits for signal copies, due in 1h\n")
		sh.in = "2\n"
		assert.Equal(t, signalled{Run: "r", Signal: "copies", Waited: true}, read[signalled](sh, "runs", "signal", "r", "copies", "-"))
		sh.with(func(db *sqlite.Store) {
			got, err := durable.Resume(t.Context(), db, approval(), "r")
			require.NoError(t, err)
			assert.Equal(t, "meme", got)
		})
		out = sh.ok("runs", "show", "r")
		assert.Contains(t, out, "signal approved, sent 3m ago: nobody has waited for it")
		assert.NotContains(t, out, "signal approval, sent")
	})
}

func TestASignalThatCannotBeSentIsRefused(t *testing.T) {
	sh := newShell(t)
	codec, err := journal.AESGCM(journal.Key{ID: "k1", Secret: make([]byte, 32)})
	require.NoError(t, err)
	approves(t, sh, "r")
	approves(t, sh, "secret", durable.Using(durable.Settings{Codec: codec}))
	sh.with(func(db *sqlite.Store) {
		put(t, db, workflow("over"), journal.Event{Kind: journal.RunComplete})
	})
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"r", "approval", "yes"}, exitUsage, `the signal "yes" is no JSON`},
		{[]string{"r", "approval"}, exitUsage, `expected "<value>": see "pawl runs signal --help"`},
		{[]string{"r", "", "1"}, exitUsage, "Signal"},
		{[]string{"r", "approval", "1", "--key", "pawl:x"}, exitUsage, "are taken: choose another one"},
		{[]string{"nobody", "approval", "1"}, exitNotFound, `run "nobody": run not found: check the id`},
		{[]string{"over", "approval", "1"}, exitRefused, `run "over" has ended: it is completed: pawl --store`},
		{[]string{"secret", "approval", "1"}, exitRefused, "nothing was sent: send the signal from a program that has the codec"},
	} {
		r := sh.pawl(append([]string{"runs", "signal"}, tt.args...)...)
		assert.Equal(t, tt.code, r.code, tt.args)
		assert.Contains(t, r.err, tt.want)
		assert.Empty(t, r.out)
	}
	for _, id := range []string{"r", "secret"} {
		assert.Empty(t, read[shown](sh, "runs", "show", id).Messages)
	}
	out := sh.ok("runs", "show", "secret")
	assert.Contains(t, out, "\nwaits for signal approval\n    (encoded): send it from a program that has the codec\n")
}

func TestWhoTakesASignalAndWhen(t *testing.T) {
	waits := []durable.Wait{{Question: "ask1"}, {Signal: "go"}}
	for want, r := range map[string]journal.Status{
		"was continued: the run that it goes on as has it": journal.Continued,
		"takes it when it waits for it":                    journal.Running,
	} {
		assert.Equal(t, want, takes(&journal.Run{Status: r}, &outlook{}, false))
	}
	assert.Equal(t, "keeps it, and waits for an answer to ask1, signal go",
		takes(&journal.Run{Status: journal.Suspended}, &outlook{waits: waits}, false))
}

func TestMessagesThatNobodyHasTakenAreShownFewAtATime(t *testing.T) {
	sh := newShell(t)
	sh.with(func(db *sqlite.Store) {
		put(t, db, workflow("r"))
		for range 12 {
			require.NoError(t, durable.Signal(t.Context(), db, "r", "a\nb", 1))
		}
		put(t, db, workflow("busy"))
		require.NoError(t, durable.Cancel(t.Context(), db, "busy", ""))
		_, err := db.Send(t.Context(), "busy", journal.Message{Kind: journal.AnswerMessage, Name: "ask7", Time: time.Now()})
		require.NoError(t, err)
	})
	out := sh.ok("runs", "show", "r")
	assert.Equal(t, 10, strings.Count(out, `signal "a\nb", sent 0s ago: nobody has waited for it`))
	assert.Contains(t, out, "\nand 2 more messages\n")
	out = sh.ok("runs", "show", "busy")
	assert.Contains(t, out, "cancel, sent 0s ago: the run's owner has not cancelled it yet")
	assert.Contains(t, out, "answer to ask7, sent 0s ago: the run has asked no such question")
}
