package durable

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pawl-go/pawl/journal"
)

func TestHandled(t *testing.T) {
	cut := json.RawMessage(`{"cut":true}`)
	ev := func(kind journal.Kind, name string, meta ...json.RawMessage) journal.Event {
		e := journal.Event{Kind: kind, Name: name, N: 1}
		if name == "" {
			e.N = 0
		}
		if len(meta) > 0 {
			e.Meta = meta[0]
		}
		return e
	}
	done, failed := journal.StepDone, journal.StepError
	for name, tt := range map[string]struct {
		in   []journal.Event
		left []int
	}{
		"nothing":                                {nil, nil},
		"a failure at the end":                   {[]journal.Event{ev(done, "a"), ev(failed, "b")}, []int{0}},
		"a failure with something behind":        {[]journal.Event{ev(failed, "a"), ev(done, "b")}, []int{0, 1}},
		"all failures of a call":                 {[]journal.Event{ev(failed, "a"), ev(done, "b"), ev(failed, "a")}, []int{1}},
		"a task's, and what failed in it":        {[]journal.Event{ev(done, "a"), ev(failed, "b"), ev(failed, "")}, []int{0}},
		"a task's alone":                         {[]journal.Event{ev(done, "a"), ev(failed, "")}, []int{0}},
		"once":                                   {[]journal.Event{ev(journal.StepIntent, "a"), ev(failed, "a")}, []int{0, 1}},
		"once in a task":                         {[]journal.Event{ev(journal.StepIntent, "a"), ev(failed, "a"), ev(failed, "")}, []int{0, 1}},
		"handled by the code around":             {[]journal.Event{ev(failed, "a"), ev(journal.StepHandled, "")}, []int{0, 1}},
		"what a context has ended tells nothing": {[]journal.Event{ev(failed, "a"), ev(failed, "b", cut)}, nil},
		"what a context has ended, handled":      {[]journal.Event{ev(failed, "a", cut), ev(done, "b")}, []int{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var want []journal.Event
			for _, i := range tt.left {
				want = append(want, tt.in[i])
			}
			got := handled(tt.in)
			if len(want) == 0 {
				assert.Empty(t, got)
				return
			}
			assert.Equal(t, want, got)
		})
	}
}
