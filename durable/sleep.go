package durable

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// timerMeta is the Meta of a TimerSet and of a SignalWait.
type timerMeta struct {
	// Due is when the wait ends; zero if it does not.
	Due time.Time `json:"due,omitzero"`
}

// sleepName is what all sleeps of a scope are called.
const sleepName = "sleep"

// Sleep waits for d. The time at which it ends is recorded: a run that goes on later waits for the rest only. A d of 0 or
// less is recorded as well, and returns at once. It ends within milliseconds when ctx ends or the run is cancelled, with
// that error. In a worker a run that sleeps for more than a second is suspended, so that it holds nothing meanwhile: the
// error is a *SuspendedError, and the code has to return.
//
// Two sleeps of one scope at the same time are an *OverlapError: give each its own Branch. A Sleep cannot be inside a step:
// that is a *PlacementError. In a context that belongs to no run it just waits. All other errors are those of Step.
func Sleep(ctx context.Context, d time.Duration) error {
	s, inside := scopeOf(ctx)
	switch {
	case inside != nil:
		return insideStep(sleepCall, inside)
	case s == nil:
		return waitUntil(ctx, time.Now().Add(d), nil)
	}
	c, err := s.enter(ctx, sleepCall, sleepName)
	if err != nil {
		return err
	}
	defer c.exit()
	due := Now().Add(max(d, 0))
	if len(c.recorded) == 0 {
		err = c.write(ctx, journal.Event{Kind: journal.TimerSet, Meta: meta(timerMeta{Due: due})})
	} else {
		due, err = c.due(c.recorded[0])
	}
	if err != nil {
		return err
	}
	if s.x.settings.assigned != nil && time.Until(due) > longestNap && !s.endedAlone(ctx) {
		return s.suspend(Wait{Scope: s.path, Due: due})
	}
	return waitUntil(ctx, due, s.x)
}

// due reads the time of a recorded wait.
func (c *call) due(e journal.Event) (time.Time, error) {
	var m timerMeta
	if err := readMeta(e, &m); err != nil {
		return time.Time{}, c.s.broken(c.s.x.replayError(e, err))
	}
	return m.Due, nil
}

// waitUntil waits for a time, or for the end of ctx or of the execution.
func waitUntil(ctx context.Context, due time.Time, x *Execution) error {
	d := time.Until(due)
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	var ended <-chan struct{}
	if x != nil {
		ended = x.ctx.Done()
	}
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-ended:
		return x.end()
	}
}
