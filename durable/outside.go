package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-go/pawl/journal"
)

// SendOption is an option of Signal, Update and Query: Using and SendKey.
type SendOption interface{ applySend(o *sendOptions) }

// RunOption is an option of Run and Resume: Using or AnyVersion.
type RunOption interface{ applyRun(o *runOptions) }

// CommonOption is an option of all calls that come from outside of a run: Using.
type CommonOption interface {
	SendOption
	RunOption
}

// Using sets how runs are kept: what is not set has its default. The settings' Store and Rename do not matter.
func Using(s Settings) CommonOption { return using(s) }

type using Settings

func (u using) applySend(o *sendOptions) { o.settings = Settings(u) }
func (u using) applyRun(o *runOptions)   { o.settings = Settings(u) }

type sendOptions struct {
	settings Settings
	key      string
}

type sendOption func(o *sendOptions)

func (f sendOption) applySend(o *sendOptions) { f(o) }

// SendKey makes sending twice harmless: of what is sent to one run with the same key only the first counts. Who sends an update
// or a query again is told what came of the first one. Keys that begin with "pawl:" are taken, and an *OptionError.
func SendKey(key string) SendOption { return sendOption(func(o *sendOptions) { o.key = key }) }

// ownKeys begins the keys of messages that are sent by this package itself.
const ownKeys = "pawl:"

var errOwnKey = errors.New("keys that begin with " + ownKeys + " are taken: choose another one")

// newSendOptions takes the options of a call that sends something to a run.
func newSendOptions[O SendOption](store journal.Store, opts []O) (sendOptions, error) {
	var o sendOptions
	for _, opt := range opts {
		if SendOption(opt) != nil {
			opt.applySend(&o)
		}
	}
	if err := o.settings.fault(); err != nil {
		return o, err
	}
	if strings.HasPrefix(o.key, ownKeys) {
		return o, &OptionError{Call: "SendKey", Name: o.key, Err: errOwnKey}
	}
	o.settings.Store = store
	o.settings = o.settings.withDefaults()
	return o, nil
}

// Signal sends a value to whoever waits for the signal of that name in a run, now or later. If the run was continued as
// new, the signal goes to the last run of the chain.
//
// Errors: a *journal.NotFoundError, a *journal.RefusedError with journal.ErrEnded if the run has ended, a
// *journal.NotSerializableError or *journal.PayloadTooLargeError, an *OptionError if the settings cannot read what the run
// was started with, since the run could not read the signal, a *ContinuationChainError, and those of the store.
func Signal[T any](ctx context.Context, store journal.Store, id, name string, v T, opts ...SendOption) error {
	if name == "" {
		return &OptionError{Call: "Signal", Name: name, Err: errNoName}
	}
	o, err := newSendOptions(store, opts)
	if err != nil {
		return err
	}
	payload, err := o.settings.Encode("Signal", v)
	if err != nil {
		return err
	}
	if err := o.settings.reads(ctx, id); err != nil {
		return err
	}
	return send(ctx, o.settings, id, journal.Message{Kind: journal.SignalMessage, Name: name, Key: o.key, Payload: payload})
}

// reads reports why a run and these settings cannot read each other.
func (s Settings) reads(ctx context.Context, id string) error {
	for e, err := range s.Store.Events(ctx, id, 0) {
		if err != nil {
			return err
		}
		if len(e.Payload) == 0 {
			return nil
		}
		data, err := journal.Decode(s.Codec, e.Payload)
		if err == nil && !json.Valid(data) {
			err = errNoJSON
		}
		if err != nil {
			err = fmt.Errorf("the run cannot be read: %w: use the Codec that it is run with", err)
			return &OptionError{Call: "Using", Name: id, Err: err}
		}
		return nil // the start alone is looked at
	}
	return nil
}

var errNoJSON = errors.New("its payload is no JSON")

// send puts a message into the inbox of a run, or of the one that it goes on as.
func send(ctx context.Context, s Settings, id string, m journal.Message) error {
	m.Time = Now()
	for seen := (chain{}); ; {
		_, err := s.Store.Send(ctx, id, m)
		if !errors.Is(err, journal.ErrEnded) {
			return err
		}
		next, nerr := seen.next(ctx, s, id)
		switch {
		case nerr != nil:
			return nerr
		case next == "":
			return err
		}
		id = next
	}
}

// Questions returns the questions that a run has asked, in the order in which it has.
//
// Errors: a *journal.NotFoundError, a *ReplayError if a question cannot be read, and those of the store.
func Questions(ctx context.Context, store journal.Store, id string, opts ...CommonOption) ([]Question, error) {
	o, err := newSendOptions(store, opts)
	if err != nil {
		return nil, err
	}
	questions, _, err := questionsOf(ctx, o.settings, id)
	return questions, err
}

// questionsOf returns a run's questions, and the inbox by which it was told whether they are answered.
func questionsOf(ctx context.Context, s Settings, id string) ([]Question, []journal.Message, error) {
	var questions []Question
	at := map[place]int{}
	for e, err := range s.Store.Events(ctx, id, 0) {
		if err != nil {
			return nil, nil, err
		}
		where := placeOf(e)
		switch e.Kind {
		case journal.QuestionAsked:
			q, err := s.question(e)
			if err != nil {
				return nil, nil, &ReplayError{RunID: id, Seq: e.Seq, Err: err}
			}
			at[where] = len(questions)
			questions = append(questions, q)
		case journal.QuestionAnswered:
			if i, ok := at[where]; ok {
				questions[i].Answered = true
			}
		}
	}
	inbox, err := s.Store.Inbox(ctx, id, 0)
	if err != nil {
		return nil, nil, err
	}
	for i := range questions {
		q := &questions[i]
		for _, m := range inbox {
			if m.Kind == journal.AnswerMessage && m.Name == q.ID {
				data, err := journal.Decode(s.Codec, m.Payload)
				q.Answered = q.Answered || err == nil && fits(q.Schema, data) == nil
			}
		}
	}
	return questions, inbox, nil
}

func (s Settings) question(e journal.Event) (Question, error) {
	var m questionMeta
	if err := readMeta(e, &m); err != nil {
		return Question{}, err
	}
	var q Question
	if err := s.Decode(e.Payload, &q); err != nil {
		return Question{}, err
	}
	q.ID = m.ID
	return q, nil
}

// AnswerReason says why an answer was refused.
type AnswerReason string

// The reasons.
const (
	NotAsked        AnswerReason = "not asked"        // the run has asked no question of this id, or not yet
	AlreadyAnswered AnswerReason = "already answered" // its first answer counts
	WrongType       AnswerReason = "wrong type"       // the question has another type of answer
	RunEnded        AnswerReason = "run has ended"
)

// AnswerError says that an answer was refused. Nothing was sent, and a question that was open is open still.
type AnswerError struct {
	RunID, Question string
	Reason          AnswerReason
	// Err says more: what does not fit the question's schema, journal.ErrEnded; nil if there is no more to say.
	Err error
}

// Error names the run, the question and the reason.
func (e *AnswerError) Error() string {
	text := fmt.Sprintf("pawl: run %q: the answer to question %q was refused: %s", e.RunID, e.Question, e.Reason)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Reason == NotAsked {
		text += ": durable.Questions lists what it has asked"
	}
	return text
}

// Unwrap returns Err.
func (e *AnswerError) Unwrap() error { return e.Err }

// Answer answers a question that a run has asked with Interrupt. The run goes on when it is run again.
//
// Errors: an *AnswerError if the question is not open or v does not fit it, a *journal.NotFoundError, a
// *journal.NotSerializableError or *journal.PayloadTooLargeError, a *ReplayError if the question cannot be read, and those
// of the store.
func Answer[T any](ctx context.Context, store journal.Store, id, question string, v T, opts ...CommonOption) error {
	o, err := newSendOptions(store, opts)
	if err != nil {
		return err
	}
	data, err := journal.Marshal("Answer", v)
	if err != nil {
		return err
	}
	payload, err := o.settings.seal("Answer", data)
	if err != nil {
		return err
	}
	return answer(ctx, o.settings, id, question, data, payload)
}

func answer(ctx context.Context, s Settings, id, question string, data, payload []byte) error {
	refuse := func(reason AnswerReason, err error) error {
		return &AnswerError{RunID: id, Question: question, Reason: reason, Err: err}
	}
	run, err := s.Store.Load(ctx, id)
	switch {
	case err != nil:
		return err
	case run.Status.Terminal():
		return refuse(RunEnded, &journal.RefusedError{Run: id, Reason: journal.ErrEnded, Detail: fmt.Sprintf("it is %s", run.Status)})
	}
	questions, inbox, err := questionsOf(ctx, s, id)
	if err != nil {
		return err
	}
	q, asked := Question{}, false
	for _, other := range questions {
		if other.ID == question {
			q, asked = other, true
		}
	}
	switch {
	case !asked:
		return refuse(NotAsked, nil)
	case q.Answered:
		return refuse(AlreadyAnswered, nil)
	}
	if err := fits(q.Schema, data); err != nil {
		return refuse(WrongType, err)
	}
	// Whoever has seen the same inbox uses the same key. Answers that are there did not fit, and may have had it.
	unfit := 0
	for _, m := range inbox {
		if m.Kind == journal.AnswerMessage && m.Name == question {
			unfit++
		}
	}
	m := journal.Message{
		Kind: journal.AnswerMessage, Name: question, Key: fmt.Sprintf("pawl:answer:%d:%s", unfit, question), Time: Now(), Payload: payload,
	}
	sent, err := s.Store.Send(ctx, id, m)
	switch {
	case errors.Is(err, journal.ErrEnded):
		return refuse(RunEnded, err)
	case err != nil:
		return err
	case !sent.Time.Equal(m.Time) || string(sent.Payload) != string(payload):
		return refuse(AlreadyAnswered, nil)
	}
	return nil
}
