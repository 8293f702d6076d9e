// Package worker runs what clients have started: it takes runs from a store's queues, and goes on with them until they end
// or wait.
//
//	w, err := worker.New(worker.Config{Store: db})
//	...
//	err = w.Register(sync, research) // a *durable.Definition, a *superstep.Runner
//	...
//	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
//	defer stop()
//	err = w.Run(ctx)
//
// Any number of workers, in any number of processes, may share a store. A run is held under a lease whose token fences off
// every owner before: a worker that was thought dead and was not cannot write any more, stands down, and says so. A worker
// that dies loses its runs to the others, which serve what is recorded and make no recorded call again.
//
// A run that waits, for a time, a message or a child, is a row in the store, and holds no worker, goroutine or memory.
package worker
