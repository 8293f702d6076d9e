package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

// summary counts what happened. It is told by many runs at once.
type summary struct {
	mu         sync.Mutex
	categories map[string]int
	by         map[string]int
	retries    map[string]int // by class
	givenUp    map[string]int // by class and reason
	opened     int            // how often the breaker opened
	asLabelled int
	tickets    int
	usage      task.Usage
}

func newSummary() *summary {
	return &summary{
		categories: map[string]int{}, by: map[string]int{}, retries: map[string]int{}, givenUp: map[string]int{},
	}
}

// observe takes each event of each run.
func (s *summary) observe(event task.Event) {
	e, ok := event.(*task.AttemptFailed)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Final {
		s.givenUp[e.Class+", "+e.Reason]++
	} else {
		s.retries[e.Class]++
	}
}

func (s *summary) breakerChanged(_, to providers.CircuitState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if to == providers.CircuitOpen {
		s.opened++
	}
}

// add takes the result of a run.
func (s *summary) add(res *superstep.Result[State]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tickets++
	s.categories[res.State.Category]++
	s.by[res.State.By]++
	s.usage = s.usage.Plus(res.Usage)
	if res.State.Category == res.State.Ticket.Label {
		s.asLabelled++
	}
}

// print writes the counts.
func (s *summary) print() error {
	var text strings.Builder
	list := func(title string, counts map[string]int) {
		for i, name := range slices.Sorted(maps.Keys(counts)) {
			if i > 0 {
				title = ""
			}
			fmt.Fprintf(&text, "%s\t%d\t%s\n", title, counts[name], name)
		}
	}
	fmt.Fprintf(&text, "tickets\t%d\t%d in the category that a person had given them\n", s.tickets, s.asLabelled)
	list("category", s.categories)
	list("answered by", s.by)
	list("retries", s.retries)
	list("given up", s.givenUp)
	fmt.Fprintf(&text, "breaker\t%d\ttimes opened\n", s.opened)
	fmt.Fprintf(&text, "tokens\t%d\tfor prompts\n\t%d\tfor answers\n", s.usage.PromptTokens, s.usage.CompletionTokens)
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, err := io.WriteString(t, text.String())
	return errors.Join(err, t.Flush())
}
