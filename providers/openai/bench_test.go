package openai_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/openai"
	goopenai "github.com/sashabaranov/go-openai"
)

// BenchmarkStream is the cost of a stream without a network, against go-openai alone.
func BenchmarkStream(b *testing.B) {
	const tokens = 200
	body := strings.Repeat(frame(token("token ")), tokens) + frame(finish("stop")) + done
	client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		body := io.NopCloser(strings.NewReader(body))
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body, Request: r}, nil
	})}
	b.Run(fmt.Sprintf("pawl/%d tokens", tokens), func(b *testing.B) {
		c, err := openai.New(openai.Config{HTTPClient: client})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := providers.Collect(c.Stream(b.Context(), hello())); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run(fmt.Sprintf("go-openai/%d tokens", tokens), func(b *testing.B) {
		cfg := goopenai.DefaultConfig("")
		cfg.HTTPClient = client
		c := goopenai.NewClientWithConfig(cfg)
		b.ReportAllocs()
		for b.Loop() {
			s, err := c.CreateChatCompletionStream(b.Context(), hello())
			if err != nil {
				b.Fatal(err)
			}
			var text strings.Builder
			for {
				chunk, err := s.Recv()
				if err != nil {
					break
				}
				text.WriteString(chunk.Choices[0].Delta.Content)
			}
			s.Close()
		}
	})
}
