package memory_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
)

func ExampleNew() {
	ctx := context.Background()
	store := memory.New()
	lease, err := store.Create(ctx, journal.NewRun{
		Run:    journal.Run{ID: "tides-42", Kind: journal.WorkflowRun, Name: "tides"},
		Events: []journal.Event{{Kind: journal.RunStart, Time: time.Now()}},
		Claim:  journal.Claim{Owner: "me", TTL: time.Minute},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	done := []journal.Event{{Kind: journal.StepDone, Name: "pull", N: 1, Time: time.Now(), Payload: []byte(`"high"`)}}
	fmt.Println(store.Append(ctx, lease, journal.Append{After: lease.Head, Events: done}))

	_, err = store.Acquire(ctx, "tides-42", journal.Claim{Owner: "you", TTL: time.Minute})
	fmt.Println(errors.Is(err, journal.ErrLocked))
	for e := range store.Events(ctx, "tides-42", 0) {
		fmt.Println(e.Seq, e.Kind)
	}
	// Output:
	// <nil>
	// true
	// 1 run:start
	// 2 step:done
}

func ExampleStore_Take() {
	ctx := context.Background()
	store := memory.New()
	for _, id := range []string{"tides-42", "tides-43"} {
		run := journal.Run{ID: id, Kind: journal.WorkflowRun, Name: "tides", Queue: "nightly", Dedup: id}
		_, err := store.Create(ctx, journal.NewRun{Run: run, Events: []journal.Event{{Kind: journal.RunStart, Time: time.Now()}}})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	taken, err := store.Take(ctx, journal.Take{
		Claim:    journal.Claim{Owner: "worker-1", TTL: time.Minute},
		Queue:    "nightly",
		Programs: []journal.Program{{Kind: journal.WorkflowRun, Name: "tides"}},
		Limit:    10,
		Held:     1,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range taken {
		fmt.Println(t.Run.ID, "was", t.Was, "and is", t.Run.Status)
	}
	// Output:
	// tides-42 was pending and is running
}
