package durable

import (
	"cmp"
	"context"
	"errors"

	"github.com/pawl-go/pawl/journal"
)

// HandleQuery says what is told to those who call Query with that name. The handler reads the variables of the workflow's body,
// and must change nothing:
//
//	err := durable.HandleQuery(ctx, "size", func(struct{}) (int, error) { return len(items), nil })
//
// It is called on the body's goroutine, when the body enters a durable call that is not recorded yet, and when the run is
// suspended. Someone who asks while the run waits has it woken. The answer is recorded for who has asked; a replay does not
// call the handler. A panic of it is an answer like an error.
//
// All else is as with HandleUpdate.
func HandleQuery[A, R any](ctx context.Context, name string, handler func(arg A) (R, error)) error {
	return register(ctx, "HandleQuery", name, handler == nil, func(g *guests) {
		g.queries[name] = func(argument []byte) (any, error) {
			var arg A
			if err := journal.Unmarshal("Argument", argument, &arg); err != nil {
				return nil, &argumentError{err}
			}
			return handler(arg)
		}
	})
}

// queryHandler decodes an argument and answers.
type queryHandler func(argument []byte) (any, error)

// argumentError says that a handler was not called at all.
type argumentError struct{ error }

// query answers a query.
func (s *Scope) query(m journal.Message) journal.Event {
	x := s.x
	s.mu.Lock()
	handler := s.guests.queries[m.Name]
	s.mu.Unlock()
	if handler == nil {
		return x.refusal(m, RefusedUnknown, nil)
	}
	argument, err := journal.DecodeJSON(x.settings.Codec, m.Payload)
	if err != nil {
		return x.refusal(m, RefusedArgument, err)
	}
	var (
		result   any
		panicked error
	)
	err = guardedCall("handler of query", m.Name, &panicked, func() (err error) {
		result, err = handler(argument)
		return err
	})
	if bad, is := errors.AsType[*argumentError](err); is {
		return x.refusal(m, RefusedArgument, bad.error)
	}
	var payload []byte
	if err = cmp.Or(panicked, err); err == nil {
		payload, err = x.Encode("Result", result)
	}
	if err != nil {
		return x.refusal(m, QueryFailed, err)
	}
	return journal.Event{
		Kind: journal.QueryAnswered, Name: m.Name, Time: Now(), Meta: meta(refusalMeta{Message: m.Seq}), Payload: payload,
	}
}
