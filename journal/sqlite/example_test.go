package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/sqlite"
)

// A run is written under a lease, and read by anybody.
func Example() {
	folder, err := os.MkdirTemp("", "pawl")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	if err := keepARun(filepath.Join(folder, "pawl.db")); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 1 run:start
	// 2 step:done
	// 3 run:complete
}

func keepARun(path string) error {
	db, err := sqlite.Open(path)
	if err != nil {
		return err
	}
	defer db.Close()

	ctx := context.Background()
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
