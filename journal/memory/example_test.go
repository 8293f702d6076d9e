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
