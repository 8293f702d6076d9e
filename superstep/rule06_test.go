package superstep_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

// statusError is a failure with an HTTP status.
type statusError int

func (e statusError) Error() string       { return fmt.Sprintf("server said %d", int(e)) }
func (e statusError) HTTPStatusCode() int { return int(e) }

var errBoom = errors.New("boom")

func TestRule06_FirstFailureIsReturnedAndSiblingsAreCancelled(t *testing.T) {
	shapes := map[string]nodeFn{
		"return ctx.Err()": waits,
		"return the cause": func(ctx context.Context, _ st) (up, error) { <-ctx.Done(); return up{}, context.Cause(ctx) },
		"return a wrapped cause": func(ctx context.Context, _ st) (up, error) {
			<-ctx.Done()
			return up{}, fmt.Errorf("client: %w", context.Cause(ctx))
		},
		"return another failure": func(ctx context.Context, _ st) (up, error) { <-ctx.Done(); return up{}, statusError(503) },
		"panic":                  func(ctx context.Context, _ st) (up, error) { <-ctx.Done(); panic("late") },
	}
	for name, sibling := range shapes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := build(t, func(b *bld) {
					before := b.Node("before", say("before"))
					x := b.Node("x", sibling)
					y := b.Node("y", func(context.Context, st) (up, error) { time.Sleep(time.Second); return up{}, statusError(401) })
					z := b.Node("z", sibling, graph.Timeout(time.Hour))
					b.Start(before)
					b.Edge(before, x)
					b.Edge(before, y)
					b.Edge(before, z)
				})
				begin := time.Now()
				o := play(t.Context(), t, g, superstep.Config{}, st{})
				require.Equal(t, time.Second, time.Since(begin))
				var node *superstep.NodeError
				require.ErrorAs(t, o.err, &node)
				require.Equal(t, "y", node.Node)
				require.Equal(t, 2, node.SuperStep)
				require.Equal(t, 1, node.Attempts)
				require.ErrorIs(t, o.err, statusError(401))
				require.NotErrorIs(t, o.err, context.Canceled)
				require.Equal(t, classifier.Unauthorized, node.Class)
				require.Equal(t, []string{"before"}, o.State.Log, "nothing of the super-step is committed")
				require.Equal(t, 1, o.SuperSteps)
				for _, ev := range only[*task.TaskFailed](o.events) {
					if ev.Node != "y" {
						require.Equal(
							t,
							string(classifier.Canceled),
							ev.Class,
							"a cancelled sibling is a cancel, nothing else: %s",
							ev.Text,
						)
						require.ErrorIs(t, ev.Err, context.Canceled)
					}
				}
			})
		})
	}
}

func TestRule06_NothingOfAFailedSuperStepIsCommittedThoughSiblingsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := build(t, func(b *bld) {
			b.Start(b.Node("x", say("x")), b.Node("y", func(context.Context, st) (up, error) {
				time.Sleep(time.Second)
				return up{Log: []string{"y"}}, errBoom
			}))
		})
		o := play(t.Context(), t, g, superstep.Config{}, st{V: "in"})
		require.ErrorIs(t, o.err, errBoom)
		require.Equal(t, st{V: "in"}, o.State)
		require.Zero(t, o.SuperSteps)
		done := only[*task.TaskCompleted](o.events)
		require.Len(t, done, 1, "the sibling's own end is success")
		require.Equal(t, "x", done[0].Node)
		require.Empty(t, only[*task.SuperStepCompleted](o.events))
	})
}

func TestRule06_SiblingsAreAwaitedForGrace(t *testing.T) {
	for _, tc := range []struct {
		name      string
		cleanup   time.Duration
		abandoned int
	}{{"done within Grace", 2 * time.Second, 0}, {"not done", 4 * time.Second, 1}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				started := make(chan struct{})
				g := build(t, func(b *bld) {
					b.Start(b.Node("slow", func(ctx context.Context, _ st) (up, error) {
						close(started)
						<-ctx.Done()
						time.Sleep(tc.cleanup)
						return up{}, nil
					}), b.Node("bad", func(context.Context, st) (up, error) {
						<-started // or slow would never be called
						return up{}, errBoom
					}))
				})
				begin := time.Now()
				o := play(t.Context(), t, g, superstep.Config{Grace: 3 * time.Second}, st{})
				require.ErrorIs(t, o.err, errBoom)
				require.Equal(t, min(tc.cleanup, 3*time.Second), time.Since(begin))
				require.Equal(t, tc.abandoned, o.Abandoned)
				time.Sleep(time.Hour)
			})
		})
	}
}

func TestRule06_TasksThatHaveNotStartedAreNotStarted(t *testing.T) {
	var calls peak
	g := build(t, func(b *bld) {
		s := b.Node("s", say())
		w := graph.Task(b, "w", func(_ context.Context, _ st, i int) (up, error) {
			calls.enter()
			return up{}, errBoom
		})
		b.Start(s)
		b.Route(s, each(w, make([]int, 1000)...), w)
	})
	o := play(t.Context(), t, g, superstep.Config{MaxConcurrency: 1}, st{})
	require.ErrorIs(t, o.err, errBoom)
	require.EqualValues(t, 1, calls.now.Load())
}

func TestRule06_CancelCausesAreOfOurOwnTypeAndDoNotUnwrapToTheFailure(t *testing.T) {
	check := func(t *testing.T, cause, want error) {
		t.Helper()
		require.ErrorIs(t, cause, want, "%T", cause)
		require.NotErrorIs(t, cause, statusError(503))
		_, found := classifier.HTTPStatus(cause)
		require.False(t, found)
		require.NotContains(t, cause.Error(), "503")
		require.NotEqual(t, classifier.ProviderError, classifier.Default().Classify(cause).Class)
	}
	var cause error
	keep := func(ctx context.Context, _ st) (up, error) { //nolint:unparam // it is a node
		<-ctx.Done()
		cause = context.Cause(ctx)
		return up{}, cause
	}
	t.Run("a sibling failed", func(t *testing.T) {
		g := build(t, func(b *bld) { b.Start(b.Node("x", keep), b.Node("y", fails(statusError(503)))) })
		o := play(t.Context(), t, g, superstep.Config{}, st{})
		require.ErrorIs(t, o.err, statusError(503))
		check(t, cause, context.Canceled)
		require.ErrorAs(t, cause, new(*superstep.CancelledError))
	})
	t.Run("a sibling failed, in a subgraph", func(t *testing.T) {
		child := build(t, func(b *bld) { b.Start(b.Node("x", keep), b.Node("x2", waits)) })
		g := build(t, func(b *bld) {
			sub := graph.Sub(b, "sub", child, func(s st) st { return s }, func(st) up { return up{} })
			b.Start(sub, b.Node("y", fails(statusError(503))))
		})
		o := play(t.Context(), t, g, superstep.Config{}, st{})
		require.ErrorIs(t, o.err, statusError(503))
		check(t, cause, context.Canceled)
	})
	t.Run("RunTimeout", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := play(t.Context(), t, one(t, keep), superstep.Config{RunTimeout: time.Second}, st{})
			require.ErrorIs(t, o.err, context.DeadlineExceeded)
			check(t, cause, context.DeadlineExceeded)
		})
	})
	t.Run("an attempt's deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := play(t.Context(), t, one(t, keep, graph.Timeout(time.Second)), superstep.Config{}, st{})
			require.ErrorIs(t, o.err, context.DeadlineExceeded)
			check(t, cause, context.DeadlineExceeded)
		})
	})
	t.Run("Stop", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := runner(t, one(t, keep), superstep.Config{})
			time.AfterFunc(time.Second, func() {
				if err := r.Stop(context.Background()); err != nil {
					t.Error(err)
				}
			})
			_, err := r.Run(t.Context(), st{})
			require.ErrorIs(t, err, superstep.ErrStopped)
			check(t, cause, context.Canceled)
		})
	})
	t.Run("the consumer left the stream", func(t *testing.T) {
		for ev := range runner(t, one(t, keep), superstep.Config{}).Stream(t.Context(), st{}) {
			if ev.Head().Kind == task.KindAttemptStarted {
				break
			}
		}
		check(t, cause, context.Canceled)
		require.ErrorAs(t, cause, new(*superstep.CancelledError))
	})
	t.Run("an observer panicked", func(t *testing.T) {
		o := play(t.Context(), t, one(t, func(ctx context.Context, s st) (up, error) {
			task.Emit(ctx, 1)
			return keep(ctx, s)
		}), superstep.Config{Observers: []func(task.Event){func(ev task.Event) {
			if ev.Head().Kind == task.KindCustom {
				panic(statusError(503))
			}
		}}}, st{})
		require.ErrorAs(t, o.err, new(*task.PanicError))
		check(t, cause, context.Canceled)
	})
}

func TestRule06_TheFirstFailureWinsOverALaterOneAndOverTheEndOfTheCallersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		g := build(t, func(b *bld) {
			b.Start(b.Node("later", func(ctx context.Context, _ st) (up, error) {
				<-ctx.Done()
				time.Sleep(time.Second)
				cancel() // after the first failure, while siblings are awaited
				return up{}, statusError(500)
			}), b.Node("first", fails(errBoom)))
		})
		o := play(ctx, t, g, superstep.Config{}, st{})
		require.ErrorIs(t, o.err, errBoom)
		require.NotErrorIs(t, o.err, context.Canceled)
		require.NotErrorIs(t, o.err, statusError(500))
	})
}

func TestRule06_ASiblingInItsBackoffIsCancelledAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policy(5)
		p.InitialDelay = time.Hour
		g := build(t, func(b *bld) {
			b.Start(b.Node("x", fails(statusError(503)), graph.Retry(p)), b.Node("y", func(context.Context, st) (up, error) {
				time.Sleep(time.Minute)
				return up{}, statusError(http.StatusUnauthorized)
			}))
		})
		begin := time.Now()
		o := play(t.Context(), t, g, superstep.Config{}, st{})
		require.ErrorIs(t, o.err, statusError(401))
		require.NotErrorIs(t, o.err, statusError(503))
		require.Equal(t, time.Minute, time.Since(begin))
	})
}
