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
	tokens                    []string
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
		s.usage = &[2]int{prompt, len(s.tokens) + len(s.tools)}
	}
	return s
}

// deltas returns the pieces of the answer, the last ones (finish reason, usage) only if it ends whole.
func (s step) deltas(req providers.Request, n int) iter.Seq[openai.ChatCompletionStreamResponse] {
	return func(yield func(openai.ChatCompletionStreamResponse) bool) {
		for _, c := range s.pieces() {
			if !yield(s.chunk(req, n, c)) {
				return
			}
		}
		if s.end != endWhole {
			return
		}
		last := s.chunk(req, n)
		if !s.noChoices {
			if !yield(s.chunk(req, n, openai.ChatCompletionStreamChoice{FinishReason: s.finish})) {
				return
			}
		} else if s.promptFiltered {
			last.PromptFilterResults = filtered()
		}
		last.Usage = s.used()
		yield(last)
	}
}

// pieces returns the tokens, the refusal and the tool calls, whose arguments come in two fragments as servers send them.
func (s step) pieces() []openai.ChatCompletionStreamChoice {
	var out []openai.ChatCompletionStreamChoice
	add := func(d openai.ChatCompletionStreamChoiceDelta) {
		if len(out) == 0 {
			d.Role = openai.ChatMessageRoleAssistant
		}
		out = append(out, openai.ChatCompletionStreamChoice{Delta: d})
	}
	for _, t := range s.tokens {
		add(openai.ChatCompletionStreamChoiceDelta{Content: t})
	}
	if s.refusal != "" {
		add(openai.ChatCompletionStreamChoiceDelta{Refusal: s.refusal})
	}
	for i, t := range s.tools {
		half := len(t.Function.Arguments) / 2
		first, rest := t, providers.ToolCall{Index: &i}
		first.Index = &i
		first.Function.Arguments, rest.Function.Arguments = t.Function.Arguments[:half], t.Function.Arguments[half:]
		add(openai.ChatCompletionStreamChoiceDelta{ToolCalls: []providers.ToolCall{first}})
		add(openai.ChatCompletionStreamChoiceDelta{ToolCalls: []providers.ToolCall{rest}})
	}
	return out
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
	r.Choices = []openai.ChatCompletionChoice{{
		Message: providers.Message{
			Role:      openai.ChatMessageRoleAssistant,
			Content:   strings.Join(s.tokens, ""),
			Refusal:   s.refusal,
			ToolCalls: slices.Clone(s.tools),
		},
		FinishReason: s.finish,
	}}
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
