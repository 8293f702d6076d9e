package scripted_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
)

// BenchmarkScript is a call to a script of 50 rules of which the last one answers. The conversation has 20 messages.
func BenchmarkScript(b *testing.B) {
	own := func(r providers.Request) bool { return r.Model == "none" }
	for name, miss := range map[string]func(i int) scripted.Match{
		"Last": func(i int) scripted.Match { return scripted.Last(fmt.Sprintf("ticket %d", i)) },
		"When": func(i int) scripted.Match { return scripted.When(fmt.Sprint(i), own) },
	} {
		b.Run(name, func(b *testing.B) {
			rules := make([]scripted.Rule, 50)
			for i := range rules {
				rules[i] = scripted.On(miss(i)).Reply("no")
			}
			rules[49] = scripted.On().Reply("yes")
			req := ask(strings.Repeat("word ", 100))
			for range 19 {
				req.Messages = append(req.Messages, req.Messages[0])
			}
			var p providers.Provider
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if n%1000 == 0 { // a script keeps what it was asked
					b.StopTimer()
					p = scripted.New(rules...).Provider("fake")
					b.StartTimer()
				}
				if _, err := p.Chat(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
