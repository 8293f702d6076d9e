package bench_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// contender does steps that do nothing, each committed before its run goes on.
type contender struct {
	name string
	// do does some runs at once, of some steps each, and returns how many steps it has done: a contender that knows no runs may
	// do fewer.
	do func(runs, steps int) int
	// rows counts what it has committed, for each run and step.
	rows string
}

func contenders(tb testing.TB) []contender {
	tb.Helper()
	store := open(tb)
	return []contender{newRaw(tb), newInline(tb, store), newQueued(tb, store), newDBOS(tb)}
}

// BenchmarkSteps lets all do the same work by turns, so that a disk or a neighbour that is slow is slow for all of them. What it
// reports are the medians of the turns: "inline-x-raw" is how many steps durable.Run does while the bare driver inserts and
// commits one row, "queued" is the same through a client and a worker.
func BenchmarkSteps(b *testing.B) {
	for _, c := range []struct{ runs, steps int }{{1, 300}, {100, 100}} {
		b.Run(fmt.Sprintf("runs=%d", c.runs), func(b *testing.B) {
			all := contenders(b)
			for _, it := range all {
				it.do(c.runs, 2) // connections, prepared statements
			}
			var rates [4][]float64
			for b.Loop() {
				for i, it := range all {
					start := time.Now()
					n := it.do(c.runs, c.steps)
					rates[i] = append(rates[i], float64(n)/time.Since(start).Seconds())
				}
			}
			raw, inline, queued, dbos := rates[0], rates[1], rates[2], rates[3]
			b.ReportMetric(0, "ns/op")
			for i, it := range all {
				b.ReportMetric(median(rates[i]), it.name+"/s")
			}
			b.ReportMetric(median(quotients(inline, raw)), "inline-x-raw")
			b.ReportMetric(median(quotients(inline, dbos)), "inline-x-dbos")
			b.ReportMetric(median(quotients(queued, dbos)), "queued-x-dbos")
		})
	}
}

// No contender may be fast because it does less.
func TestEachContenderCommitsARowForEachStep(t *testing.T) {
	conn := connect(t)
	count := func(sql string) (n int) {
		require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&n))
		return n
	}
	for _, c := range contenders(t) {
		before := count(c.rows)
		n := c.do(3, 5)
		require.Equal(t, 15, n)
		assert.GreaterOrEqual(t, count(c.rows)-before, n, c.name)
	}
}

func median(of []float64) float64 {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}

func quotients(a, b []float64) []float64 {
	all := make([]float64, len(a))
	for i := range a {
		all[i] = a[i] / b[i]
	}
	return all
}
