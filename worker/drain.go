package worker

import (
	"context"
	"sync"
	"time"
)

// drainedError is the cause of the end of runs whose worker ends.
type drainedError struct{}

func (drainedError) Error() string { return "pawl: the worker ends" }

// Is makes errors.Is(err, context.Canceled) true.
func (drainedError) Is(target error) bool { return target == context.Canceled }

// drain lets the runs under way stop where they can within Grace, and ends the others.
func (w *Worker) drain(executions *sync.WaitGroup, end context.CancelCauseFunc) {
	w.mu.Lock()
	n := len(w.active)
	for a := range w.active {
		a.Drain()
	}
	w.mu.Unlock()
	if n > 0 {
		w.cfg.Logger.Info("pawl: worker drains", "worker", w.cfg.Name, "runs", n, "grace", w.cfg.Grace)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		executions.Wait()
	}()
	grace := time.NewTimer(w.cfg.Grace)
	defer grace.Stop()
	select {
	case <-done:
		return
	case <-grace.C:
	}
	end(drainedError{})
	<-done // Attend leaves code behind that ignores that
}
