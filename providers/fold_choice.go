package providers

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sashabaranov/go-openai"
)

// foldedChoice gathers one choice of a streamed answer.
type foldedChoice struct {
	index                       int
	role                        string
	content, refusal, reasoning strings.Builder
	function                    *foldedFunction
	tools                       []*foldedTool // in order of first appearance
	finished                    openai.FinishReason
	filter                      openai.ContentFilterResults
	logprobs                    []openai.LogProb
}

type foldedFunction struct {
	name      string
	arguments strings.Builder
}

type foldedTool struct {
	index    int
	id       string
	kind     openai.ToolType
	function foldedFunction
}

func (c *foldedChoice) add(d *openai.ChatCompletionStreamChoice) {
	setOnce(&c.role, d.Delta.Role)
	c.content.WriteString(d.Delta.Content)
	c.refusal.WriteString(d.Delta.Refusal)
	c.reasoning.WriteString(d.Delta.ReasoningContent)
	if d.Delta.FunctionCall != nil {
		if c.function == nil {
			c.function = &foldedFunction{}
		}
		c.function.add(*d.Delta.FunctionCall)
	}
	for _, t := range d.Delta.ToolCalls {
		c.tool(t).add(t)
	}
	if d.FinishReason != "" && d.FinishReason != openai.FinishReasonNull {
		c.finished = d.FinishReason
	}
	var none openai.ContentFilterResults
	if d.ContentFilterResults != none {
		c.filter = d.ContentFilterResults
	}
	if d.Logprobs != nil {
		c.logprobs = append(c.logprobs, logProbs(d.Logprobs.Content)...)
	}
}

// tool finds the call that a fragment belongs to. The index decides, but some servers leave it out or give every call
// the same one: there a new id starts a new call.
func (c *foldedChoice) tool(t openai.ToolCall) *foldedTool {
	for _, known := range slices.Backward(c.tools) {
		sameID := t.ID == "" || known.id == "" || t.ID == known.id
		if sameID && (t.Index == nil || *t.Index == known.index) {
			return known
		}
	}
	next := &foldedTool{index: len(c.tools)}
	if t.Index != nil {
		next.index = *t.Index
	}
	c.tools = append(c.tools, next)
	return next
}

func (t *foldedTool) add(d openai.ToolCall) {
	setOnce(&t.id, d.ID)
	setOnce(&t.kind, d.Type)
	t.function.add(d.Function)
}

func (f *foldedFunction) add(d openai.FunctionCall) {
	if d.Name != f.name { // some servers repeat the whole name in each fragment
		f.name += d.Name
	}
	f.arguments.WriteString(d.Arguments)
}

func (f *foldedFunction) call() openai.FunctionCall {
	return openai.FunctionCall{Name: f.name, Arguments: f.arguments.String()}
}

// finish returns the choice as a plain call would have given it: tool calls in order, without an index.
func (c *foldedChoice) finish() openai.ChatCompletionChoice {
	m := Message{
		Role:             cmp.Or(c.role, openai.ChatMessageRoleAssistant),
		Content:          c.content.String(),
		Refusal:          c.refusal.String(),
		ReasoningContent: c.reasoning.String(),
	}
	if c.function != nil {
		call := c.function.call()
		m.FunctionCall = &call
	}
	tools := slices.Clone(c.tools)
	slices.SortStableFunc(tools, func(a, b *foldedTool) int { return a.index - b.index })
	for _, t := range tools {
		m.ToolCalls = append(m.ToolCalls, ToolCall{ID: t.id, Type: cmp.Or(t.kind, openai.ToolTypeFunction), Function: t.function.call()})
	}
	out := openai.ChatCompletionChoice{Index: c.index, Message: m, FinishReason: c.finished, ContentFilterResults: c.filter}
	if c.logprobs != nil {
		out.LogProbs = &openai.LogProbs{Content: slices.Clone(c.logprobs)}
	}
	return out
}

// logProbs turns the streamed shape into that of the plain call.
func logProbs(in []openai.ChatCompletionTokenLogprob) []openai.LogProb {
	out := make([]openai.LogProb, 0, len(in))
	for _, p := range in {
		lp := openai.LogProb{Token: p.Token, LogProb: p.Logprob, Bytes: octets(p.Bytes)}
		for _, top := range p.TopLogprobs {
			lp.TopLogProbs = append(lp.TopLogProbs, openai.TopLogProbs{Token: top.Token, LogProb: top.Logprob, Bytes: octets(top.Bytes)})
		}
		out = append(out, lp)
	}
	return out
}

func octets(in []int64) []byte {
	if in == nil {
		return nil
	}
	out := make([]byte, len(in))
	for i, b := range in {
		out[i] = byte(b) //nolint:gosec // servers send bytes as numbers
	}
	return out
}
