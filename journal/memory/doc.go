// Package memory keeps runs in the memory of the process: for tests, and for runs that need not outlive it.
//
//	r, err := superstep.NewRunner(g, superstep.Config{Store: memory.New()})
//
// It behaves as every journal.Store does, leases and refusals included, and passes the same suite. It starts no goroutine
// and asks nothing but time.Now for the time, so it works inside a testing/synctest bubble.
package memory
