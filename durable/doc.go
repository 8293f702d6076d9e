// Package durable is for code that must not do its work twice.
//
// A run whose journal a store keeps can stop at any moment, through a crash, a deploy, an outage or a question to a
// person, and go on in another process. Its code is run again from the top; the calls of this package find what they
// did before in the journal and return that instead of doing it again:
//
//	rows, err := durable.Step(ctx, "pull", func(ctx context.Context) ([]Row, error) { return fetch(ctx, account) },
//		durable.Retry(retrypolicy.Standard()), durable.Timeout(30*time.Second))
//
// The same calls work in the body of a Workflow and inside a node of a graph whose runner has a Store. In any other context
// they just call the function, so the same code runs in a plain unit test; a call that needs a journal to mean anything says so.
//
// Code between durable calls must be deterministic: given the same results it makes the same calls, in each scope in the
// same order. What is random, slow, costly or has an effect outside belongs into a Step.
package durable
