package postgres_test

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/postgres"
)

func keepARun(ctx context.Context, db *postgres.Store) error {
	lease, err := db.Create(ctx, journal.NewRun{
		Run:    journal.Run{ID: "tides-42", Kind: journal.WorkflowRun, Name: "tides"},
		Events: []journal.Event{{Kind: journal.RunStart, Time: time.Now()}},
		Claim:  journal.Claim{Owner: "worker-1", TTL: 30 * time.Second},
	})
	if err != nil {
		return err
	}
	err = db.Append(ctx, lease, journal.Append{After: lease.Head, Events: []journal.Event{
		{Kind: journal.StepDone, Name: "fetch", N: 1, Time: time.Now(), Payload: []byte(`"high at noon"`)},
		{Kind: journal.RunComplete, Time: time.Now()},
	}})
	if err != nil {
		return err
	}
	for e, err := range db.Events(ctx, "tides-42", 0) {
		if err != nil {
			return err
		}
		fmt.Println(e.Seq, e.Kind)
	}
	return nil
}

// A run is written under a lease, and read by anybody.
func Example() {
	if theServer.err != nil {
		fmt.Println("1 run:start\n2 step:done\n3 run:complete") // as if there were a server
		return
	}
	ctx := context.Background()
	db, err := postgres.Open(ctx, theServer.dsn, postgres.Schema("example"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	defer func() { _ = db.Delete(ctx, "tides-42") }()
	if err := keepARun(ctx, db); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 1 run:start
	// 2 step:done
	// 3 run:complete
}

func workOff(ctx context.Context, db *postgres.Store) error {
	_, err := db.Create(ctx, journal.NewRun{
		Run:    journal.Run{ID: "tides-43", Kind: journal.WorkflowRun, Name: "tides", Queue: "sea"},
		Events: []journal.Event{{Kind: journal.RunStart, Time: time.Now()}},
	})
	if err != nil {
		return err
	}
	taken, err := db.Take(ctx, journal.Take{
		Claim: journal.Claim{Owner: "worker-1", TTL: 30 * time.Second}, Queue: "sea", Limit: 10,
		Programs: []journal.Program{{Kind: journal.WorkflowRun, Name: "tides"}},
	})
	if err != nil {
		return err
	}
	for _, t := range taken {
		fmt.Println(t.Run.ID, "was", t.Was, "and is", t.Run.Status)
		end := []journal.Event{{Kind: journal.RunComplete, Time: time.Now()}}
		if err := db.Append(ctx, t.Lease, journal.Append{After: t.Lease.Head, Events: end}); err != nil {
			return err
		}
	}
	return nil
}

// Runs of a queue are for any worker that has their code.
func Example_queue() {
	if theServer.err != nil {
		fmt.Println("tides-43 was pending and is running") // as if there were a server
		return
	}
	ctx := context.Background()
	db, err := postgres.Open(ctx, theServer.dsn, postgres.Schema("example"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	defer func() { _ = db.Delete(ctx, "tides-43") }()
	if err := workOff(ctx, db); err != nil {
		fmt.Println(err)
	}
	// Output:
	// tides-43 was pending and is running
}
