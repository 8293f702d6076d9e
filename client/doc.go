// Package client starts runs that workers take, waits for what they come to, and speaks to them: from any process that has
// the store, whether it has the runs' code or not.
//
//	c, err := client.New(db, client.Config{})
//	h, err := client.Start(ctx, c, sync, "acme", client.ID("sync-acme"), client.Queue("night"))
//	rows, err := h.Result(ctx)
//
//	err = h.Signal(ctx, "approval", true)
//	total, err := client.Query[int](ctx, h, "total", "EUR")
//
// A program is a *durable.Definition or a *superstep.Runner: it says what a run begins with and what its result is. Where only
// an id is known, the methods of Client do the same, and Client.Handle gives a result as JSON.
//
// A client runs nothing itself, holds no lease and has no goroutine: all it does is to make runs and to put messages into
// their inboxes, and to read. What it waits for it looks at again and again, from 5 ms to a quarter of a second apart.
package client
