package durable

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawl-go/pawl/journal"
)

// questionName is what all questions of a scope are called.
const questionName = "ask"

// Question is a question that a run has asked, as its journal keeps it.
type Question struct {
	// ID is what Answer takes. It is unique in its run, and the same whenever the run comes to the question again: "ask1" for
	// the first one that a workflow's body asks, "2/review[0]/ask1" for that of a task.
	ID string `json:"-"`
	// Question is what was given to Interrupt, as JSON.
	Question json.RawMessage `json:"question"`
	// Schema is a JSON schema of the answer; empty if its type cannot be described.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Answered is true if an answer was consumed, or is in the inbox.
	Answered bool `json:"-"`
}

type questionMeta struct {
	ID string `json:"id"`
}

// Interrupt asks a person and returns the answer:
//
//	ok, err := durable.Interrupt[bool](ctx, "Publish the draft?")
//
// Until the answer is there the run is suspended: the error is a *SuspendedError that names the question's id, the code
// has to return, and when it is run again it comes here again. The question is recorded with a JSON schema of T, so that
// Answer refuses what does not fit wherever it comes from; false, 0, "" and null are answers like others. An answer
// that got past that is skipped with a warning, and the question stays open.
//
// Two questions of one scope are asked one after the other. To ask several at once, put each into a Branch, or into a node
// of its own.
//
// It cannot be inside a step: that is a *PlacementError. In a context that belongs to no run it is a *NoJournalError. A
// question that JSON cannot hold ends the run, like such a result of a Step. All other errors are those of Step.
func Interrupt[T, Q any](ctx context.Context, question Q) (T, error) {
	var v, zero T
	s, inside := scopeOf(ctx)
	switch {
	case inside != nil:
		return zero, insideStep(questionCall, inside)
	case s == nil:
		return zero, &NoJournalError{Call: string(questionCall)}
	}
	if err := ctx.Err(); err != nil && s.endedAlone(ctx) {
		return zero, err
	}
	c, err := s.enter(ctx, questionCall, questionName)
	if err != nil {
		return zero, err
	}
	defer c.exit()
	q := asked{question: func() any { return question }, schema: schemaOf[T], into: &v, check: func(data []byte) error {
		return journal.Unmarshal("Answer", data, new(T))
	}}
	if err := c.ask(ctx, q); err != nil {
		return zero, err
	}
	return v, nil
}

// asked is an Interrupt without its types.
type asked struct {
	question func() any
	schema   func() json.RawMessage
	into     any
	check    func(data []byte) error
}

// questionID names the call's question.
func (c *call) questionID() string {
	id := fmt.Sprintf("%s%d", questionName, c.n)
	if c.s.path != "" {
		id = c.s.path + "/" + id
	}
	return id
}

func (c *call) ask(ctx context.Context, q asked) error {
	var question Question
	id, isAsked := c.questionID(), false
	for _, e := range c.recorded {
		if e.Kind == journal.QuestionAnswered {
			if err := c.s.x.decode(e.Payload, q.into); err != nil {
				return c.s.broken(c.s.x.replayError(e, err))
			}
			return nil
		}
		if err := c.s.x.decode(e.Payload, &question); err != nil {
			return c.s.broken(c.s.x.replayError(e, err))
		}
		// The id that was given out holds, should the path to this place have another name now.
		var m questionMeta
		if err := readMeta(e, &m); err != nil {
			return c.s.broken(c.s.x.replayError(e, err))
		}
		id, isAsked = m.ID, true
	}
	if !isAsked {
		return c.beginAsking(ctx, id, q)
	}
	var locked error // an answer whose key is not there
	m, ok, err := c.fromInbox(ctx, journal.AnswerMessage, id, func(m journal.Message) bool {
		locked = c.needsKey(journal.Event{Kind: journal.QuestionAnswered, Payload: m.Payload})
		return locked != nil || c.answers(m, question.Schema, q.check)
	})
	switch {
	case err != nil:
		return err
	case locked != nil:
		c.s.x.giveBack(m)
		return locked
	case !ok:
		return c.s.suspend(Wait{Scope: c.s.path, Question: id, Prompt: string(question.Question)})
	}
	e := journal.Event{Kind: journal.QuestionAnswered, Meta: meta(consumed{Message: m.Seq}), Payload: m.Payload}
	if err := c.write(ctx, e); err != nil {
		c.s.x.giveBack(m)
		return err
	}
	return c.s.x.decode(m.Payload, q.into)
}

// beginAsking records a question, and suspends the scope.
func (c *call) beginAsking(ctx context.Context, id string, q asked) error {
	x := c.s.x
	data, err := journal.Marshal("Question", q.question())
	if err != nil {
		return c.s.broken(err)
	}
	payload, err := x.Encode("Question", Question{Question: data, Schema: q.schema()})
	if err != nil {
		return c.s.broken(err)
	}
	e := journal.Event{Kind: journal.QuestionAsked, Meta: meta(questionMeta{ID: id}), Payload: payload}
	if err := c.write(ctx, e); err != nil {
		return err
	}
	return c.s.suspend(Wait{Scope: c.s.path, Question: id, Prompt: string(data)})
}

// answers reports whether a message is an answer; one that is not is skipped.
func (c *call) answers(m journal.Message, schema json.RawMessage, check func([]byte) error) bool {
	x := c.s.x
	data, err := journal.Decode(x.settings.Codec, m.Payload)
	if err == nil {
		err = fits(schema, data)
	}
	if err == nil {
		err = check(data)
	}
	if err != nil {
		x.settings.Logger.Warn("pawl: an answer does not fit its question and was skipped: answer it again",
			"run", x.id, "question", m.Name, "error", err)
	}
	return err == nil
}
