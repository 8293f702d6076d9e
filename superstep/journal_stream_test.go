package superstep_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/task"
)

// A stream that is left at any event ends the attempt, not the run. What had finished by then is in the journal, and the run goes on
// under its id without it.
func TestJournal_WhatALeftStreamDidNotTakeIsInTheJournal(t *testing.T) {
	for leave := 1; ; leave++ {
		c, store := newMeter(), newStore()
		g := inLine(t, counted(c, "a", say("a")), counted(c, "b", say("b")), counted(c, "c", say("c")))
		seen, left := 0, false
		for ev, err := range runner(t, g, stored(store)).Stream(t.Context(), st{}, in("r")) {
			require.NoError(t, err)
			if seen++; seen == 1 {
				require.Equal(t, "r", ev.(*task.RunStarted).RunID, "the first event names the run")
			}
			if left = seen == leave; left {
				break
			}
		}
		if !left {
			require.Greater(t, leave, 10)
			return
		}
		done := map[string]int{} // by node
		for _, e := range eventsOf(t, store, "r") {
			if e.Kind == journal.StepDone {
				done[e.Scope]++
			}
		}
		before := c.all()
		res, err := runner(t, g, stored(store)).Run(t.Context(), st{}, in("r"))
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b", "c"}, res.State.Log)
		for i, name := range []string{"a", "b", "c"} {
			again := c.all()[name] - before[name]
			if done[fmt.Sprintf("%d/%s[0]", i+1, name)] > 0 {
				require.Zero(t, again, "left at event %d: %s is recorded", leave, name)
			} else {
				require.Equal(t, 1, again, "left at event %d: %s is not recorded", leave, name)
			}
		}
	}
}

// The last event of a run that waits says what for, and the error is Run's. Going on, what is recorded has no events again.
func TestJournal_AStreamOfARunThatWaits(t *testing.T) {
	store := newStore()
	g := inLine(t, say("a"), func(ctx context.Context, s st) (up, error) {
		task.Emit(ctx, "draft")
		return asks("?")(ctx, s)
	})
	r := runner(t, g, stored(store))
	evs, err := collect(t, r.Stream(t.Context(), st{}, in("r")))
	id := questionsOf(t, err)[0]
	last := only[*task.RunSuspended](evs)
	require.Len(t, last, 1)
	require.Equal(t, []string{id}, last[0].Questions)
	require.Same(t, last[0], evs[len(evs)-1])
	require.Len(t, only[*task.TaskSuspended](evs), 1)
	require.Empty(t, only[*task.RunFailed](evs))
	require.NoError(t, r.Answer(t.Context(), "r", id, "yes"))
	evs, err = collect(t, r.Stream(t.Context(), st{}, in("r")))
	require.NoError(t, err)
	require.True(t, only[*task.RunStarted](evs)[0].Resumed)
	require.Len(t, only[*task.TaskStarted](evs), 1, "of b only: %v", brief(evs))
	require.Equal(t, []string{"a", "yes"}, evs[len(evs)-1].(*task.RunCompleted[st]).State.Log)
}

// Run and Stream give the same, also of a run that has ended.
func TestJournal_AStreamOfARunThatHasEnded(t *testing.T) {
	store := newStore()
	r := runner(t, one(t, say("a")), stored(store))
	res, err := r.Run(t.Context(), st{}, in("done"))
	require.NoError(t, err)
	evs, err := collect(t, r.Stream(t.Context(), st{}, in("done")))
	require.NoError(t, err)
	require.Len(t, evs, 2)
	require.Equal(t, res.State, evs[1].(*task.RunCompleted[st]).State)

	bad := runner(t, one(t, fails(errBroken)), stored(store))
	_, first := bad.Run(t.Context(), st{}, in("failed"))
	evs, err = collect(t, bad.Stream(t.Context(), st{}, in("failed")))
	require.Equal(t, first.Error(), err.Error())
	require.ErrorIs(t, err, errBroken)
	require.ErrorAs(t, err, new(*durable.RunFailedError))
	require.Len(t, only[*task.RunFailed](evs), 1)
}
