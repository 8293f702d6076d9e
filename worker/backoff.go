package worker

import (
	"context"
	"log/slog"
	"time"
)

const firstPause, longestPause = 50 * time.Millisecond, 5 * time.Second

// backoff is the time between two tries while the store is out of reach.
type backoff struct{ last time.Duration }

func (b *backoff) wait(ctx context.Context, log *slog.Logger, err error) {
	if b.last == 0 {
		log.Warn("pawl: the store does not answer; the worker waits for it", "error", err)
		b.last = firstPause
	}
	select {
	case <-ctx.Done():
	case <-time.After(b.last):
	}
	b.last = min(2*b.last, longestPause)
}

func (b *backoff) over(log *slog.Logger) {
	if b.last > 0 {
		log.Info("pawl: the store answers again")
	}
	b.last = 0
}
