package providers

import (
	"encoding/json"
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

// estimate is the rough count of RateLimit.Estimate.
func estimate(req Request, answer int) int {
	const perMessage, perImage, bytesPerToken = 4, 1000, 4
	tokens, size := 0, 0
	for i := range req.Messages {
		m := &req.Messages[i]
		tokens += perMessage
		size += len(m.Content) + len(m.Name) + len(m.ReasoningContent)
		for _, part := range m.MultiContent {
			size += len(part.Text)
			if part.ImageURL != nil {
				tokens += perImage
			}
		}
		for _, t := range m.ToolCalls {
			size += len(t.Function.Name) + len(t.Function.Arguments)
		}
	}
	for _, t := range req.Tools {
		if raw, err := json.Marshal(t); err == nil {
			size += len(raw)
		}
	}
	limit := max(req.MaxCompletionTokens, req.MaxTokens) //nolint:staticcheck // deprecated by OpenAI, not by all who copy it
	if limit > 0 {
		answer = limit
	}
	return tokens + size/bytesPerToken + answer*max(1, req.N)
}
