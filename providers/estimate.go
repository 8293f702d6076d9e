package providers

import "encoding/json"

// estimate is the rough count of RateLimit.Estimate.
func estimate(req Request, answer int) int {
	const perMessage, perImage, bytesPerToken = 4, 1000, 4
	tokens, size := 0, 0
	for i := range req.Messages {
		m := &req.Messages[i]
		tokens += perMessage
		size += len(m.Content) + len(m.Name) + len(m.ReasoningContent)
		for _, part := range m.MultiContent {
			size += len(part.Text)
			if part.ImageURL != nil {
				tokens += perImage
			}
		}
		for _, t := range m.ToolCalls {
			size += len(t.Function.Name) + len(t.Function.Arguments)
		}
	}
	for _, t := range req.Tools {
		if raw, err := json.Marshal(t); err == nil {
			size += len(raw)
		}
	}
	limit := max(req.MaxCompletionTokens, req.MaxTokens) //nolint:staticcheck // deprecated by OpenAI, not by all who copy it
	if limit > 0 {
		answer = limit
	}
	return tokens + size/bytesPerToken + answer*max(1, req.N)
}
