package superstep

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/task"
)

// How a runner with a Store takes a run, and what it leaves behind.

func (r *Runner[S, U]) settings(o *runOptions) durable.Settings {
	s := durable.Settings{
		Store: r.cfg.Store, Codec: r.cfg.Codec, PayloadLimit: r.cfg.PayloadLimit, LeaseTTL: r.cfg.LeaseTTL,
		Owner: r.cfg.Owner, Classifier: r.cfg.Classifier, Logger: r.cfg.Logger,
	}
	if o != nil && o.migration != nil {
		s.Rename = o.migration.renameScope
	}
	return s
}

// hold takes the run, or makes it, and gives the trunk its ledger. The context also ends when the run is cancelled by
// somebody or lost.
func (r *Runner[S, U]) hold(ctx context.Context, t *trunk[S, U], o *runOptions) (context.Context, func(), error) {
	in := &t.driver.m.state                                    // until it is read back
	if ctx.Err() != nil && (o == nil || o.assignment == nil) { // a lease is to be given up
		return ctx, nil, t.run.ended(ctx)
	}
	x, err := r.open(ctx, t.run.id, in, o)
	if err != nil {
		if ended := ctx.Err(); ended != nil && errors.Is(err, ended) {
			err = t.run.ended(ctx)
		}
		return ctx, nil, err
	}
	held := false
	defer func() { // also if a user's decoder ends the goroutine
		if !held {
			x.Close(ctx)
		}
	}()
	if err = r.checkRun(x.Run(), x.Start(), in, o); err == nil {
		t.driver.m.state, err = r.decodeState(x, x.Start().Payload, o)
	}
	var salt string
	if err == nil {
		salt, err = saltOf(x)
	}
	if err != nil {
		if o != nil && o.assignment != nil { // as a run that cannot be replayed
			err = x.BrokenAttempt(ctx, err)
		}
		return ctx, nil, err
	}
	held = true
	t.driver.ledger = &ledger[S, U]{x: x, d: &t.driver, options: o, salt: salt, checkpoint: int64(len(x.Start().Payload))}
	own, stop := x.Context(ctx)
	return own, func() {
		stop()
		x.Close(ctx)
	}, nil
}

// open takes the run, or makes it.
func (r *Runner[S, U]) open(ctx context.Context, id string, in *S, o *runOptions) (*durable.Execution, error) {
	s := r.settings(o)
	switch fresh := func() (journal.NewRun, error) { return r.newRun(in, o) }; {
	case o == nil || !o.named:
		return durable.Create(ctx, s, id, fresh)
	case o.assignment != nil:
		return o.assignment.Open(ctx, s)
	case o.existing:
		return durable.Open(ctx, s, id, nil)
	default:
		return durable.Open(ctx, s, id, fresh)
	}
}

// newRun describes a run that starts from in.
func (r *Runner[S, U]) newRun(in *S, o *runOptions) (journal.NewRun, error) {
	return r.newRunWith(r.settings(o), in, o)
}

func (r *Runner[S, U]) newRunWith(s durable.Settings, in *S, o *runOptions) (journal.NewRun, error) {
	payload, err := s.Encode("State", in)
	if err != nil {
		return journal.NewRun{}, err
	}
	meta, err := r.startMeta(s)
	if err != nil {
		return journal.NewRun{}, err
	}
	n := journal.NewRun{
		Run: journal.Run{Kind: journal.GraphRun, Name: r.g.Name(), Fingerprint: r.g.Fingerprint()},
		Events: []journal.Event{{
			Kind: journal.RunStart, Time: durable.Now(), Payload: payload,
			Meta: meta,
		}},
	}
	if o != nil {
		n.Run.Thread = o.thread
	}
	return n, nil
}

// startMeta is the same for every run of the graph, but for the salt of a run whose payloads are encoded.
func (r *Runner[S, U]) startMeta(s durable.Settings) (json.RawMessage, error) {
	if s.Codec != nil {
		salt, err := s.Encode("salt", rand.Text())
		return mustMarshal(durable.StartMeta{Drawing: r.g.Mermaid(), Outline: r.g.Outline(), Salt: salt}), err
	}
	r.startOnce.Do(func() {
		r.start = mustMarshal(durable.StartMeta{Drawing: r.g.Mermaid(), Outline: r.g.Outline()})
	})
	return r.start, nil
}

// saltOf reads the salt of a run.
func saltOf(x *durable.Execution) (salt string, err error) {
	var m durable.StartMeta
	if err = json.Unmarshal(x.Start().Meta, &m); err == nil && len(m.Salt) > 0 {
		err = x.Decode(m.Salt, &salt)
	}
	if err != nil {
		return "", &durable.ReplayError{RunID: x.RunID(), Seq: x.Start().Seq, Err: err}
	}
	return salt, nil
}

// checkRun refuses a run that is not the one that was meant.
func (r *Runner[S, U]) checkRun(run journal.Run, start journal.Event, in *S, o *runOptions) error {
	conflict := func(what, format string, args ...any) error {
		return &durable.RunConflictError{RunID: run.ID, What: what, Detail: fmt.Sprintf(format, args...)}
	}
	switch {
	case run.Kind != journal.GraphRun:
		return conflict("kind", "it is a %s", run.Kind)
	case run.Name != r.g.Name():
		return conflict("graph", "it runs %q, not %q", run.Name, r.g.Name())
	case run.Fingerprint != r.g.Fingerprint() && (o == nil || o.migration == nil):
		return changed(run, start, r.g.Outline())
	case o != nil && o.existing:
		return nil
	case o != nil && o.thread != "" && o.thread != run.Thread:
		return conflict("thread", "it is a turn of %q, not of %q", run.Thread, o.thread)
	}
	return r.checkInput(run, start, in)
}

func (r *Runner[S, U]) checkInput(run journal.Run, start journal.Event, in *S) error {
	was, err := journal.DecodeJSON(r.cfg.Codec, start.Payload)
	if err != nil {
		return &durable.ReplayError{RunID: run.ID, Seq: start.Seq, Err: err}
	}
	is, err := journal.Marshal("State", in)
	if err != nil {
		return err
	}
	if !bytes.Equal(was, is) {
		return &durable.RunConflictError{RunID: run.ID, What: "input", Detail: "the states differ that they start from"}
	}
	return nil
}

func (r *Runner[S, U]) decodeState(x *durable.Execution, payload []byte, o *runOptions) (S, error) {
	s, err := r.plainState(payload, o)
	if err != nil {
		return s, &durable.ReplayError{RunID: x.RunID(), Seq: x.Start().Seq, Err: err}
	}
	return s, nil
}

// notHeld is the result of a run that could not be taken: most often because it has ended, and its outcome is recorded.
func (r *Runner[S, U]) notHeld(ctx context.Context, t *trunk[S, U], o *runOptions, err error) (*Result[S], error) {
	in := &t.driver.m.state
	res := &Result[S]{State: *in, RunID: t.run.id}
	var ended *durable.EndedError
	if !errors.As(err, &ended) {
		return res, err
	}
	if err := r.checkRun(ended.Run, ended.Start, in, o); err != nil {
		return res, err
	}
	res, err = r.recorded(ctx, ended, o)
	if t.run.events != nil {
		t.driver.report(&task.RunStarted{Graph: r.g.Name(), Fingerprint: r.g.Fingerprint(), Resumed: true}, 0)
		sendLast(&t.run, res, err)
		t.run.events.close()
	}
	return res, err
}

// endMeta is what the Meta of a run's last event says of it.
type endMeta struct {
	task.Totals

	Unfired []task.Unfired `json:"unfired,omitempty"`
}

// recorded is the outcome of a run that has ended.
func (r *Runner[S, U]) recorded(ctx context.Context, ended *durable.EndedError, o *runOptions) (*Result[S], error) {
	res := &Result[S]{RunID: ended.Run.ID}
	var m endMeta
	if len(ended.Last.Meta) > 0 {
		if err := json.Unmarshal(ended.Last.Meta, &m); err != nil {
			return res, &durable.ReplayError{RunID: ended.Run.ID, Seq: ended.Last.Seq, Err: err}
		}
	}
	res.Totals, res.Unfired = m.Totals, m.Unfired
	if ended.Last.Kind != journal.RunComplete {
		if p, err := r.past(ctx, ended.Run.ID, o); err == nil {
			res.State, _ = p.last() // as far as it can be read
			// Who cancels from outside has no totals.
			res.SuperSteps, res.Usage = p.m.SuperSteps(), cmp.Or(res.Usage, p.run.usage)
		}
		return res, r.settings(o).EndError(ended)
	}
	var err error
	res.State, err = r.finalState(r.cfg.Codec, ended.Run.ID, ended.Last)
	return res, err
}

// conclude records how the run has come out, and returns what its caller is to hear.
func (l *ledger[S, U]) conclude(ctx context.Context, res *Result[S], err error) error {
	if broken := l.x.Broken(); broken != nil {
		_ = l.x.Finish(ctx, journal.Event{Kind: journal.RunRequeued}, time.Time{}) // does what can still be done
		if _, refused := broken.(*durable.StoreError); refused {                   //nolint:errorlint // as Broken returns it
			return l.x.FailureError(l.x.Failure(broken, durable.CodeAgentError))
		}
		return broken
	}
	m := mustMarshal(endMeta{Totals: res.Totals, Unfired: res.Unfired})
	if err == nil {
		payload, eerr := l.result(res)
		if eerr == nil {
			return l.x.Finish(ctx, journal.Event{Kind: journal.RunComplete, Meta: m, Payload: payload}, time.Time{})
		}
		err = eerr
	}
	switch e := err.(type) { //nolint:errorlint // the run's own
	case *durable.SuspendedError:
		all := l.x.Waits()
		last, due := all.Suspension()
		return cmp.Or[error](l.x.Finish(ctx, last, due), all)
	case *CancelledError:
		cancelled, is := e.Cause.(*durable.RunCancelledError) //nolint:errorlint // see run.ended
		if !is {
			return cmp.Or(l.stopped(ctx), err)
		}
		return l.cancelled(ctx, m, cancelled)
	case *durable.RunCancelledError: // heard of by a durable call before the context
		return l.cancelled(ctx, m, e)
	case *durable.NonDeterminismError, *durable.ReplayError:
		return l.x.BrokenAttempt(ctx, err)
	}
	last := l.x.Failure(err, codeOf(err))
	last.Meta = joinObjects(last.Meta, m)
	if err := l.x.Finish(ctx, last, time.Time{}); err != nil {
		return err
	}
	failed := l.x.FailureError(last)
	if len(last.Payload) == 0 { // a codec has kept it from being recorded
		failed.Err = err
	}
	return failed
}

// stopped leaves the run to be gone on with. Where it has a time limit, the time it has had is recorded.
func (l *ledger[S, U]) stopped(ctx context.Context) error {
	if l.d.run.timeout == nil {
		return l.x.Flush(ctx)
	}
	return l.x.Finish(ctx, durable.Stopped(), time.Time{})
}

// cancelled records that somebody has cancelled the run.
func (l *ledger[S, U]) cancelled(ctx context.Context, m json.RawMessage, e *durable.RunCancelledError) error {
	payload, _ := l.x.Encode("reason", e.Reason)
	last := journal.Event{Kind: journal.RunCancelled, Meta: m, Payload: payload}
	if err := l.x.Finish(ctx, last, time.Time{}); err != nil {
		return err
	}
	return l.x.CancelChildren(ctx, e)
}

// result makes the payload of a run that has succeeded. The result becomes what replay would read: a reducer may have made
// what JSON does not keep.
func (l *ledger[S, U]) result(res *Result[S]) (payload []byte, err error) {
	if payload, err = l.x.Encode("State", &res.State); err != nil {
		return nil, err
	}
	s, err := l.state(payload, nil)
	if err != nil {
		return nil, notReadBack[S]("State", err)
	}
	res.State = s
	return payload, nil
}

// codeOf is the code of a failure that the executor or a node has made.
func codeOf(err error) durable.Code {
	switch {
	case found[*MaxSuperStepsError](err):
		return durable.CodeMaxSuperSteps
	case found[*RunTimeoutError](err):
		return durable.CodeTimeout
	}
	if node, is := find[*NodeError](err); is && node.Class == classifier.BudgetExceeded {
		return durable.CodeBudgetExceeded
	}
	return durable.CodeAgentError
}

// find is errors.As for errors that somebody else has made: it ends on cyclic ones, too.
func find[T error](err error) (found T, ok bool) {
	for e := range classifier.Tree(err) {
		if found, ok = e.(T); ok { //nolint:errorlint // Tree gives what is wrapped, too
			return found, true
		}
	}
	return found, false
}

func found[T error](err error) bool {
	_, ok := find[T](err)
	return ok
}

// joinObjects makes one JSON object of two that are not empty.
func joinObjects(a, b json.RawMessage) json.RawMessage {
	return append(append(a[:len(a)-1:len(a)-1], ','), b[1:]...)
}
