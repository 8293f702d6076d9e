package providers_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
	"github.com/stretchr/testify/require"
)

func slots(t *testing.T, calls int) *providers.Slots {
	t.Helper()
	s, err := providers.MaxConcurrent{Calls: calls}.New()
	require.NoError(t, err)
	return s
}

func TestMaxConcurrentBoundsTheCallsUnderWay(t *testing.T) {
	for way := range both(nil) {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var now, most atomic.Int32
				work := func() {
					most.Store(max(most.Load(), now.Add(1)))
					time.Sleep(time.Second)
					now.Add(-1)
				}
				p := wrap(t, &fake{
					chat:   func(context.Context, providers.Request) (*providers.Response, error) { work(); return answer("x"), nil },
					stream: func(_ context.Context, yield func(*providers.Delta, error) bool) { work(); yield(delta("x"), nil) },
				}, providers.MaxConcurrent{Calls: 3})
				start := time.Now()
				var wg sync.WaitGroup
				for range 9 {
					wg.Go(func() {
						_, err := both(p)[way](t.Context())
						require.NoError(t, err)
					})
				}
				wg.Wait()
				require.EqualValues(t, 3, most.Load())
				require.Equal(t, 3*time.Second, time.Since(start))
			})
		})
	}
}

func TestMaxConcurrentServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slots(t, 1)
		var order []int
		p := wrap(t, &fake{chat: func(_ context.Context, req providers.Request) (*providers.Response, error) {
			time.Sleep(time.Second)
			order = append(order, req.N)
			return answer("x"), nil
		}}, s)
		for i := range 5 {
			go func() {
				req := hello()
				req.N = i
				_, _ = p.Chat(t.Context(), req)
			}()
			synctest.Wait()
		}
		require.Equal(t, 1, s.InUse())
		require.Equal(t, 4, s.Waiting())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4}, order)
		require.Zero(t, s.InUse())
		require.Zero(t, s.Waiting())
	})
}

func TestMaxConcurrentWaitEndsWithItsContext(t *testing.T) {
	for way := range both(nil) {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := slots(t, 1)
				script, p := play("gpt", scripted.On().Fail(scripted.Stall("a")))
				p = wrap(t, p, s)
				busy, free := context.WithCancel(t.Context())
				go func() { _, _ = p.Chat(busy, hello()) }()
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := both(p)[way](ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, classifier.Timeout, classOf(err))
				require.ErrorContains(t, err, "while waiting for one of 1 slots")
				require.True(t, callError(t, err).NotSent)
				require.Zero(t, s.Waiting())
				free()
				synctest.Wait()
				require.Zero(t, s.InUse())
				require.Len(t, script.Calls(), 1)
			})
		})
	}
}

// A slot that is handed to someone who leaves at that moment goes on to the next.
func TestMaxConcurrentLosesNoSlotToThoseWhoLeave(t *testing.T) {
	s := slots(t, 2)
	p := wrap(t, &fake{}, s)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for j := range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				if (i+j)%3 == 0 {
					go cancel()
				}
				for _, call := range both(p) {
					_, _ = call(ctx)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	require.Zero(t, s.InUse())
	require.Zero(t, s.Waiting())
}

func TestMaxConcurrentFreesTheSlotHoweverACallEnds(t *testing.T) {
	s := slots(t, 1)
	for name, f := range map[string]*fake{
		"panic": {
			chat:   func(context.Context, providers.Request) (*providers.Response, error) { panic("mine") },
			stream: func(context.Context, func(*providers.Delta, error) bool) { panic("mine") },
		},
		"Goexit": {
			chat: func(context.Context, providers.Request) (*providers.Response, error) {
				runtime.Goexit()
				return answer("never"), nil
			},
			stream: func(context.Context, func(*providers.Delta, error) bool) { runtime.Goexit() },
		},
	} {
		for way, call := range both(wrap(t, f, s)) {
			t.Run(name+" "+way, func(t *testing.T) {
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { _ = recover() }()
					_, _ = call(t.Context())
				}()
				<-done
				require.Zero(t, s.InUse())
			})
		}
	}
	t.Run("a stream that is left", func(t *testing.T) {
		_, p := play("gpt", scripted.On().Tokens("a", "b"))
		for _, err := range wrap(t, p, s).Stream(t.Context(), hello()) {
			require.NoError(t, err)
			require.Equal(t, 1, s.InUse(), "a stream holds its slot")
			break
		}
		require.Zero(t, s.InUse())
	})
}

func TestMaxConcurrentRefusesABadConfiguration(t *testing.T) {
	requireProblems(t, providers.MaxConcurrent{}.Validate(), "providers.MaxConcurrent", "Calls")
	_, err := providers.MaxConcurrent{Calls: -1}.Wrap(&fake{})
	require.Error(t, err)
}
