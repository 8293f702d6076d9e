package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/journal/memory"
)

// talkative is a workflow whose steps depend on what updates have told it by then: whoever handles one at another place takes
// another way, which is not deterministic.
func talkative(c *counter) *durable.Definition[int, []string] {
	return durable.Workflow("talkative", func(ctx context.Context, rounds int) ([]string, error) {
		var items []string
		if err := register(ctx, c, &items); err != nil {
			return nil, err
		}
		err := durable.HandleQuery(ctx, "size", func(struct{}) (int, error) { c.add("query"); return len(items), nil })
		if err != nil {
			return nil, err
		}
		for round := range rounds {
			if err := durable.Await(ctx, func() bool { return len(items) > 3*round }); err != nil {
				return nil, err
			}
			_, err := durable.Step(ctx, fmt.Sprint("fails with ", len(items)), func(context.Context) (int, error) {
				c.add(fmt.Sprint("fails with ", len(items)))
				return 0, errBoom
			})
			if err == nil || err.Error() != errBoom.Error() {
				return nil, err
			}
			if err := durable.Await(ctx, func() bool { return len(items) > 3*round+1 }); err != nil {
				return nil, err
			}
			if _, err := counted(ctx, c, fmt.Sprint("step with ", len(items)), 1); err != nil {
				return nil, err
			}
			if err := durable.Sleep(ctx, time.Second); err != nil {
				return nil, err
			}
			err = durable.Branch(ctx, "b", func(ctx context.Context) error {
				_, err := counted(ctx, c, fmt.Sprint("branch with ", len(items)), 1)
				return err
			})
			if err != nil {
				return nil, err
			}
			if err := durable.Await(ctx, func() bool { return len(items) > 3*round+2 }, durable.WaitTimeout(time.Minute)); err != nil {
				return nil, err
			}
			if _, err := durable.WaitForSignal[int](ctx, "next"); err != nil {
				return nil, err
			}
		}
		return items, nil
	})
}

const rounds = 2

var wantTalk = []string{"0 1", "1 1", "2 1", "3 1", "4 1", "5 1"}

// converse runs the workflow to its end, tells it whatever it waits for, and asks it a question each time.
func converse(t *testing.T, store journal.Store, c *counter) ([]string, error) {
	t.Helper()
	ctx := t.Context()
	send := func(kind journal.MessageKind, name, key string, v any) error {
		_, err := store.Send(ctx, "r", journal.Message{Kind: kind, Name: name, Key: key, Time: time.Now(), Payload: mustJSON(v)})
		return err
	}
	for range 100 {
		out, err := durable.Run(ctx, store, talkative(c), "r", rounds)
		suspended, is := errors.AsType[*durable.SuspendedError](err)
		if !is {
			return out, err
		}
		time.Sleep(31 * time.Second) // a lease may have to run out
		told, signals := 0, 0
		for e, err := range store.Events(ctx, "r", 0) {
			if err != nil {
				return nil, err
			}
			switch e.Kind {
			case journal.UpdateDone:
				told++
			case journal.SignalReceived:
				signals++
			}
		}
		if err := send(journal.QueryMessage, "size", fmt.Sprint("query ", told, signals), struct{}{}); err != nil {
			return nil, err
		}
		for _, w := range suspended.Waits {
			var err error
			switch {
			case w.Signal != "":
				err = send(journal.SignalMessage, "next", fmt.Sprint("signal ", signals), signals)
			case w.Await:
				err = send(journal.UpdateMessage, "add", fmt.Sprint("update ", told), fmt.Sprint(told))
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return nil, errors.New("it does not come to an end")
}

// handledOnce reports updates and queries that were answered twice, and those that were not.
func handledOnce(t *testing.T, store journal.Store) {
	t.Helper()
	answers := map[int64]int{}
	for _, e := range events(t, store, "r") {
		switch e.Kind {
		case journal.UpdateDone, journal.UpdateError, journal.UpdateRejected, journal.QueryAnswered:
			var m struct {
				Message int64 `json:"message"`
			}
			require.NoError(t, json.Unmarshal(e.Meta, &m))
			answers[m.Message]++
		}
	}
	inbox, err := store.Inbox(context.Background(), "r", 0)
	require.NoError(t, err)
	for _, m := range inbox {
		if m.Kind == journal.UpdateMessage || m.Kind == journal.QueryMessage {
			assert.Equal(t, 1, answers[m.Seq], "%s %q, number %d", m.Kind, m.Name, m.Seq)
		}
	}
}

func undisturbedTalk(t *testing.T) (writes int, run journal.NewRun) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		inner, c := memory.New(), &counter{}
		store := journaltest.NewFaulty(inner)
		out, err := converse(t, store, c)
		require.NoError(t, err)
		assert.Equal(t, wantTalk, out)
		handledOnce(t, inner)
		for name, n := range c.calls {
			if name != "query" {
				assert.Equal(t, 1, n, name)
			}
		}
		run.Run, err = inner.Load(t.Context(), "r")
		require.NoError(t, err)
		run.Events = events(t, inner, "r")
		run.Messages, err = inner.Inbox(t.Context(), "r", 0)
		require.NoError(t, err)
		writes = store.Writes()
	})
	return writes, run
}

func TestUpdatesAreHandledExactlyOnceOverACrashAtEveryWrite(t *testing.T) {
	writes, _ := undisturbedTalk(t)
	t.Logf("%d writes", writes)
	for n := 1; n <= writes; n++ {
		for _, when := range []journaltest.When{journaltest.Before, journaltest.After} {
			synctest.Test(t, func(t *testing.T) {
				inner, before, after := memory.New(), &counter{}, &counter{}
				store := journaltest.NewFaulty(inner)
				store.OnWrite(func(w journaltest.Write) {
					if w.N == n && w.When == when {
						store.Freeze()
					}
				})
				if out, err := converse(t, store, before); err == nil { // it was behind the end
					assert.Equal(t, wantTalk, out)
				}
				inner = reborn(t, inner)
				recorded := recordedSteps(t, inner)
				out, err := converse(t, inner, after)
				require.NoError(t, err, "%s write %d", when, n)
				assert.Equal(t, wantTalk, out)
				handledOnce(t, inner)
				consistent(t, inner)
				for name := range recorded {
					assert.Zero(t, after.of(name), "%q is recorded and was called again", name)
				}
			})
		}
	}
}

func TestEveryPrefixOfAJournalWithUpdatesReplays(t *testing.T) {
	_, whole := undisturbedTalk(t)
	for n := 1; n < len(whole.Events); n++ {
		synctest.Test(t, func(t *testing.T) {
			prefix := whole
			prefix.Events = whole.Events[:n]
			// What had been sent by then is there.
			prefix.Messages = slices.DeleteFunc(slices.Clone(whole.Messages), func(m journal.Message) bool {
				return m.Time.After(prefix.Events[n-1].Time)
			})
			store, c := create(t, prefix), &counter{}
			recorded := recordedSteps(t, store)
			out, err := converse(t, store, c)
			require.NoError(t, err, "%d events", n)
			assert.Equal(t, wantTalk, out)
			handledOnce(t, store)
			consistent(t, store)
			for name := range recorded {
				assert.Zero(t, c.of(name), "%q is recorded and was called again", name)
			}
		})
	}
}

// Whatever a store gives back of updates and those who ask: there is a result or an error, and never a panic of ours.
func FuzzReplayOfUpdates(f *testing.F) {
	var whole journal.NewRun
	f.Add(3, 0, []byte("{}"))
	f.Add(5, 1, []byte(`{"message": -1, "before": {"name": "await", "n": 9223372036854775807}}`))
	f.Add(6, 2, []byte("update:done"))
	f.Add(9, 3, []byte("add"))
	f.Add(2, 4, []byte("update[-9223372036854775808]"))
	f.Add(2, 0, []byte(`{"argument": null, "result": 1, "error": {"type": "x", "causes": [null]}}`))
	f.Fuzz(func(t *testing.T, at, field int, to []byte) {
		if whole.Events == nil {
			_, whole = undisturbedTalk(t)
		}
		synctest.Test(t, func(t *testing.T) {
			changed := whole
			changed.Events = slices.Clone(whole.Events[:len(whole.Events)-1])
			e := &changed.Events[1+abs(at)%(len(changed.Events)-1)]
			switch abs(field) % 5 {
			case 0:
				e.Payload = to
			case 1:
				e.Meta = to
			case 2:
				e.Kind = journal.Kind(to)
			case 3:
				e.Name = string(to)
			case 4:
				e.Scope = string(to)
			}
			if e.Kind.Terminal() || e.Kind == journal.RunStart {
				return // a store refuses it
			}
			_, _ = converse(t, create(t, changed), &counter{})
		})
	})
}
