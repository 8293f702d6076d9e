package retrypolicy_test

import (
	"context"
	"testing"

	"github.com/pawl-go/pawl/retrypolicy"
)

func BenchmarkDo(b *testing.B) {
	ctx := b.Context()
	loop := &retrypolicy.Loop{Policy: retrypolicy.Standard()}
	b.Run("plain call", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if n, err := succeed(ctx, 1); n != 1 || err != nil {
				b.Fatal(n, err)
			}
		}
	})
	b.Run("Do", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if n, err := retrypolicy.Do(ctx, loop, succeed); n != 1 || err != nil {
				b.Fatal(n, err)
			}
		}
	})
	b.Run("Do with a closure", func(b *testing.B) {
		b.ReportAllocs()
		m := 0
		for b.Loop() {
			n, err := retrypolicy.Do(ctx, loop, func(_ context.Context, attempt int) (int, error) {
				m++
				return attempt, nil
			})
			if n != 1 || err != nil {
				b.Fatal(n, err)
			}
		}
	})
}

//go:noinline
func succeed(_ context.Context, attempt int) (int, error) { return attempt, nil }
