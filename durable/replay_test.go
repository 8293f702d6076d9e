package durable_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
)

// steps is a workflow that makes these calls, "name" or "kind:name", and waits behind them.
func steps(calls ...string) *durable.Definition[int, int] {
	return durable.Workflow("steps", func(ctx context.Context, _ int) (int, error) {
		for _, call := range calls {
			kind, name, _ := strings.Cut(call, ":")
			fn := func(context.Context) (int, error) { return 0, nil }
			var err error
			switch kind {
			case "once":
				_, err = durable.Once(ctx, name, fn)
			case "sleep":
				err = durable.Sleep(ctx, 0)
			case "return":
				return 0, nil
			case "continue":
				return 0, durable.ContinueAsNew(ctx, 1)
			default:
				_, err = durable.Step(ctx, kind, fn)
			}
			if err != nil {
				return 0, err
			}
		}
		return 0, suspend(ctx)
	})
}

func TestAReplayThatMeetsAnotherNameOrKindIsNonDeterminism(t *testing.T) {
	for name, tt := range map[string]struct {
		before, after []string
		recorded, met string
	}{
		"another name":     {[]string{"a", "b"}, []string{"a", "c"}, `Step("b")`, `Step("c")`},
		"another order":    {[]string{"a", "b"}, []string{"b", "a"}, `Step("a")`, `Step("b")`},
		"another kind":     {[]string{"a"}, []string{"once:a"}, `Step("a")`, `Once("a")`},
		"one more":         {[]string{"a"}, []string{"a", "a"}, `WaitForSignal("release")`, `Step("a"), number 2 of that name`},
		"one less":         {[]string{"a", "a"}, []string{"a"}, `Step("a"), number 2 of that name`, `WaitForSignal("release")`},
		"an end before it": {[]string{"a", "b"}, []string{"a", "return"}, `Step("b")`, `its end`},
		"a continuation":   {[]string{"a", "b"}, []string{"a", "continue"}, `Step("b")`, `its end`},
		"a sleep":          {[]string{"sleep", "a"}, []string{"a"}, `Sleep("sleep")`, `Step("a")`},
	} {
		t.Run(name, func(t *testing.T) {
			store := memory.New()
			_, err := durable.Run(t.Context(), store, steps(tt.before...), "r", 0)
			asError[*durable.SuspendedError](t, err)
			_, err = durable.Run(t.Context(), store, steps(tt.after...), "r", 0)
			other := asError[*durable.NonDeterminismError](t, err)
			assert.Equal(t, tt.recorded, other.Recorded)
			assert.Equal(t, tt.met, other.Met)
			assert.Equal(t, "r", other.RunID)
			assert.Equal(t, journal.Pending, status(t, store, "r"))
			_, err = durable.Run(t.Context(), store, steps(tt.before...), "r", 0) // the old code goes on
			asError[*durable.SuspendedError](t, err)
		})
	}
}

// An attempt that breaks is retried up to three times within an hour; the fourth ends the run.
func TestABrokenReplaySpendsTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		_, err := durable.Run(t.Context(), store, steps("a"), "r", 0)
		asError[*durable.SuspendedError](t, err)
		broken := func() error {
			_, err := durable.Run(t.Context(), store, steps("b"), "r", 0)
			return err
		}
		for range 3 {
			asError[*durable.NonDeterminismError](t, broken())
			time.Sleep(30 * time.Minute)
		}
		for range 2 { // two of them are more than an hour old by now
			asError[*durable.NonDeterminismError](t, broken())
			assert.Equal(t, journal.Pending, status(t, store, "r"))
		}
		for range 2 {
			failed := asError[*durable.RunFailedError](t, broken())
			assert.Equal(t, durable.CodeReplayFailed, failed.Code)
			asError[*durable.NonDeterminismError](t, failed)
			assert.Equal(t, journal.Failed, status(t, store, "r"))
		}
	})
}

// damaged is a store that cannot read one event, or gives it another payload.
type damaged struct {
	journal.Store
	seq     int64
	payload []byte
}

func (s damaged) Events(ctx context.Context, run string, after int64) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		for e, err := range s.Store.Events(ctx, run, after) {
			if err == nil && e.Seq == s.seq {
				if s.payload == nil {
					yield(journal.Event{}, &journal.CorruptError{Run: run, Seq: e.Seq, Err: errors.New("checksum")})
					return
				}
				e.Payload = s.payload
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func TestACorruptEventBreaksAttemptsUntilTheRunFails(t *testing.T) {
	for name, tt := range map[string]struct {
		payload []byte
		seq     int64
	}{
		"unreadable":              {nil, 2},
		"unreadable first":        {nil, 1},
		"no JSON":                 {[]byte("{"), 2},
		"an input that is no int": {[]byte(`"x"`), 1},
	} {
		t.Run(name, func(t *testing.T) {
			inner := memory.New()
			_, err := durable.Run(t.Context(), inner, steps("a"), "r", 0)
			asError[*durable.SuspendedError](t, err)
			store := damaged{inner, tt.seq, tt.payload}
			for i := range 6 {
				_, err := durable.Resume(t.Context(), store, steps("a"), "r")
				require.Error(t, err)
				assert.ErrorContains(t, err, `"r"`)
				if i < 3 {
					assert.Equal(t, journal.Pending, status(t, inner, "r"), "attempt %d", i)
				} else {
					assert.Equal(t, journal.Failed, status(t, inner, "r"), "attempt %d", i)
				}
			}
			kinds := kinds(t, inner, "r")
			assert.Equal(t, []string{"run:requeued", "run:requeued", "run:requeued", "run:error"}, kinds[len(kinds)-4:])
		})
	}
}

func TestARunWithAMissingKeyIsLeftAlone(t *testing.T) {
	codec := func(id string) durable.CommonOption {
		key := journal.Key{ID: id, Secret: []byte(strings.Repeat(id[:1], 32))}
		sealed, err := journal.AESGCM(key)
		require.NoError(t, err)
		return durable.Using(durable.Settings{Codec: sealed})
	}
	store := memory.New()
	_, err := durable.Run(t.Context(), store, steps("a"), "r", 0, codec("old"))
	asError[*durable.SuspendedError](t, err)
	for range 5 {
		_, err := durable.Resume(t.Context(), store, steps("a"), "r", codec("new"))
		require.ErrorIs(t, err, journal.ErrUnknownKey)
	}
	_, err = durable.Resume(t.Context(), store, steps("a"), "r", codec("old"))
	asError[*durable.SuspendedError](t, err)
}

// A step whose recorded result no longer fits its type cannot be replayed.
func TestAResultThatNoLongerFitsItsType(t *testing.T) {
	store := memory.New()
	typed := func(v any) *durable.Definition[int, int] {
		return durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
			var err error
			switch v := v.(type) {
			case int:
				_, err = counted(ctx, &counter{}, "s", v)
			case string:
				_, err = counted(ctx, &counter{}, "s", v)
			}
			if err != nil {
				return 0, nil //nolint:nilerr // swallowed
			}
			return 0, suspend(ctx)
		})
	}
	_, err := durable.Run(t.Context(), store, typed("text"), "r", 0)
	asError[*durable.SuspendedError](t, err)
	_, err = durable.Run(t.Context(), store, typed(1), "r", 0)
	assert.EqualValues(t, 2, asError[*durable.ReplayError](t, err).Seq)
	asError[*journal.DecodeError](t, err)
}
