package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/durable"
)

// writer prints a timeline.
type writer struct {
	out   *output
	start time.Time
	last  string // the last failure
}

// timeline prints what has happened since the start of a run.
func (s *session) timeline(items []*item, start time.Time) {
	w := writer{out: s.out, start: start}
	for _, it := range items {
		w.item(it, 0)
	}
}

// line prints one line: when, and what.
func (w *writer) line(when string, depth int, text string) {
	w.out.printf("%s\n", strings.TrimRight(fmt.Sprintf("%10s  %s%s", when, strings.Repeat("  ", depth), text), " "))
}

func (w *writer) item(it *item, depth int) {
	when := "+" + span(max(0, it.Begun.Sub(w.start)))
	if it.Copied {
		when = "copied"
	}
	text := it.label()
	if it.Continued {
		text += ", continued"
	}
	if state := it.stateText(); state != "" {
		text += ": " + state
	}
	w.line(when, depth, text)
	if it.asked != nil {
		for _, line := range it.asked.lines() {
			w.line("", depth+1, line)
		}
	}
	// What a task did, how it failed, and what its Catch handler did.
	handled := slices.IndexFunc(it.Items, func(inner *item) bool { return inner.Kind == catchItem })
	if handled < 0 {
		handled = len(it.Items)
	}
	for _, inner := range it.Items[:handled] {
		w.item(inner, depth+1)
	}
	for i := range it.Failures {
		w.failure(&it.Failures[i], depth+1)
	}
	for _, inner := range it.Items[handled:] {
		w.item(inner, depth+1)
	}
}

// lines are what is asked, for people.
func (q *question) lines() []string {
	if q.Encoded {
		return []string{encoded}
	}
	return append(textLines(asText(q.Question)), "wants "+q.Wants)
}

func (w *writer) failure(f *failure, depth int) {
	facts := []string{printable(cmp.Or(f.Cause, f.Type, "no type"))}
	if f.Mark != "" {
		facts = append(facts, "marked "+printable(f.Mark))
	}
	if f.Status != 0 {
		facts = append(facts, fmt.Sprintf("HTTP %d", f.Status))
	}
	if f.UserCode != "" {
		facts = append(facts, "code "+printable(f.UserCode))
	}
	for _, key := range slices.Sorted(maps.Keys(f.Detail)) {
		facts = append(facts, printable(key)+" "+quoted(f.Detail[key]))
	}
	w.line("", depth, fmt.Sprintf("%s (%s)", printable(f.Class), strings.Join(facts, ", ")))
	text := f.Message
	switch same := f.Fingerprint + f.Message; {
	case f.Encoded:
		text = encoded
	case same == w.last && strings.Contains(text, "\n"):
		text = "as above"
	default:
		w.last = same
	}
	if text != "" {
		for _, line := range textLines(text) {
			w.line("", depth+1, line)
		}
	}
	for _, c := range f.Failed {
		at := "of the run's body"
		if c.Scope != "" {
			at = "of " + printable(c.Scope)
		}
		w.line("", depth+1, "failed in "+callName(c.Name, c.N)+" "+at)
	}
}

func callName(name string, n int) string {
	if n > 1 {
		return fmt.Sprintf("%s #%d", printable(name), n)
	}
	return printable(name)
}

// label says what an item is.
func (it *item) label() string {
	switch it.Kind {
	case runItem:
		return "run"
	case superStepItem:
		return fmt.Sprintf("super-step %d", it.N)
	case taskItem:
		if !it.Fanned {
			return printable(it.Name)
		}
		return fmt.Sprintf("%s[%d]", printable(it.Name), it.N)
	case branchItem:
		return "branch " + callName(it.Name, it.N)
	case catchItem:
		return "Catch handler"
	case placeItem:
		for _, when := range []string{"before", "after"} {
			if node, ok := strings.CutSuffix(it.Name, "/"+when); ok {
				return when + " " + printable(node)
			}
		}
		return printable(it.Name)
	case sleepItem:
		return "sleep"
	case awaitItem:
		return callName("await", it.N)
	case updateItem:
		if it.Name == "" {
			return "an update"
		}
		return "update " + printable(it.Name)
	case queryItem:
		return "query " + printable(it.Name)
	case questionItem:
		return "question " + printable(it.Question)
	}
	return string(it.Kind) + " " + callName(it.Name, it.N)
}

// stateText says what became of an item.
func (it *item) stateText() string {
	switch it.Kind {
	case runItem:
		return it.runText()
	case superStepItem:
		return it.superStepText()
	case branchItem, catchItem, placeItem:
		return ""
	case sleepItem:
		return "until " + clock(it.Due)
	case gateItem:
		return "the new way"
	}
	switch {
	case it.State == waiting && !it.Due.IsZero():
		return "waits until " + clock(it.Due)
	case it.State == waiting:
		return "waits"
	case it.Kind == childItem && it.State == begun:
		return "begun as run " + printable(it.Child)
	case it.Kind == childItem:
		return it.ending()
	case it.Kind == onceItem && it.State == begun:
		return "begun, and no outcome is recorded"
	case it.State == "timed_out":
		return "timed out"
	case it.State == "rejected", it.State == "unanswered":
		return it.State + ": " + printable(it.Reason)
	case it.Kind == updateItem && it.State == "":
		return "no outcome yet"
	case it.Kind == awaitItem && it.State == done:
		return "has come true"
	case it.Kind == taskItem && it.State == "":
		return "no outcome yet"
	case it.State == done, it.State == failed:
		return it.ending()
	}
	return printable(it.State) // of a kind of event that is not known here, for one
}

// done says how a task or call has ended.
func (it *item) ending() string {
	text := it.State
	if it.Took > 0 {
		text += " in " + span(it.Took)
	}
	if it.Attempts > 1 {
		text += ", " + count(it.Attempts, "attempt")
	}
	if it.State == done && len(it.Failures) > 0 && !it.Caught {
		text += ", after failures"
	}
	if it.Caught {
		text += ", by its Catch handler"
	}
	return text
}

func (it *item) superStepText() string {
	if it.State == "" {
		return ""
	}
	text := it.State
	if it.Took > 0 {
		text += " in " + span(it.Took)
	}
	var next []string
	for _, p := range it.Next {
		name := printable(p.Node)
		if p.Items > 0 {
			name += fmt.Sprintf(" x%d", p.Items)
		}
		next = append(next, name)
	}
	if len(next) > 0 {
		text += ", then " + strings.Join(next, ", ")
	}
	return text
}

func (it *item) runText() string {
	switch it.State {
	case "start":
		return "started"
	case "suspended":
		var waits []string
		for _, w := range it.Waits {
			waits = append(waits, waitText(w))
		}
		if len(waits) == 0 {
			return "suspended"
		}
		return "suspended, waits for " + strings.Join(waits, ", ")
	case "requeued":
		if it.Reason == "" {
			return "given up for now"
		}
		return "given up for now: " + printable(it.Reason)
	case "taken":
		return "taken up by " + printable(it.Reason)
	case "complete":
		return "completed" + it.totals()
	case "error":
		if len(it.Failures) == 0 {
			return "failed"
		}
		return "failed: " + printable(string(it.Failures[0].Code)) + it.totals()
	case "cancelled":
		if it.Reason == "" {
			return "cancelled"
		}
		return "cancelled: " + printable(it.Reason)
	case "continued":
		return "continued as " + printable(it.Child)
	}
	return it.State
}

func waitText(w durable.Wait) string {
	until := ""
	if !w.Due.IsZero() {
		until = " until " + clock(w.Due)
	}
	switch {
	case w.Question != "":
		return "an answer to " + printable(w.Question) + until
	case w.Signal != "":
		return "signal " + printable(w.Signal) + until
	case w.Child != "":
		return "run " + printable(w.Child) + until
	case w.Await:
		return "an update" + until
	case w.Paused:
		return "its resumption"
	}
	return "the time " + clock(w.Due)
}

// totals are what the end of a graph's run says of the whole run.
func (it *item) totals() string {
	if it.Totals == nil {
		return ""
	}
	text := " after " + count(it.Totals.SuperSteps, "super-step")
	if u := it.Totals.Usage; u.Calls > 0 {
		text += fmt.Sprintf(", %s, %d+%d tokens", count(u.Calls, "model call"), u.PromptTokens, u.CompletionTokens)
	}
	var unfired []string
	for _, u := range it.Unfired {
		unfired = append(unfired, printable(u.Target))
	}
	if len(unfired) > 0 {
		text += ", never reached: " + few(unfired)
	}
	return text
}
