package providers

import (
	"github.com/pawl-go/pawl/classifier"
	"github.com/sashabaranov/go-openai"
)

// finishReasonError is what OpenRouter sets when the upstream provider failed during the answer
// (https://openrouter.ai/docs/api-reference/overview, "Finish Reason").
const finishReasonError openai.FinishReason = "error"

// Check says whether an answer that came without an error is a success. It is the one place that decides: openai,
// scripted and Conform use it.
//
// No success, and then a *CallError whose Partial is the answer, are:
//
//   - no choices: content_filtered if the prompt's filter results say so, otherwise provider_error
//   - a refusal, or the finish reason content_filter: content_filtered, whatever text came with it
//   - the finish reason length: invalid_response, since the answer is cut; a tool call cut so must not run
//   - the finish reason error: provider_error
//
// Of several choices one that is no success is enough.
func Check(resp *Response) error {
	if resp == nil {
		return &CallError{Class: classifier.ProviderError, Detail: "no answer and no error"}
	}
	class, detail := judge(resp)
	if class == "" {
		return nil
	}
	return &CallError{Provider: resp.Provider, Model: resp.Model, Class: class, Detail: detail, Partial: resp}
}

func judge(resp *Response) (class classifier.RunErrorClass, detail string) {
	if len(resp.Choices) == 0 {
		if promptFiltered(resp.PromptFilterResults) {
			return classifier.ContentFiltered, "the prompt was filtered, and the answer has no choices"
		}
		return classifier.ProviderError, "the answer has no choices"
	}
	for i := range resp.Choices {
		if class, detail = judgeChoice(&resp.Choices[i]); class != "" {
			return class, detail
		}
	}
	return "", ""
}

func judgeChoice(c *openai.ChatCompletionChoice) (class classifier.RunErrorClass, detail string) {
	switch {
	case c.Message.Refusal != "":
		return classifier.ContentFiltered, "the model refused"
	case c.FinishReason == openai.FinishReasonContentFilter:
		return classifier.ContentFiltered, "the answer was filtered"
	case c.FinishReason == openai.FinishReasonLength && len(c.Message.ToolCalls) > 0:
		return classifier.InvalidResponse, "a tool call was cut at the token limit: raise MaxCompletionTokens"
	case c.FinishReason == openai.FinishReasonLength:
		return classifier.InvalidResponse, "the answer was cut at the token limit: raise MaxCompletionTokens, or use Partial"
	case c.FinishReason == finishReasonError:
		return classifier.ProviderError, "the provider failed during the answer"
	}
	return "", ""
}

func promptFiltered(results []openai.PromptFilterResult) bool {
	for i := range results {
		f := &results[i].ContentFilterResults
		if f.Hate.Filtered || f.SelfHarm.Filtered || f.Sexual.Filtered || f.Violence.Filtered ||
			f.JailBreak.Filtered || f.JailBreak.Detected || f.Profanity.Filtered {
			return true
		}
	}
	return false
}
