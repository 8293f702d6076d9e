package superstep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

const secret = "top secret"

// telling compiles a graph that puts a secret wherever one can be put; last is its last node.
func telling(tb testing.TB, last nodeFn) *graph.Graph[st, up] {
	tb.Helper()
	return build(tb, func(b *bld) {
		a := b.Node("a", func(ctx context.Context, s st) (up, error) {
			task.EmitToken(ctx, task.TokenDelta{Text: secret, Provider: "fake", Choice: 1})
			task.Emit(ctx, map[string]string{secret: secret})
			task.Emit(ctx, struct{ Word string }{secret})
			if task.Info(ctx).Attempt == 1 {
				return up{}, fmt.Errorf("%s: %w", secret, &codedError{Status: 503, hidden: secret})
			}
			return up{Log: []string{secret}}, nil
		}, graph.Retry(policyNow(2)))
		z := b.Node("z", last)
		b.Start(a)
		b.Edge(a, z)
	})
}

// shows checks what events say of a secret.
func shows(t *testing.T, evs []task.Event, want bool) {
	t.Helper()
	found := false
	for _, ev := range evs {
		data, err := json.Marshal(ev)
		require.NoError(t, err)
		text := string(data) + fmt.Sprintf("%+v", ev)
		found = found || strings.Contains(text, secret)
		if !want {
			assert.NotContains(t, text, secret, line(ev))
		}
	}
	require.Equal(t, want, found)
}

func TestCapture_ShapesHideTheValuesOfEvents(t *testing.T) {
	for name, tt := range map[string]struct {
		last  nodeFn
		class classifier.RunErrorClass
		store bool
	}{
		"a run that succeeds": {say("z"), "", false},
		"journaled":           {say("z"), "", true},
		"a run that fails":    {fails(errors.New(secret)), classifier.Unknown, false},
		"and journaled":       {fails(errors.New(secret)), classifier.Unknown, true},
		"a panic":             {func(context.Context, st) (up, error) { panic(secret) }, classifier.Panic, false},
		"a cancel": {func(ctx context.Context, s st) (up, error) {
			task.Info(ctx)
			return waits(ctx, s)
		}, classifier.Canceled, true},
	} {
		for _, capture := range []journal.Capture{journal.CaptureFull, journal.CaptureShapes} {
			t.Run(fmt.Sprint(name, ", ", capture), func(t *testing.T) {
				full := capture.Full()
				p := &tape{}
				cfg := superstep.Config{Capture: capture, Observers: []func(task.Event){p.observe}}
				if tt.store {
					cfg.Store = newStore()
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tt.class == classifier.Canceled {
					cfg.Observers = append(cfg.Observers, func(ev task.Event) {
						if started, is := ev.(*task.AttemptStarted); is && started.Node == "z" {
							cancel(errors.New(secret))
						}
					})
				}
				evs, err := collect(t, runner(t, telling(t, tt.last), cfg).Stream(ctx, st{}))
				shows(t, p.all(), full)
				require.Len(t, p.all(), len(evs))
				if full {
					return
				}
				deltas := only[*task.TokenDelta](evs)
				require.Equal(t, "string(10)", deltas[0].Text)
				require.Equal(t, "fake", deltas[0].Provider)
				require.Equal(t, 1, deltas[0].Choice)
				require.Equal(t, "a", deltas[0].Node)
				custom := only[*task.Custom](evs)
				require.Equal(t, "map[string]string(1)", custom[0].Value)
				require.Equal(t, "{Word: string(10)}", custom[1].Value)
				failed := only[*task.AttemptFailed](evs)[0]
				require.Equal(t, task.Failure{Class: "provider_error", Text: "provider_error"}, failed.Failure)
				if tt.class != "" {
					shows(t, evs, false)
					require.Error(t, err)
					if tt.class != classifier.Canceled {
						require.ErrorContains(t, err, secret, "the caller's error is whole")
					}
					ends := only[*task.TaskFailed](evs)
					require.Equal(t, string(tt.class), ends[len(ends)-1].Text)
					require.NoError(t, ends[len(ends)-1].Err)
					return
				}
				require.NoError(t, err)
				shows(t, evs[:len(evs)-1], false)
				last := only[*task.RunCompleted[st]](evs)[0]
				require.Equal(t, []string{secret, "z"}, last.State.Log, "the stream's last event is the caller's result")
				observed := only[*task.RunCompleted[st]](p.all())[0]
				require.Zero(t, observed.State)
				require.Equal(t, last.Header, observed.Header)
				require.Equal(t, last.Totals, observed.Totals)
			})
		}
	}
}

func TestCapture_ARecordedRunShowsNoMore(t *testing.T) {
	store, p := newStore(), &tape{}
	r := runner(t, telling(t, say("z")), superstep.Config{Store: store, Capture: journal.CaptureShapes, Observers: []func(task.Event){p.observe}})
	first, err := r.Run(t.Context(), st{}, in("r"))
	require.NoError(t, err)
	evs, err := collect(t, r.Stream(t.Context(), st{}, in("r")))
	require.NoError(t, err)
	require.Equal(t, first.State, only[*task.RunCompleted[st]](evs)[0].State)
	shows(t, p.all(), false)
}

// leaky is a classifier that panics with what it was given.
type leaky struct{}

func (leaky) Classify(err error) classifier.Classification { panic(err.Error()) }

func TestCapture_ShapesHideTheValuesOfLogLines(t *testing.T) {
	for _, capture := range []journal.Capture{"", journal.CaptureFull, journal.CaptureShapes} {
		t.Run(string(capture), func(t *testing.T) {
			log, store := &recorder{}, newStore()
			g := one(t, func(ctx context.Context, _ st) (up, error) {
				n, err := durable.Interrupt[onlyNumber](ctx, "?")
				return up{N: int(n)}, err
			})
			logger := log.logger().WithGroup("g").With("mine", secret)
			r := runner(t, g, superstep.Config{Store: store, Capture: capture, Logger: logger, Classifier: leaky{}})
			_, err := r.Run(t.Context(), st{}, in("r"))
			payload, _ := json.Marshal(secret)
			_, err = store.Send(t.Context(), "r", journal.Message{Kind: journal.AnswerMessage, Name: questionsOf(t, err)[0], Payload: payload})
			require.NoError(t, err)
			_, err = r.Resume(t.Context(), "r")
			require.Len(t, questionsOf(t, err), 1)
			require.Len(t, log.lines(), 1)
			line := strings.ReplaceAll(log.lines()[0], `g.mine="top secret"`, "")
			require.NotEqual(t, line, log.lines()[0], "what the user has given the logger stays")
			require.Contains(t, line, "g.question=1/a[0]/ask1")
			require.Equal(t, capture.Full(), strings.Contains(line, secret), line)
		})
	}
}

// onlyNumber says in its error what it was given.
type onlyNumber int

func (n *onlyNumber) UnmarshalJSON(b []byte) error { return fmt.Errorf("no number: %s", b) }

func TestCapture_WhatALoggerOfShapesShows(t *testing.T) {
	log := &recorder{}
	g := one(t, fails(errors.New(secret)), graph.Retry(policyNow(2)))
	_, err := runner(t, g, superstep.Config{Capture: journal.CaptureShapes, Classifier: leaky{}, Logger: log.logger()}).Run(t.Context(), st{})
	require.Error(t, err)
	require.Contains(t, strings.Join(log.lines(), ""), "classifier=superstep_test.leaky panic=string stack=")
	require.NotContains(t, strings.Join(log.lines(), ""), secret)
}
