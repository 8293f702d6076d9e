package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/sqlite"
)

// put writes a run with these events behind its start.
func put(t *testing.T, db *sqlite.Store, r journal.Run, events ...journal.Event) {
	t.Helper()
	now := time.Now().UTC()
	start := journal.Event{Kind: journal.RunStart, Time: now}
	claim := journal.Claim{Owner: "worker-1", TTL: time.Minute}
	l, err := db.Create(t.Context(), journal.NewRun{Run: r, Events: []journal.Event{start}, Claim: claim})
	require.NoError(t, err)
	for i := range events {
		if events[i].Time.IsZero() {
			events[i].Time = now
		}
	}
	if len(events) > 0 {
		due := time.Time{}
		if events[len(events)-1].Kind == journal.RunSuspended {
			due = now.Add(time.Hour)
		}
		require.NoError(t, db.Append(t.Context(), l, journal.Append{After: 1, Events: events, Due: due}))
	}
}

func workflow(id string) journal.Run {
	return journal.Run{ID: id, Kind: journal.WorkflowRun, Name: "sync"}
}

// runsOfAllKinds fills a database.
func runsOfAllKinds(t *testing.T, sh *shell) {
	t.Helper()
	sh.with(func(db *sqlite.Store) {
		put(t, db, workflow("done"), journal.Event{Kind: journal.RunComplete})
		put(t, db, workflow("failed"), journal.Event{Kind: journal.RunError, Meta: json.RawMessage(`{"code":"internal"}`)})
		time.Sleep(3 * 24 * time.Hour)
		again := workflow("again")
		again.Link = journal.Link{Kind: journal.RetryOf, Run: "failed"}
		put(t, db, again, journal.Event{Kind: journal.RunSuspended})
		time.Sleep(2 * time.Hour)
		fork := journal.Run{ID: "fork\nof a run", Kind: journal.GraphRun, Name: "article", Thread: "tides"}
		fork.Link = journal.Link{Kind: journal.ForkOf, Run: "done", SuperStep: 3}
		put(t, db, fork, journal.Event{Kind: journal.RunCancelled})
		put(t, db, workflow("潮汐-1"))
		time.Sleep(5 * time.Second)
		golden(t, "list.txt", sh.ok("runs", "list")) // while a program has it open and works on a run
	})
}

func TestListShowsRunsNewestFirstWithWhatIsWorthKnowing(t *testing.T) {
	sh := newShell(t)
	synctest.Test(t, func(t *testing.T) {
		runsOfAllKinds(t, sh)
		golden(t, "list.jsonl", sh.ok("runs", "list", "--json"))
	})
}

func TestListFilters(t *testing.T) {
	sh := newShell(t)
	synctest.Test(t, func(t *testing.T) { runsOfAllKinds(t, sh) })
	for _, tt := range []struct {
		args string
		want []string
	}{
		{"", []string{"潮汐-1", "fork\nof a run", "again", "failed", "done"}},
		{"--status failed", []string{"failed"}},
		{"--status failed,completed", []string{"failed", "done"}},
		{"--status failed --status suspended", []string{"again", "failed"}},
		{"--kind graph", []string{"fork\nof a run"}},
		{"--kind workflow --limit 2", []string{"潮汐-1", "again"}},
		{"--name article", []string{"fork\nof a run"}},
		{"--thread tides", []string{"fork\nof a run"}},
		{"--linked-to failed", []string{"again"}},
		{"--name nobody", []string{}},
	} {
		got := []string{}
		for _, r := range read[page](sh, append([]string{"runs", "list"}, strings.Fields(tt.args)...)...).Runs {
			got = append(got, r.ID)
		}
		assert.Equal(t, tt.want, got, tt.args)
	}
}

func TestListGoesOnBehindAPage(t *testing.T) {
	sh := newShell(t)
	sh.with(func(db *sqlite.Store) {
		for i := range 5 {
			put(t, db, workflow(fmt.Sprint("run-", i)), journal.Event{Kind: journal.RunComplete})
		}
	})
	var got []string
	cursor := ""
	for range 3 {
		p := read[page](sh, "runs", "list", "--limit", "2", "--cursor", cursor)
		for _, r := range p.Runs {
			got = append(got, r.ID)
		}
		cursor = p.Next
	}
	assert.Empty(t, cursor)
	assert.Equal(t, []string{"run-4", "run-3", "run-2", "run-1", "run-0"}, got)

	r := sh.pawl("runs", "list", "--limit", "2")
	assert.Contains(t, r.err, "more with --cursor ", "where no script takes it for a run")
	assert.Equal(t, 3, strings.Count(r.out, "\n"))
}

func TestAnEmptyListIsNoError(t *testing.T) {
	sh := newShell(t)
	sh.with(func(*sqlite.Store) {})
	r := sh.pawl("runs", "list")
	assert.Equal(t, result{err: "no runs\n"}, r)
	assert.JSONEq(t, `{"runs":[]}`, sh.ok("runs", "list", "--json"))
}

func TestLinksAndTimesInWords(t *testing.T) {
	for kind, want := range map[journal.LinkKind]string{
		journal.RetryOf: "retry of a b", journal.ForkOf: "fork of a b behind super-step 2", journal.TurnAfter: "turn after a b",
		journal.ChildOf: "child of a b", journal.Continuation: "continues a b", "cousin": "cousin of a b",
	} {
		assert.Equal(t, want, linkText(journal.Link{Kind: kind, Run: "a b", SuperStep: 2}))
	}
	now := time.Now()
	s := &session{now: now}
	r := &journal.Run{Status: journal.Suspended, Due: now.Add(90 * time.Minute)}
	assert.Equal(t, "due in 1h", s.note(r, &outlook{}))
	assert.Contains(t, s.statusText(r, &outlook{}), ": due in 1h")
	r.Due = now.Add(-90 * time.Second)
	assert.Equal(t, "due since 1m: run it again", s.note(r, &outlook{}))
}
