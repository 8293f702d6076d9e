package scripted

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/providers"
	"github.com/sashabaranov/go-openai"
)

// step is what happens in answer to one call, whichever face of the script was called.
type step struct {
	before, every time.Duration

	// A response that is no answer: status is not 0.
	status    int
	header    http.Header
	body      string // also the error object of endError
	unmatched string

	// An answer.
	tokens                    []string   // of the first choice
	others                    [][]string // tokens of further choices
	answer                    func(providers.Request) string
	tools                     []providers.ToolCall
	refusal                   string
	finish                    openai.FinishReason
	usage                     *[2]int
	noChoices, promptFiltered bool
	end                       ending
}

// ending is how an answer ends.
type ending int

const (
	endWhole ending = iota
	endCut          // a clean close in the middle
	endReset        // a broken connection
	endStall        // nothing more comes
	endError        // an error object
)

// resolve fills in what depends on the request.
func (s step) resolve(req providers.Request) step {
	if s.answer != nil {
		s.tokens = words(s.answer(clone(req)))
	}
	if s.finish == "" {
		s.finish = openai.FinishReasonStop
	}
	if s.usage == nil {
		prompt := 0
		for _, m := range req.Messages {
			prompt += len(strings.Fields(textOf(m)))
		}
		completion := len(s.tools)
		for _, tokens := range s.choices() {
			completion += len(tokens)
		}
		s.usage = &[2]int{prompt, completion}
	}
	return s
}

// choices returns the tokens of each choice.
func (s step) choices() [][]string { return append([][]string{s.tokens}, s.others...) }

// chunks returns the pieces of the answer as time goes by, the last ones (finish reasons, usage) only if it ends whole. An
// error is the context's, and the last thing it gives.
func (s step) chunks(ctx context.Context, req providers.Request, n int) iter.Seq2[openai.ChatCompletionStreamResponse, error] {
	return func(yield func(openai.ChatCompletionStreamResponse, error) bool) {
		pause := time.Duration(0)
		for _, c := range s.pieces() {
			if err := wait(ctx, pause); err != nil {
				yield(openai.ChatCompletionStreamResponse{}, err)
				return
			}
			pause = s.every
			if !yield(s.chunk(req, n, c), nil) {
				return
			}
		}
		if s.end != endWhole {
			return
		}
		for _, last := range s.closing(req, n) {
			if !yield(last, nil) {
				return
			}
		}
	}
}

// pieces returns the tokens, the choices in turns, the refusal and the tool calls, whose arguments come in two fragments as
// servers send them.
func (s step) pieces() []openai.ChatCompletionStreamChoice {
	var out []openai.ChatCompletionStreamChoice
	choices := s.choices()
	begun := make([]bool, len(choices))
	add := func(choice int, d openai.ChatCompletionStreamChoiceDelta) {
		if !begun[choice] {
			begun[choice], d.Role = true, openai.ChatMessageRoleAssistant
		}
		out = append(out, openai.ChatCompletionStreamChoice{Index: choice, Delta: d})
	}
	for turn, more := 0, true; more; turn++ {
		more = false
		for i, tokens := range choices {
			if turn < len(tokens) {
				more = true
				add(i, openai.ChatCompletionStreamChoiceDelta{Content: tokens[turn]})
			}
		}
	}
	if s.refusal != "" {
		add(0, openai.ChatCompletionStreamChoiceDelta{Refusal: s.refusal})
	}
	for i, t := range s.tools {
		half := len(t.Function.Arguments) / 2
		first, rest := t, providers.ToolCall{Index: &i}
		first.Index = &i
		first.Function.Arguments, rest.Function.Arguments = t.Function.Arguments[:half], t.Function.Arguments[half:]
		add(0, openai.ChatCompletionStreamChoiceDelta{ToolCalls: []providers.ToolCall{first}})
		add(0, openai.ChatCompletionStreamChoiceDelta{ToolCalls: []providers.ToolCall{rest}})
	}
	return out
}

// closing returns the finish reason of each choice, and the usage.
func (s step) closing(req providers.Request, n int) []openai.ChatCompletionStreamResponse {
	var out []openai.ChatCompletionStreamResponse
	last := s.chunk(req, n)
	last.Usage = s.used()
	switch {
	case s.promptFiltered:
		last.PromptFilterResults = filtered()
	case !s.noChoices:
		for i := range s.choices() {
			out = append(out, s.chunk(req, n, openai.ChatCompletionStreamChoice{Index: i, FinishReason: s.finish}))
		}
	}
	return append(out, last)
}

// speak takes the time that all pieces take.
func (s step) speak(ctx context.Context) error {
	return wait(ctx, s.every*time.Duration(max(0, len(s.pieces())-1)))
}

func (s step) chunk(req providers.Request, n int, c ...openai.ChatCompletionStreamChoice) openai.ChatCompletionStreamResponse {
	if c == nil {
		c = []openai.ChatCompletionStreamChoice{}
	}
	return openai.ChatCompletionStreamResponse{ID: callID(n), Object: "chat.completion.chunk", Model: req.Model, Choices: c}
}

// response returns the whole answer of a plain call.
func (s step) response(req providers.Request, n int) openai.ChatCompletionResponse {
	r := openai.ChatCompletionResponse{ID: callID(n), Object: "chat.completion", Model: req.Model, Usage: *s.used()}
	if s.noChoices {
		r.Choices = []openai.ChatCompletionChoice{}
		if s.promptFiltered {
			r.PromptFilterResults = filtered()
		}
		return r
	}
	for i, tokens := range s.choices() {
		m := providers.Message{Role: openai.ChatMessageRoleAssistant, Content: strings.Join(tokens, "")}
		r.Choices = append(r.Choices, openai.ChatCompletionChoice{Index: i, Message: m, FinishReason: s.finish})
	}
	r.Choices[0].Message.Refusal, r.Choices[0].Message.ToolCalls = s.refusal, slices.Clone(s.tools)
	return r
}

func (s step) used() *openai.Usage {
	return &openai.Usage{PromptTokens: s.usage[0], CompletionTokens: s.usage[1], TotalTokens: s.usage[0] + s.usage[1]}
}

func filtered() []openai.PromptFilterResult {
	hate := openai.ContentFilterResults{Hate: openai.Hate{Filtered: true, Severity: "high"}}
	return []openai.PromptFilterResult{{ContentFilterResults: hate}}
}

func callID(n int) string { return fmt.Sprintf("scripted-%d", n) }

// wait returns when d has passed, or with the context's error.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
