package main

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/sqlite"
)

// What no run of the other tests comes by.
func TestShowDrawsWhatIsRare(t *testing.T) {
	sh := newShell(t)
	meta := func(text string) json.RawMessage { return json.RawMessage(text) }
	synctest.Test(t, func(t *testing.T) {
		sh.with(func(db *sqlite.Store) {
			put(t, db, journal.Run{ID: "poll~2", Kind: journal.WorkflowRun, Name: "poll", Version: "v3", Link: journal.Link{Kind: journal.Continuation, Run: "poll"}},
				journal.Event{Kind: journal.GateSet, Name: "send by queue", N: 1},
				journal.Event{Kind: journal.StepIntent, Name: "charge", N: 1},
				journal.Event{Kind: journal.RunRequeued, Meta: meta(`{"reason":"store_unavailable"}`)},
				journal.Event{Kind: journal.RunRequeued},
				journal.Event{Kind: journal.StepError, Name: "charge", N: 1, Meta: meta(`{"class":"unknown","error_type":"*durable.OutcomeUnknownError"}`), Payload: []byte{1}},
				journal.Event{Kind: journal.StepDone, Name: "pull", N: 1},
				journal.Event{Kind: journal.StepDone, Name: "pull", N: 2},
				journal.Event{Kind: journal.ChildStart, Name: "fetch", N: 1, Meta: meta(`{"child":"poll~2-fetch#1"}`)},
				journal.Event{Kind: journal.RunSuspended, Meta: meta(`{"waits":[{"child":"poll~2-fetch#1"},{"due":"2000-01-02T00:00:00Z"}]}`)},
				journal.Event{Kind: journal.StepDone, Name: "fetch", N: 1, Took: time.Second},
				journal.Event{Kind: journal.SignalWait, Name: "go", N: 1},
				journal.Event{Kind: journal.SignalTimeout, Name: "go", N: 1},
				journal.Event{Kind: journal.RunSuspended},
				journal.Event{Kind: "news:kind", Name: "later", N: 1},
				journal.Event{Kind: journal.RunContinued, Meta: meta(`{"next":"poll~3"}`)},
			)
			put(t, db, journal.Run{ID: "g", Kind: journal.GraphRun, Name: "article"},
				journal.Event{Kind: journal.QuestionAsked, Scope: "1/plan/before", Name: "ask", N: 1, Meta: meta(`{"id":"1/plan/before/ask1"}`),
					Payload: []byte(`{"question":{"node":"plan","when":"before","super_step":1}}`)},
				journal.Event{Kind: journal.QuestionAnswered, Scope: "1/plan/before", Name: "ask", N: 1},
				journal.Event{Kind: journal.StepDone, Scope: "1/plan[0]"},
				journal.Event{Kind: journal.SuperStepDone, N: 1, Meta: meta(`{"next":[{"node":"search","items":[` + strings.Repeat(`"x",`, 14) + `"x"]}]}`)},
				journal.Event{Kind: journal.Checkpoint, Meta: meta(`{}`), Payload: []byte(`{}`)},
				journal.Event{Kind: journal.StepDone, Scope: "2/search[0]"},
				journal.Event{Kind: journal.StepError, Scope: "2/search[1]/visit#1", Name: "step", N: 1, Meta: meta(`{`)},
				journal.Event{Kind: journal.RunSuspended},
				journal.Event{Kind: journal.StepDone, Scope: "strange/scope", Name: "a", N: 1},
				journal.Event{Kind: journal.RunError, Meta: meta(`{"code":"event_refused","class":"unknown","error_type":"*x.Err","detail":{"reason":"lease lost"},` +
					`"super_steps":2,"usage":{"calls":3,"prompt_tokens":4,"completion_tokens":5},"unfired":[{"target":"write","join":true}]}`),
					Payload: []byte(`{"type":"*x.Err","text":"lost"}`)},
			)
		})
		golden(t, "rare.txt", sh.ok("runs", "show", "poll~2")+"\n"+sh.ok("runs", "show", "g"))
	})
}

// Whatever a journal holds, show neither fails nor panics.
func FuzzTimeline(f *testing.F) {
	f.Add("step:done", "3/search[2]/catch", "a", 1, "{}", "{}")
	f.Add("superstep:done", "3/sub[0]/", "", 4, `{"next":[{"node":"a","items":["x"]}]}`, "")
	f.Add("question:asked", "2/a/before", "ask", 1, `{"id":"x"}`, `{"question":1,"schema":{"type":"string"}}`)
	f.Add("run:error", "", "", 0, `{"failed":[{"name":"x"}]}`, `{"causes":[null]}`)
	f.Add("run:start", "before", "", 0, `{"copied":-5}`, "")
	f.Add("catch:start", strings.Repeat("/", 200), "", -1, "[", "\xff")
	f.Fuzz(func(t *testing.T, kind, scope, name string, n int, meta, payload string) {
		tl := newTimeline()
		for i := range int64(3) {
			tl.add(journal.Event{
				Seq: i + 1, Kind: journal.Kind(kind), Scope: scope, Name: name, N: n, Meta: json.RawMessage(meta), Payload: []byte(payload),
			})
		}
		var b strings.Builder
		s := &session{out: newOutput(&b)}
		s.timeline(tl.top, time.Time{})
		_, left := tl.left()
		_ = few(left)
		s.out.json(tl.top)
		require.NoError(t, s.out.flush())
		for line := range strings.Lines(b.String()) {
			if strings.HasPrefix(line, "[") || strings.HasPrefix(line, "null") {
				break // JSON
			}
			assert.True(t, isPrintable(strings.TrimSuffix(line, "\n")), "%q", line)
		}
	})
}
