package main

import (
	"encoding/json"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// callKinds are the kinds of calls that their first event tells.
var callKinds = map[journal.Kind]itemKind{ //nolint:gochecknoglobals // a constant table
	journal.StepIntent: onceItem, journal.TimerSet: sleepItem, journal.SignalWait: signalItem, journal.SignalReceived: signalItem,
	journal.SignalTimeout: signalItem, journal.QuestionAsked: questionItem, journal.QuestionAnswered: questionItem,
	journal.ChildStart: childItem, journal.GateSet: gateItem,
}

// call adds an event of a durable call.
func (t *timeline) call(e journal.Event) {
	where := place{e.Scope, e.Name, e.N}
	it := t.callAt(where, e)
	switch e.Kind {
	case journal.StepDone, journal.StepError:
		t.ended(it, e)
	case journal.StepIntent:
		it.State = begun
	case journal.TimerSet, journal.SignalWait:
		var m struct {
			Due time.Time `json:"due"`
		}
		readMeta(e, &m)
		it.State, it.Due = waiting, m.Due
		t.waited[e.Name] = t.waited[e.Name] || it.Kind == signalItem
	case journal.SignalReceived:
		it.State = "received"
	case journal.SignalTimeout:
		it.State = "timed_out"
	case journal.QuestionAsked:
		q := questionOf(e)
		t.asked[where], it.asked, it.Question, it.State = q, q, q.ID, "asked"
		t.questions = append(t.questions, q)
	case journal.QuestionAnswered:
		it.State = consumed
		if q := t.asked[where]; q != nil {
			it.Question, q.State = q.ID, consumed
		}
	case journal.ChildStart:
		var m struct {
			Child string `json:"child"`
		}
		readMeta(e, &m)
		it.Child, it.State = m.Child, "begun"
	case journal.GateSet:
		it.State = "set"
	default:
		it.State = string(e.Kind)
	}
}

// isAwait reports whether an event is one of a condition that was waited for.
func isAwait(e journal.Event) bool {
	var m struct {
		Await bool `json:"await"`
	}
	readMeta(e, &m)
	return m.Await
}

// guest adds what has come of an update or a query.
func (t *timeline) guest(e journal.Event) {
	var m struct {
		Reason string `json:"reason"`
		Code   string `json:"code"`
		Failed bool   `json:"failed"`
	}
	readMeta(e, &m)
	kind := updateItem
	if e.Kind == journal.QueryAnswered {
		kind = queryItem
	}
	it := t.scopes[e.Scope]
	if it == nil || it.Kind != updateItem { // its handler has made no call of its own
		it = t.item(e, kind)
		it.Scope = e.Scope
		t.top = append(t.top, it)
		if e.Scope != "" {
			t.scopes[e.Scope] = it
		}
	}
	it.Name, it.Took, it.State = e.Name, e.Took, done
	it.since(e.Time.Add(-e.Took))
	switch {
	case e.Kind == journal.UpdateError:
		var p struct {
			Error json.RawMessage `json:"error"`
		}
		if json.Unmarshal(e.Payload, &p) == nil {
			e.Payload = p.Error
		}
		it.State = failed
		it.Failures = append(it.Failures, failureOf(e))
	case e.Kind == journal.UpdateRejected, m.Failed:
		it.State, it.Reason = "rejected", m.Reason
		if m.Failed {
			it.State, it.Reason = "unanswered", m.Code
		}
		if len(e.Payload) > 0 {
			it.Failures = append(it.Failures, failureOf(e))
		}
	case kind == queryItem:
		it.State = consumed
	}
}

// callAt is the item of a call in this stretch.
func (t *timeline) callAt(where place, e journal.Event) *item {
	if it := t.calls[where]; it != nil {
		return it
	}
	kind, known := t.kinds[where]
	if !known {
		switch kind = callKinds[e.Kind]; {
		case isAwait(e):
			kind = awaitItem
		case kind == "":
			kind = stepItem
		}
		t.kinds[where] = kind
	}
	it := t.item(e, kind)
	it.Scope, it.Name, it.N = where.scope, where.name, where.n
	it.Continued = known
	t.calls[where] = it
	t.under(where.scope, it, e)
	return it
}

// ended adds an outcome of a call.
func (t *timeline) ended(it *item, e journal.Event) {
	it.Attempts, it.Took = e.Attempts, e.Took
	it.since(e.Time.Add(-e.Took))
	it.State = done
	if e.Kind == journal.StepError {
		it.State = failed
		it.Failures = append(it.Failures, failureOf(e))
	}
}

func questionOf(e journal.Event) *question {
	q := &question{State: open}
	var m struct {
		ID string `json:"id"`
	}
	readMeta(e, &m)
	q.ID = m.ID
	var asked struct {
		Question json.RawMessage `json:"question"`
		Schema   json.RawMessage `json:"schema"`
	}
	if json.Unmarshal(e.Payload, &asked) != nil {
		q.Encoded = true
		return q
	}
	q.Question, q.Schema, q.Wants = asked.Question, asked.Schema, wants(asked.Schema)
	return q
}
