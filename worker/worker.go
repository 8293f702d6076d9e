package worker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

// Worker takes runs from queues and executes them. Make one with New. It is safe for concurrent use.
type Worker struct {
	cfg      Config
	store    journal.Queue
	settings durable.Settings
	slots    *slots
	calls    atomic.Int64 // of code that have not returned

	mu       sync.Mutex
	begun    bool
	code     map[journal.Program]durable.Executable
	programs []journal.Program
	active   map[*durable.Assignment]struct{}
	// implied are programs that Config.Versions has registered: what is registered for itself takes their place.
	implied map[journal.Program]bool
}

// New returns a worker. It reports every bad field of cfg at once. What it is to run, Register says.
func New(cfg Config) (*Worker, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	w := &Worker{
		cfg: cfg.withDefaults(), code: map[journal.Program]durable.Executable{}, active: map[*durable.Assignment]struct{}{},
		implied: map[journal.Program]bool{},
	}
	queue, _ := w.cfg.Store.(journal.Queue) // validate has seen that it is one
	w.store = guarded{queue}
	w.settings = w.cfg.settings()
	w.slots = &slots{free: w.cfg.Concurrency}
	return w, nil
}

// Register says what the worker runs: workflows, of package durable, and runners of graphs, of package superstep. A run is
// taken if its name and version, or fingerprint, are those of one of them. What a workflow starts with durable.RunChild must
// be registered, too. The error names what is registered already, or not usable, or comes after Run.
func (w *Worker) Register(code ...durable.Executable) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.begun {
		return errors.New("pawl: worker.Register: the worker runs already: register everything before Run")
	}
	var errs []error
	for i, e := range code {
		if isNil(e) {
			errs = append(errs, fmt.Errorf("pawl: worker.Register: argument %d is nil", i+1))
			continue
		}
		if v, is := e.(interface{ Validate() error }); is {
			if err := v.Validate(); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		p := e.Program()
		errs = append(errs, w.add(e, p))
		if p.Kind == journal.WorkflowRun {
			w.addVersions(e, p)
		}
	}
	return errors.Join(errs...)
}

// isNil reports whether there is nothing that could be called, be it of a type or not.
func isNil(e durable.Executable) bool {
	v := reflect.ValueOf(e)
	return e == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// addVersions registers code for what Config.Versions says, as far as there is no other. The caller holds mu.
func (w *Worker) addVersions(e durable.Executable, p journal.Program) {
	for _, p.Version = range w.cfg.Versions[p.Name] {
		if w.code[p] == nil {
			w.code[p], w.implied[p] = e, true
			w.programs = append(w.programs, p)
		}
	}
}

// add registers code for a program. The caller holds mu.
func (w *Worker) add(e durable.Executable, p journal.Program) error {
	switch {
	case p.Name == "":
		return fmt.Errorf("pawl: worker.Register: a %s has no name: give it one where it is defined", p.Kind)
	case w.implied[p]:
		w.code[p] = e
		delete(w.implied, p)
		return nil
	case w.code[p] != nil:
		return fmt.Errorf("pawl: worker.Register: %s %q (version %q, fingerprint %q) is registered twice: remove one, or give it "+
			"another name or version", p.Kind, p.Name, p.Version, p.Fingerprint)
	}
	w.code[p] = e
	w.programs = append(w.programs, p)
	return nil
}

// Active is how many runs the worker has under way.
func (w *Worker) Active() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.active)
}

// LeftBehindError says that code has ignored the end of its context when the worker ended. Its runs are free for others, but
// its goroutines are still there.
type LeftBehindError struct {
	// Calls is how many pieces of code were left behind.
	Calls int
}

// Error tells the number.
func (e *LeftBehindError) Error() string {
	return fmt.Sprintf("pawl: the worker has ended and left %d runs' code behind, which has ignored the end of its context: "+
		"end the process, and give the code calls that heed their context", e.Calls)
}

// Run takes runs and executes them until ctx ends. Then it takes no more; those under way may go on to their next durable
// call or super-step, for Grace at most, and are free for others at once. It returns nil when none is left, or a
// *LeftBehindError. While the store is out of reach it waits for it. A worker runs once: a second Run is an error, and so is
// one without anything registered, or without a workflow that Config.Versions names.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.begin(); err != nil {
		return err
	}
	// Runs outlive ctx for Grace.
	runs, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	var takers, executions sync.WaitGroup
	for _, q := range w.cfg.Queues {
		t := w.newTaker(q, runs, &executions)
		takers.Go(func() { t.take(ctx) })
		takers.Go(func() { t.announce(ctx) })
	}
	<-ctx.Done()
	takers.Wait()
	w.drain(&executions, end)
	if left := w.calls.Load(); left > 0 {
		return &LeftBehindError{Calls: int(left)}
	}
	return nil
}

func (w *Worker) begin() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.begun:
		return errors.New("pawl: worker.Run: the worker has run: make another one")
	case len(w.code) == 0:
		return errors.New("pawl: worker.Run: nothing is registered: call Register before")
	}
	for name := range w.cfg.Versions {
		if !slices.ContainsFunc(w.programs, func(p journal.Program) bool { return p.Kind == journal.WorkflowRun && p.Name == name }) {
			return fmt.Errorf("pawl: worker.Run: Config.Versions names %q, and no workflow of that name is registered: register it, "+
				"or remove the name", name)
		}
	}
	w.begun = true
	w.programs = slices.Clip(w.programs)
	return nil
}
