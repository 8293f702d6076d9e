package retrypolicy

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/classifier"
)

// wait sleeps for d or until ctx ends, and reports whether it has ended.
func wait(ctx context.Context, d time.Duration) bool {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
	return ended(ctx)
}

// ended reports whether ctx has ended. A call that watches the deadline itself can return before the context's timer has
// fired.
func ended(ctx context.Context) bool {
	if ctx.Err() != nil {
		return true
	}
	end, ok := ctx.Deadline()
	return ok && !time.Now().Before(end)
}

// endErr is the error of a context that has ended.
func endErr(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return context.DeadlineExceeded
}

// endClass is the class of whatever an attempt returns once its context has ended.
func endClass(ctx context.Context) classifier.RunErrorClass {
	if errors.Is(endErr(ctx), context.DeadlineExceeded) {
		return classifier.Timeout
	}
	return classifier.Canceled
}
