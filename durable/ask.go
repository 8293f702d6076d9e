package durable

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/journal"
)

// How others ask a run something: a message, and then the event that answers it.

// UpdateRejectedError says that a run has not taken an update, and is as it was.
type UpdateRejectedError struct {
	RunID, Name string
	Reason      Refusal
	// Err says more: what the validator has returned, as a *journal.RecordedError; of a run that has ended, what matches
	// journal.ErrEnded; nil if there is no more to say.
	Err error
}

// Error names the run, the update, the reason, and what to do.
func (e *UpdateRejectedError) Error() string {
	return refusedText("update", "rejected", e.RunID, e.Name, e.Reason, e.Err)
}

// Unwrap returns Err.
func (e *UpdateRejectedError) Unwrap() error { return e.Err }

// Unretryable is true: the same update would be rejected again.
func (e *UpdateRejectedError) Unretryable() bool { return true }

// UpdateFailedError says that the handler of an update has failed. What it had changed by then, it has changed.
type UpdateFailedError struct {
	RunID, Name string
	Err         error // what the handler has returned, as a *journal.RecordedError
}

// Error names the run and the update.
func (e *UpdateFailedError) Error() string {
	return fmt.Sprintf("pawl: run %q: update %q failed: %s: the run goes on", e.RunID, e.Name, classifier.Message(e.Err))
}

// Unwrap returns Err.
func (e *UpdateFailedError) Unwrap() error { return e.Err }

// Unretryable is true: it was handled.
func (e *UpdateFailedError) Unretryable() bool { return true }

// UpdateTimeoutError says that a run has not handled an update before the caller's context ended, or that the store was out of
// reach for half a minute. It may still do so.
type UpdateTimeoutError struct {
	RunID, Name string
	// Key is that of SendKey, or one that was made up: with it the same update can be waited for again.
	Key string
	// Err is the context's error, or that of the store where that was away for too long; its text also says how the run stands.
	Err error
}

// Error names the run and the update, and says what to do.
func (e *UpdateTimeoutError) Error() string {
	return fmt.Sprintf("pawl: run %q: update %q was sent, and not handled before its caller stopped waiting (%v): it may still be: "+
		"ask again with durable.SendKey(%q), which does not send it twice", e.RunID, e.Name, e.Err, e.Key)
}

// Unwrap returns Err.
func (e *UpdateTimeoutError) Unwrap() error { return e.Err }

// Timeout reports whether a deadline has passed, as for a net.Error.
func (e *UpdateTimeoutError) Timeout() bool { return errors.Is(e.Err, context.DeadlineExceeded) }

// Unretryable is true: with the same context it would time out at once.
func (e *UpdateTimeoutError) Unretryable() bool { return true }

// QueryError says that a query has no answer.
type QueryError struct {
	RunID, Name string
	Reason      Refusal
	// Err says more: what the handler has returned, as a *journal.RecordedError; of a run that has ended, what matches
	// journal.ErrEnded; of a QueryTimeout the error of an UpdateTimeoutError; nil if there is no more to say.
	Err error
}

// Error names the run, the query, the reason, and what to do.
func (e *QueryError) Error() string {
	return refusedText("query", "not answered", e.RunID, e.Name, e.Reason, e.Err)
}

// Unwrap returns Err.
func (e *QueryError) Unwrap() error { return e.Err }

// Timeout reports whether a deadline has passed, as for a net.Error.
func (e *QueryError) Timeout() bool {
	return e.Reason == QueryTimeout && errors.Is(e.Err, context.DeadlineExceeded)
}

// Unretryable is true unless it was too late.
func (e *QueryError) Unretryable() bool { return e.Reason != QueryTimeout }

func refusedText(what, how, run, name string, reason Refusal, err error) string {
	text := fmt.Sprintf("pawl: run %q: %s %q was %s: %s", run, what, name, how, reason)
	if err != nil {
		text += fmt.Sprintf(" (%s)", classifier.Message(err))
	}
	return text + reason.remedy()
}

// Update asks a run to change, and returns what its handler has returned:
//
//	size, err := durable.Update[int](ctx, store, "cart-7", "add", "tea")
//
// The workflow says with HandleUpdate what that does. Update sends the argument and waits until the run has handled it, for
// which somebody must run it: a worker, which takes a run that waits at once, or whoever calls Run. When ctx ends first the
// update may still be handled. With SendKey asking again is harmless: the same key is the same update.
// If the run was continued as new, the last run of the chain is asked.
//
// Errors: an *UpdateRejectedError, an *UpdateFailedError, an *UpdateTimeoutError; a *journal.NotFoundError, a
// *journal.RefusedError with journal.ErrEnded if the run had ended before, an *OptionError if a name is empty, the key is
// another message's, or the settings cannot read what the run was started with, a *journal.NotSerializableError or
// *journal.PayloadTooLargeError, a *ReplayError if the result is no R, a *ContinuationChainError, and those of the store.
func Update[R, A any](ctx context.Context, store journal.Store, id, name string, arg A, opts ...SendOption) (R, error) {
	var out, zero R
	q, err := ask(ctx, store, id, journal.Message{Kind: journal.UpdateMessage, Name: name}, arg, opts)
	if err == nil {
		err = q.updated(&out)
	}
	if err != nil {
		return zero, err
	}
	return out, nil
}

// Query asks a run something, and returns what its handler says:
//
//	size, err := durable.Query[int](ctx, store, "cart-7", "size", struct{}{})
//
// It changes nothing. The workflow says with HandleQuery what the answer is, and somebody must run it meanwhile; see Update.
//
// Errors: a *QueryError, also if ctx has ended; all others are those of Update.
func Query[R, A any](ctx context.Context, store journal.Store, id, name string, arg A, opts ...SendOption) (R, error) {
	var out, zero R
	q, err := ask(ctx, store, id, journal.Message{Kind: journal.QueryMessage, Name: name}, arg, opts)
	if err == nil {
		err = q.answered(&out)
	}
	if err != nil {
		return zero, err
	}
	return out, nil
}

// asking is somebody who has sent a message and waits for its answer.
type asking struct {
	settings Settings
	message  journal.Message // as it was sent
	run      string          // the run that it was sent to
	after    int64           // events up to here are no answer
	answer   journal.Event
}

// The times between two looks for an answer.
const (
	firstLook = 5 * time.Millisecond
	lastLook  = 250 * time.Millisecond
)

// ask sends a message and waits for the event that answers it.
func ask(ctx context.Context, store journal.Store, id string, m journal.Message, arg any, opts []SendOption) (*asking, error) {
	call := "Update"
	if m.Kind == journal.QueryMessage {
		call = "Query"
	}
	if m.Name == "" {
		return nil, &OptionError{Call: call, Name: m.Name, Err: errNoHandlerName}
	}
	o, err := newSendOptions(store, opts)
	if err != nil {
		return nil, err
	}
	if m.Payload, err = o.settings.Encode("Argument", arg); err != nil {
		return nil, err
	}
	if err := o.settings.reads(ctx, id); err != nil {
		return nil, err
	}
	m.Key = o.key
	q := &asking{settings: o.settings, message: m, run: id}
	if err := q.send(ctx); err != nil {
		return nil, err
	}
	return q, q.wait(ctx)
}

// send puts the message into the inbox of the last run of the chain.
func (q *asking) send(ctx context.Context) error {
	s, known := q.settings, q.message.Key != ""
	if !known {
		q.message.Key = rand.Text() // by which it is found again in the next run of a chain
	}
	q.message.Time = Now()
	for {
		run, err := last(ctx, s, q.run)
		if err != nil {
			return err
		}
		q.run = run.ID
		if run.Kind == journal.GraphRun {
			return q.refused(RefusedGraph, nil)
		}
		if !known { // else it may have been sent long ago
			q.after = run.Head
		}
		sent, err := s.Store.Send(ctx, run.ID, q.message)
		if lost := (*journal.UnavailableError)(nil); errors.As(err, &lost) && lost.Unknown && ctx.Err() == nil {
			sent, err = s.Store.Send(ctx, run.ID, q.message) // the key makes that harmless
		}
		switch {
		case err == nil && (sent.Kind != q.message.Kind || sent.Name != q.message.Name):
			return &OptionError{Call: "SendKey", Name: q.message.Key, Err: errOtherKey}
		case err == nil:
			q.message = sent
			return nil
		case !errors.Is(err, journal.ErrEnded):
			return err
		}
		now, lerr := s.Store.Load(ctx, run.ID)
		if lerr != nil {
			return lerr
		}
		if now.Status != journal.Continued {
			return err
		}
	}
}

var errOtherKey = errors.New("another message of the run has this key: choose another one")

// wait waits for the answer.
func (q *asking) wait(ctx context.Context) error {
	answers := time.Now() // when the store last did
	for pause := firstLook; ; pause = min(pause*3/2, lastLook) {
		found, err := q.look(ctx)
		switch {
		case found:
			return nil
		case ctx.Err() != nil:
			return q.late(ctx, ctx.Err())
		case err == nil:
			answers = time.Now()
		case !errors.Is(err, journal.ErrUnavailable):
			return err
		case time.Since(answers) > storePatience: // what was sent is there when the store is back
			return q.late(ctx, err)
		}
		if err := waitUntil(ctx, time.Now().Add(pause), nil); err != nil {
			return q.late(ctx, err)
		}
	}
}

// look reads what the run has recorded since the last time.
func (q *asking) look(ctx context.Context) (found bool, _ error) {
	for e, err := range q.settings.Store.Events(ctx, q.run, q.after) {
		if err != nil {
			return false, err
		}
		q.after = e.Seq
		switch e.Kind {
		case journal.RunStart: // what was copied from another run answers nobody here
			var m StartMeta
			if err := readMeta(e, &m); err != nil {
				return false, &ReplayError{RunID: q.run, Seq: e.Seq, Err: err}
			}
			if m.Copied > 0 {
				q.after += m.Copied
				return q.look(ctx)
			}
		case journal.UpdateDone, journal.UpdateError, journal.UpdateRejected, journal.QueryAnswered:
			var m consumed
			if err := readMeta(e, &m); err != nil {
				return false, &ReplayError{RunID: q.run, Seq: e.Seq, Err: err}
			}
			if m.Message == q.message.Seq {
				q.answer = e
				return true, nil
			}
		case journal.RunContinued:
			return false, q.follow(ctx)
		}
		if e.Kind.Terminal() {
			return false, q.refused(RefusedEnded, nil)
		}
	}
	return false, nil
}

// follow looks for the message in the run that takes it over.
func (q *asking) follow(ctx context.Context) error {
	next, err := (chain{}).next(ctx, q.settings, q.run)
	if err != nil {
		return err
	}
	inbox, err := q.settings.Store.Inbox(ctx, next, 0)
	if err != nil {
		return err
	}
	for _, m := range inbox {
		if m.Key == q.message.Key {
			q.run, q.message, q.after = next, m, 0
			return nil
		}
	}
	return q.refused(RefusedEnded, nil) // and so had the next one
}

func (q *asking) late(ctx context.Context, err error) error {
	if run, lerr := q.state(ctx); lerr == nil {
		err = &unansweredError{why: run, err: err}
	}
	if q.message.Kind == journal.QueryMessage {
		return q.refused(QueryTimeout, err)
	}
	return &UpdateTimeoutError{RunID: q.run, Name: q.message.Name, Key: q.message.Key, Err: err}
}

// state says what keeps the run from answering.
func (q *asking) state(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastPatience)
	defer cancel()
	run, err := q.settings.Store.Load(ctx, q.run)
	if err != nil {
		return "", err
	}
	inbox, err := q.settings.Store.Inbox(ctx, q.run, 0)
	if err != nil {
		return "", err
	}
	paused := false
	for _, m := range inbox {
		paused = pausing(paused, m)
	}
	switch {
	case paused:
		return "it is paused", nil
	case run.Status == journal.Pending:
		return "nobody has taken it yet", nil
	}
	return fmt.Sprintf("it is %s", run.Status), nil
}

// unansweredError is the end of a caller's wait, and what kept the run from answering.
type unansweredError struct {
	why string
	err error
}

func (e *unansweredError) Error() string { return e.err.Error() + "; " + e.why }
func (e *unansweredError) Unwrap() error { return e.err }

// refused is the error of a message that has no result.
func (q *asking) refused(reason Refusal, err error) error {
	if reason == RefusedEnded {
		err = &journal.RefusedError{Run: q.run, Reason: journal.ErrEnded}
	}
	if q.message.Kind == journal.QueryMessage {
		return &QueryError{RunID: q.run, Name: q.message.Name, Reason: reason, Err: err}
	}
	return &UpdateRejectedError{RunID: q.run, Name: q.message.Name, Reason: reason, Err: err}
}

// updated reads what came of an update.
func (q *asking) updated(into any) error {
	if q.answer.Kind == journal.UpdateRejected {
		return q.refusal()
	}
	var p updatePayload
	err := q.settings.Decode(q.answer.Payload, &p)
	switch {
	case err != nil:
	case q.answer.Kind == journal.UpdateError && p.Error != nil:
		return &UpdateFailedError{RunID: q.run, Name: q.message.Name, Err: p.Error.Err()}
	default:
		err = journal.Unmarshal("Result", p.Result, into)
	}
	return q.unreadable(err)
}

// answered reads the answer to a query.
func (q *asking) answered(into any) error {
	var m refusalMeta
	if err := readMeta(q.answer, &m); err != nil {
		return q.unreadable(err)
	}
	if m.Failed {
		return q.refusal()
	}
	data, err := journal.DecodeJSON(q.settings.Codec, q.answer.Payload)
	if err == nil {
		err = journal.Unmarshal("Result", data, into)
	}
	return q.unreadable(err)
}

// refusal reads why there is no result.
func (q *asking) refusal() error {
	var m refusalMeta
	if err := readMeta(q.answer, &m); err != nil {
		return q.unreadable(err)
	}
	reason := m.Reason
	if m.Failed {
		reason = m.Code
	}
	if len(q.answer.Payload) == 0 {
		return q.refused(reason, nil)
	}
	recorded, err := q.settings.Recorded(q.answer)
	if err != nil {
		return q.unreadable(err)
	}
	return q.refused(reason, recorded)
}

func (q *asking) unreadable(err error) error {
	if err == nil {
		return nil
	}
	return &ReplayError{RunID: q.run, Seq: q.answer.Seq, Err: err}
}
