// Package superstep runs graphs: super-step by super-step, each task in its own attempt loop.
//
//	r, err := superstep.NewRunner(g, superstep.Config{})
//	res, err := r.Run(ctx, State{Topic: "tides"})
//	for ev, err := range r.Stream(ctx, State{Topic: "tides"}) { ... }
//
// All tasks of a super-step see the same snapshot of the state. At the barrier their updates are reduced in task order,
// never in completion order, and routers decide on the merged state what runs next. Machine is that logic, and nothing
// else; Runner drives it with goroutines, deadlines and retries.
//
// It never changes a state that a node has been given, never accepts the late result of a call it has given up, and
// never leaves a goroutine of its own behind.
package superstep
