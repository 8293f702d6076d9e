package main

import (
	"context"
	"errors"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/sqlite"
)

// killer starts the agent, and kills it.
type killer struct {
	desk   *desk
	file   string
	kills  int
	random *rand.Rand
}

// run goes on until a process has come to the end of the run.
func (k *killer) run(ctx context.Context) error {
	for process := 1; ; process++ {
		killed, err := k.one(ctx, process, process <= k.kills)
		if err != nil {
			return err
		}
		outcomes, err := k.outcomes(ctx)
		if err != nil {
			return err
		}
		kept, lost := k.desk.look(process, outcomes)
		if !killed {
			return nil
		}
		if len(lost) == 0 {
			lost = []string{"none"}
		}
		log.Printf("process %d was killed: calls in flight: %s; kept so far: %d", process, strings.Join(lost, ", "), kept)
	}
}

// one starts a process and waits for its end, which comes at a random moment if it is to be killed.
func (k *killer) one(ctx context.Context, process int, kill bool) (killed bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	cmd := exec.CommandContext(ctx, self, "-worker", k.desk.addressFor(process), "-store", k.file) //nolint:gosec // it is this program
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return false, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if kill && k.await(ended) {
		err := cmd.Process.Kill()
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			return false, err
		}
		killed = true
	}
	err = <-ended
	if err != nil && killed {
		return true, nil
	}
	return false, err
}

// await waits for a few calls and a little longer. It is false if the process ends before that.
func (k *killer) await(ended chan error) bool {
	const (
		mostCalls = 6
		mostDelay = 25 * time.Millisecond // longer than a call takes
	)
	for range k.random.IntN(mostCalls) {
		select {
		case <-k.desk.came:
		case err := <-ended:
			ended <- err
			return false
		}
	}
	select {
	case <-time.After(time.Duration(k.random.Int64N(int64(mostDelay)))):
		return true
	case err := <-ended:
		ended <- err
		return false
	}
}

// outcomes reads what the file keeps of the run.
func (k *killer) outcomes(ctx context.Context) (payloads [][]byte, err error) {
	db, err := sqlite.Open(k.file) //nolint:contextcheck // opening a file is not cut short
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for e, err := range db.Events(ctx, runID, 0) {
		if errors.Is(err, journal.ErrNotFound) {
			return nil, nil // the first process was killed before it began
		}
		if err != nil {
			return nil, err
		}
		payloads = append(payloads, e.Payload)
	}
	return payloads, nil
}
