package providers_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
	"github.com/stretchr/testify/require"
)

func TestTimeoutEndsACall(t *testing.T) {
	for way := range both(nil) {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, p := play("gpt", scripted.On().Fail(scripted.Stall("so", "me")))
				p = wrap(t, p, providers.Timeout{Call: 3 * time.Second})
				start := time.Now()
				_, err := both(p)[way](t.Context())
				require.Equal(t, 3*time.Second, time.Since(start))
				require.Equal(t, classifier.Timeout, classOf(err))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorContains(t, err, "no whole answer within 3s (Timeout.Call)")
				if way == "Stream" {
					require.Equal(t, "some", callError(t, err).Partial.Text())
				}
			})
		})
	}
}

func TestTimeoutLeavesTheCallersContextAlone(t *testing.T) {
	for way := range both(nil) {
		t.Run("deadline "+way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, p := play("gpt", scripted.On().Fail(scripted.Stall("a")))
				p = wrap(t, p, providers.Timeout{Call: time.Second, Idle: time.Second})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := both(p)[way](ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotContains(t, err.Error(), "Timeout.Call", "the caller's deadline is no later")
			})
		})
		t.Run("cancel "+way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, p := play("gpt", scripted.On().Fail(scripted.Stall("a")))
				p = wrap(t, p, providers.Timeout{Call: 2 * time.Second})
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				_, err := both(p)[way](ctx)
				require.Equal(t, classifier.Canceled, classOf(err))
			})
		})
		t.Run("other failures "+way, func(t *testing.T) {
			_, p := play("gpt", scripted.On().Fail(scripted.Status(500)))
			_, err := both(wrap(t, p, providers.Timeout{Call: time.Hour, Idle: time.Hour}))[way](t.Context())
			require.Equal(t, 500, callError(t, err).Status)
		})
	}
}

func TestTimeoutEndsAStreamThatStalls(t *testing.T) {
	for name, tc := range map[string]struct {
		rule scripted.Rule
		at   time.Duration
		text string
	}{
		"before the first piece": {scripted.On().Reply("late").After(time.Hour), 5 * time.Second, ""},
		"between pieces":         {scripted.On().Tokens("a", "b", "c").Every(time.Hour), 5 * time.Second, "a"},
		"at the end":             {scripted.On().Fail(scripted.Stall("a", "b")).Every(4 * time.Second), 9 * time.Second, "ab"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, p := play("gpt", tc.rule)
				p = wrap(t, p, providers.Timeout{Idle: 5 * time.Second})
				start := time.Now()
				resp, err := providers.Collect(p.Stream(t.Context(), hello()))
				require.Equal(t, tc.at, time.Since(start))
				require.Equal(t, tc.text, resp.Text())
				require.Equal(t, classifier.Timeout, classOf(err))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorContains(t, err, "nothing came for 5s (Timeout.Idle)")
			})
		})
	}
}

func TestTimeoutDoesNotCountTheConsumersTimeAsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := play("gpt", scripted.On().Tokens("a", "b", "c").Every(4*time.Second))
		text := ""
		for d, err := range wrap(t, p, providers.Timeout{Idle: 5 * time.Second}).Stream(t.Context(), hello()) {
			require.NoError(t, err)
			text += d.Text()
			time.Sleep(time.Hour)
		}
		require.Equal(t, "abc", text)
	})
}

func TestTimeoutOfACallCoversTheWholeStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := play("gpt", scripted.On().Tokens("a", "b", "c", "d").Every(time.Second))
		resp, err := providers.Collect(wrap(t, p, providers.Timeout{Call: 2500 * time.Millisecond}).Stream(t.Context(), hello()))
		require.Equal(t, "abc", resp.Text())
		require.Equal(t, classifier.Timeout, classOf(err))
	})
}

func TestTimeoutOfAStreamThatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := play("gpt", scripted.On().Tokens("a", "b"))
		for range wrap(t, p, providers.Timeout{Call: time.Second, Idle: time.Second}).Stream(t.Context(), hello()) {
			break
		}
	})
}

func TestTimeoutRefusesABadConfiguration(t *testing.T) {
	requireProblems(t, providers.Timeout{Call: -1, Idle: -1}.Validate(), "providers.Timeout", "Call", "Idle")
	requireProblems(t, providers.Timeout{}.Validate(), "providers.Timeout", "Call")
	_, err := providers.Timeout{}.Wrap(&fake{})
	require.Error(t, err)
}
