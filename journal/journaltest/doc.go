// Package journaltest holds stores to their contract, and lets them fail for the tests of what is built on them.
//
// Run is the suite that every journal.Store passes:
//
//	func TestStore(t *testing.T) {
//		journaltest.Run(t, journaltest.Harness{Open: func(t *testing.T) journal.Store { return memory.New() }})
//	}
//
// Faulty wraps a store and fails on demand: by outages, by lost acknowledgements, or for good, as if the process had died.
//
//	store := journaltest.NewFaulty(memory.New())
//	store.FailWrite(3, journaltest.After) // the third write from here is done, and nobody is told
package journaltest
