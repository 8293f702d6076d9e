package durable_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/journal/memory"
	"github.com/pawl-go/pawl/task"
)

func TestBranchesOfAWorkflowRunAtTheSameTime(t *testing.T) {
	store, c := memory.New(), &counter{}
	wf := durable.Workflow("w", func(ctx context.Context, n int) (int, error) {
		var g errgroup.Group
		sums := make([]int, n)
		for i := range n {
			g.Go(func() error {
				return durable.Branch(ctx, fmt.Sprint(i), func(ctx context.Context) error {
					for range 3 {
						v, err := counted(ctx, c, "s", i)
						if err != nil {
							return err
						}
						sums[i] += v
					}
					return suspend(ctx)
				})
			})
		}
		err := g.Wait()
		sum := 0
		for _, s := range sums {
			sum += s
		}
		return sum, err
	})
	const n = 10
	_, err := durable.Run(t.Context(), store, wf, "r", n)
	assert.Len(t, asError[*durable.SuspendedError](t, err).Waits, n)
	for range n - 1 {
		release(t, store, "r")
		_, err = durable.Run(t.Context(), store, wf, "r", n)
		asError[*durable.SuspendedError](t, err)
	}
	release(t, store, "r")
	out, err := durable.Run(t.Context(), store, wf, "r", n)
	require.NoError(t, err)
	assert.Equal(t, 135, out)
	assert.Equal(t, 3*n, c.of("s"))
}

// Both calls are under way when the second one begins.
func overlap(ctx context.Context, first, second func(ctx context.Context) error) (error, error) {
	inside, leave := make(chan struct{}), make(chan struct{})
	var g errgroup.Group
	g.Go(func() error {
		return first(context.WithValue(ctx, hook{}, func() {
			close(inside)
			<-leave
		}))
	})
	<-inside
	err := second(ctx)
	close(leave)
	return g.Wait(), err
}

// hook is the key of a function that a call runs while it is under way.
type hook struct{}

func runHook(ctx context.Context) {
	if h, ok := ctx.Value(hook{}).(func()); ok {
		h()
	}
}

func TestEqualNamesThatOverlapAreATypedError(t *testing.T) {
	step := func(ctx context.Context) error {
		_, err := durable.Step(ctx, "s", func(ctx context.Context) (int, error) { runHook(ctx); return 0, nil })
		return err
	}
	branch := func(ctx context.Context) error {
		return durable.Branch(ctx, "b", func(ctx context.Context) error { runHook(ctx); return nil })
	}
	for name, call := range map[string]func(ctx context.Context) error{"s": step, "b": branch} {
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
			err1, err2 := overlap(ctx, call, call)
			if err1 != nil || err2 == nil {
				return 0, errors.New("not refused")
			}
			return 0, nil // swallowed, it ends the run all the same
		})
		_, err := durable.Run(t.Context(), memory.New(), wf, "r", 0)
		asError[*durable.RunFailedError](t, err)
		assert.Equal(t, name, asError[*durable.OverlapError](t, err).Name)
	}
}

func TestBranchesOfOneNameOneAfterTheOtherAreCounted(t *testing.T) {
	store, c := memory.New(), &counter{}
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		sum := 0
		for range 3 {
			err := durable.Branch(ctx, "b", func(ctx context.Context) error {
				v, err := counted(ctx, c, "s", 1)
				sum += v
				return err
			})
			if err != nil {
				return 0, err
			}
		}
		if _, err := counted(ctx, c, "b", 0); err != nil { // a branch does not count as a call of its name
			return 0, err
		}
		return sum, suspend(ctx)
	})
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.SuspendedError](t, err)
	release(t, store, "r")
	out, err := durable.Run(t.Context(), store, wf, "r", 0)
	require.NoError(t, err)
	assert.Equal(t, 3, out)
	assert.Equal(t, 3, c.of("s"))
	assert.Equal(t, []string{"step:done s in b#1", "step:done s in b#2", "step:done s in b#3", "step:done b"}, kinds(t, store, "r")[1:5])
}

// The calls of one scope have an order, so two at the same time are refused, whatever they are called. Branches may overlap
// each other and the calls around them.
func TestCallsThatOverlapAreRefusedUnlessInBranches(t *testing.T) {
	store, c := memory.New(), &counter{}
	step := func(name string) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := durable.Step(ctx, name, func(context.Context) (int, error) {
				c.add(name)
				runHook(ctx)
				return 0, nil
			})
			return err
		}
	}
	in := func(name string) func(ctx context.Context) error {
		return func(ctx context.Context) error { return durable.Branch(ctx, name, step(name)) }
	}
	plain := durable.Workflow("plain", func(ctx context.Context, _ int) (int, error) {
		err1, err2 := overlap(ctx, step("a"), step("b"))
		return 0, errors.Join(err1, err2)
	})
	_, err := durable.Run(t.Context(), store, plain, "plain", 0)
	refused := asError[*durable.OverlapError](t, err)
	assert.Equal(t, []string{"b", "a"}, []string{refused.Name, refused.Other})
	assert.Zero(t, c.of("b"))
	assert.Contains(t, kinds(t, store, "plain"), "step:done a", "the one that was under way is recorded")

	for name, calls := range map[string][2]func(ctx context.Context) error{
		"two branches":                  {in("c"), in("d")},
		"a branch beside a call":        {step("e"), in("f")},
		"a call beside a branch":        {in("g"), step("h")},
		"a branch and a call, one name": {in("i"), step("i")},
	} {
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
			err1, err2 := overlap(ctx, calls[0], calls[1])
			if err := errors.Join(err1, err2); err != nil {
				return 0, err
			}
			return 0, suspend(ctx)
		})
		_, err := durable.Run(t.Context(), store, wf, name, 0)
		asError[*durable.SuspendedError](t, err)
	}
}

func TestADurableCallAfterItsCodeHasReturned(t *testing.T) {
	store := memory.New()
	var left, leftBranch context.Context
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		left = ctx //nolint:fatcontext // it is kept to be misused
		return 0, durable.Branch(ctx, "b", func(ctx context.Context) error {
			leftBranch = ctx //nolint:fatcontext // the same
			return nil
		})
	})
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	require.NoError(t, err)
	for _, ctx := range []context.Context{left, leftBranch} {
		_, err = durable.Step(ctx, "s", func(context.Context) (int, error) { return 0, nil })
		asError[*durable.ScopeEndedError](t, err)
		asError[*durable.ScopeEndedError](t, durable.Branch(ctx, "c", func(context.Context) error { return nil }))
	}
}

// The call began in time and ends too late: it is not recorded.
func TestACallThatOutlivesItsCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		var late error
		var wg sync.WaitGroup
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
			wg.Go(func() {
				_, late = durable.Step(ctx, "s", func(context.Context) (int, error) {
					time.Sleep(time.Second)
					return 0, nil
				})
			})
			synctest.Wait()
			return 0, nil
		})
		_, err := durable.Run(t.Context(), store, wf, "r", 0)
		require.NoError(t, err)
		wg.Wait()
		asError[*durable.ScopeEndedError](t, late)
		assert.Equal(t, []string{"run:start", "run:complete"}, kinds(t, store, "r"))
	})
}

func TestAPanicOfABranch(t *testing.T) {
	err := durable.Branch(t.Context(), "b", func(context.Context) error { panic("ouch") })
	assert.Equal(t, `branch "b"`, asError[*task.PanicError](t, err).Whose)
	asError[*durable.OptionError](t, durable.Branch(t.Context(), "", nil))
}

// A suspension inside a branch stops what is around it, whatever it makes of it.
func TestASuspensionInABranchCannotBeSwallowed(t *testing.T) {
	store, c := memory.New(), &counter{}
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
		_ = durable.Branch(ctx, "b", func(ctx context.Context) error {
			_ = suspend(ctx)
			return nil
		})
		_, _ = counted(ctx, c, "after", 1)
		return 7, nil
	})
	_, err := durable.Run(t.Context(), store, wf, "r", 0)
	asError[*durable.SuspendedError](t, err)
	assert.Zero(t, c.of("after"))
}

// While one branch waits the others go on, and what they do is recorded.
func TestASuspensionDoesNotCancelOtherBranches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := memory.New(), &counter{}
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
			var g errgroup.Group
			g.Go(func() error { return durable.Branch(ctx, "waits", suspend) })
			g.Go(func() error {
				return durable.Branch(ctx, "works", func(ctx context.Context) error {
					for _, name := range []string{"a", "b"} {
						if err := durable.Sleep(ctx, time.Second); err != nil {
							return err
						}
						if _, err := counted(ctx, c, name, 1); err != nil {
							return err
						}
					}
					return nil
				})
			})
			return 0, g.Wait()
		})
		_, err := durable.Run(t.Context(), store, wf, "r", 0)
		asError[*durable.SuspendedError](t, err)
		assert.Contains(t, kinds(t, store, "r"), "step:done b in works#1")
		release(t, store, "r")
		_, err = durable.Run(t.Context(), store, wf, "r", 0)
		require.NoError(t, err)
		assert.Equal(t, 1, c.of("b"))
	})
}

// A failure in a branch is an outcome once the code around has gone on behind it: to a call, to another branch, or out of the branch.
func TestAHandledFailureInABranch(t *testing.T) {
	fails := func(c *counter) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := durable.Step(ctx, "fails", func(context.Context) (int, error) {
				if c.add("fails") == 1 {
					return 0, errBoom
				}
				return 0, nil
			})
			return err
		}
	}
	for name, body := range map[string]func(ctx context.Context, c *counter) error{
		"inside": func(ctx context.Context, c *counter) error {
			return durable.Branch(ctx, "b", func(ctx context.Context) error {
				if fails(c)(ctx) == nil {
					return errors.New("another way")
				}
				return nil
			})
		},
		"around": func(ctx context.Context, c *counter) error {
			if durable.Branch(ctx, "b", fails(c)) == nil {
				return errors.New("another way")
			}
			return nil
		},
		"two around": func(ctx context.Context, c *counter) error {
			err := durable.Branch(ctx, "outer", func(ctx context.Context) error { return durable.Branch(ctx, "inner", fails(c)) })
			if err == nil {
				return errors.New("another way")
			}
			return nil
		},
		"followed by a branch": func(ctx context.Context, c *counter) error {
			if fails(c)(ctx) == nil {
				return errors.New("another way")
			}
			return durable.Branch(ctx, "next", func(ctx context.Context) error {
				_, err := counted(ctx, c, "next", 1)
				return err
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, c := memory.New(), &counter{}
			wf := durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
				if err := body(ctx, c); err != nil {
					return "", err
				}
				return "handled", suspend(ctx)
			})
			_, err := durable.Run(t.Context(), store, wf, "r", 0)
			asError[*durable.SuspendedError](t, err)
			release(t, store, "r")
			out, err := durable.Run(t.Context(), store, wf, "r", 0)
			require.NoError(t, err)
			assert.Equal(t, "handled", out)
			assert.Equal(t, 1, c.of("fails"))
		})
	}
}

// In a replay the failure that has ended a group's context is there before the cancellations that follow from it.
func TestAGroupThatOneFailureHasEndedReplaysWithThatFailure(t *testing.T) {
	for range 20 {
		store, c := memory.New(), &counter{}
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
			g, own := errgroup.WithContext(ctx)
			for i := range 5 {
				g.Go(func() error {
					return durable.Branch(own, fmt.Sprint("waits ", i), func(ctx context.Context) error {
						_, err := durable.Step(ctx, "w", func(ctx context.Context) (int, error) {
							c.add("w")
							<-ctx.Done()
							return 0, ctx.Err()
						})
						return err
					})
				})
			}
			g.Go(func() error {
				return durable.Branch(own, "fails", func(ctx context.Context) error {
					_, err := durable.Step(ctx, "f", func(context.Context) (int, error) { return 0, errBoom })
					return err
				})
			})
			err := g.Wait()
			if serr := suspend(ctx); serr != nil {
				return "", serr
			}
			return err.Error(), nil
		})
		_, err := durable.Run(t.Context(), store, wf, "r", 0)
		asError[*durable.SuspendedError](t, err)
		release(t, store, "r")
		calls := c.of("w")
		out, err := durable.Run(t.Context(), store, wf, "r", 0)
		require.NoError(t, err)
		assert.Equal(t, "boom", out)
		assert.Equal(t, calls, c.of("w"))
	}
}

// What goes on in one branch says nothing of what another one has failed with: a node whose strands begin one after the
// other is retried like any other.
func TestAFailureThatAnAttemptReturnsIsCalledAgainByTheNext(t *testing.T) {
	for _, crash := range []bool{false, true} {
		store, c := memory.New(), &counter{}
		node := func(ctx context.Context) error {
			branch := func(name string, fn func() error) error {
				return durable.Branch(ctx, name, func(ctx context.Context) error {
					_, err := durable.Step(ctx, "s", func(context.Context) (int, error) { return 0, fn() })
					return err
				})
			}
			errA := branch("a", func() error {
				if c.add("a") == 1 {
					return errBoom
				}
				return nil
			})
			errB := branch("b", func() error { c.add("b"); return nil })
			if errA != nil {
				if _, err := counted(ctx, c, "clean up", 1); err != nil {
					return err
				}
			}
			_, err := durable.Once(ctx, "once", func(context.Context) (int, error) { c.add("once"); return 0, errBoom })
			if err == nil {
				return errors.New("no error")
			}
			return errors.Join(errA, errB)
		}
		x := open(t, store)
		s := x.Task("1/node[0]", nil)
		err := s.Outcome(node(s.Context(t.Context())))
		require.ErrorContains(t, err, "boom")
		require.NoError(t, x.Reopen(t.Context(), "1/node[0]", fmt.Errorf("attempt 1: %w", err)))
		recorded := len(events(t, store, "g"))
		assert.Equal(t, "step:reopened s in 1/node[0]/a#1", kinds(t, store, "g")[recorded-1])
		require.NoError(t, x.Reopen(t.Context(), "1/node[0]", err), "it is reopened already")
		assert.Len(t, events(t, store, "g"), recorded)
		if crash {
			x.Close(t.Context())
			x = open(t, store)
		}
		s = x.Task("1/node[0]", nil)
		require.NoError(t, node(s.Context(t.Context())))
		x.Close(t.Context())
		assert.Equal(t, 2, c.of("a"))
		assert.Equal(t, 1, c.of("b"))
		assert.Equal(t, 1, c.of("clean up"))
		assert.Equal(t, 1, c.of("once"), "its failure is final")
	}
}

// The event of a task that has failed for good names the calls it has failed with; who attempts it again calls these.
func TestTheFailureOfATaskNamesItsCalls(t *testing.T) {
	store, c := memory.New(), &counter{}
	node := func(ctx context.Context, upTo int) error { // which of its steps it comes to
		_, err := durable.Step(ctx, "fails", func(context.Context) (int, error) {
			if c.add("fails") == 1 {
				return 0, errBoom
			}
			return 0, nil
		})
		if err != nil {
			if _, cerr := counted(ctx, c, "clean up", 1); cerr != nil {
				return cerr
			}
			return err
		}
		for _, name := range []string{"x", "y"}[:upTo] {
			if _, err := counted(ctx, c, name, 1); err != nil {
				return err
			}
		}
		return nil
	}
	x := open(t, store)
	s := x.Task("1/node[0]", nil)
	err := s.Outcome(node(s.Context(t.Context()), 0))
	e, _ := x.Error(err)
	e.Scope = "1/node[0]"
	m, merr := durable.FailureOf(e)
	require.NoError(t, merr)
	assert.Equal(t, []durable.FailedCall{{Scope: "1/node[0]", Name: "fails", N: 1}}, m.Failed)
	require.NoError(t, x.Append(t.Context(), e))
	require.NoError(t, x.Finish(t.Context(), x.Failure(err, durable.CodeAgentError), time.Time{}))
	_, err = durable.PrepareRetry(t.Context(), store, "g", "g2")
	require.NoError(t, err)
	for upTo := range 3 { // it dies behind each of its steps
		x, err := durable.Open(t.Context(), durable.Settings{Store: store}, "g2", nil)
		require.NoError(t, err)
		s := x.Task("1/node[0]", nil)
		require.NoError(t, s.Outcome(node(s.Context(t.Context()), upTo)))
		x.Close(t.Context())
	}
	assert.Equal(t, 2, c.of("fails"))
	assert.Equal(t, 1, c.of("x"))
	assert.Equal(t, 1, c.of("y"))
}

// A process dies when a branch has begun behind another one's failure, and nobody knows whether that was handled: it was not if
// the code returns it, and is called again then; if the code handles it, it is served.
func TestAfterACrashAFailureThatIsReturnedIsCalledAgain(t *testing.T) {
	for _, handles := range []bool{false, true} {
		inner, c := memory.New(), &counter{}
		store := journaltest.NewFaulty(inner)
		wf := durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
			branch := func(name string, fn func() error) error {
				return durable.Branch(ctx, name, func(ctx context.Context) error {
					_, err := durable.Step(ctx, "s", func(context.Context) (int, error) { return 0, fn() })
					return err
				})
			}
			errA := branch("card", func() error {
				if c.add("card") == 1 {
					return errBoom
				}
				return nil
			})
			errB := branch("invoice", func() error { c.add("invoice"); return nil })
			errC := branch("crash", func() error { store.Outage(c.add("crash") == 1); return nil })
			if handles {
				errA = nil
			}
			return "done", errors.Join(errA, errB, errC)
		})
		_, err := durable.Run(t.Context(), store, wf, "r", 0)
		asError[*durable.StoreUnavailableError](t, err)
		store = journaltest.NewFaulty(reborn(t, inner))
		out, err := durable.Run(t.Context(), store, wf, "r", 0)
		require.NoError(t, err)
		assert.Equal(t, "done", out)
		assert.Equal(t, map[bool]int{false: 2, true: 1}[handles], c.of("card"))
		assert.Equal(t, 1, c.of("invoice"))
	}
}
