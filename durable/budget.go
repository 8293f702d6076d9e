package durable

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/journal"
)

// What an attempt costs that breaks before it can record anything: after so many in this time the next one ends the run.
const (
	brokenRetries = 3
	brokenTime    = time.Hour
)

// The reasons of a RunRequeued.
const (
	requeuedStore  = "store_unavailable"
	requeuedReplay = "replay_failed"
	requeuedAgain  = "reopened"
)

// requeuedMeta is the Meta of a RunRequeued.
type requeuedMeta struct {
	Reason string `json:"reason"`
}

// brokenReplay reports whether an error means that the recorded events and the code do not go together.
func brokenReplay(err error) bool {
	return has[*NonDeterminismError](err) || has[*ReplayError](err) || has[*journal.CorruptError](err)
}

// BrokenAttempt is for executors: it ends an execution that could not replay what is recorded. The run is to be taken up
// again, by code that may know better, but the fourth time within an hour it fails with CodeReplayFailed. It returns err,
// then inside a *RunFailedError, or the error of Finish. Where only a key is missing nothing is recorded.
func (x *Execution) BrokenAttempt(ctx context.Context, err error) error {
	for e := range classifier.Tree(err) {
		if e == journal.ErrUnknownKey { //nolint:errorlint // each error of the tree is looked at
			return err
		}
	}
	recent := 0
	for _, at := range x.record.requeued {
		if time.Since(at) < brokenTime {
			recent++
		}
	}
	last := journal.Event{Kind: journal.RunRequeued, Meta: meta(requeuedMeta{Reason: requeuedReplay})}
	if recent >= brokenRetries {
		last = x.settings.failure(err, CodeReplayFailed)
	}
	if ferr := x.Finish(ctx, last, time.Time{}); ferr != nil {
		return ferr
	}
	if last.Kind == journal.RunError {
		failed := x.FailureError(last)
		failed.Err = err
		return failed
	}
	return err
}

// brokenOpen is BrokenAttempt for a run whose journal cannot even be read. The caller holds the run.
func (x *Execution) brokenOpen(ctx context.Context, err error) error {
	x.record = &record{requeued: x.readableRequeues(ctx)}
	return x.BrokenAttempt(ctx, err)
}

// readableRequeues looks for failed replays in what can be read of the journal.
func (x *Execution) readableRequeues(ctx context.Context) []time.Time {
	const maxGaps = 1000
	var times []time.Time
	after := int64(0)
	for gaps := 0; gaps < maxGaps && after < x.head && ctx.Err() == nil; gaps++ {
		for e, err := range x.settings.Store.Events(ctx, x.id, after) {
			if err != nil {
				break
			}
			after = e.Seq
			if isBrokenReplay(e) {
				times = append(times, e.Time)
			}
		}
		after++ // the one behind could not be read
	}
	return times
}

func isBrokenReplay(e journal.Event) bool {
	var m requeuedMeta
	return e.Kind == journal.RunRequeued && readMeta(e, &m) == nil && m.Reason == requeuedReplay
}
