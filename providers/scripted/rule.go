package scripted

import (
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/providers"
)

// Rule says what to answer to which requests. It is made with On and is immutable: each method returns a rule with one
// step more, or with its last step changed. Each matching call takes the next step; the last one repeats. Whose calls count
// together is PerRequest's to say.
type Rule struct {
	when       []Match
	steps      []step
	once       bool
	perRequest bool
}

// On starts a rule for the requests that meet all conditions; without conditions, for all requests.
func On(when ...Match) Rule { return Rule{when: slices.Clone(when)} }

// Reply adds a step that answers with the text, streamed word by word.
func (r Rule) Reply(text string) Rule { return r.add(step{tokens: words(text)}) }

// ReplyFunc adds a step that answers with what the function makes of the request. It gets a copy, and must be safe for
// concurrent use.
func (r Rule) ReplyFunc(answer func(providers.Request) string) Rule {
	return r.add(step{answer: answer})
}

// Tokens adds a step that answers with the pieces, each streamed as one token.
func (r Rule) Tokens(pieces ...string) Rule { return r.add(step{tokens: slices.Clone(pieces)}) }

// Choices adds a step that answers with several choices, one for each text, whatever N the request asks for. Streamed they
// come word by word, in turns. Without a text it fails like NoChoices.
func (r Rule) Choices(texts ...string) Rule {
	if len(texts) == 0 {
		return r.Fail(NoChoices())
	}
	s := step{tokens: words(texts[0])}
	for _, text := range texts[1:] {
		s.others = append(s.others, words(text))
	}
	return r.add(s)
}

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

// After delays the first byte of the last step's answer. After, Every and Usage panic if there is no step yet.
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

// PerRequest counts the steps for each distinct text of the user's last message, instead of for all calls together: one rule
// then says how the first call with each question ends, and how the second. With Once it stops answering question by
// question.
func (r Rule) PerRequest() Rule {
	r.perRequest = true
	return r
}

// conditions names them, for errors.
func (r Rule) conditions() string {
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
		panic("pawl: scripted: After, Every and Usage are about the step before them: put them behind a Reply or Fail")
	}
	r.steps = slices.Clone(r.steps)
	f(&r.steps[len(r.steps)-1])
	return r
}

func (r Rule) matches(a *asked) bool {
	for _, m := range r.when {
		if m.test != nil && !m.test(a) {
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
