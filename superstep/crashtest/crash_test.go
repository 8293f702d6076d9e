package crashtest_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/journal/sqlite"
)

// undisturbed is a run that nothing has happened to.
type undisturbed struct {
	result result
	calls  map[string]int
	writes int
	wide   int
}

// tally is what a sweep has seen.
type tally struct {
	mu       sync.Mutex
	points   map[string]int // by graph and moment
	recorded int            // calls whose outcome was in the journal at a kill
	inFlight int            // calls that had been made, and whose outcome was not
	repeated int            // of those, how many were made again
	unheeded int            // recorded failures from which nobody had gone on yet
}

func (s *tally) total() (n int) {
	for _, points := range s.points {
		n += points
	}
	return n
}

// The process of a run is killed before, inside and after each write to its journal. The run goes on in a new process, and has the
// result of a run that nothing happened to. No call whose outcome was in the journal is made again, and none is left out.
func TestCrash_AfterEveryWriteTheRunGoesOnInANewProcess(t *testing.T) {
	seen := &tally{points: map[string]int{}}
	t.Run("sweep", func(t *testing.T) {
		for _, s := range shapes {
			want := calm(t, s)
			for _, when := range []journaltest.When{journaltest.Before, journaltest.Inside, journaltest.After} {
				t.Run(fmt.Sprint(s.name, " ", when), func(t *testing.T) {
					t.Parallel()
					sweep(t, s.name, when, want, seen)
				})
			}
		}
	})
	for _, name := range slices.Sorted(maps.Keys(seen.points)) {
		t.Logf("%-20s %3d crash points", name, seen.points[name])
	}
	t.Logf("%d crash points; at them %d calls were recorded, of which none was repeated; %d were in flight, of which %d were made again; "+
		"%d failed steps had not been handled yet", seen.total(), seen.recorded, seen.inFlight, seen.repeated, seen.unheeded)
	if !t.Failed() {
		assert.GreaterOrEqual(t, seen.total(), leastPoints)
	}
}

// calm runs a graph to its end.
func calm(t *testing.T, s shape) undisturbed {
	t.Helper()
	o := newOffice(t)
	j := job{Shape: s.name, Run: "calm", File: filepath.Join(t.TempDir(), "journal.db"), Process: 1}
	reports, died := start(t, order{o.server.URL, []job{j}})
	require.False(t, died)
	require.Len(t, reports, 1)
	u := undisturbed{reports[0].Result, o.ledger("calm").by(1), reports[0].Writes, s.wide}
	for about, n := range u.calls {
		want := 1
		if strings.HasPrefix(about, "flaky ") {
			want = 2
		}
		require.Equal(t, want, n, about)
	}
	t.Logf("%s: %d writes, %d calls", s.name, u.writes, len(u.calls))
	return u
}

// Each process of a run dies behind one of its first writes, and still the run comes to its end. One write is to take the run.
// One more is not always enough to get any further: it may be the intent of a Once, or a failure that is not handled yet.
func TestCrash_ARunWhoseProcessesAllDieComesToItsEnd(t *testing.T) {
	t.Parallel()
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			want := calm(t, s)
			o := newOffice(t)
			j := job{Shape: s.name, Run: "r", File: filepath.Join(t.TempDir(), "journal.db"), When: journaltest.After}
			random := rand.New(rand.NewPCG(1, 2))
			ledger, recordedBy := o.ledger(j.Run), map[string]int{}
			var reports []report
			for died := true; died; {
				j.Process++
				j.Write = 2 + random.IntN(5)
				require.Less(t, j.Process, 10*want.writes, "the run does not get any further")
				reports, died = start(t, order{o.server.URL, []job{j}})
				o.settle(t)
				events := readJournal(t, j)
				for about := range want.calls {
					if recordedBy[about] == 0 && outcomeIn(events, about, true) == recorded {
						recordedBy[about] = j.Process
					}
					if by := recordedBy[about]; by != 0 && by < j.Process {
						require.Zero(t, ledger.by(j.Process)[about], "process %d repeats a call that is recorded: %s", j.Process, about)
					}
				}
			}
			require.Equal(t, want.result, reports[0].Result)
			require.Len(t, recordedBy, len(want.calls), "calls are missing")
			t.Logf("%d processes died", j.Process-1)
		})
	}
}

// crashed is a run whose process has died.
type crashed struct {
	job    job
	events []journal.Event
}

// sweep kills one run at each write. Each process first goes on with the run that the last one has died in.
func sweep(t *testing.T, shape string, when journaltest.When, want undisturbed, seen *tally) {
	t.Helper()
	o := newOffice(t)
	template := filepath.Join(t.TempDir(), "empty.db")
	db, err := sqlite.Open(template)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	var last *crashed
	for n, more := 1, true; more && !t.Failed(); n += killStride {
		next := job{Shape: shape, Run: fmt.Sprint("r", n), File: filepath.Join(t.TempDir(), "journal.db"), Process: 1, Write: n, When: when}
		copyFile(t, template, next.File)
		jobs := []job{next}
		if last != nil {
			jobs = append([]job{last.goOn()}, jobs...)
		}
		reports, died := start(t, order{o.server.URL, jobs})
		o.settle(t)
		if last != nil {
			require.NotEmpty(t, reports, "the run has not gone on")
			last.compare(t, o.ledger(last.job.Run), reports[0].Result, want, seen)
		}
		last, more = nil, died
		if died {
			seen.mu.Lock()
			seen.points[shape+" "+string(when)]++
			seen.mu.Unlock()
			last = &crashed{next, readJournal(t, next)}
		}
	}
}

func (c *crashed) goOn() job {
	j := c.job
	j.Process, j.Write = 2, 0
	return j
}

// compare holds that a run that was killed has come to what it would have come to.
func (c *crashed) compare(t *testing.T, l *ledger, got result, want undisturbed, seen *tally) {
	t.Helper()
	at := fmt.Sprintf("%s, killed %s write %d", c.job.Shape, c.job.When, c.job.Write)
	require.Equal(t, want.result, got, at)
	before, after := l.by(1), l.by(2)
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for about := range after {
		require.Contains(t, want.calls, about, "%s: a call that is not to be made", at)
	}
	inFlight := seen.inFlight
	for about, n := range want.calls {
		onlyOnce := strings.HasPrefix(about, "charge ")
		switch outcome := c.outcome(about); {
		case outcome == recorded:
			require.NotZero(t, before[about], "%s: the outcome of a call that was not made: %s", at, about)
			require.Zero(t, after[about], "%s: a recorded call was repeated: %s", at, about)
			seen.recorded++
		case before[about] == 0:
			require.Equal(t, n, after[about], "%s: a call is missing, or was repeated: %s", at, about)
		case onlyOnce:
			require.Equal(t, 1, before[about]+after[about], "%s: %s", at, about)
			seen.inFlight++
		default:
			require.LessOrEqual(t, before[about], n, "%s: %s", at, about)
			require.LessOrEqual(t, after[about], n, "%s: %s", at, about)
			require.NotZero(t, after[about], "%s: a call without an outcome is missing: %s", at, about)
			if outcome == unheeded {
				seen.unheeded++
				break
			}
			seen.inFlight++
			seen.repeated++
		}
	}
	require.LessOrEqual(t, seen.inFlight-inFlight, want.wide, "%s: outcomes of calls were there and not recorded", at)
}

type outcome int

const (
	unknown outcome = iota
	recorded
	unheeded // the failure of a step which its scope has not handled: the next attempt or process tries again
)

// outcome says whether what the desk has said about something is in the journal.
func (c *crashed) outcome(about string) outcome { return outcomeIn(c.events, about, true) }

// outcomeIn says it of any events. Whole says that they do not end inside an append.
func outcomeIn(events []journal.Event, about string, whole bool) outcome {
	found := unknown
	for i, e := range events {
		if !bytes.Contains(e.Payload, []byte(answerTo(about))) {
			continue
		}
		isNode := e.Name == "" && whole // each node that fails here has a handler
		if e.Kind != journal.StepError || isNode || isHandled(e, events[i+1:]) {
			return recorded
		}
		found = unheeded
	}
	return found
}

// isHandled reports whether the scope of a step has gone on behind the step's failure.
func isHandled(failed journal.Event, behind []journal.Event) bool {
	for _, e := range behind {
		switch {
		case e.Scope != failed.Scope:
		case e.Kind == journal.StepReopened:
			return false
		case e.Kind != failed.Kind || e.Name != failed.Name || e.N != failed.N:
			return true
		}
	}
	return false
}

// readJournal reads what a dead process has left, from a copy, so that the next one finds all as it was.
func readJournal(t *testing.T, j job) (events []journal.Event) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "copy.db")
	copyFile(t, j.File, file)
	copyFile(t, j.File+"-wal", file+"-wal")
	db, err := sqlite.Open(file)
	require.NoError(t, err)
	defer db.Close()
	page, err := db.List(t.Context(), journal.Query{})
	require.NoError(t, err)
	for _, run := range page.Runs { // the run and its children
		for e, err := range db.Events(t.Context(), run.ID, 0) {
			require.NoError(t, err)
			e.Scope = run.ID + " " + e.Scope
			events = append(events, e)
		}
	}
	return events
}

// copyFile copies a file if it is there.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, data, 0o600))
}
