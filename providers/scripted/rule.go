package scripted

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/providers"
)

// Rule says what to answer to which requests. It is made with On and is immutable: each method returns a rule with one
// step more, or with its last step changed. Each matching call takes the next step; the last one repeats.
type Rule struct {
	when  []Match
	steps []step
	once  bool
}

// Match is a condition on a request.
type Match struct {
	name string
	test func(providers.Request) bool
}

// On starts a rule for the requests that meet all conditions; without conditions, for all requests.
func On(when ...Match) Rule { return Rule{when: slices.Clone(when)} }

// When is a condition of your own; the name stands in errors. The function gets a copy, and must be safe for concurrent
// use.
func When(name string, test func(providers.Request) bool) Match { return Match{name: name, test: test} }

// Contains is met if some message contains the text.
func Contains(text string) Match {
	return When(fmt.Sprintf("contains %q", text), func(r providers.Request) bool {
		return slices.ContainsFunc(r.Messages, func(m providers.Message) bool { return strings.Contains(textOf(m), text) })
	})
}

// Last is met if the last message contains the text.
func Last(text string) Match {
	return When(fmt.Sprintf("last contains %q", text), func(r providers.Request) bool {
		return len(r.Messages) > 0 && strings.Contains(textOf(r.Messages[len(r.Messages)-1]), text)
	})
}

// LastRole is met if the last message has the role: "user", "tool"...
func LastRole(role string) Match {
	return When(fmt.Sprintf("last role %q", role), func(r providers.Request) bool {
		return len(r.Messages) > 0 && r.Messages[len(r.Messages)-1].Role == role
	})
}

// Model is met if the request asks for the model.
func Model(model string) Match {
	return When(fmt.Sprintf("model %q", model), func(r providers.Request) bool { return r.Model == model })
}

// Reply adds a step that answers with the text, streamed word by word.
func (r Rule) Reply(text string) Rule { return r.add(step{tokens: words(text)}) }

// ReplyFunc adds a step that answers with what the function makes of the request. It gets a copy, and must be safe for
// concurrent use.
func (r Rule) ReplyFunc(answer func(providers.Request) string) Rule {
	return r.add(step{answer: answer})
}

// Tokens adds a step that answers with the pieces, each streamed as one token.
func (r Rule) Tokens(pieces ...string) Rule { return r.add(step{tokens: slices.Clone(pieces)}) }

// CallTools adds a step that asks for tools to be called: see Tool.
func (r Rule) CallTools(calls ...providers.ToolCall) Rule {
	return r.add(step{tools: slices.Clone(calls), finish: "tool_calls"})
}

// Tool is a tool call for CallTools; arguments is a JSON text.
func Tool(id, name, arguments string) providers.ToolCall {
	call := providers.ToolCall{ID: id, Type: "function"}
	call.Function.Name, call.Function.Arguments = name, arguments
	return call
}

// Fail adds a step that fails.
func (r Rule) Fail(f Failure) Rule { return r.add(f.step) }

// After delays the first byte of the last step's answer.
func (r Rule) After(d time.Duration) Rule { return r.change(func(s *step) { s.before = d }) }

// Every puts a pause before each further token of the last step, streamed or not.
func (r Rule) Every(d time.Duration) Rule { return r.change(func(s *step) { s.every = d }) }

// Usage sets what the last step reports as used. Without it the prompt counts a token for each word, and the answer one
// for each token.
func (r Rule) Usage(prompt, completion int) Rule {
	return r.change(func(s *step) { s.usage = &[2]int{prompt, completion} })
}

// Once makes the rule stop answering when each of its steps was taken; later rules get their turn then.
func (r Rule) Once() Rule {
	r.once = true
	return r
}

// String names the rule's conditions.
func (r Rule) String() string {
	if len(r.when) == 0 {
		return "on any"
	}
	names := make([]string, len(r.when))
	for i, m := range r.when {
		names[i] = m.name
	}
	return "on " + strings.Join(names, " and ")
}

func (r Rule) add(s step) Rule {
	r.steps = append(slices.Clip(r.steps), s)
	return r
}

func (r Rule) change(f func(*step)) Rule {
	if len(r.steps) == 0 {
		return r
	}
	r.steps = slices.Clone(r.steps)
	f(&r.steps[len(r.steps)-1])
	return r
}

func (r Rule) matches(req providers.Request) bool {
	for _, m := range r.when {
		if m.test != nil && !m.test(req) {
			return false
		}
	}
	return true
}

// step returns the step for the n-th call, from 0.
func (r Rule) step(n int) (step, bool) {
	if len(r.steps) == 0 || (r.once && n >= len(r.steps)) {
		return step{}, false
	}
	return r.steps[min(n, len(r.steps)-1)], true
}

// words splits a text behind each run of blanks, so that the pieces make the text.
func words(text string) []string {
	var out []string
	start := 0
	for i := 1; i < len(text); i++ {
		if text[i-1] == ' ' && text[i] != ' ' {
			out = append(out, text[start:i])
			start = i
		}
	}
	return append(out, text[start:])
}
