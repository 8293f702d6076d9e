package superstep_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	memstore "github.com/pawl-go/pawl/journal/memory"
	"github.com/pawl-go/pawl/superstep"
)

// A migration is also read into checkpoints: the nodes that are active, deferred or waited for by a join have new names there.
func TestJournal_AMigrationReadsCheckpointsToo(t *testing.T) {
	var stop context.CancelFunc
	named := func(prefix string) *graph.Graph[st, up] {
		return build(t, func(b *bld) {
			loop := b.Node(prefix+"loop", func(_ context.Context, s st) (up, error) {
				if s.N == 4 && stop != nil {
					stop()
					return up{}, context.Canceled
				}
				return up{N: 1, V: strings.Repeat("x", 20<<10)}, nil
			})
			side := b.Node(prefix+"side", say("side"))
			join := b.Node(prefix+"join", say("join"))
			last := b.Node(prefix+"last", say("last"), graph.Defer())
			b.Start(loop, side)
			b.Edge(side, last)
			b.Route(loop, func(s st) graph.Next {
				if s.N < 6 {
					return graph.To(loop)
				}
				return graph.To(join)
			}, loop, join)
			end := b.Node(prefix+"end", say("end"))
			b.Join([]graph.Ref{side, join}, end)
		})
	}
	store := memstore.New()
	var ctx context.Context
	ctx, stop = context.WithCancel(t.Context())
	_, err := durableRunner(t, named(""), store).Run(ctx, st{}, in("r"))
	require.ErrorIs(t, err, context.Canceled)
	stop = nil
	run, err := store.Load(t.Context(), "r")
	require.NoError(t, err)
	require.NotZero(t, run.Checkpoint, "no checkpoint was written")

	rename := map[string]string{}
	for _, name := range []string{"loop", "side", "join", "last", "end"} {
		rename[name] = "new " + name
	}
	mapped := 0
	by := superstep.WithMigration(superstep.Migration{
		Rename: rename,
		State:  func(data json.RawMessage) (json.RawMessage, error) { mapped++; return data, nil },
		Update: func(data json.RawMessage) (json.RawMessage, error) { mapped++; return data, nil },
	})
	res, err := durableRunner(t, named("new "), store).Resume(t.Context(), "r", by)
	require.NoError(t, err)
	assert.NotZero(t, mapped)

	want, err := durableRunner(t, named(""), memstore.New()).Run(t.Context(), st{})
	require.NoError(t, err)
	assert.Equal(t, want.State, res.State)
	assert.Equal(t, want.SuperSteps, res.SuperSteps)
	all, err := durableRunner(t, named("new "), store).State(t.Context(), "r", by)
	require.NoError(t, err)
	assert.Equal(t, want.State, all.State)
}

// What needs a journal says so, and what the journal's settings must not be is refused.
func TestJournal_WithoutAStoreItsMethodsSaySo(t *testing.T) {
	r := runner(t, one(t, say("a")), superstep.Config{})
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"Resume":    func() error { _, err := r.Resume(ctx, "r"); return err },
		"Retry":     func() error { _, err := r.Retry(ctx, "r"); return err },
		"Fork":      func() error { _, err := r.Fork(ctx, "r", 0, nil); return err },
		"Continue":  func() error { _, err := r.Continue(ctx, "r", nil); return err },
		"State":     func() error { _, err := r.State(ctx, "r"); return err },
		"Answer":    func() error { return r.Answer(ctx, "r", "q", 1) },
		"Signal":    func() error { return r.Signal(ctx, "r", "s", 1) },
		"Questions": func() error { _, err := r.Questions(ctx, "r"); return err },
		"Cancel":    func() error { return r.Cancel(ctx, "r", "") },
		"StreamResume": func() (err error) {
			for _, err = range r.StreamResume(ctx, "r") {
				break
			}
			return err
		},
		"History": func() (err error) {
			for _, err = range r.History(ctx, "r", 0) {
				break
			}
			return err
		},
	} {
		require.ErrorContains(t, call(), "superstep.Runner."+name+" needs a journal: set Config.Store", name)
	}
	_, err := r.Run(ctx, st{}, superstep.Thread("t"))
	require.ErrorContains(t, err, "need a journal")

	_, err = superstep.NewRunner(one(t, say("a")), superstep.Config{PayloadLimit: -1, LeaseTTL: -1, Capture: "some"})
	for _, field := range []string{"PayloadLimit", "LeaseTTL", "Capture"} {
		require.ErrorContains(t, err, "superstep.Config."+field)
	}
}

func TestJournal_AThreadErrorSaysWhatToDo(t *testing.T) {
	store := memstore.New()
	r := durableRunner(t, one(t, asks("which?")), store)
	_, err := r.Continue(t.Context(), "talk", nil)
	require.ErrorContains(t, err, `begin it with Run and superstep.Thread("talk")`)
	_, err = r.Run(t.Context(), st{}, in("r"), superstep.Thread("talk"))
	require.Error(t, err)
	_, err = r.Continue(t.Context(), "talk", nil)
	require.ErrorContains(t, err, "superstep.ContinueAnyway()")
}

// With CaptureShapes log lines hide the values of groups and attributes, too.
func TestJournal_LogLinesOfGroupsAreShaped(t *testing.T) {
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, nil))
	r := runner(t, one(t, func(context.Context, st) (up, error) { panic("secret") }), superstep.Config{
		Capture: journal.CaptureShapes, Logger: log.With("who", "me").WithGroup("g"),
	})
	_, err := r.Run(t.Context(), st{})
	require.Error(t, err)
	assert.NotContains(t, out.String(), "secret")
}
