// Package providers is how Pawl speaks to language models: one small interface, and middleware around it.
//
// A Provider takes and gives go-openai's request and response types, the format every OpenAI-compatible endpoint
// understands. Package openai calls such an endpoint, package scripted plays one in tests.
//
//	gpt, err := openai.New(openai.Config{BaseURL: url, APIKey: key})
//	...
//	p, err := providers.Wrap(gpt,
//		providers.Fallback{Then: []providers.Provider{local}}, // outermost
//		providers.Breaker{},
//		providers.RateLimit{RequestsPerMinute: 500, TokensPerMinute: 90_000},
//		providers.MaxConcurrent{Calls: 8},
//		providers.Timeout{Call: time.Minute}, // innermost
//	)
//	...
//	resp, err := p.Chat(ctx, providers.Request{Model: "gpt-x", Messages: messages})
//
// An answer that is no success (a refusal, a cut stream, no choices) is an error of the right class, never an empty
// answer. Errors say what happened and which class it is; they never quote keys, headers, prompts or bodies.
//
// The package never retries: the retry policy of the node that calls is the only layer that does.
package providers
