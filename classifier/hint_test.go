package classifier_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/stretchr/testify/require"
)

type hinted struct {
	wait    time.Duration
	ok      bool
	refused bool
}

func (hinted) Error() string                      { return "hinted" }
func (h hinted) RetryHint() (time.Duration, bool) { return h.wait, h.ok }
func (h hinted) RetryRefused() bool               { return h.refused }

type panickyHint struct{ error }

func (panickyHint) RetryHint() (time.Duration, bool) { panic("RetryHint") }

func TestRetryHint(t *testing.T) {
	says := func(d time.Duration) error { return hinted{wait: d, ok: true} }
	for _, tc := range []struct {
		name string
		err  error
		want time.Duration
	}{
		{"nil", nil, 0},
		{"none", errors.New("x"), 0},
		{"bare", says(time.Second), time.Second},
		{"wrapped", fmt.Errorf("x: %w", says(time.Second)), time.Second},
		{"the longest counts", errors.Join(says(time.Second), says(3*time.Second), says(2*time.Second)), 3 * time.Second},
		{"86400 s is a time", says(86400 * time.Second), 86400 * time.Second},
		{"1382400 s is a time", says(1382400 * time.Second), 1382400 * time.Second},
		{"not ok", hinted{wait: time.Second}, 0},
		{"zero", says(0), 0},
		{"negative", says(-time.Second), 0},
		{"negative beside one", errors.Join(says(-1), says(time.Second)), time.Second},
		{"overflow", says(math.MaxInt64), 0},
		{"overflow beside one", errors.Join(says(math.MaxInt64), says(time.Second)), time.Second},
		{"nil pointer", fmt.Errorf("x: %w", (*pointerHint)(nil)), 0},
		{"panic", panickyHint{errors.New("x")}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := classifier.RetryHint(tc.err)
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.want > 0, ok)
		})
	}
}

type pointerHint struct{ wait time.Duration }

func (*pointerHint) Error() string                      { return "pointer" }
func (h *pointerHint) RetryHint() (time.Duration, bool) { return h.wait, true }

func TestRetryRefused(t *testing.T) {
	require.False(t, classifier.RetryRefused(nil))
	require.False(t, classifier.RetryRefused(hinted{}))
	require.False(t, classifier.RetryRefused(errors.Join(hinted{}, hostile{})))
	require.True(t, classifier.RetryRefused(hinted{refused: true}))
	require.True(t, classifier.RetryRefused(errors.Join(hinted{}, fmt.Errorf("x: %w", hinted{refused: true}))))
}
