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
// they just call the function, so the same code runs in a plain unit test; a call that means nothing there says so.
//
// Code between durable calls must be deterministic: given the same results it makes the same calls, in each scope in the
// same order. What is random, slow, costly or has an effect outside belongs into a Step. Goroutines get a Branch each. A
// time limit is an option of the call, since a context of the code's own ends at another moment each time.
//
// A call is found again by its scope, its name, and how many of that name came before it. A step's failure that the code
// handles is an outcome like a result; one that ends the attempt is not, and the step is called again. What waits, for a
// signal, a person or a child, returns a *SuspendedError, which the code returns in turn: the process lets go of the run,
// and whoever runs it again with the same id comes to the same place. Swallowing it changes nothing.
//
//	out, err := durable.Run(ctx, store, wf, "sync-acme", "acme") // again with the same id: goes on, or tells what is recorded
//
// From outside, Signal, Answer, Pause and Cancel speak to a run, Update and Query to the handlers that a workflow has registered
// with HandleUpdate and HandleQuery, Questions tells what a run asks, and PrepareRetry makes a new run of one that has failed.
// Types whose comment begins with "is for executors" are for what runs code, not for the code.
//
// The package starts no process, polls no queue and has no clock: a suspended run goes on when somebody runs it.
package durable
