package durable_test

import (
	"context"
	"encoding/json"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
)

func asker[T any](c *counter) *durable.Definition[string, T] {
	return durable.Workflow("asker", func(ctx context.Context, question string) (T, error) {
		var zero T
		if _, err := counted(ctx, c, "draft", "draft"); err != nil {
			return zero, err
		}
		return durable.Interrupt[T](ctx, question)
	})
}

func TestAQuestionSuspendsTheRunUntilItIsAnswered(t *testing.T) {
	store, c := memory.New(), &counter{}
	wf := asker[bool](c)
	for range 2 { // going on with no new answer asks again and re-runs nothing that finished
		_, err := durable.Run(t.Context(), store, wf, "r", "Publish?")
		suspended := asError[*durable.SuspendedError](t, err)
		assert.Equal(t, []string{"ask1"}, suspended.Questions(), "it keeps its id")
		assert.Equal(t, []durable.Wait{{Question: "ask1", Prompt: `"Publish?"`}}, suspended.Waits)
	}
	questions, err := durable.Questions(t.Context(), store, "r")
	require.NoError(t, err)
	require.Len(t, questions, 1)
	assert.Equal(t, "ask1", questions[0].ID)
	assert.JSONEq(t, `"Publish?"`, string(questions[0].Question))
	assert.JSONEq(t, `{"type":"boolean"}`, string(questions[0].Schema))
	assert.False(t, questions[0].Answered)

	require.NoError(t, durable.Answer(t.Context(), store, "r", "ask1", true))
	out, err := durable.Run(t.Context(), store, wf, "r", "Publish?")
	require.NoError(t, err)
	assert.True(t, out)
	assert.Equal(t, 1, c.of("draft"))
	assert.Equal(t, []string{
		"run:start", "step:done draft", "question:asked ask", "run:suspended", "run:suspended", "question:answered ask", "run:complete",
	}, kinds(t, store, "r"))
}

func answered[T comparable](t *testing.T, answer T) {
	t.Helper()
	store := memory.New()
	wf := asker[T](&counter{})
	_, err := durable.Run(t.Context(), store, wf, "r", "?")
	asError[*durable.SuspendedError](t, err)
	require.NoError(t, durable.Answer(t.Context(), store, "r", "ask1", answer))
	for range 2 {
		out, err := durable.Run(t.Context(), store, wf, "r", "?")
		require.NoError(t, err)
		assert.Equal(t, answer, out)
	}
}

func TestFalseZeroEmptyAndNilAreAnswers(t *testing.T) {
	answered(t, false)
	answered(t, 0)
	answered(t, "")
	answered[*int](t, nil)
	answered[any](t, nil)
	answered(t, [2]int{1, 2})
	answered(t, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	answered(t, struct {
		Name string `json:"name"`
		N    *int   `json:"n,omitempty"`
	}{Name: "x"})
}

// What the schema of a type would say wrongly is left out of it.
func TestAnswersOfTypesThatWriteThemselves(t *testing.T) {
	type odd struct {
		Big   *big.Int
		Bytes []byte
		Map   map[string]int
		Raw   json.RawMessage
		Level level
		Next  *odd
	}
	store := memory.New()
	wf := asker[odd](&counter{})
	_, err := durable.Run(t.Context(), store, wf, "r", "?")
	asError[*durable.SuspendedError](t, err)
	in := odd{Big: big.NewInt(5), Bytes: []byte("b"), Raw: json.RawMessage(`{"a":[1]}`), Level: 3, Next: &odd{Raw: json.RawMessage("1")}}
	require.NoError(t, durable.Answer(t.Context(), store, "r", "ask1", in))
	out, err := durable.Run(t.Context(), store, wf, "r", "?")
	require.NoError(t, err)
	in.Next.Big = nil
	assert.Equal(t, in, out)

	type flat struct {
		Big   big.Int
		Bytes []byte
		Map   map[string]int
		Raw   json.RawMessage
		Level level
		When  *time.Time
	}
	flatly := asker[flat](&counter{})
	_, err = durable.Run(t.Context(), store, flatly, "flat", "?")
	asError[*durable.SuspendedError](t, err)
	questions, err := durable.Questions(t.Context(), store, "flat")
	require.NoError(t, err)
	assert.NotEmpty(t, questions[0].Schema)
	require.NoError(t, durable.Answer(t.Context(), store, "flat", "ask1", flat{Bytes: []byte("x"), Raw: json.RawMessage(`"x"`), Level: 3}))
}

// level is a number that is written as text.
type level int

func (l level) MarshalText() ([]byte, error) { return []byte{byte('a' + l)}, nil }

func (l *level) UnmarshalText(text []byte) error {
	*l = level(text[0] - 'a')
	return nil
}

func TestAWrongAnswerIsRefusedAndTheQuestionStaysOpen(t *testing.T) {
	type verdict struct {
		OK    bool `json:"ok"`
		Score int  `json:"score"`
	}
	store := memory.New()
	wf := asker[verdict](&counter{})
	_, err := durable.Run(t.Context(), store, wf, "r", "?")
	asError[*durable.SuspendedError](t, err)
	for _, wrong := range []any{"yes", nil, 1, []int{}, map[string]any{"ok": "true", "score": 1}, map[string]any{"ok": true}} {
		refused := asError[*durable.AnswerError](t, durable.Answer(t.Context(), store, "r", "ask1", wrong))
		assert.Equal(t, durable.WrongType, refused.Reason, "%v", wrong)
	}
	inbox, err := store.Inbox(t.Context(), "r", 0)
	require.NoError(t, err)
	assert.Empty(t, inbox)
	require.NoError(t, durable.Answer(t.Context(), store, "r", "ask1", json.RawMessage(`{"ok": true, "score": 7}`)))
	out, err := durable.Run(t.Context(), store, wf, "r", "?")
	require.NoError(t, err)
	assert.Equal(t, verdict{true, 7}, out)
}

func TestAnswersEarlyTwiceLateOrForAnotherRun(t *testing.T) {
	store := memory.New()
	wf := asker[int](&counter{})
	_, err := durable.Run(t.Context(), store, wf, "r", "?")
	asError[*durable.SuspendedError](t, err)
	_, err = durable.Run(t.Context(), store, listener, "other", 1)
	asError[*durable.SuspendedError](t, err)
	reason := func(err error) durable.AnswerReason { return asError[*durable.AnswerError](t, err).Reason }

	require.ErrorIs(t, durable.Answer(t.Context(), store, "none", "ask1", 1), journal.ErrNotFound)
	assert.Equal(t, durable.NotAsked, reason(durable.Answer(t.Context(), store, "r", "ask2", 1)), "early")
	assert.Equal(t, durable.NotAsked, reason(durable.Answer(t.Context(), store, "other", "ask1", 1)), "for another run")
	require.NoError(t, durable.Answer(t.Context(), store, "r", "ask1", 1))
	assert.Equal(t, durable.AlreadyAnswered, reason(durable.Answer(t.Context(), store, "r", "ask1", 1)), "twice")
	assert.Equal(t, durable.AlreadyAnswered, reason(durable.Answer(t.Context(), store, "r", "ask1", 2)), "twice")
	out, err := durable.Run(t.Context(), store, wf, "r", "?")
	require.NoError(t, err)
	assert.Equal(t, 1, out)
	late := durable.Answer(t.Context(), store, "r", "ask1", 1)
	assert.Equal(t, durable.RunEnded, reason(late))
	require.ErrorIs(t, late, journal.ErrEnded)
}

func TestOfAnswersAtTheSameTimeOneIsTaken(t *testing.T) {
	store := memory.New()
	wf := asker[int](&counter{})
	_, err := durable.Run(t.Context(), store, wf, "r", "?")
	asError[*durable.SuspendedError](t, err)
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		taken []int
	)
	for i := range 20 {
		wg.Go(func() {
			if durable.Answer(t.Context(), store, "r", "ask1", i) == nil {
				mu.Lock()
				defer mu.Unlock()
				taken = append(taken, i)
			}
		})
	}
	wg.Wait()
	require.Len(t, taken, 1)
	out, err := durable.Run(t.Context(), store, wf, "r", "?")
	require.NoError(t, err)
	assert.Equal(t, taken[0], out)
}

// An answer that got past Answer's checks is skipped with a warning, and another one can be given.
func TestAnAnswerPastTheChecksIsSkipped(t *testing.T) {
	store := memory.New()
	wf := asker[int](&counter{})
	_, err := durable.Run(t.Context(), store, wf, "r", "?")
	asError[*durable.SuspendedError](t, err)
	for _, payload := range []string{`"five"`, `{`, `1.5`} {
		_, err = store.Send(t.Context(), "r", journal.Message{Kind: journal.AnswerMessage, Name: "ask1", Payload: []byte(payload)})
		require.NoError(t, err)
	}
	opt, log := logged()
	_, err = durable.Run(t.Context(), store, wf, "r", "?", opt)
	asError[*durable.SuspendedError](t, err)
	assert.Contains(t, log.String(), "does not fit its question")
	require.NoError(t, durable.Answer(t.Context(), store, "r", "ask1", 5))
	out, err := durable.Run(t.Context(), store, wf, "r", "?")
	require.NoError(t, err)
	assert.Equal(t, 5, out)
}

func TestAnInterruptWithoutAJournalFailsAtOnce(t *testing.T) {
	_, err := durable.Interrupt[bool](t.Context(), "?")
	assert.Equal(t, "Interrupt", asError[*durable.NoJournalError](t, err).Call)
}

func TestAQuestionThatJSONCannotHoldEndsTheRun(t *testing.T) {
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (bool, error) {
		return durable.Interrupt[bool](ctx, func() {})
	})
	_, err := durable.Run(t.Context(), memory.New(), wf, "r", 0)
	assert.Equal(t, durable.CodeNotSerializable, asError[*durable.RunFailedError](t, err).Code)
}

// Questions of branches are open together; answers may come one at a time, in any order.
func TestQuestionsOfBranchesAreReportedTogether(t *testing.T) {
	store := memory.New()
	wf := durable.Workflow("w", func(ctx context.Context, _ int) ([2]string, error) {
		var out [2]string
		var g errgroup.Group
		for i, name := range []string{"a", "b/c"} {
			g.Go(func() error {
				return durable.Branch(ctx, name, func(ctx context.Context) (err error) {
					out[i], err = durable.Interrupt[string](ctx, name)
					return err
				})
			})
		}
		return out, g.Wait()
	})
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	assert.ElementsMatch(t, []string{"a#1/ask1", "b%2Fc#1/ask1"}, asError[*durable.SuspendedError](t, err).Questions())
	require.NoError(t, durable.Answer(t.Context(), store, "r", "b%2Fc#1/ask1", "second"))
	_, err = durable.Run(t.Context(), store, wf, "r", 0)
	assert.Equal(t, []string{"a#1/ask1"}, asError[*durable.SuspendedError](t, err).Questions())
	require.NoError(t, durable.Answer(t.Context(), store, "r", "a#1/ask1", "first"))
	out, err := durable.Run(t.Context(), store, wf, "r", 0)
	require.NoError(t, err)
	assert.Equal(t, [2]string{"first", "second"}, out)
}
