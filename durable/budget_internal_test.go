package durable

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Also where the number of attempts is not known: a run whose creation was not acknowledged has no event yet.
func TestBackoffGrowsAndHasBounds(t *testing.T) {
	for n, want := range map[int]time.Duration{
		-1: 100 * time.Millisecond, 0: 100 * time.Millisecond, 1: 100 * time.Millisecond, 2: 200 * time.Millisecond,
		10: 51200 * time.Millisecond, 11: time.Minute, 1 << 30: time.Minute,
	} {
		assert.Equal(t, want, backoff(n), n)
	}
}
