package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal/sqlite"
	"github.com/pawl-go/pawl/retrypolicy"
)

// Report is what a reviewer answers.
type report struct {
	OK   bool   `json:"ok"`
	Note string `json:"note,omitempty"`
}

// A workflow that does one of everything.
func everything(fail bool) *durable.Definition[string, string] {
	return durable.Workflow("sync", func(ctx context.Context, account string) (string, error) {
		calls := 0
		policy := retrypolicy.Standard()
		policy.Jitter = 0
		_, err := durable.Step(ctx, "pull", func(context.Context) (int, error) {
			time.Sleep(250 * time.Millisecond)
			if calls++; calls < 3 {
				return 0, errors.New("connection reset")
			}
			return 42, nil
		}, durable.Retry(policy))
		if err != nil {
			return "", err
		}
		_, err = durable.Once(ctx, "charge", func(context.Context) (string, error) {
			time.Sleep(time.Second)
			return "", classifier.Fatal(errors.New("card declined\nask for another"), classifier.Code("card.declined"))
		})
		if err == nil {
			return "", errors.New("charged")
		}
		if err := durable.Sleep(ctx, time.Minute); err != nil {
			return "", err
		}
		err = durable.Branch(ctx, "east/west", func(ctx context.Context) error {
			_, err := durable.Interrupt[report](ctx, "Publish "+account+"?")
			return err
		})
		if err != nil {
			return "", err
		}
		if _, err := durable.WaitForSignal[string](ctx, "go", durable.WaitTimeout(time.Hour)); err != nil {
			return "", err
		}
		if fail {
			_, err := durable.Step(ctx, "push", func(context.Context) (int, error) { return 0, fmt.Errorf("push: %w", context.DeadlineExceeded) })
			return "", err
		}
		return "done", nil
	})
}

func TestShowDrawsAWorkflowAsATimeline(t *testing.T) {
	sh := newShell(t)
	synctest.Test(t, func(t *testing.T) {
		sh.with(func(db *sqlite.Store) {
			_, err := durable.Run(t.Context(), db, everything(true), "sync-1", "acme")
			require.ErrorAs(t, err, new(*durable.SuspendedError))
		})
		time.Sleep(5 * time.Minute)
		golden(t, "workflow-asks.txt", sh.ok("runs", "show", "sync-1"))
	})
}

func TestShowTellsARunThatWentOnAfterAnAnswer(t *testing.T) {
	sh := newShell(t)
	synctest.Test(t, func(t *testing.T) {
		sh.with(func(db *sqlite.Store) {
			_, err := durable.Run(t.Context(), db, everything(true), "sync-1", "acme")
			require.ErrorAs(t, err, new(*durable.SuspendedError))
			time.Sleep(time.Hour)
			require.NoError(t, durable.Answer(t.Context(), db, "sync-1", "east%2Fwest#1/ask1", report{OK: true}))
			golden(t, "workflow-answer-sent.txt", sh.ok("runs", "show", "sync-1"))
			_, err = durable.Run(t.Context(), db, everything(true), "sync-1", "acme")
			require.ErrorAs(t, err, new(*durable.SuspendedError))
			require.NoError(t, durable.Signal(t.Context(), db, "sync-1", "go", "now"))
			_, err = durable.Run(t.Context(), db, everything(true), "sync-1", "acme")
			require.ErrorAs(t, err, new(*durable.RunFailedError))
		})
		golden(t, "workflow-failed.txt", sh.ok("runs", "show", "sync-1"))
		golden(t, "workflow-failed.json", indented(t, sh.ok("runs", "show", "sync-1", "--json")))
		golden(t, "workflow-retry.txt", sh.ok("runs", "retry", "sync-1"))
		sh.with(func(db *sqlite.Store) {
			_, err := durable.Resume(t.Context(), db, everything(false), "sync-1-retry")
			require.NoError(t, err)
		})
		golden(t, "workflow-retried.txt", sh.ok("runs", "show", "sync-1-retry")+"\n"+sh.ok("runs", "show", "sync-1")+"\n"+sh.ok("runs", "list"))
	})
}
