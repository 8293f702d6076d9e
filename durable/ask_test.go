package durable_test

import (
	"context"
	"errors"
	"fmt"
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

// running runs a run as a worker does: whenever a message has come. It ends with the run.
func running[I, O any](t *testing.T, store *memory.Store, wf *durable.Definition[I, O], id string, in I, opts ...durable.RunOption) <-chan O {
	t.Helper()
	out := make(chan O, 1)
	go func() {
		defer close(out)
		for changed := 0; ; {
			v, err := durable.Run(t.Context(), store, wf, id, in, opts...)
			suspended, is := errors.AsType[*durable.SuspendedError](err)
			if !is {
				out <- v
				return
			}
			for {
				inbox, err := store.Inbox(context.Background(), suspended.RunID, 0)
				if err != nil || t.Context().Err() != nil {
					return
				}
				if len(inbox) != changed {
					changed = len(inbox)
					break
				}
				time.Sleep(time.Millisecond)
			}
		}
	}()
	return out
}

func TestUpdateReturnsWhatTheHandlerReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := memory.New(), &counter{}
		waits(t, store, cart(c), "r", 0)
		out := running(t, store, cart(c), "r", 0)
		for n, item := range []string{"tea", "milk", "oats"} {
			size, err := durable.Update[int](t.Context(), store, "r", "add", item)
			require.NoError(t, err)
			assert.Equal(t, n+1, size)
		}
		done(t, store)
		assert.Equal(t, []string{"tea 3", "milk 4", "oats 4"}, <-out)
	})
}

func TestTheSameKeyIsTheSameUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := memory.New(), &counter{}
		waits(t, store, cart(c), "r", 0)
		out := running(t, store, cart(c), "r", 0)
		for _, item := range []string{"tea", "tea", "something else"} {
			size, err := durable.Update[int](t.Context(), store, "r", "add", item, durable.SendKey("click-1"))
			require.NoError(t, err)
			assert.Equal(t, 1, size)
		}
		_, err := durable.Update[int](t.Context(), store, "r", "other", 1, durable.SendKey("click-1"))
		asError[*durable.OptionError](t, err)
		done(t, store)
		assert.Equal(t, []string{"tea 3"}, <-out)
		size, err := durable.Update[int](t.Context(), store, "r", "add", "tea", durable.SendKey("click-1"))
		require.NoError(t, err, "also behind the end")
		assert.Equal(t, 1, size)
	})
}

func TestTheErrorsOfUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, store, c := t.Context(), memory.New(), &counter{}
		waits(t, store, cart(c), "r", 0)
		out := running(t, store, cart(c), "r", 0)

		_, err := durable.Update[int](ctx, store, "r", "add", "")
		rejected := asError[*durable.UpdateRejectedError](t, err)
		assert.Equal(t, durable.RefusedInvalid, rejected.Reason)
		assert.Equal(t, "nothing", asError[*broken](t, err).Item, "what the validator has returned")
		assert.EqualError(t, err, `pawl: run "r": update "add" was rejected: invalid (nothing is broken): the run is as it was`)

		_, err = durable.Update[int](ctx, store, "r", "add", 7)
		assert.Equal(t, durable.RefusedArgument, asError[*durable.UpdateRejectedError](t, err).Reason)
		asError[*journal.DecodeError](t, err)

		_, err = durable.Update[int](ctx, store, "r", "remove", "tea")
		rejected = asError[*durable.UpdateRejectedError](t, err)
		assert.Equal(t, durable.UpdateRejectedError{RunID: "r", Name: "remove", Reason: durable.RefusedUnknown}, *rejected)
		assert.True(t, rejected.Unretryable())

		_, err = durable.Update[int](ctx, store, "r", "add", "broken")
		failed := asError[*durable.UpdateFailedError](t, err)
		assert.Equal(t, "broken", asError[*broken](t, err).Item)
		assert.EqualError(t, failed, `pawl: run "r": update "add" failed: broken is broken: the run goes on`)
		assert.True(t, failed.Unretryable())

		_, err = durable.Update[map[string]int](ctx, store, "r", "add", "milk")
		asError[*durable.ReplayError](t, err)
		_, err = durable.Update[int](ctx, store, "r", "", "milk")
		asError[*durable.OptionError](t, err)
		_, err = durable.Update[int](ctx, store, "r", "add", "milk", durable.SendKey("pawl:x"))
		assert.Equal(t, "SendKey", asError[*durable.OptionError](t, err).Call)
		_, err = durable.Update[int](ctx, store, "r", "add", make(chan int))
		asError[*journal.NotSerializableError](t, err)
		_, err = durable.Update[int](ctx, store, "nobody", "add", "milk")
		asError[*journal.NotFoundError](t, err)

		done(t, store)
		assert.Equal(t, []string{"broken 6", "milk 4"}, <-out)
		_, err = durable.Update[int](ctx, store, "r", "add", "late")
		require.ErrorIs(t, err, journal.ErrEnded)
	})
}

func TestAnUpdateThatIsNotHandledInTimeMayStillBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := memory.New(), &counter{}
		waits(t, store, cart(c), "r", 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := durable.Update[int](ctx, store, "r", "add", "tea") // nobody runs it
		late := asError[*durable.UpdateTimeoutError](t, err)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.True(t, late.Timeout())
		assert.True(t, late.Unretryable())
		assert.Contains(t, late.Error(), fmt.Sprintf("durable.SendKey(%q)", late.Key))
		out := running(t, store, cart(c), "r", 0)
		size, err := durable.Update[int](t.Context(), store, "r", "add", "tea", durable.SendKey(late.Key))
		require.NoError(t, err)
		assert.Equal(t, 1, size)
		done(t, store)
		assert.Equal(t, []string{"tea 3"}, <-out)
	})
}

func TestAnUpdateThatTheRunDoesNotComeToIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
			return durable.Step(ctx, "long", func(context.Context) (int, error) { time.Sleep(time.Minute); return 1, nil })
		})
		out := running(t, store, wf, "r", 0)
		synctest.Wait()
		_, err := durable.Update[int](t.Context(), store, "r", "u", 1)
		assert.Equal(t, durable.RefusedEnded, asError[*durable.UpdateRejectedError](t, err).Reason)
		require.ErrorIs(t, err, journal.ErrEnded)
		<-out
	})
}

// The run ends without a word of the update: it was cancelled by somebody else.
func TestAnUpdateOfARunThatIsCancelledIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := memory.New(), &counter{}
		waits(t, store, cart(c), "r", 0)
		go func() {
			time.Sleep(time.Second)
			_ = durable.Cancel(context.Background(), store, "r", "")
		}()
		_, err := durable.Update[int](t.Context(), store, "r", "add", "tea")
		assert.Equal(t, durable.RefusedEnded, asError[*durable.UpdateRejectedError](t, err).Reason)
		_, err = durable.Query[int](t.Context(), store, "r", "size", 1)
		require.ErrorIs(t, err, journal.ErrEnded)
	})
}

func TestUpdateFollowsARunThatContinuesAsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := memory.New(), &counter{}
		wf := durable.Workflow("w", func(ctx context.Context, items []string) ([]string, error) {
			if len(items) == 0 {
				if err := suspend(ctx); err != nil {
					return nil, err
				}
				return nil, durable.ContinueAsNew(ctx, []string{"begun"})
			}
			if err := register(ctx, c, &items); err != nil {
				return nil, err
			}
			err := durable.Await(ctx, func() bool { return len(items) > 2 })
			return items, err
		})
		_, err := durable.Run(t.Context(), store, wf, "r", nil)
		asError[*durable.SuspendedError](t, err)
		release(t, store, "r")
		go func() {
			time.Sleep(time.Second) // the update is in the first run's inbox
			_, _ = durable.Run(t.Context(), store, wf, "r", nil)
		}()
		size, err := durable.Update[int](t.Context(), store, "r", "add", "tea", durable.SendKey("k"))
		require.NoError(t, err)
		assert.Equal(t, 2, size)
		out := running(t, store, wf, "r", nil)
		size, err = durable.Update[int](t.Context(), store, "r", "add", "milk")
		require.NoError(t, err, "the last run of the chain is asked")
		assert.Equal(t, 3, size)
		assert.Equal(t, []string{"begun", "tea 3", "milk 4"}, <-out)
	})
}

func TestQueryReturnsWhatTheHandlerSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, store, c := t.Context(), memory.New(), &counter{}
		waits(t, store, asked(c), "r", 0)
		out := running(t, store, asked(c), "r", 0)
		for range 2 {
			stage, err := durable.Query[string](ctx, store, "r", "stage", true)
			require.NoError(t, err)
			assert.Equal(t, "behind a", stage)
		}
		for name, want := range map[string]durable.Refusal{"other": durable.RefusedUnknown, "fails": durable.QueryFailed, "panics": durable.QueryFailed} {
			_, err := durable.Query[string](ctx, store, "r", name, true)
			none := asError[*durable.QueryError](t, err)
			assert.Equal(t, want, none.Reason)
			assert.True(t, none.Unretryable())
			assert.False(t, none.Timeout())
		}
		_, err := durable.Query[string](ctx, store, "r", "fails", true)
		assert.Equal(t, "query", asError[*broken](t, err).Item)
		_, err = durable.Query[string](ctx, store, "r", "stage", "no bool")
		assert.Equal(t, durable.RefusedArgument, asError[*durable.QueryError](t, err).Reason)
		_, err = durable.Query[int](ctx, store, "r", "stage", true)
		asError[*durable.ReplayError](t, err)
		release(t, store, "r")
		<-out

		waits(t, store, asked(c), "nobody runs it", 0)
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err = durable.Query[string](short, store, "nobody runs it", "stage", true)
		late := asError[*durable.QueryError](t, err)
		assert.Equal(t, durable.QueryTimeout, late.Reason)
		assert.True(t, late.Timeout())
		assert.False(t, late.Unretryable())
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestUpdatesAndQueriesAreEncoded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := memory.New(), &counter{}
		codec, err := journal.AESGCM(journal.Key{ID: "k", Secret: make([]byte, 32)})
		require.NoError(t, err)
		using := durable.Using(durable.Settings{Codec: codec})
		_, err = durable.Run(t.Context(), store, cart(c), "r", 0, using)
		asError[*durable.SuspendedError](t, err)
		_, err = durable.Update[int](t.Context(), store, "r", "add", "tea")
		asError[*durable.OptionError](t, err)
		out := running(t, store, cart(c), "r", 0, using)
		size, err := durable.Update[int](t.Context(), store, "r", "add", "tea", using)
		require.NoError(t, err)
		assert.Equal(t, 1, size)
		_, err = durable.Update[int](t.Context(), store, "r", "add", "broken", using)
		asError[*broken](t, err)
		_, err = durable.Update[int](t.Context(), store, "r", "add", "", using)
		asError[*broken](t, err)
		for _, e := range events(t, store, "r") {
			assert.NotContains(t, string(e.Payload)+string(e.Meta), "tea")
		}
		require.NoError(t, durable.Signal(t.Context(), store, "r", "done", true, using))
		assert.Equal(t, []string{"tea 3", "broken 6"}, <-out)
	})
}

// What was copied from a failed run has the numbers of that run's messages.
func TestAnUpdateOfARetryIsNotAnsweredByWhatTheFailedRunHasHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c, broke := memory.New(), &counter{}, true
		waits(t, store, shop(c, &broke), "r", 0)
		for _, item := range []string{"tea", "milk"} {
			add(t, store, "r", item)
		}
		_, err := durable.Run(t.Context(), store, shop(c, &broke), "r", 0)
		asError[*durable.RunFailedError](t, err)
		retry(t, store, "r", "r2")
		broke = false
		go func() {
			time.Sleep(time.Second)
			_, _ = durable.Run(context.Background(), store, shop(c, &broke), "r2", 0)
		}()
		size, err := durable.Update[int](t.Context(), store, "r2", "add", "oats", durable.SendKey("k"))
		require.NoError(t, err)
		assert.Equal(t, 3, size)
	})
}

func TestAskingWhileTheStoreIsOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, c := memory.New(), &counter{}
		store := journaltest.NewFaulty(inner)
		waits(t, inner, cart(c), "r", 0)
		go func() {
			time.Sleep(time.Second)
			store.Outage(true)
		}()
		_, err := durable.Update[int](t.Context(), store, "r", "add", "tea")
		require.ErrorIs(t, err, journal.ErrUnavailable)
		_, err = durable.Query[int](t.Context(), store, "r", "size", 1)
		require.ErrorIs(t, err, journal.ErrUnavailable)
	})
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	for reason, want := range map[durable.Refusal]string{
		durable.RefusedUnknown:  "use the name that the workflow's handler has",
		durable.RefusedArgument: "send what the handler takes",
		durable.RefusedEnded:    "read its result instead",
		durable.RefusedGraph:    "their state can be read",
		durable.QueryTimeout:    "ask again while somebody runs the run",
	} {
		for _, err := range []error{
			&durable.UpdateRejectedError{RunID: "r", Name: "n", Reason: reason}, &durable.QueryError{RunID: "r", Name: "n", Reason: reason},
		} {
			assert.ErrorContains(t, err, want)
			assert.ErrorContains(t, err, `run "r"`)
		}
	}
}

// Another process may have the key, so the update is left to that.
func TestAnUpdateWithoutAKeyIsLeftToThoseWhoHaveIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := memory.New(), &counter{}
		settings := func(ids ...string) durable.CommonOption {
			var keys []journal.Key
			for _, id := range ids {
				keys = append(keys, journal.Key{ID: id, Secret: []byte("0123456789abcde" + id)})
			}
			codec, err := journal.AESGCM(keys...)
			require.NoError(t, err)
			return durable.Using(durable.Settings{Codec: codec})
		}
		_, err := durable.Run(t.Context(), store, cart(c), "r", 0, settings("a"))
		asError[*durable.SuspendedError](t, err)
		asked := make(chan error)
		go func() {
			_, err := durable.Update[int](context.Background(), store, "r", "add", "tea", settings("b", "a"))
			asked <- err
		}()
		synctest.Wait()
		_, err = durable.Run(t.Context(), store, cart(c), "r", 0, settings("a"))
		require.ErrorIs(t, err, journal.ErrUnknownKey)
		assert.False(t, status(t, store, "r").Terminal())
		_, err = durable.Run(t.Context(), store, cart(c), "r", 0, settings("a", "b"))
		asError[*durable.SuspendedError](t, err)
		require.NoError(t, <-asked)
	})
}
