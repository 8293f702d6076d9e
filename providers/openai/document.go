package openai

import (
	"encoding/json"
	"io"
	"slices"

	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/internal/wire"
	"github.com/sashabaranov/go-openai"
)

// document handles a body that is no stream though one was asked for: an error, a whole answer, or something that cannot
// be read. start is its first line.
func (f *frames) document(start []byte) error {
	doc := slices.Clone(start)
	rest, err := io.ReadAll(io.LimitReader(f.in, f.left+1))
	if int64(len(rest)) > f.left {
		return tooLong(f.source, f.limit)
	}
	doc = append(append(doc, '\n'), rest...)
	if obj := wire.FindError(doc); obj != nil {
		return f.source.Embedded(f.header, doc, obj)
	}
	if err != nil {
		return transportError(f.source, err)
	}
	var answer openai.ChatCompletionResponse
	if err := json.Unmarshal(doc, &answer); err != nil {
		return f.source.Broken(wire.DetailUnreadable, err)
	}
	chunk, err := json.Marshal(asChunk(answer))
	if err != nil {
		return f.source.Broken(wire.DetailUnreadable, err)
	}
	f.done = true
	if err := f.emit(chunk); err != nil {
		return err
	}
	return io.EOF
}

// asChunk makes a whole answer the one chunk of a stream.
func asChunk(r openai.ChatCompletionResponse) openai.ChatCompletionStreamResponse {
	out := openai.ChatCompletionStreamResponse{
		ID: r.ID, Object: "chat.completion.chunk", Created: r.Created, Model: r.Model, Usage: &r.Usage,
		SystemFingerprint: r.SystemFingerprint, PromptFilterResults: r.PromptFilterResults,
	}
	for _, c := range r.Choices {
		out.Choices = append(out.Choices, openai.ChatCompletionStreamChoice{
			Index: c.Index, FinishReason: c.FinishReason, ContentFilterResults: c.ContentFilterResults, Delta: asDelta(c.Message),
		})
	}
	return out
}

func asDelta(m providers.Message) openai.ChatCompletionStreamChoiceDelta {
	d := openai.ChatCompletionStreamChoiceDelta{
		Role: m.Role, Content: m.Content, Refusal: m.Refusal, ReasoningContent: m.ReasoningContent, FunctionCall: m.FunctionCall,
	}
	for i, t := range m.ToolCalls {
		t.Index = &i
		d.ToolCalls = append(d.ToolCalls, t)
	}
	return d
}
