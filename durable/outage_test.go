package durable_test

import (
	"context"
	"errors"
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

func TestAnOutageWhileTheInboxIsRead(t *testing.T) {
	for name, wait := range map[string]func(ctx context.Context) error{
		"signal": suspend,
		"answer": func(ctx context.Context) error { _, err := durable.Interrupt[int](ctx, "?"); return err },
	} {
		synctest.Test(t, func(t *testing.T) {
			inner := memory.New()
			store := journaltest.NewFaulty(inner)
			down := false
			wf := durable.Workflow("w", func(ctx context.Context, _ int) (int, error) {
				store.Outage(down)
				err := wait(ctx)
				if err == nil {
					return 0, nil
				}
				return 0, errors.New("an error of its own") // swallowed, it is no failure of the run
			})
			_, err := durable.Run(t.Context(), store, wf, "r", 0)
			asError[*durable.SuspendedError](t, err)
			down = true
			_, err = durable.Run(t.Context(), store, wf, "r", 0)
			asError[*durable.StoreUnavailableError](t, err)
			down = false
			store.Outage(false)
			time.Sleep(time.Minute)
			_, err = durable.Run(t.Context(), store, wf, "r", 0)
			asError[*durable.SuspendedError](t, err)
			assert.Equal(t, journal.Suspended, status(t, inner, "r"), name)
		})
	}
}

func TestAnOutageReachesWhoeverCallsFromOutside(t *testing.T) {
	inner := memory.New()
	_, err := durable.Run(t.Context(), inner, asker[int](&counter{}), "asks", "?")
	asError[*durable.SuspendedError](t, err)
	fails := durable.Workflow("fails", func(context.Context, int) (int, error) { return 0, errBoom })
	_, err = durable.Run(t.Context(), inner, fails, "failed", 0)
	asError[*durable.RunFailedError](t, err)
	for name, call := range map[string]func(store journal.Store) error{
		"Signal":    func(s journal.Store) error { return durable.Signal(t.Context(), s, "asks", "x", 1) },
		"Answer":    func(s journal.Store) error { return durable.Answer(t.Context(), s, "asks", "ask1", 1) },
		"Questions": func(s journal.Store) error { _, err := durable.Questions(t.Context(), s, "asks"); return err },
		"PrepareRetry": func(s journal.Store) error {
			_, err := durable.PrepareRetry(t.Context(), s, "failed", "again")
			return err
		},
		"Cancel": func(s journal.Store) error { return durable.Cancel(t.Context(), s, "asks", "") },
	} {
		t.Run(name, func(t *testing.T) {
			for n := 1; n < 10; n++ { // each call of the store in turn
				store := &failingCalls{Store: reborn(t, inner), left: n}
				err := call(store)
				if store.left > 0 {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, journal.ErrUnavailable, "call %d", n)
			}
			t.Fatal("no end")
		})
	}
}

// failingCalls is a store whose n-th call fails.
type failingCalls struct {
	journal.Store
	left int
}

func (s *failingCalls) fail() error {
	if s.left--; s.left == 0 {
		return &journal.UnavailableError{Op: "call", Err: errBoom}
	}
	return nil
}

func (s *failingCalls) Load(ctx context.Context, run string) (journal.Run, error) {
	if err := s.fail(); err != nil {
		return journal.Run{}, err
	}
	return s.Store.Load(ctx, run)
}

func (s *failingCalls) Create(ctx context.Context, n journal.NewRun) (journal.Lease, error) {
	if err := s.fail(); err != nil {
		return journal.Lease{}, err
	}
	return s.Store.Create(ctx, n)
}

func (s *failingCalls) Acquire(ctx context.Context, run string, c journal.Claim) (journal.Lease, error) {
	if err := s.fail(); err != nil {
		return journal.Lease{}, err
	}
	return s.Store.Acquire(ctx, run, c)
}

func (s *failingCalls) Send(ctx context.Context, run string, m journal.Message) (journal.Message, error) {
	if err := s.fail(); err != nil {
		return journal.Message{}, err
	}
	return s.Store.Send(ctx, run, m)
}

func (s *failingCalls) Inbox(ctx context.Context, run string, after int64) ([]journal.Message, error) {
	if err := s.fail(); err != nil {
		return nil, err
	}
	return s.Store.Inbox(ctx, run, after)
}

// A context of the body's own ends a wait; it is not the run that waits then.
func TestWaitsInAContextThatHasEnded(t *testing.T) {
	wf := durable.Workflow("w", func(ctx context.Context, _ int) (string, error) {
		own, cancel := context.WithCancel(ctx)
		cancel()
		for _, err := range []error{
			suspend(own),
			func() error { _, err := durable.Interrupt[int](own, "?"); return err }(),
			durable.Sleep(own, time.Hour),
		} {
			if !errors.Is(err, context.Canceled) {
				return "", errors.New("not cancelled")
			}
		}
		return "done", nil
	})
	out, err := durable.Run(t.Context(), memory.New(), wf, "r", 0)
	require.NoError(t, err)
	assert.Equal(t, "done", out)
}
