// Package journal is what a run leaves behind: its record, its events, and the messages others have sent it.
//
// A run's journal is a list of events, numbered from 1 and never changed. One owner writes it, under a lease whose token
// fences off every owner before; everybody else writes to the run's inbox, from which the owner copies into the journal.
// Who goes on with a run reads its events instead of doing the work again.
//
//	lease, err := store.Acquire(ctx, "tides-42", journal.Claim{TTL: 30 * time.Second})
//	...
//	err = store.Append(ctx, lease, journal.Append{After: lease.Head, Events: events})
//
// Store is the interface of all stores; memory, sqlite and others implement it, and journaltest is the suite they pass.
// The package imports nothing of Pawl: what an event's payload means is the business of the packages that write it.
package journal
