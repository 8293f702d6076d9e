package worker_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal/memory"
	"github.com/pawl-go/pawl/worker"
)

// A worker that runs until the process is told to end, and what somebody else starts.
func Example() {
	store := memory.New() // or one that processes share: sqlite.Open, postgres.Open
	greet := durable.Workflow("greet", func(ctx context.Context, name string) (string, error) {
		return durable.Step(ctx, "compose", func(context.Context) (string, error) { return "Hello, " + name, nil })
	})

	w, err := worker.New(worker.Config{Store: store, Concurrency: 10})
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Register(greet); err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()

	c, err := client.New(store, client.Config{})
	if err != nil {
		log.Fatal(err)
	}
	h, err := client.Start(ctx, c, greet, "Ada", client.ID("greet-ada"))
	if err != nil {
		log.Fatal(err)
	}
	text, err := h.Result(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(text)

	stop() // as a SIGTERM would
	fmt.Println(<-done)
	// Output:
	// Hello, Ada
	// <nil>
}

// Queues have limits of their own, for a worker and for all of them together.
func Example_queues() {
	store := memory.New()
	resize := durable.Workflow("resize", func(_ context.Context, n int) (int, error) { return n / 2, nil })
	w, err := worker.New(worker.Config{
		Store: store,
		Queues: []worker.Queue{
			{Name: "urgent"},
			{Name: "bulk", Concurrency: 2, Held: 10},
		},
		LockTTL: 10 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Register(resize); err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()

	c, err := client.New(store, client.Config{})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 { // the key is free again when the first one has ended
		h, err := client.Start(ctx, c, resize, 8, client.Queue("bulk"), client.Dedup("picture-8"), client.Delay(100*time.Millisecond))
		if err != nil {
			log.Fatal(err)
		}
		n, err := h.Result(ctx)
		fmt.Println(h.Existing(), n, err)
	}
	stop()
	<-done
	// Output:
	// false 4 <nil>
	// false 4 <nil>
}
