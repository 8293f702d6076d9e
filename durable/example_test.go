package durable_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal/memory"
	"github.com/pawl-go/pawl/retrypolicy"
)

func ExampleStep() {
	ctx, store := context.Background(), memory.New()
	sync := durable.Workflow("sync", func(ctx context.Context, account string) (string, error) {
		rows, err := durable.Step(ctx, "pull", func(context.Context) (int, error) {
			fmt.Println("pulling", account)
			return 42, nil
		})
		if err != nil {
			return "", err
		}
		if _, err := durable.WaitForSignal[bool](ctx, "go on"); err != nil {
			return "", err
		}
		return fmt.Sprintf("%d rows", rows), nil
	})
	_, err := durable.Run(ctx, store, sync, "sync-acme", "acme")
	fmt.Println(err)

	// Later, in the same process or another: the step is not called again.
	_ = durable.Signal(ctx, store, "sync-acme", "go on", true)
	report, err := durable.Run(ctx, store, sync, "sync-acme", "acme")
	fmt.Println(report, err)
	// Output:
	// pulling acme
	// pawl: run "sync-acme" is suspended; it waits for signal "go on": run it again with the same id when that is there
	// 42 rows <nil>
}

func ExampleStep_handled() {
	wf := durable.Workflow("sync", func(ctx context.Context, _ string) (string, error) {
		_, err := durable.Step(ctx, "pull", func(context.Context) (int, error) { return 0, errUpstream },
			durable.Retry(retrypolicy.WorkflowNodeRetryPolicy{MaxAttempts: 3, Retryable: retrypolicy.AnyError}))
		if errors.Is(err, errUpstream) {
			return "skipped: upstream down", nil
		}
		return "pulled", err
	})
	fmt.Println(durable.Run(context.Background(), memory.New(), wf, "r", "acme"))
	// Output: skipped: upstream down <nil>
}

var errUpstream = errors.New("upstream is down")

func ExampleOnce() {
	ctx, store := context.Background(), memory.New()
	order := durable.Workflow("order", func(ctx context.Context, id string) (string, error) {
		receipt, err := durable.Once(ctx, "charge", func(context.Context) (string, error) {
			fmt.Println("charging", id)
			return "receipt of " + id, nil
		})
		if _, unknown := errors.AsType[*durable.OutcomeUnknownError](err); unknown {
			return "ask the bank", nil
		}
		return receipt, err
	})
	for range 2 {
		fmt.Println(durable.Run(ctx, store, order, "order-7", "7"))
	}
	// Output:
	// charging 7
	// receipt of 7 <nil>
	// receipt of 7 <nil>
}

func ExampleInterrupt() {
	ctx, store := context.Background(), memory.New()
	publish := durable.Workflow("publish", func(ctx context.Context, draft string) (string, error) {
		ok, err := durable.Interrupt[bool](ctx, "Publish "+draft+"?")
		switch {
		case err != nil:
			return "", err
		case !ok:
			return "dropped", nil
		}
		return "published", nil
	})
	_, err := durable.Run(ctx, store, publish, "p", "tides")
	if waits, is := errors.AsType[*durable.SuspendedError](err); is {
		fmt.Println(waits.Waits[0].Prompt, waits.Questions())
	}
	fmt.Println(durable.Answer(ctx, store, "p", "ask1", "of course"))
	fmt.Println(durable.Answer(ctx, store, "p", "ask1", true))
	fmt.Println(durable.Run(ctx, store, publish, "p", "tides"))
	// Output:
	// "Publish tides?" [ask1]
	// pawl: run "p": the answer to question "ask1" was refused: wrong type: validating root: type: of course has type "string", want "boolean"
	// <nil>
	// published <nil>
}

func ExampleSignal() {
	ctx, store := context.Background(), memory.New()
	cart := durable.Workflow("cart", func(ctx context.Context, n int) ([]string, error) {
		var items []string
		for len(items) < n {
			item, err := durable.WaitForSignal[string](ctx, "add")
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
		return items, nil
	})
	_, err := durable.Run(ctx, store, cart, "cart-1", 2)
	fmt.Println(errors.As(err, new(*durable.SuspendedError)))
	_ = durable.Signal(ctx, store, "cart-1", "add", "tea", durable.SendKey("click-1"))
	_ = durable.Signal(ctx, store, "cart-1", "add", "tea", durable.SendKey("click-1")) // sent again, it counts once
	_ = durable.Signal(ctx, store, "cart-1", "add", "milk")
	fmt.Println(durable.Run(ctx, store, cart, "cart-1", 2))
	// Output:
	// true
	// [tea milk] <nil>
}

func ExampleBranch() {
	trip := durable.Workflow("trip", func(ctx context.Context, cities []string) ([]string, error) {
		weather := make([]string, len(cities))
		errs := make(chan error)
		for i, city := range cities {
			go func() {
				errs <- durable.Branch(ctx, city, func(ctx context.Context) (err error) {
					weather[i], err = durable.Step(ctx, "weather", func(context.Context) (string, error) { return city + ": rain", nil })
					return err
				})
			}()
		}
		var all []error
		for range cities {
			all = append(all, <-errs)
		}
		return weather, errors.Join(all...)
	})
	fmt.Println(durable.Run(context.Background(), memory.New(), trip, "t", []string{"Bergen", "Cork"}))
	// Output: [Bergen: rain Cork: rain] <nil>
}

func ExampleGate() {
	ctx, store := context.Background(), memory.New()
	step := func(ctx context.Context, name string) error {
		_, err := durable.Step(ctx, name, func(context.Context) (bool, error) {
			fmt.Println(name)
			return true, nil
		})
		return err
	}
	before := durable.Workflow("report", func(ctx context.Context, _ string) (bool, error) {
		if err := step(ctx, "mail"); err != nil {
			return false, err
		}
		return durable.WaitForSignal[bool](ctx, "read")
	})
	after := durable.Workflow("report", func(ctx context.Context, _ string) (bool, error) {
		way := "mail"
		if fresh, err := durable.Gate(ctx, "send by queue"); err != nil {
			return false, err
		} else if fresh {
			way = "queue"
		}
		if err := step(ctx, way); err != nil {
			return false, err
		}
		return durable.WaitForSignal[bool](ctx, "read")
	})
	_, _ = durable.Run(ctx, store, before, "old", "")
	_ = durable.Signal(ctx, store, "old", "read", true)
	fmt.Println(durable.Run(ctx, store, after, "old", "")) // goes on the old way
	_, _ = durable.Run(ctx, store, after, "new", "")
	// Output:
	// mail
	// true <nil>
	// queue
}

func ExamplePrepareRetry() {
	ctx, store := context.Background(), memory.New()
	down := true
	wf := durable.Workflow("etl", func(ctx context.Context, _ string) (string, error) {
		rows, err := durable.Step(ctx, "extract", func(context.Context) (int, error) {
			fmt.Println("extracting")
			return 3, nil
		})
		if err != nil {
			return "", err
		}
		return durable.Step(ctx, "load", func(context.Context) (string, error) {
			if down {
				return "", errors.New("warehouse is down")
			}
			return fmt.Sprintf("loaded %d", rows), nil
		})
	})
	_, err := durable.Run(ctx, store, wf, "etl-1", "in")
	fmt.Println(err)
	down = false
	run, err := durable.PrepareRetry(ctx, store, "etl-1", "etl-1-again")
	fmt.Println(run.Link.Run, err)
	fmt.Println(durable.Resume(ctx, store, wf, "etl-1-again"))
	// Output:
	// extracting
	// pawl: run "etl-1" failed (internal): warehouse is down
	// etl-1 <nil>
	// loaded 3 <nil>
}

func ExampleContinueAsNew() {
	count := durable.Workflow("count", func(ctx context.Context, n int) (int, error) {
		if n < 3 {
			return 0, durable.ContinueAsNew(ctx, n+1)
		}
		return n, nil
	})
	store := memory.New()
	fmt.Println(durable.Run(context.Background(), store, count, "c", 0))
	last, _ := store.Load(context.Background(), "c~4")
	fmt.Println(last.Status)
	// Output:
	// 3 <nil>
	// completed
}

func ExampleRunChild() {
	double := durable.Workflow("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	parent := durable.Workflow("parent", func(ctx context.Context, n int) (int, error) {
		return durable.RunChild(ctx, double, n)
	})
	store := memory.New()
	fmt.Println(durable.Run(context.Background(), store, parent, "p", 21))
	child, _ := store.Load(context.Background(), "p-double#1")
	fmt.Println(child.Link.Kind, child.Link.Run)
	// Output:
	// 42 <nil>
	// child p
}
