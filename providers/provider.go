package providers

import (
	"context"
	"iter"

	"github.com/sashabaranov/go-openai"
)

// The types of go-openai that a Provider speaks, by their short names.
type (
	// Request asks for a chat completion.
	Request = openai.ChatCompletionRequest
	// Message is one message of a conversation.
	Message = openai.ChatCompletionMessage
	// Tool is a function that the model may ask to be called.
	Tool = openai.Tool
	// ToolCall is the model's wish to have a function called.
	ToolCall = openai.ToolCall
	// FunctionDefinition describes the function of a Tool.
	FunctionDefinition = openai.FunctionDefinition
	// ResponseFormat asks for an answer in JSON.
	ResponseFormat = openai.ChatCompletionResponseFormat
)

// Who speaks a Message.
const (
	RoleSystem    = openai.ChatMessageRoleSystem
	RoleUser      = openai.ChatMessageRoleUser
	RoleAssistant = openai.ChatMessageRoleAssistant
	RoleTool      = openai.ChatMessageRoleTool
)

// Provider answers chat requests. Its methods are safe for concurrent use by any number of runs, return soon after
// their context has ended, and neither retry nor change the request.
//
// Whoever writes a Provider of their own passes it through Conform, which holds it to the promises below.
type Provider interface {
	// Name says who answers: it stands in responses, events and errors. It never changes.
	Name() string
	// Chat makes one call. A returned response is a success; see Check for what is none. An error says its class
	// through classifier.Classed, and is errors.Is(ctx.Err()) if ctx has ended.
	Chat(ctx context.Context, req Request) (*Response, error)
	// Stream makes the same call and gives the answer piece by piece. Nothing happens before the sequence is ranged
	// over, and each range is one call. A stream that ends without an error was whole; an error is the last thing it
	// gives, with a nil Delta. Leaving the loop early ends the call.
	Stream(ctx context.Context, req Request) iter.Seq2[*Delta, error]
}

// Response is a whole answer.
type Response struct {
	openai.ChatCompletionResponse
	// Provider is the name of the provider that gave it, which behind a Fallback is not always the first.
	Provider string `json:"provider,omitempty"`
}

// Message returns the first choice's message, or the zero Message.
func (r *Response) Message() Message {
	if r == nil || len(r.Choices) == 0 {
		return Message{}
	}
	return r.Choices[0].Message
}

// Text returns the first choice's text.
func (r *Response) Text() string { return r.Message().Content }

// Delta is a piece of an answer.
type Delta struct {
	openai.ChatCompletionStreamResponse
	// Provider is the name of the provider that gave it.
	Provider string `json:"provider,omitempty"`
}

// Text returns what the first choice's text grew by.
func (d *Delta) Text() string {
	for i := range d.Choices {
		if d.Choices[i].Index == 0 {
			return d.Choices[i].Delta.Content
		}
	}
	return ""
}
