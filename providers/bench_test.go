package providers_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-go/pawl/providers"
)

// BenchmarkMiddleware is what each layer adds to a call that costs nothing.
func BenchmarkMiddleware(b *testing.B) {
	layers := map[string][]providers.Middleware{
		"none":          nil,
		"Timeout":       {providers.Timeout{Call: time.Minute}},
		"Idle":          {providers.Timeout{Idle: time.Minute}},
		"MaxConcurrent": {providers.MaxConcurrent{Calls: 1000}},
		"RateLimit":     {providers.RateLimit{RequestsPerMinute: 1 << 30, TokensPerMinute: 1 << 30}},
		"Breaker":       {providers.Breaker{}},
		"Fallback":      {providers.Fallback{Then: []providers.Provider{&fake{}}}},
		"all": {
			providers.Fallback{Then: []providers.Provider{&fake{}}}, providers.Breaker{},
			providers.RateLimit{RequestsPerMinute: 1 << 30, TokensPerMinute: 1 << 30}, providers.MaxConcurrent{Calls: 1000},
			providers.Timeout{Call: time.Minute},
		},
	}
	resp := answer("ok")
	resp.Provider = "gpt"
	base := &fake{name: "gpt", chat: func(context.Context, providers.Request) (*providers.Response, error) { return resp, nil }}
	for name, m := range layers {
		p, err := providers.Wrap(base, m...)
		if err != nil {
			b.Fatal(err)
		}
		req := hello()
		b.Run(name+"/Chat", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Chat(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/Stream", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range p.Stream(b.Context(), req) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkFold(b *testing.B) {
	d := delta("token ")
	b.ReportAllocs()
	for b.Loop() {
		var f providers.Fold
		for range 100 {
			f.Add(d)
		}
		f.Response()
	}
}
