package task_test

import (
	"context"
	"fmt"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

func ExampleInfo() {
	type order struct{ Paid string }
	b := graph.New("billing", graph.Replace[order]())
	b.Start(b.Node("charge", func(ctx context.Context, _ order) (order, error) {
		info := task.Info(ctx)
		key := info.IdempotencyKey() // hand it to the provider: the same in every attempt
		return order{fmt.Sprintf("%s %s, attempt %d, key of %d characters", info.RunID, info.Node, info.Attempt, len(key))}, nil
	}))
	g, err := b.Compile()
	if err != nil {
		panic(err)
	}
	r, err := superstep.NewRunner(g, superstep.Config{})
	if err != nil {
		panic(err)
	}
	res, err := r.Run(context.Background(), order{}, superstep.RunID("order-7"))
	fmt.Println(res.State.Paid, err)
	// Output: order-7 charge, attempt 1, key of 32 characters <nil>
}

func ExampleEmit() {
	type none struct{}
	type progress struct{ Done, Of int }
	b := graph.New("import", graph.Fields[none, none]())
	b.Start(b.Node("read", func(ctx context.Context, _ none) (none, error) {
		for i := range 3 {
			task.Emit(ctx, progress{i + 1, 3}) // arrives while the node runs
		}
		task.AddUsage(ctx, task.Usage{Calls: 1, PromptTokens: 12})
		return none{}, nil
	}))
	g, err := b.Compile()
	if err != nil {
		panic(err)
	}
	r, err := superstep.NewRunner(g, superstep.Config{})
	if err != nil {
		panic(err)
	}
	for ev, err := range r.Stream(context.Background(), none{}) {
		switch e := ev.(type) {
		case *task.Custom:
			fmt.Println(e.Node, e.Value)
		case *task.RunCompleted[none]:
			fmt.Println("used", e.Usage.PromptTokens, "tokens", err)
		}
	}
	// Output:
	// read {1 3}
	// read {2 3}
	// read {3 3}
	// used 12 tokens <nil>
}
