package crashtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
	"github.com/pawl-go/pawl/superstep"
)

// forge makes a store of a run's first n events, which are whole but say something else than what happened.
func (f finished) forge(tb testing.TB, n int, change func(events []journal.Event) []journal.Event) journal.Store {
	tb.Helper()
	store := memory.New()
	for _, l := range f.cut(n, true) {
		if l.run.ID == "r" {
			l.events = change(slices.Clone(l.events))
		}
		l.put(tb, store)
	}
	return store
}

// forgery is a change that one event can have.
type forgery struct {
	name   string
	may    may
	change func(e *journal.Event)
}

// may is what a forgery may do to a run.
type may int

const (
	nothing may = iota // it comes to its result all the same
	fail               // it does, or somebody finds what is wrong
	differ             // or it has another result: what an update says instead can as well be true
)

func forgeries() []forgery {
	var all []forgery
	for _, text := range []string{`null`, `{}`, `[]`, `"text"`, `7`, `true`, `not JSON`, `{"next":`, `[[]]`, `{"log":7}`, `{"n":"x"}`, ``,
		`{"update":{},"next":[{"node":"nobody"}]}`, `{"update":{},"next":[{"node":"sub","items":[1]}]}`, `{"update":{}}`} {
		all = append(all, forgery{"payload " + text, differ, func(e *journal.Event) { e.Payload = []byte(text) }})
	}
	for _, text := range []string{`null`, `{}`, `[]`, `"text"`, `7`, `not JSON`, ``, `{"next":[]}`, `{"next":null}`, `{"next":7}`,
		`{"next":[{"node":"nobody"}]}`, `{"next":[{"node":"loop"}]}`, `{"next":[{"node":"search","items":"0000000000000000"}]}`,
		`{"message":1000}`, `{"message":-1}`, `{"message":"x"}`, `{"due":"soon"}`, `{"due":7}`, `{"run":"another"}`, `{"run":""}`,
		`{"waits":[{"question":"another"}]}`, `{"waits":7}`, `{"usage":7}`, `{"taken":[1,2,3]}`, `{"machine":{}}`, `{"machine":7}`,
		`{"copied":1000}`, `{"copied":-5}`, `{"beside":true}`, `{"failed":7}`} {
		all = append(all, forgery{"meta " + text, fail, func(e *journal.Event) { e.Meta = json.RawMessage(text) }})
	}
	for _, kind := range []journal.Kind{
		journal.RunStart, journal.RunSuspended, journal.RunRequeued, journal.StepDone, journal.StepError, journal.StepHandled,
		journal.StepIntent, journal.CatchStart, journal.SuperStepDone, journal.Checkpoint, journal.TimerSet, journal.SignalWait,
		journal.SignalReceived, journal.SignalTimeout, journal.QuestionAsked, journal.QuestionAnswered, journal.ChildStart,
		journal.GateSet, journal.StepReopened, "nonsense", "",
	} {
		all = append(all, forgery{"kind " + string(kind), fail, func(e *journal.Event) { e.Kind = kind }})
	}
	return append(all,
		forgery{"another scope", fail, func(e *journal.Event) { e.Scope += "x" }},
		forgery{"no scope", fail, func(e *journal.Event) { e.Scope = "" }},
		forgery{"scope of another task", fail, func(e *journal.Event) { e.Scope = "2/search[0]" }},
		forgery{"another name", fail, func(e *journal.Event) { e.Name += "x" }},
		forgery{"no name", fail, func(e *journal.Event) { e.Name = "" }},
		forgery{"number 0", fail, func(e *journal.Event) { e.N = 0 }},
		forgery{"next number", fail, func(e *journal.Event) { e.N++ }},
		forgery{"negative number", fail, func(e *journal.Event) { e.N = -1 }},
		forgery{"huge number", fail, func(e *journal.Event) { e.N = 1 << 62 }},
		forgery{"no time", nothing, func(e *journal.Event) { e.Time = time.Time{} }},
		forgery{"time to come", nothing, func(e *journal.Event) { e.Time = e.Time.AddDate(1000, 0, 0) }},
		forgery{"negative duration", nothing, func(e *journal.Event) { e.Took = -1 }},
		forgery{"attempts", nothing, func(e *journal.Event) { e.Attempts = 1 << 40 }},
	)
}

// Each event of a journal says in turn something else. Either that is found, with an error that says where, or the run goes on;
// it never panics, and it never hangs.
func TestForged_EachEvent(t *testing.T) {
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			f := finish(t, s.name)
			n := len(f.runs[0].events) - 1 // under way: without its end
			outcomes := map[string]int{}
			for at := 0; at < n; at += forgedStride { //nolint:modernize // the stride is larger with -race
				for _, fg := range forgeries() {
					if at == 0 && (strings.HasPrefix(fg.name, "kind") && fg.name != "kind run:start") {
						continue // no store takes a run that does not begin with its start
					}
					store := f.forge(t, n, func(events []journal.Event) []journal.Event {
						fg.change(&events[at])
						return events
					})
					where := fmt.Sprintf("event %d, a %s %q %q: %s", at+1, f.runs[0].events[at].Kind, f.runs[0].events[at].Scope,
						f.runs[0].events[at].Name, fg.name)
					outcomes[f.goOnForged(t, store, where, fg.may)]++
				}
			}
			t.Log(outcomes)
		})
	}
}

// Events are left out, doubled, or in another order.
func TestForged_WhichEvents(t *testing.T) {
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			f := finish(t, s.name)
			n := len(f.runs[0].events) - 1
			outcomes := map[string]int{}
			for at := 1; at < n; at++ {
				for name, change := range map[string]func([]journal.Event) []journal.Event{
					"is missing": func(events []journal.Event) []journal.Event { return slices.Delete(events, at, at+1) },
					"is doubled": func(events []journal.Event) []journal.Event { return slices.Insert(events, at, events[at]) },
					"is first": func(events []journal.Event) []journal.Event {
						return slices.Insert(slices.Delete(events, at, at+1), 1, f.runs[0].events[at])
					},
					"is last": func(events []journal.Event) []journal.Event {
						return append(slices.Delete(events, at, at+1), f.runs[0].events[at])
					},
				} {
					where := fmt.Sprintf("event %d, a %s %q %q, %s", at+1, f.runs[0].events[at].Kind, f.runs[0].events[at].Scope,
						f.runs[0].events[at].Name, name)
					outcomes[f.goOnForged(t, f.forge(t, n, change), where, fail)]++
				}
			}
			t.Log(outcomes)
		})
	}
}

// goOnForged goes on with a forged run, and says in a word what came of it.
func (f finished) goOnForged(tb testing.TB, store journal.Store, where string, may may) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 20*time.Second)
	defer cancel()
	r, err := newRunner(f.shape, newLocal(), store)
	require.NoError(tb, err)
	res, err := drive(ctx, r, store, "r")
	switch {
	case ctx.Err() != nil:
		assert.Fail(tb, "it hangs", where)
	case err == nil && assert.ObjectsAreEqual(f.result, resultOf(res)):
		return "the same"
	case err == nil:
		assert.Equal(tb, differ, may, "%s: another result: %v", where, resultOf(res))
		return "another result"
	}
	assert.NotEqual(tb, nothing, may, "%s: %v", where, err)
	assert.True(tb, isClear(err), "%s: the error is not clear: %v (%T)", where, err, err)
	return fmt.Sprintf("%T", err)
}

// isClear reports whether an error is one of those that say what is wrong with a journal.
func isClear(err error) bool {
	if strings.Contains(err.Error(), "internal") || strings.Contains(err.Error(), "panic") || !strings.Contains(err.Error(), `"r"`) {
		return false
	}
	var (
		replay   *durable.ReplayError
		other    *durable.NonDeterminismError
		failed   *durable.RunFailedError
		conflict *durable.RunConflictError
		ended    *durable.EndedError
		changed  *superstep.GraphChangedError
		corrupt  *journal.CorruptError
	)
	return errors.As(err, &replay) || errors.As(err, &other) || errors.As(err, &failed) || errors.As(err, &conflict) ||
		errors.As(err, &ended) || errors.As(err, &changed) || errors.As(err, &corrupt)
}

func FuzzForgedEvent(f *testing.F) {
	var runs []finished
	for _, s := range shapes {
		runs = append(runs, finish(f, s.name))
	}
	f.Add(byte(0), byte(3), "step:done", "2/search[0]", "fetch", 1, []byte(`{}`), []byte(`"x"`))
	f.Add(byte(0), byte(30), "superstep:done", "", "", 3, []byte(`{"next":[{"node":"loop"}]}`), []byte(nil))
	f.Add(byte(1), byte(9), "question:answered", "2/each[0]/1/ask[0]", "ask", 1, []byte(`{"message":1}`), []byte(`"yes"`))
	f.Add(byte(2), byte(12), "checkpoint", "", "", 0, []byte(`{"machine":{}}`), []byte(`{}`))
	f.Add(byte(0), byte(0), "run:start", "", "", 0, []byte(`{"copied":3}`), []byte(`{"n":1}`))
	f.Fuzz(func(t *testing.T, shape, at byte, kind, scope, name string, n int, meta, payload []byte) {
		run := runs[int(shape)%len(runs)]
		last := len(run.runs[0].events) - 1
		i := int(at) % last
		if i == 0 {
			kind = string(journal.RunStart)
		}
		if journal.Kind(kind).Terminal() {
			return
		}
		store := run.forge(t, last, func(events []journal.Event) []journal.Event {
			e := &events[i]
			e.Kind, e.Scope, e.Name, e.N, e.Meta, e.Payload = journal.Kind(kind), scope, name, n, meta, payload
			return events
		})
		run.goOnForged(t, store, fmt.Sprintf("%s, event %d", run.shape, i+1), differ)
	})
}
