package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/task"
)

// UpdateOption is an option of HandleUpdate for updates with an argument of type A: Validator.
type UpdateOption[A any] interface{ applyUpdate(o *updateOptions[A]) }

type updateOptions[A any] struct{ check func(A) error }

type updateOption[A any] func(o *updateOptions[A])

func (f updateOption[A]) applyUpdate(o *updateOptions[A]) { f(o) }

// Validator is asked before the handler: an error rejects the update, and then the run is as if it had never come. It must
// change nothing, and is not asked again when the run is replayed.
func Validator[A any](check func(arg A) error) UpdateOption[A] {
	return updateOption[A](func(o *updateOptions[A]) { o.check = check })
}

// HandleUpdate says what happens when somebody calls Update with that name: the handler gets the argument, may change the
// variables of the workflow's body, and returns what the caller of Update is told.
//
//	var items []string
//	err := durable.HandleUpdate(ctx, "add", func(ctx context.Context, item string) (int, error) {
//		items = append(items, item)
//		return len(items), nil
//	})
//
// Register handlers before the first durable call; a second one of the same name takes the place of the first. That records
// nothing. Updates are handled in the order in which they were sent, one at a time, on the body's goroutine: when the body
// enters a durable call, also one that it has waited in before, or is about to wait. So a handler needs no lock for what only
// the body uses. But it is not called while the body is in a Step or a child run, waits for a goroutine with a Branch, or is in
// a Sleep that is not a worker's: wait in Await where updates are to be heard of at once. One whose name has no handler is
// rejected when the body waits or ends; what the body has not come to by its end is rejected, too. ContinueAsNew hands it on.
//
// The outcome is recorded with the place at which the update came. When the run is replayed the handler is called again
// there, so it must be deterministic, as the body is: what has an effect outside goes into a Step, with the context that
// the handler is given. It cannot wait: Sleep, WaitForSignal, Interrupt, Await, RunChild and ContinueAsNew are a
// *PlacementError in it. An error that it returns is told to the caller, and the run goes on. A panic fails the run.
//
// Handlers belong to a workflow's body: elsewhere it is a *PlacementError, and in a context that belongs to no run a
// *NoJournalError. An *OptionError says that the name is empty or the handler nil.
func HandleUpdate[A, R any](
	ctx context.Context, name string, handler func(ctx context.Context, arg A) (R, error), opts ...UpdateOption[A],
) error {
	var o updateOptions[A]
	for _, opt := range opts {
		if opt != nil {
			opt.applyUpdate(&o)
		}
	}
	return register(ctx, "HandleUpdate", name, handler == nil, func(g *guests) {
		g.updates[name] = func(argument []byte) (u proposed, err error) {
			var arg A
			if err := journal.Unmarshal("Argument", argument, &arg); err != nil {
				return u, err
			}
			u.call = func(ctx context.Context) (any, error) { return handler(ctx, arg) }
			if o.check != nil {
				u.check = func() error { return o.check(arg) }
			}
			return u, nil
		}
	})
}

// register adds a handler to the body that ctx belongs to.
func register(ctx context.Context, call, name string, noHandler bool, add func(g *guests)) error {
	var bad []error
	if name == "" {
		bad = append(bad, errNoHandlerName)
	}
	if noHandler {
		bad = append(bad, errNoHandler)
	}
	s, inside := scopeOf(ctx)
	switch {
	case len(bad) > 0:
		return &OptionError{Call: call, Name: name, Err: errors.Join(bad...)}
	case inside != nil:
		return insideStep(callKind(call), inside)
	case s == nil:
		return &NoJournalError{Call: call}
	}
	g, err := s.guestsOf(call)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ended(); err != nil {
		return err
	}
	add(g)
	return nil
}

var (
	errNoHandlerName = errors.New("the name is empty: give the handler the name that others call it by")
	errNoHandler     = errors.New("the handler is nil")
)

// updateHandler decodes an argument.
type updateHandler func(argument []byte) (proposed, error)

// proposed is an update with its argument.
type proposed struct {
	check func() error // nil if there is nothing to ask
	call  func(ctx context.Context) (any, error)
}

// updateMeta is the Meta of an UpdateDone, and part of that of an UpdateError.
type updateMeta struct {
	// Message is the number of the message; 0 if that was another run's.
	Message int64 `json:"message,omitempty"`
	// Before is the call of the body that was about to begin, or waited.
	Before position `json:"before"`
	// Again is true if the same was recorded before, at a place that the run has not come to again.
	Again bool `json:"again,omitempty"`
}

// position says which call of the body is meant.
type position struct {
	Name string `json:"name"`
	N    int    `json:"n"`
}

func (p position) key() callKey { return callKey{p.Name, p.N} }

// updatePayload is the payload of an UpdateDone and an UpdateError: both what was asked, and what came of it.
type updatePayload struct {
	Argument json.RawMessage      `json:"argument"`
	Result   json.RawMessage      `json:"result,omitempty"`
	Error    *journal.ErrorRecord `json:"error,omitempty"`
}

// handledUpdate is an update that is recorded.
type handledUpdate struct {
	event  journal.Event
	meta   updateMeta
	copied bool // from another run
}

// updateScope is where the durable calls of an update's handler are recorded.
func updateScope(number int64) string { return updateScopes + strconv.FormatInt(number, 10) + "]" }

const updateScopes = "update["

// updateNumber is the number of an update whose handler's calls are recorded in a scope, or in a branch of it; 0 if it is no
// such scope.
func updateNumber(scope string) int64 {
	outer, _, _ := strings.Cut(scope, "/")
	inner, is := strings.CutPrefix(outer, updateScopes)
	if !is {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(inner, "]"), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// addUpdate takes an update that was handled.
func (r *record) addUpdate(e journal.Event, copied bool) error {
	u := handledUpdate{event: e, copied: copied}
	if err := readMeta(e, &u.meta); err != nil {
		return err
	}
	if u.meta.Again { // it takes the place of what was recorded before
		same := func(other handledUpdate) bool { return other.event.Scope == e.Scope }
		r.owed, r.updates = slices.DeleteFunc(r.owed, same), slices.DeleteFunc(r.updates, same)
	}
	r.updates = append(r.updates, u)
	return nil
}

// update validates an update and calls its handler. The event says what came of it; an error is the end of the body.
func (s *Scope) update(c *call, m journal.Message) (journal.Event, error) {
	x := s.x
	s.mu.Lock()
	decode := s.guests.updates[m.Name]
	s.mu.Unlock()
	if decode == nil {
		return x.refusal(m, RefusedUnknown, nil), nil
	}
	argument, err := journal.DecodeJSON(x.settings.Codec, m.Payload)
	switch {
	case errors.Is(err, journal.ErrUnknownKey): // others may have it
		return journal.Event{}, s.broken(&ReplayError{RunID: x.id, Err: fmt.Errorf("update %q: %w", m.Name, err)})
	case err != nil:
		return x.refusal(m, RefusedArgument, err), nil
	}
	u, err := decode(argument)
	if err != nil {
		return x.refusal(m, RefusedArgument, err), nil
	}
	if u.check != nil {
		var panicked error
		err := guardedCall("validator of update", m.Name, &panicked, u.check)
		if panicked != nil {
			return journal.Event{}, s.broken(panicked)
		}
		if err != nil {
			return x.refusal(m, RefusedInvalid, err), nil
		}
	}
	e := journal.Event{Name: m.Name, Scope: updateScope(x.record.copiedUpdates + m.Seq)}
	return s.perform(c, e, u, argument, updateMeta{Message: m.Seq})
}

// perform calls an update's handler for the first time, and makes the event of that.
func (s *Scope) perform(c *call, e journal.Event, u proposed, argument []byte, m updateMeta) (journal.Event, error) {
	s.settle(handledMeta{}) // the body has gone on to another call
	begun := time.Now()
	result, err, stop := s.callUpdate(e.Name, e.Scope, u)
	if stop != nil {
		return e, s.broken(stop)
	}
	m.Before = position{Name: c.name, N: c.n}
	e.Kind, e.Meta = journal.UpdateDone, meta(m)
	payload := updatePayload{Argument: argument}
	if err == nil {
		payload.Result, err = s.x.settings.plain("Result", result)
	}
	if err != nil {
		var failure FailureMeta
		payload.Error, failure = s.x.settings.errorRecord(err)
		e.Kind, e.Meta = journal.UpdateError, withMeta(meta(failure), m)
	}
	if e.Payload, err = s.x.settings.unlimited().Encode("Update", payload); err != nil { // its parts have been measured
		return e, s.broken(err)
	}
	e.Time, e.Took = Now(), time.Since(begun)
	return e, nil
}

// updateAgain handles once more what was recorded for a place that the run has not come to again.
func (s *Scope) updateAgain(c *call, again handledUpdate) error {
	u, argument, err := s.recordedUpdate(again)
	if err != nil {
		return err
	}
	m := updateMeta{Message: again.meta.Message, Again: true}
	if again.copied {
		m.Message = 0
	}
	e, err := s.perform(c, journal.Event{Name: again.event.Name, Scope: again.event.Scope}, u, argument, m)
	if err != nil {
		return err
	}
	return s.x.Append(s.base, e)
}

// replayUpdates calls the handlers of the updates that were handled before a call. What they return is not compared.
func (s *Scope) replayUpdates(at callKey) error {
	updates := s.guests.recorded[at]
	delete(s.guests.recorded, at)
	for _, recorded := range updates {
		u, _, err := s.recordedUpdate(recorded)
		if err != nil {
			return err
		}
		if _, _, stop := s.callUpdate(recorded.event.Name, recorded.event.Scope, u); stop != nil {
			return s.broken(stop)
		}
	}
	return nil
}

// recordedUpdate is an update as it is recorded.
func (s *Scope) recordedUpdate(r handledUpdate) (u proposed, argument []byte, _ error) {
	s.mu.Lock()
	decode := s.guests.updates[r.event.Name]
	s.mu.Unlock()
	if decode == nil {
		return u, nil, s.broken(r.differs(s.x.id, "no handler of that name"))
	}
	var p updatePayload
	err := s.x.decode(r.event.Payload, &p)
	if err == nil {
		u, err = decode(p.Argument)
	}
	if err != nil {
		return u, nil, s.broken(s.x.replayError(r.event, err))
	}
	return u, p.Argument, nil
}

// differs says that the code has not come where an update was handled.
func (r handledUpdate) differs(run, met string) error {
	return &NonDeterminismError{
		RunID: run, Seq: r.event.Seq, Met: met,
		Recorded: fmt.Sprintf("update %q before call %q, number %d of that name", r.event.Name, r.meta.Before.Name, r.meta.Before.N),
	}
}

// callUpdate calls an update's handler in a scope of its own. Stop says that this is the end of the body.
//
//nolint:contextcheck,nolintlint // a context that the body has given to its call ends at another moment each time
func (s *Scope) callUpdate(name, path string, u proposed) (result any, err, stop error) {
	child := s.x.scope(path, false)
	child.handler, child.patience = true, s.patience
	child.alive = func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.over()
	}
	ctx := child.Context(s.base)
	var panicked error
	err = guardedCall("handler of update", name, &panicked, func() (err error) {
		result, err = u.call(ctx)
		return err
	})
	child.Close(&ScopeEndedError{RunID: s.x.id, Scope: path})
	child.mu.Lock()
	stop = child.why()
	child.settleBranches(handledMeta{})
	child.mu.Unlock()
	switch {
	case panicked != nil:
		stop = panicked
	case s.x.Broken() != nil:
		stop = s.x.Broken()
	case stop != nil:
	case err != nil && s.x.ctx.Err() != nil: // the run ends, which is no failure of the update
		stop = s.x.end()
	case err != nil && s.base.Err() != nil:
		stop = s.base.Err()
	default:
		stop = child.left()
	}
	return result, err, stop
}

// guardedCall calls a user's function and tells its panic from its error.
func guardedCall(what, name string, panicked *error, fn func() error) (err error) {
	defer task.Recover(fmt.Sprintf("%s %q", what, name), panicked)
	return fn()
}

// plain is the JSON of a value, if it is not too large for a payload.
func (s Settings) plain(what string, v any) ([]byte, error) {
	data, err := journal.Marshal(what, v)
	if err == nil {
		err = journal.CheckPayload(what, data, s.PayloadLimit)
	}
	return data, err
}
