package durable

import (
	"github.com/pawl-go/pawl/journal"
)

// Refusal says why an update or a query has no result. The strings are stable: they are stored.
type Refusal string

// The reasons.
const (
	RefusedUnknown  Refusal = "unknown"           // the workflow has no handler of that name
	RefusedArgument Refusal = "wrong argument"    // the handler takes another type
	RefusedInvalid  Refusal = "invalid"           // the update's validator has refused it
	RefusedEnded    Refusal = "run has ended"     // before it came to that
	RefusedGraph    Refusal = "not a workflow"    // graphs take signals and answers, and their state can be read
	QueryFailed     Refusal = "failed"            // the query's handler has failed
	QueryTimeout    Refusal = "no answer in time" // before the context ended
)

// remedy says what to do about it.
func (r Refusal) remedy() string {
	switch r {
	case RefusedUnknown:
		return ": use the name that the workflow's handler has"
	case RefusedArgument:
		return ": send what the handler takes"
	case RefusedInvalid:
		return ": the run is as it was"
	case RefusedEnded:
		return ": read its result instead"
	case RefusedGraph:
		return ": graphs take signals and answers, and their state can be read"
	case QueryTimeout:
		return ": ask again while somebody runs the run"
	}
	return ""
}

// refusalMeta is the Meta of an UpdateRejected, and of a QueryAnswered without a result.
type refusalMeta struct {
	Message int64 `json:"message"`
	// Reason is that of an update. Of a query, Failed is true and Code the reason.
	Reason Refusal `json:"reason,omitempty"`
	Failed bool    `json:"failed,omitempty"`
	Code   Refusal `json:"code,omitempty"`
}

// refusal is the event that tells a sender why there is no result. The error, if there is one, is its payload.
func (x *Execution) refusal(m journal.Message, reason Refusal, err error) journal.Event {
	e := journal.Event{Kind: journal.UpdateRejected, Name: m.Name, Time: Now()}
	why := refusalMeta{Message: m.Seq, Reason: reason}
	if m.Kind == journal.QueryMessage {
		e.Kind = journal.QueryAnswered
		why = refusalMeta{Message: m.Seq, Failed: true, Code: reason}
	}
	e.Meta = meta(why)
	if err != nil {
		recorded, failure := x.settings.recordError(err)
		e.Meta, e.Payload = withMeta(meta(failure), why), recorded.Payload
	}
	return e
}
