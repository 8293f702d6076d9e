package durable_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal/memory"
)

// order is a workflow that others change and ask while it waits.
var order = durable.Workflow("order", func(ctx context.Context, customer string) (string, error) {
	var items []string
	paid := false
	err := errors.Join(
		durable.HandleUpdate(ctx, "add", func(ctx context.Context, item string) (int, error) {
			price, err := durable.Step(ctx, "price", func(context.Context) (int, error) { return len(item), nil })
			if err != nil {
				return 0, err
			}
			items = append(items, item)
			return price, nil
		}, durable.Validator(func(item string) error {
			if item == "" {
				return errors.New("an item has a name")
			}
			return nil
		})),
		durable.HandleUpdate(ctx, "pay", func(context.Context, struct{}) (bool, error) { paid = true; return true, nil }),
		durable.HandleQuery(ctx, "items", func(struct{}) ([]string, error) { return items, nil }),
	)
	if err != nil {
		return "", err
	}
	if err := durable.Await(ctx, func() bool { return paid }); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d items for %s", len(items), customer), nil
})

// work runs a run until it has ended, as a worker would.
func work[I, O any](ctx context.Context, store *memory.Store, wf *durable.Definition[I, O], id string, in I) <-chan string {
	out := make(chan string, 1)
	changed, stop := store.Watch(id)
	go func() {
		defer stop()
		for {
			result, err := durable.Run(ctx, store, wf, id, in)
			if _, waits := errors.AsType[*durable.SuspendedError](err); !waits {
				out <- fmt.Sprint(result, " ", err)
				return
			}
			<-changed
		}
	}()
	return out
}

func ExampleHandleUpdate() {
	ctx, store := context.Background(), memory.New()
	_, err := durable.Run(ctx, store, order, "order-7", "ada")
	fmt.Println(err)
	done := work(ctx, store, order, "order-7", "ada")

	// Somewhere else:
	price, err := durable.Update[int](ctx, store, "order-7", "add", "tea", durable.SendKey("click-1"))
	fmt.Println(price, err)
	price, err = durable.Update[int](ctx, store, "order-7", "add", "tea", durable.SendKey("click-1")) // sent again, it counts once
	fmt.Println(price, err)
	_, err = durable.Update[int](ctx, store, "order-7", "add", "")
	fmt.Println(err)
	_, err = durable.Update[bool](ctx, store, "order-7", "pay", struct{}{})
	fmt.Println(err, <-done)
	// Output:
	// pawl: run "order-7" is suspended; it waits for an update that makes its condition true: run it again with the same id when that is there
	// 3 <nil>
	// 3 <nil>
	// pawl: run "order-7": update "add" was rejected: invalid (an item has a name): the run is as it was
	// <nil> 1 items for ada <nil>
}

func ExampleHandleQuery() {
	ctx, store := context.Background(), memory.New()
	_, _ = durable.Run(ctx, store, order, "order-7", "ada")
	done := work(ctx, store, order, "order-7", "ada")
	for _, item := range []string{"tea", "milk"} {
		_, _ = durable.Update[int](ctx, store, "order-7", "add", item)
	}
	fmt.Println(durable.Query[[]string](ctx, store, "order-7", "items", struct{}{}))
	_, err := durable.Query[int](ctx, store, "order-7", "total", struct{}{})
	fmt.Println(err)
	_, _ = durable.Update[bool](ctx, store, "order-7", "pay", struct{}{})
	fmt.Println(<-done)
	// Output:
	// [tea milk] <nil>
	// pawl: run "order-7": query "total" was not answered: unknown: use the name that the workflow's handler has
	// 2 items for ada <nil>
}

func ExamplePause() {
	ctx, store := context.Background(), memory.New()
	_, _ = durable.Run(ctx, store, order, "order-7", "ada")
	fmt.Println(durable.Pause(ctx, store, "order-7", "the till is broken"))
	_, err := durable.Run(ctx, store, order, "order-7", "ada") // calls none of its code
	if waits, is := errors.AsType[*durable.SuspendedError](err); is {
		fmt.Println(waits.Waits[0].Paused)
	}
	fmt.Println(durable.Unpause(ctx, store, "order-7"))
	done := work(ctx, store, order, "order-7", "ada")
	_, _ = durable.Update[bool](ctx, store, "order-7", "pay", struct{}{})
	fmt.Println(<-done)
	// Output:
	// <nil>
	// true
	// <nil>
	// 0 items for ada <nil>
}

func ExampleAwait() {
	ctx, store := context.Background(), memory.New()
	vote := durable.Workflow("vote", func(ctx context.Context, needed int) ([]string, error) {
		var voters []string
		err := durable.HandleUpdate(ctx, "vote", func(_ context.Context, who string) (int, error) {
			voters = append(voters, who)
			return len(voters), nil
		})
		if err != nil {
			return nil, err
		}
		err = durable.Await(ctx, func() bool { return len(voters) >= needed })
		return voters, err
	})
	_, err := durable.Run(ctx, store, vote, "v", 2)
	if waits, is := errors.AsType[*durable.SuspendedError](err); is {
		fmt.Println(waits.Waits[0].Await)
	}
	done := work(ctx, store, vote, "v", 2)
	for _, who := range []string{"ada", "grace"} {
		fmt.Println(durable.Update[int](ctx, store, "v", "vote", who))
	}
	fmt.Println(<-done)
	// Output:
	// true
	// 1 <nil>
	// 2 <nil>
	// [ada grace] <nil>
}
