package crashtest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/journal/memory"
	"github.com/pawl-go/pawl/providers"
)

// local is a desk in this process.
type local struct {
	providers.Provider

	ledger *ledger
}

func newLocal() *local { return &local{script().Provider("desk"), newLedger()} }

// Chat implements providers.Provider.
func (l *local) Chat(ctx context.Context, r providers.Request) (*providers.Response, error) {
	l.ledger.count(1, r.Messages[len(r.Messages)-1].Content)
	return l.Provider.Chat(ctx, r)
}

// Known implements desk.
func (l *local) Known(_ context.Context, about string) (bool, error) {
	return l.ledger.known(about), nil
}

// finished is a run that has come to its end, and what it has left.
type finished struct {
	shape  string
	result result
	calls  map[string]int
	runs   []leftover // the run itself, and its children
	// ends are the numbers of the last events of the run's appends.
	ends []int
}

type leftover struct {
	run    journal.Run
	events []journal.Event
	inbox  []journal.Message
}

func finish(tb testing.TB, shape string) finished {
	tb.Helper()
	f := finished{shape: shape}
	inner := memory.New()
	store := journaltest.NewFaulty(inner)
	end := 0
	store.OnWrite(func(w journaltest.Write) { // appends of one run come one after the other
		if w.When == journaltest.After && w.Run == "r" && len(w.Events) > 0 {
			end += len(w.Events)
			f.ends = append(f.ends, end)
		}
	})
	desk := newLocal()
	r, err := newRunner(shape, desk, store)
	require.NoError(tb, err)
	res, err := drive(tb.Context(), r, store, "r")
	require.NoError(tb, err)
	f.result = resultOf(res)
	f.calls = desk.ledger.by(1)
	page, err := inner.List(tb.Context(), journal.Query{})
	require.NoError(tb, err)
	for _, run := range slices.Backward(page.Runs) {
		f.runs = append(f.runs, leftoverOf(tb, inner, run.ID))
	}
	require.Equal(tb, "r", f.runs[0].run.ID)
	require.Len(tb, f.runs[0].events, end)
	return f
}

func leftoverOf(tb testing.TB, store journal.Store, id string) (l leftover) {
	tb.Helper()
	var err error
	l.run, err = store.Load(tb.Context(), id)
	require.NoError(tb, err)
	for e, err := range store.Events(tb.Context(), id, 0) {
		require.NoError(tb, err)
		l.events = append(l.events, e)
	}
	l.inbox, err = store.Inbox(tb.Context(), id, 0)
	require.NoError(tb, err)
	return l
}

// put makes a run of what another has left.
func (l leftover) put(tb testing.TB, store journal.Store) {
	tb.Helper()
	_, err := store.Create(tb.Context(), journal.NewRun{Run: l.run, Events: l.events, Messages: l.inbox})
	require.NoError(tb, err)
}

// cut is the run with its first n events, and with its whole inbox or with what these events have consumed.
func (f finished) cut(n int, wholeInbox bool) (runs []leftover) {
	first := f.runs[0]
	first.events = first.events[:n]
	child := false
	consumed := 0
	for _, e := range first.events {
		switch e.Kind {
		case journal.ChildStart:
			child = true
		case journal.SignalReceived, journal.QuestionAnswered:
			consumed++
		}
	}
	if !wholeInbox {
		first.inbox = first.inbox[:consumed] // they are consumed in the order in which they come
	}
	if !child {
		return []leftover{first}
	}
	return append([]leftover{first}, f.runs[1:]...)
}

// Whatever part of a journal is there, going on from it ends in the same state, and repeats nothing that it records.
func TestPrefix_ReplaysToTheSameState(t *testing.T) {
	for _, s := range shapes {
		f := finish(t, s.name)
		t.Logf("%s: %d events in %d appends", s.name, len(f.runs[0].events), len(f.ends))
		for n := 1; n <= len(f.runs[0].events); n++ {
			for _, wholeInbox := range []bool{false, true} {
				name := fmt.Sprintf("%s/%d", s.name, n)
				if !slices.Contains(f.ends, n) {
					name += " inside an append"
				}
				if wholeInbox {
					name += " with all messages"
				}
				t.Run(name, func(t *testing.T) { f.goOn(t, f.cut(n, wholeInbox), slices.Contains(f.ends, n)) })
			}
		}
	}
}

func (f finished) goOn(t *testing.T, runs []leftover, whole bool) {
	t.Helper()
	store := memory.New()
	var events []journal.Event
	for _, l := range runs {
		l.put(t, store)
		for _, e := range l.events {
			e.Scope = l.run.ID + " " + e.Scope
			events = append(events, e)
		}
	}
	desk := newLocal()
	for about := range f.calls {
		if outcomeIn(events, about, whole) != unknown {
			desk.ledger.count(0, about) // before the cut
		}
	}
	r, err := newRunner(f.shape, desk, store)
	require.NoError(t, err)
	got, err := drive(t.Context(), r, store, "r")
	require.NoError(t, err)
	assert.Equal(t, f.result, resultOf(got))
	calls := desk.ledger.by(1)
	for about, n := range f.calls {
		if outcomeIn(events, about, whole) == recorded {
			n = 0
		}
		if n != calls[about] {
			assert.Equal(t, n, calls[about], about)
		}
	}
	for about := range calls {
		assert.Contains(t, f.calls, about)
	}
}
