package client_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
	"github.com/pawl-go/pawl/worker"
)

// aWorker stands for another process, which has the code of the runs.
func aWorker(ctx context.Context, store journal.Store, code durable.Executable, queues ...worker.Queue) (stop func()) {
	w, err := worker.New(worker.Config{Store: store, Queues: queues})
	if err == nil {
		err = w.Register(code)
	}
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() {
		cancel()
		<-done
	}
}

func ExampleStart() {
	ctx, store := context.Background(), memory.New()
	double := durable.Workflow("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	c, err := client.New(store, client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	h, err := client.Start(ctx, c, double, 21, client.ID("double-21"), client.Queue("night"))
	if err != nil {
		fmt.Println(err)
		return
	}
	run, _ := h.Get(ctx)
	fmt.Println(run.Status, "in queue", run.Queue)

	stop := aWorker(ctx, store, double, worker.Queue{Name: "night"})
	defer stop()
	fmt.Println(h.Result(ctx))
	// Output:
	// pending in queue night
	// 42 <nil>
}

func ExampleHandle_Result() {
	ctx, store := context.Background(), memory.New()
	c, _ := client.New(store, client.Config{})
	charge := durable.Workflow("charge", func(_ context.Context, card string) (string, error) {
		return "", errors.New("card " + card + " was declined")
	})
	h, _ := client.Start(ctx, c, charge, "4242", client.ID("charge-7"))
	stop := aWorker(ctx, store, charge)
	defer stop()

	_, err := h.Result(ctx)
	var failed *durable.RunFailedError
	if errors.As(err, new(*client.InvocationError)) && errors.As(err, &failed) {
		fmt.Println(failed.RunID, failed.Code)
	}
	fmt.Println(err)
	// Output:
	// charge-7 internal
	// pawl: run "charge-7" failed (internal): card 4242 was declined: Retry makes a new run that goes on where it failed
}

func ExampleHandle_Signal() {
	ctx, store := context.Background(), memory.New()
	c, _ := client.New(store, client.Config{})
	greet := durable.Workflow("greet", func(ctx context.Context, greeting string) (string, error) {
		name, err := durable.WaitForSignal[string](ctx, "name")
		return greeting + ", " + name, err
	})
	h, _ := client.Start(ctx, c, greet, "Hello", client.ID("greet-1"))
	stop := aWorker(ctx, store, greet)
	defer stop()

	// Sent twice with one key it counts once.
	for range 2 {
		if err := h.Signal(ctx, "name", "Ada", durable.SendKey("name-1")); err != nil && !errors.Is(err, journal.ErrEnded) {
			fmt.Println(err)
		}
	}
	fmt.Println(h.Result(ctx))
	// Output: Hello, Ada <nil>
}

func ExampleUpdate() {
	ctx, store := context.Background(), memory.New()
	c, _ := client.New(store, client.Config{})
	h, _ := client.Start(ctx, c, cart, "tea", client.ID("cart-7")) // a workflow with handlers, see durable.HandleUpdate
	stop := aWorker(ctx, store, cart)
	defer stop()

	size, err := client.Update[int](ctx, h, "add", "milk")
	fmt.Println(size, err)
	_, err = client.Update[int](ctx, h, "add", "")
	fmt.Println(err)
	size, err = client.Query[int](ctx, h, "size", struct{}{})
	fmt.Println(size, err)
	// Output:
	// 2 <nil>
	// pawl: run "cart-7": update "add" was rejected: invalid (nothing to add): the run is as it was
	// 2 <nil>
}

func ExampleClient_Events() {
	ctx, store := context.Background(), memory.New()
	c, _ := client.New(store, client.Config{})
	sync := durable.Workflow("sync", func(ctx context.Context, account string) (int, error) {
		return durable.Step(ctx, "pull", func(context.Context) (int, error) { return len(account), nil })
	})
	h, _ := client.Start(ctx, c, sync, "acme", client.ID("sync-acme"))
	stop := aWorker(ctx, store, sync)
	defer stop()

	for e, err := range c.Events(ctx, h.ID(), 0) { // until the run has ended
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(e.Seq, e.Kind)
	}
	// Output:
	// 1 run:start
	// 2 step:done
	// 3 run:complete
}
