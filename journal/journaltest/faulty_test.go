package journaltest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/journal/memory"
)

var start = []journal.Event{{Kind: journal.RunStart}}

// begin creates the run "r", held.
func begin(t *testing.T, store journal.Store) journal.Lease {
	t.Helper()
	lease, err := store.Create(t.Context(), journal.NewRun{
		Run: journal.Run{ID: "r"}, Events: start, Claim: journal.Claim{Owner: "me", TTL: time.Minute},
	})
	require.NoError(t, err)
	return lease
}

func step(n int) journal.Event { return journal.Event{Kind: journal.StepDone, Name: "s", N: n} }

func appendStep(t *testing.T, store journal.Store, lease journal.Lease, after int64) error {
	t.Helper()
	return store.Append(t.Context(), lease, journal.Append{After: after, Events: []journal.Event{step(int(after))}})
}

// failed holds that err is an injected fault.
func failed(t *testing.T, err error, unknown bool) {
	t.Helper()
	require.ErrorIs(t, err, journaltest.ErrInjected)
	var down *journal.UnavailableError
	require.ErrorAs(t, err, &down)
	assert.Equal(t, unknown, down.Unknown)
}

func head(t *testing.T, store journal.Store) int64 {
	t.Helper()
	r, err := store.Load(t.Context(), "r")
	require.NoError(t, err)
	return r.Head
}

// every call there is, by what it is.
func calls(ctx context.Context, f *journaltest.Faulty, lease journal.Lease) map[journaltest.Op]func() error {
	return map[journaltest.Op]func() error{
		journaltest.OpCreate: func() error {
			_, err := f.Create(ctx, journal.NewRun{Run: journal.Run{ID: "new"}, Events: start})
			return err
		},
		journaltest.OpLoad: func() error { _, err := f.Load(ctx, lease.Run); return err },
		journaltest.OpAcquire: func() error {
			_, err := f.Acquire(ctx, lease.Run, journal.Claim{Owner: "me", TTL: time.Minute})
			return err
		},
		journaltest.OpRenew:  func() error { _, err := f.Renew(ctx, lease, time.Hour); return err },
		journaltest.OpAppend: func() error { return f.Append(ctx, lease, journal.Append{After: 1, Events: []journal.Event{step(1)}}) },
		journaltest.OpEvents: func() error {
			for _, err := range f.Events(ctx, lease.Run, 0) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		journaltest.OpSend: func() error {
			_, err := f.Send(ctx, lease.Run, journal.Message{Kind: journal.SignalMessage})
			return err
		},
		journaltest.OpInbox:    func() error { _, err := f.Inbox(ctx, lease.Run, 0); return err },
		journaltest.OpList:     func() error { _, err := f.List(ctx, journal.Query{}); return err },
		journaltest.OpDelete:   func() error { return f.Delete(ctx, lease.Run) },
		journaltest.OpPrune:    func() error { _, err := f.Prune(ctx, time.Now()); return err },
		journaltest.OpTake:     func() error { _, err := f.Take(ctx, journal.Take{}); return err },
		"take stranded":        func() error { _, err := f.TakeStranded(ctx, journal.Take{}, 0); return err },
		journaltest.OpAnnounce: func() error { return f.Announce(ctx, "q", nil) },
	}
}

func TestAnOutageFailsEveryCallAndWritesNothing(t *testing.T) {
	inner := memory.New()
	f := journaltest.NewFaulty(inner)
	lease := begin(t, f)
	f.Outage(true)
	for op, call := range calls(t.Context(), f, lease) {
		t.Run(string(op), func(t *testing.T) { failed(t, call(), false) })
	}
	page, err := inner.List(t.Context(), journal.Query{})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1)
	assert.EqualValues(t, 1, page.Runs[0].Head)
	assert.Equal(t, lease.Until, page.Runs[0].Until)

	f.Outage(false)
	require.NoError(t, appendStep(t, f, lease, 1))
	assert.EqualValues(t, 2, head(t, f))
}

func TestAFrozenStoreFailsEveryCallForGood(t *testing.T) {
	inner := memory.New()
	f := journaltest.NewFaulty(inner)
	lease := begin(t, f)
	f.Freeze()
	f.Outage(false)
	for op, call := range calls(t.Context(), f, lease) {
		t.Run(string(op), func(t *testing.T) { failed(t, call(), false) })
	}
	assert.EqualValues(t, 1, head(t, inner))
	assert.Equal(t, 1, f.Writes(), "a dead process tries nothing")
}

func TestTheNthWriteFailsBeforeOrAfter(t *testing.T) {
	inner := memory.New()
	f := journaltest.NewFaulty(inner)
	lease := begin(t, f)
	f.FailWrite(2, journaltest.Before)
	f.FailWrite(3, journaltest.After, journaltest.OpAppend)

	require.NoError(t, appendStep(t, f, lease, 1))
	_, err := f.Renew(t.Context(), lease, time.Hour)
	failed(t, err, false)
	require.NoError(t, appendStep(t, f, lease, 2))
	failed(t, appendStep(t, f, lease, 3), true)
	assert.EqualValues(t, 4, head(t, f), "it is written all the same")
	require.NoError(t, appendStep(t, f, lease, 4))
	assert.Equal(t, 4, f.Calls(journaltest.OpAppend))
	assert.Equal(t, 4, f.Done(journaltest.OpAppend))
	assert.Equal(t, 1, f.Calls(journaltest.OpRenew))
	assert.Zero(t, f.Done(journaltest.OpRenew))
	assert.Equal(t, 7, f.Calls())
	assert.Equal(t, 6, f.Writes())
}

func TestTheHookSeesEveryWriteAtBothMoments(t *testing.T) {
	f := journaltest.NewFaulty(memory.New())
	var seen []journaltest.Write
	f.OnWrite(func(w journaltest.Write) { seen = append(seen, w) })
	lease := begin(t, f)
	require.ErrorIs(t, appendStep(t, f, lease, 7), journal.ErrConflict)
	head(t, f)

	require.Len(t, seen, 4)
	assert.Equal(t, journaltest.Write{N: 1, When: journaltest.Before, Op: journaltest.OpCreate, Run: "r", Events: start}, seen[0])
	assert.Equal(t, journaltest.After, seen[1].When)
	assert.Equal(t, 2, seen[2].N)
	assert.NoError(t, seen[2].Err)
	assert.ErrorIs(t, seen[3].Err, journal.ErrConflict)
}

func TestTheHookCanFreezeTheStoreInTheMiddleOfAWrite(t *testing.T) {
	for _, when := range []journaltest.When{journaltest.Before, journaltest.After} {
		t.Run(string(when), func(t *testing.T) {
			inner := memory.New()
			f := journaltest.NewFaulty(inner)
			lease := begin(t, f)
			f.OnWrite(func(w journaltest.Write) {
				if w.When == when {
					f.Freeze()
				}
			})
			failed(t, appendStep(t, f, lease, 1), when == journaltest.After)
			failed(t, appendStep(t, f, lease, 2), false)
			want := map[journaltest.When]int64{journaltest.Before: 1, journaltest.After: 2}[when]
			assert.Equal(t, want, head(t, inner))
		})
	}
}

func TestAFaultCutsEventsShort(t *testing.T) {
	f := journaltest.NewFaulty(memory.New())
	lease := begin(t, f)
	require.NoError(t, appendStep(t, f, lease, 1))
	read := 0
	var last error
	for _, err := range f.Events(t.Context(), "r", 0) {
		last = err
		read++
		f.Outage(true)
	}
	assert.Equal(t, 2, read)
	failed(t, last, false)
}

func TestAnEndedContextComesBeforeEveryFault(t *testing.T) {
	f := journaltest.NewFaulty(memory.New())
	lease := begin(t, f)
	f.Outage(true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for op, call := range calls(ctx, f, lease) {
		t.Run(string(op), func(t *testing.T) { assert.Equal(t, context.Canceled, call()) })
	}
}

// plain hides what a store can do beyond journal.Store.
type plain struct{ journal.Store }

func TestAbilitiesThatTheInnerStoreLacksAreUnsupported(t *testing.T) {
	f := journaltest.NewFaulty(plain{memory.New()})
	_, err := f.List(t.Context(), journal.Query{})
	assert.ErrorIs(t, err, errors.ErrUnsupported)
	assert.ErrorIs(t, f.Delete(t.Context(), "r"), errors.ErrUnsupported)
	_, err = f.Prune(t.Context(), time.Now())
	assert.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = f.Take(t.Context(), journal.Take{})
	assert.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = f.TakeStranded(t.Context(), journal.Take{}, 0)
	assert.ErrorIs(t, err, errors.ErrUnsupported)
	assert.ErrorIs(t, f.Announce(t.Context(), "q", nil), errors.ErrUnsupported)
	for _, watch := range []func(string) (<-chan struct{}, func()){f.Watch, f.WatchQueue} {
		changed, stop := watch("r")
		stop()
		assert.Nil(t, changed)
	}
}

func TestAFaultyStoreIsSafeForConcurrentUse(t *testing.T) {
	f := journaltest.NewFaulty(memory.New())
	var tried sync.Map
	f.OnWrite(func(w journaltest.Write) { tried.Store(w.N, true) })
	f.FailWrite(50, journaltest.Before)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for range 10 {
				f.Send(t.Context(), "nobody", journal.Message{})
				f.Calls()
			}
		})
	}
	all.Wait()
	assert.Equal(t, 100, f.Writes())
	_, ok := tried.Load(100)
	assert.True(t, ok)
}
