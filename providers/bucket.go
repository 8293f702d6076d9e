package providers

import (
	"time"

	"golang.org/x/time/rate"
)

// bucket is a rate.Limiter that takes things back. A nil bucket has no bound.
type bucket struct {
	limiter *rate.Limiter
	burst   int
	credit  int       // taken and not used: spent before the limiter is asked
	last    time.Time // the latest time for which something was taken
}

func newBucket(perMinute, burst int) *bucket {
	if perMinute == 0 {
		return nil
	}
	return &bucket{limiter: rate.NewLimiter(rate.Limit(float64(perMinute)/60), burst), burst: burst}
}

// take takes n and returns the wait from at on. More than the burst is taken too: what was used was used.
func (b *bucket) take(at time.Time, n int) time.Duration {
	if b == nil {
		return 0
	}
	// A turn behind a pause is taken ahead of its time. Going back behind it would fill the bucket twice.
	when := at
	if when.Before(b.last) {
		when = b.last
	}
	b.last = when
	// Together with the limiter's own, the credit never makes more than the burst.
	b.credit = max(0, min(b.credit, b.burst-int(b.limiter.TokensAt(when))))
	fromCredit := min(n, b.credit)
	b.credit -= fromCredit
	n -= fromCredit
	for ; n > b.burst; n -= b.burst {
		b.limiter.ReserveN(when, b.burst)
	}
	return b.limiter.ReserveN(when, n).DelayFrom(at)
}

func (b *bucket) giveBack(n int) {
	if b != nil {
		b.credit += n
	}
}
