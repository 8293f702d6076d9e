package bench_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
)

// BenchmarkLatency measures how long it takes from the call of client.Start to the first line of the workflow, in a worker that
// shares only the database with the client: while there is nothing else to do, and while 80 % of what the worker can do comes in
// at a steady rate. "capacity/s" is what it can do: runs of one step, a second. What it reports are the medians of the turns.
func BenchmarkLatency(b *testing.B) {
	b.Run("idle", func(b *testing.B) {
		const runs, rest = 200, 5 * time.Millisecond
		l := newLine(b)
		var turns latencies
		for b.Loop() {
			took := make([]time.Duration, runs)
			for i := range took {
				l.start()
				took[i] = <-l.worked
				time.Sleep(rest) // until the run has ended
			}
			turns.add(took)
		}
		turns.report(b)
	})
	b.Run("load=80%", func(b *testing.B) {
		const share, measured, driven = 0.8, time.Second, 2 * time.Second
		l := newLine(b)
		var turns latencies
		var capacities []float64
		for b.Loop() {
			capacity := l.capacity(measured)
			capacities = append(capacities, capacity)
			turns.add(l.drive(share*capacity, driven))
		}
		turns.report(b)
		b.ReportMetric(median(capacities), "capacity/s")
	})
}

// latencies are, in ms, what half of the runs of each turn have stayed below, and 99 % of them.
type latencies struct{ p50, p99 []float64 }

func (l *latencies) add(took []time.Duration) {
	slices.Sort(took)
	at := func(percent int) float64 { return float64(took[len(took)*percent/100].Microseconds()) / 1000 }
	l.p50, l.p99 = append(l.p50, at(50)), append(l.p99, at(99))
}

func (l *latencies) report(b *testing.B) {
	b.Helper()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(l.p50), "ms-p50")
	b.ReportMetric(median(l.p99), "ms-p99")
}

// line is a client and a worker with nothing but a database between them.
type line struct {
	tb     testing.TB
	client *client.Client
	short  *durable.Definition[time.Duration, int]
	epoch  time.Time
	// worked has, for each run that has done its work, how long it took until it began.
	worked chan time.Duration
}

func newLine(tb testing.TB) *line {
	tb.Helper()
	l := &line{tb: tb, epoch: time.Now(), worked: make(chan time.Duration, 1000)}
	// A run's input is when it was started.
	l.short = durable.Workflow("short", func(ctx context.Context, at time.Duration) (int, error) {
		took := time.Since(l.epoch) - at
		n, err := durable.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil })
		l.worked <- took
		return n, err
	})
	var err error
	l.client, err = client.New(open(tb), client.Config{})
	require.NoError(tb, err)
	work(tb, open(tb), l.short)
	return l
}

func (l *line) start() {
	_, err := client.Start(context.Background(), l.client, l.short, time.Since(l.epoch))
	assert.NoError(l.tb, err)
}

// capacity is how many runs a second do their work while there are always a hundred.
func (l *line) capacity(during time.Duration) float64 {
	const runs = 100
	var all sync.WaitGroup
	var n atomic.Int64
	start := time.Now()
	for range runs {
		all.Go(func() {
			for time.Since(start) < during {
				l.start()
				<-l.worked // one of them
				n.Add(1)
			}
		})
	}
	all.Wait()
	return float64(n.Load()) / time.Since(start).Seconds()
}

// drive starts runs at a steady rate, whether the worker keeps up or not, and returns how long each took until it began.
func (l *line) drive(rate float64, during time.Duration) []time.Duration {
	n := int(rate * during.Seconds())
	took := make([]time.Duration, n)
	var all sync.WaitGroup
	all.Go(func() {
		start := time.Now()
		for i := range n {
			time.Sleep(time.Until(start.Add(during * time.Duration(i) / time.Duration(n))))
			all.Go(l.start)
		}
	})
	for i := range took {
		took[i] = <-l.worked
	}
	all.Wait()
	return took
}
