package superstep_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/superstep"
)

// echo answers what was said last.
func echo(_ context.Context, s st) (up, error) {
	return up{Log: []string{"re: " + s.Log[len(s.Log)-1]}}, nil
}

func said(words string) *up { return &up{Log: []string{words}, N: 1} }

func TestJournal_ContinueIsTheNextTurnOfAConversation(t *testing.T) {
	store := newStore()
	r := runner(t, one(t, echo), stored(store))
	_, err := r.Continue(t.Context(), "t", said("hello"))
	require.Equal(t, &superstep.ThreadError{Thread: "t"}, asError[*superstep.ThreadError](t, err))
	first, err := r.Run(t.Context(), st{Log: []string{"hello"}}, superstep.Thread("t"))
	require.NoError(t, err)
	_, err = r.Run(t.Context(), st{Log: []string{"stranger"}}, superstep.Thread("u"))
	require.NoError(t, err)
	second, err := runner(t, one(t, echo), stored(store)).Continue(t.Context(), "t", said("how are you"))
	require.NoError(t, err)
	require.Equal(t, []string{"hello", "re: hello", "how are you", "re: how are you"}, second.State.Log, "append, as the tag says")
	require.Equal(t, 1, second.State.N)
	run, err := store.Load(t.Context(), second.RunID)
	require.NoError(t, err)
	require.Equal(t, journal.Link{Kind: journal.TurnAfter, Run: first.RunID}, run.Link)
	require.Equal(t, "t", run.Thread)
	require.NoError(t, store.Delete(t.Context(), first.RunID))
	third, err := r.Continue(t.Context(), "t", nil)
	require.NoError(t, err)
	require.Equal(t, append(second.State.Log, "re: "+second.State.Log[3]), third.State.Log)
}

func TestJournal_AnUpdateThatTheReducerRefusesMakesNoTurn(t *testing.T) {
	store := newStore()
	b := graph.New("merge", graph.Merge(func(s st, ws []graph.Write[up]) (st, error) {
		for _, w := range ws {
			if w.Update.V == "bad" {
				return s, errBroken
			}
			s.V = w.Update.V
		}
		return s, nil
	}))
	b.Start(b.Node("a", say("a")))
	g, err := b.Compile()
	require.NoError(t, err)
	r := runner(t, g, stored(store))
	_, err = r.Run(t.Context(), st{}, in("1"), superstep.Thread("t"))
	require.NoError(t, err)
	_, err = r.Continue(t.Context(), "t", &up{V: "bad"}, in("2"))
	require.ErrorIs(t, err, errBroken)
	require.ErrorAs(t, err, new(*superstep.ReduceError))
	_, err = store.Load(t.Context(), "2")
	require.ErrorIs(t, err, journal.ErrNotFound)
}

func TestJournal_NewInputAfterARunThatWaitsOrFailedNeedsAnExplicitChoice(t *testing.T) {
	for name, last := range map[string]struct {
		fn     nodeFn
		status journal.Status
	}{
		"waits":  {asks("?"), journal.Suspended},
		"failed": {fails(errBroken), journal.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			store := newStore()
			g := inLine(t, say("a"), func(ctx context.Context, s st) (up, error) {
				if s.N == 0 {
					return last.fn(ctx, s)
				}
				return up{Log: []string{"b"}}, nil
			})
			r := runner(t, g, stored(store))
			_, err := r.Run(t.Context(), st{}, in("1"), superstep.Thread("t"))
			require.Error(t, err)
			_, err = r.Continue(t.Context(), "t", said("more"))
			refused := asError[*superstep.ThreadError](t, err)
			require.Equal(t, superstep.ThreadError{Thread: "t", RunID: "1", Status: last.status}, *refused)
			res, err := r.Continue(t.Context(), "t", said("more"), superstep.ContinueAnyway())
			require.NoError(t, err)
			require.Equal(t, []string{"a", "more", "a", "b"}, res.State.Log, "from what was committed last")
			require.Equal(t, last.status, statusOf(t, store, "1"), "that run stays as it is")
		})
	}
}

func TestJournal_ATurnIsMadeOnce(t *testing.T) {
	c, store := newMeter(), newStore()
	r := runner(t, one(t, counted(c, "a", echo)), stored(store))
	_, err := r.Run(t.Context(), st{Log: []string{"0"}}, in("0"), superstep.Thread("t"))
	require.NoError(t, err)
	turns := map[string]*superstep.Result[st]{}
	for i := range 3 {
		id := fmt.Sprint(i + 1)
		turns[id], err = r.Continue(t.Context(), "t", said(id), in(id))
		require.NoError(t, err)
	}
	for id, turn := range turns {
		again, err := r.Continue(t.Context(), "t", said(id), in(id))
		require.NoError(t, err, "also if others have followed")
		require.Equal(t, turn, again)
		_, err = r.Continue(t.Context(), "t", said("else"), in(id))
		require.ErrorAs(t, err, new(*durable.RunConflictError))
		_, err = r.Continue(t.Context(), "u", said(id), in(id))
		require.ErrorAs(t, err, new(*durable.RunConflictError))
	}
	_, err = r.Continue(t.Context(), "t", said("0"), in("0"))
	require.ErrorAs(t, err, new(*durable.RunConflictError), "the first is no turn after another")
	require.NoError(t, store.Delete(t.Context(), "0"))
	again, err := r.Continue(t.Context(), "t", said("1"), in("1"))
	require.NoError(t, err)
	require.Equal(t, turns["1"], again)
	require.Equal(t, 4, c.all()["a"])
}

// A turn whose run stopped half-way goes on under its id.
func TestJournal_ATurnThatStoppedGoesOn(t *testing.T) {
	store := newStore()
	r := runner(t, inLine(t, say("a"), func(ctx context.Context, s st) (up, error) {
		if s.N == 0 {
			return up{}, nil
		}
		return asks("?")(ctx, s)
	}), stored(store))
	_, err := r.Run(t.Context(), st{}, in("0"), superstep.Thread("t"))
	require.NoError(t, err)
	_, err = r.Continue(t.Context(), "t", said("x"), in("1"))
	require.NoError(t, r.Answer(t.Context(), "1", questionsOf(t, err)[0], "yes"))
	res, err := r.Continue(t.Context(), "t", said("x"), in("1"))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "x", "a", "yes"}, res.State.Log)
}

// A conversation outlives the version of the graph that began it.
func TestJournal_AConversationGoesOnWithAnotherVersionOfTheGraph(t *testing.T) {
	store := newStore()
	_, err := runner(t, one(t, echo), stored(store)).Run(t.Context(), st{Log: []string{"hello"}}, in("1"), superstep.Thread("t"))
	require.NoError(t, err)
	other := inLine(t, echo, say("and more"))
	res, err := runner(t, other, stored(store)).Continue(t.Context(), "t", said("x"))
	require.NoError(t, err)
	require.Equal(t, []string{"hello", "re: hello", "x", "re: x", "and more"}, res.State.Log)
}

func TestJournal_LinkedRunsAndOutages(t *testing.T) {
	for name, call := range map[string]func(*superstep.Runner[st, up]) (*superstep.Result[st], error){
		"Retry": func(r *superstep.Runner[st, up]) (*superstep.Result[st], error) {
			return r.Retry(t.Context(), "failed", in("new"))
		},
		"Fork": func(r *superstep.Runner[st, up]) (*superstep.Result[st], error) {
			return r.Fork(t.Context(), "done", 1, nil, in("new"))
		},
		"Continue": func(r *superstep.Runner[st, up]) (*superstep.Result[st], error) {
			return r.Continue(t.Context(), "t", nil, in("new"))
		},
	} {
		for _, when := range []journaltest.When{journaltest.Before, journaltest.After} {
			t.Run(fmt.Sprint(name, " ", when), func(t *testing.T) {
				store := journaltest.NewFaulty(newStore())
				fn := failsOnce(say("a"))
				r := runner(t, inLine(t, say("0"), fn, say("z")), stored(store))
				_, err := r.Run(t.Context(), st{}, in("failed"))
				require.ErrorIs(t, err, errBroken)
				_, err = r.Run(t.Context(), st{}, in("done"), superstep.Thread("t"))
				require.NoError(t, err)
				writes := 1
				for ; ; writes++ {
					store.FailWrite(writes, when)
					_, err := call(r)
					if err == nil {
						break
					}
					require.ErrorAs(t, err, new(*durable.StoreUnavailableError), "write %d", writes)
					_, err = call(r)
					require.NoError(t, err)
					require.NoError(t, store.Delete(t.Context(), "new"))
				}
				require.Greater(t, writes, 3)
			})
		}
	}
}
