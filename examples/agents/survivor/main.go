// Survivor is an agent of twenty nodes whose process is killed again and again. Each time another process goes on where the last
// one was, until the agent is done.
//
//	brief ──> outline ─────────────────────┐
//	    ├───> search, one task a query ────┼─> weigh ──> draft ──> review ──> title, abstract, tags,
//	    ├───> check (claim, verify, rule) ─┤               ^─────────┘        translate, caption
//	    └───> figures, which fails ────────┘                                     └─> proofread ──> assemble ──> sign
//
// and archive, which waits until all else is done. Run it with
//
//	go run ./examples/agents/survivor
//	go run ./examples/agents/survivor -kills 30 -seed 7
//
// It starts itself as a second process, which runs the agent and keeps the run in a SQLite file. The first process serves the
// model, a scripted one over HTTP on this machine. So it can count how often each call is really made, whoever dies. At
// random moments it kills the second process, with SIGKILL, and looks into the file: a call whose outcome is there must not be
// made again. A call that was under way has left nothing there, and is made again; these are counted apart. If a call was
// repeated whose outcome had been kept, the exit code is 1.
package main

import (
	"context"
	"flag"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
)

func main() {
	log.SetFlags(0)
	kills := flag.Int("kills", 12, "how often the agent's process is killed")
	seed := flag.Uint64("seed", 0, "what the moments of the kills are drawn from; 0 is another one each time")
	worker := flag.String("worker", "", "for the second process: the model's address")
	file := flag.String("store", "", "for the second process: the file that keeps the run")
	flag.Parse()
	var err error
	if *worker != "" {
		err = work(context.Background(), *worker, *file)
	} else {
		err = survive(context.Background(), *kills, *seed)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// survive kills and restarts the agent until it is done, and says how often each call was made.
func survive(ctx context.Context, kills int, seed uint64) error {
	if seed == 0 {
		seed = rand.Uint64()
	}
	folder, err := os.MkdirTemp("", "survivor")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // it is in the system's folder for such things
	desk, err := openDesk()
	if err != nil {
		return err
	}
	defer desk.close()
	log.Printf("seed %d", seed)
	k := &killer{
		desk: desk, file: filepath.Join(folder, "runs.db"), kills: kills,
		random: rand.New(rand.NewPCG(seed, seed)),
	}
	if err := k.run(ctx); err != nil {
		return err
	}
	return desk.verdict()
}
