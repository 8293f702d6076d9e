// Package openai is a provider for any endpoint that speaks OpenAI's chat completions: OpenAI itself, Azure's v1 API,
// Gemini and Anthropic in their compatible dress, OpenRouter, Groq, vLLM, Ollama and the rest.
//
//	p, err := openai.New(openai.Config{
//		Name:    "groq",
//		BaseURL: "https://api.groq.com/openai/v1",
//		APIKey:  os.Getenv("GROQ_API_KEY"),
//	})
//	...
//	resp, err := p.Chat(ctx, providers.Request{Model: "llama-x", Messages: messages})
//
// Requests and answers are go-openai's. What is added is the reading of failures: a transport of its own sees statuses,
// headers and bodies where go-openai drops them, tells a cut stream from a finished one, and reads the error frames and
// comments that servers put into streams. Each failure is a *providers.CallError.
//
// The package never retries, never follows a redirect and never sends a request twice: one call is one HTTP request.
package openai
