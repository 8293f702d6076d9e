// Package scripted plays a language model in tests: the answers, the tokens and the failures stand in a script.
//
//	script := scripted.New(
//		scripted.On(scripted.Contains("plan")).Reply("1. tides 2. moon"),
//		scripted.On(scripted.Contains("draft")).
//			Fail(scripted.RateLimited(2 * time.Second)). // the first call
//			Reply("a draft"),                           // and all later ones
//		scripted.On().PerRequest().
//			Fail(scripted.Overloaded()).Reply("ok"), // each other question fails once
//	)
//	p := script.Provider("fake")                   // in process, works under testing/synctest
//	srv := httptest.NewServer(script.Handler())    // or as an OpenAI-compatible endpoint
//
// Both faces give the same answers and the same errors, and record what they were asked. A script is deterministic: the
// same calls in the same order get the same answers.
//
// It never imitates how a model thinks, and it never sleeps past the context of a call.
package scripted
