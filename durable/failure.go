package durable

import (
	"errors"
	"runtime"
	"slices"
	"weak"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/journal"
)

// Code says why a run has failed, in one word that programs can read. The strings are stable: they are stored.
type Code string

// The codes of run:error.
const (
	CodePoison          Code = "poison"                  // marked classifier.Poison
	CodeFatal           Code = "fatal"                   // marked classifier.Fatal
	CodeInternal        Code = "internal"                // any other error of a workflow
	CodeAgentError      Code = "agent_error"             // any other error of a graph
	CodeNotSerializable Code = "result_not_serializable" // a result that JSON cannot hold
	CodeMaxSuperSteps   Code = "max_super_steps"
	CodeTimeout         Code = "timeout" // the run's own
	CodeBudgetExceeded  Code = "budget_exceeded"
	CodeMaxRetries      Code = "max_retries"
	CodeStoreDown       Code = "store_unavailable"
	CodeEventRefused    Code = "event_refused"
	CodeNoWorker        Code = "no_compatible_worker"
	CodeReplayFailed    Code = "replay_failed"
)

// FailureMeta is the Meta of a StepError and a RunError: what can be told of a failure without showing any value. The error
// itself is the payload, a *journal.ErrorRecord.
type FailureMeta struct {
	Code        Code   `json:"code,omitempty"` // of a RunError
	Class       string `json:"class"`          // a classifier.RunErrorClass
	UserCode    string `json:"user_code,omitempty"`
	Type        string `json:"error_type"`
	Fingerprint string `json:"fingerprint"`
	Status      int    `json:"status,omitempty"` // of HTTP
	// Detail says more about some codes, by name.
	Detail map[string]string `json:"detail,omitempty"`
	// Failed are the calls whose failures a RunError, or the StepError of a task, consists of: nobody has handled these,
	// whatever stands behind them.
	Failed []FailedCall `json:"failed,omitempty"`
}

// FailedCall says which durable call has failed.
type FailedCall struct {
	Scope string `json:"scope,omitempty"`
	Name  string `json:"name"`
	N     int    `json:"n"`
}

// FailureOf reads the Meta of a StepError or RunError.
func FailureOf(e journal.Event) (FailureMeta, error) {
	var m FailureMeta
	err := readMeta(e, &m)
	return m, err
}

// codeFor is the code of a run that ends with err; other is for errors that have none of their own.
func codeFor(err error, other Code) Code {
	if has[*journal.NotSerializableError](err) || has[*journal.PayloadTooLargeError](err) {
		return CodeNotSerializable
	}
	switch classifier.MarkOf(err) {
	case classifier.MarkPoison:
		return CodePoison
	case classifier.MarkFatal:
		return CodeFatal
	}
	if store, is := find[*StoreError](err); is {
		return store.code()
	}
	if brokenReplay(err) {
		return CodeReplayFailed
	}
	return other
}

// find looks for a type of error, as it is and not as it was recorded. Unlike errors.As it comes to an end with any error.
func find[E error](err error) (found E, ok bool) {
	for e := range classifier.Tree(err) {
		if found, ok = e.(E); ok { //nolint:errorlint // each error of the tree is looked at
			break
		}
	}
	return found, ok
}

func has[E error](err error) bool {
	_, ok := find[E](err)
	return ok
}

// Failure is for executors: the event of a run that ends with err. Other is its code unless the error itself tells one:
// a mark, a result that JSON cannot hold, a refused event, a replay that failed.
func (x *Execution) Failure(err error, other Code) journal.Event {
	return x.settings.failure(err, codeFor(err, other), x.failedIn(err)...)
}

// failedIn returns the calls whose errors err consists of.
func (x *Execution) failedIn(err error) []FailedCall {
	var calls []FailedCall
	for e := range classifier.Tree(err) { // which calls users' code, so the lock is not held
		if c, ok := x.failedCall(e); ok && !slices.Contains(calls, c) {
			calls = append(calls, c)
		}
	}
	return calls
}

// failedCall returns the call that an error comes from.
func (x *Execution) failedCall(err error) (c FailedCall, ok bool) {
	switch e := err.(type) { //nolint:errorlint // the error itself
	case *journal.RecordedError:
		x.mu.Lock()
		defer x.mu.Unlock()
		c, ok = x.failures[weak.Make(e)]
	case *SignalTypeError:
		c, ok = e.call, e.RunID == x.id
	case *SignalTimeoutError:
		c, ok = e.call, e.RunID == x.id
	case *AwaitTimeoutError:
		c, ok = e.call, e.RunID == x.id
	}
	return c, ok
}

// failed is the call as one that has failed.
func (c *call) failed() FailedCall { return FailedCall{Scope: c.s.path, Name: c.name, N: c.n} }

// failedWith keeps in mind which call an error comes from, as long as anybody has the error.
func (c *call) failedWith(recorded error) error {
	rec, is := recorded.(*journal.RecordedError) //nolint:errorlint // just what Recorded has returned
	if !is {
		return recorded
	}
	x, key := c.s.x, weak.Make(rec)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failures[key] = c.failed()
	runtime.AddCleanup(rec, func(key weak.Pointer[journal.RecordedError]) {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.failures, key)
	}, key)
	return recorded
}

func (s Settings) failure(err error, code Code, failed ...FailedCall) journal.Event {
	e, m := s.recordError(err)
	m.Code, m.Failed = code, failed
	if refused, is := find[*journal.RefusedError](err); is && code == CodeEventRefused {
		m.Detail = map[string]string{"reason": refused.Reason.Error(), "detail": refused.Detail}
	}
	e.Kind, e.Meta = journal.RunError, meta(m)
	return e
}

// detailed is a RunError that was just made, of which more is to be said.
func detailed(e journal.Event, say func(m *FailureMeta)) journal.Event {
	m, _ := FailureOf(e)
	say(&m)
	e.Meta = meta(m)
	return e
}

// Error is for executors: the event of a task that has failed for good, and the error as replay will give it.
func (x *Execution) Error(err error) (journal.Event, error) {
	return x.stepError(err, x.failedIn(err)...)
}

// stepError is Error for a step, or a task in which calls have failed.
func (x *Execution) stepError(err error, failed ...FailedCall) (journal.Event, error) {
	e, m := x.settings.recordError(err)
	m.Failed = failed
	e.Kind, e.Meta = journal.StepError, meta(m)
	back, rerr := x.Recorded(e)
	if rerr != nil {
		return e, err
	}
	return e, back
}

// recordError makes the payload of an error. One that cannot be kept whole is kept without its fields.
func (s Settings) recordError(err error) (journal.Event, FailureMeta) {
	rec, m := s.errorRecord(err)
	s = s.unlimited() // a record has bounds of its own
	payload, perr := s.Encode("error", rec)
	if perr != nil {
		payload, perr = s.Encode("error", &journal.ErrorRecord{Type: rec.Type, Text: rec.Text, ErrorFacts: rec.ErrorFacts})
	}
	if perr != nil {
		s.Logger.Warn("pawl: an error could not be recorded whole", "type", m.Type, "error", perr)
	}
	return journal.Event{Payload: payload, Time: Now()}, m
}

// errorRecord makes of an error what is recorded of it.
func (s Settings) errorRecord(err error) (*journal.ErrorRecord, FailureMeta) {
	c := s.Classifier.Classify(err)
	m := FailureMeta{Class: string(c.Class), UserCode: classifier.UserCode(err), Fingerprint: c.Fingerprint}
	if status, ok := classifier.HTTPStatus(err); ok {
		m.Status = status
	}
	rec := journal.RecordError(err, journal.ErrorFacts{
		Class: m.Class, UserCode: m.UserCode, Mark: string(classifier.MarkOf(err)), Status: m.Status,
	})
	m.Type = rec.Type
	return rec, m
}

// unlimited are the settings for payloads whose size needs no check.
func (s Settings) unlimited() Settings {
	s.PayloadLimit = -1
	return s
}

// Recorded is for executors: the error that a StepError or RunError holds, as a *journal.RecordedError.
func (x *Execution) Recorded(e journal.Event) (error, error) { return x.settings.Recorded(e) }

// Recorded returns the error that a StepError or RunError holds. The second result is the reason why it cannot be read.
func (s Settings) Recorded(e journal.Event) (recorded, fault error) {
	var rec journal.ErrorRecord
	if len(e.Payload) == 0 {
		return nil, errors.New("the event has no error")
	}
	if err := s.Decode(e.Payload, &rec); err != nil {
		return nil, err
	}
	return rec.Err(), nil
}
