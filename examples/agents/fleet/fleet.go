package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

// fleet is some workers and their runs.
type fleet struct {
	options

	store   closable
	out     io.Writer
	client  *client.Client
	workers []*process
	prefix  string // of the ids of the runs
	begun   time.Time
}

// process is a worker that was started.
type process struct {
	name string
	cmd  *exec.Cmd
	gone chan struct{} // closed when it has ended
}

func (p *process) ended() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// run starts everything, and shows it until all runs have ended.
func (f *fleet) run(ctx context.Context) error {
	f.begun = time.Now()
	f.prefix = fmt.Sprintf("report-%d-", f.begun.UnixMilli())
	var err error
	if f.client, err = client.New(f.store, client.Config{}); err != nil {
		return err
	}
	agent, err := newAgent(0)
	if err != nil {
		return err
	}
	for i := range f.options.workers {
		if err := f.start(i + 1); err != nil {
			return err
		}
	}
	f.printf("the runs are in %s\n", f.options.store)
	for i := range f.runs {
		_, err := client.Start(ctx, f.client, agent, State{Topic: fmt.Sprint("topic ", i+1)}, client.ID(f.prefix+strconv.Itoa(i+1)))
		if err != nil {
			return err
		}
	}
	const often = 250 * time.Millisecond
	look := time.NewTicker(often)
	defer look.Stop()
	for height := 0; ; {
		v, err := f.look(ctx)
		if err != nil {
			return err
		}
		height = f.show(v, height)
		if v.over == f.runs {
			return f.verdict(ctx, v)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
	}
}

// printf writes to whoever looks; should nobody, the runs go on.
func (f *fleet) printf(format string, args ...any) { _, _ = fmt.Fprintf(f.out, format, args...) }

// start starts this program as a worker.
func (f *fleet) start(n int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p := &process{name: "w" + strconv.Itoa(n), gone: make(chan struct{})}
	p.cmd = exec.Command(self, "-role", "worker", "-name", p.name, "-store", f.options.store, //nolint:gosec,noctx // itself
		"-ttl", f.ttl.String(), "-latency", f.latency.String())
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(p.gone)
		_ = p.cmd.Wait() // however it has ended
	}()
	f.workers = append(f.workers, p)
	return nil
}

// stop drains the workers.
func (f *fleet) stop() {
	for _, p := range f.workers {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			_ = p.cmd.Process.Kill() // where there is no such signal
		}
	}
	for _, p := range f.workers {
		<-p.gone
	}
}

// view is how the runs stand.
type view struct {
	status map[journal.Status]int
	held   map[string]int // by worker
	over   int
}

func (f *fleet) look(ctx context.Context) (view, error) {
	v := view{status: map[journal.Status]int{}, held: map[string]int{}}
	for run, err := range f.client.Runs(ctx, journal.Query{Name: "report"}) {
		switch {
		case err != nil:
			return v, err
		case !strings.HasPrefix(run.ID, f.prefix):
			continue
		}
		v.status[run.Status]++
		if run.Status.Terminal() {
			v.over++
		}
		if owner, _, _ := strings.Cut(run.Owner, "/"); owner != "" && run.Status == journal.Running {
			v.held[owner]++
		}
	}
	return v, nil
}

// show draws the table over the one before, on a terminal, and returns its height.
func (f *fleet) show(v view, height int) int {
	var b strings.Builder
	if height > 0 && isTerminal(f.out) {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", height)
	}
	fmt.Fprintf(&b, "%5.1f s  %d runs: %d pending, %d running, %d asleep, %d completed, %d failed\n",
		time.Since(f.begun).Seconds(), f.runs, v.status[journal.Pending], v.status[journal.Running], v.status[journal.Suspended],
		v.status[journal.Completed], v.status[journal.Failed])
	lines := 1
	if !isTerminal(f.out) {
		f.printf("%s", b.String())
		return lines
	}
	line := func(name, pid, state string) {
		fmt.Fprintf(&b, "  %-12s %-10s %-8s %s\n", name, pid, state, strings.Repeat("#", v.held[name]))
		delete(v.held, name)
		lines++
	}
	for _, p := range f.workers {
		state := "works"
		if p.ended() {
			state = "is gone"
		}
		line(p.name, "pid "+strconv.Itoa(p.cmd.Process.Pid), state)
	}
	for name := range v.held { // of other terminals
		line(name, "", "works")
	}
	f.printf("%s", b.String())
	return lines
}

func isTerminal(w io.Writer) bool {
	file, is := w.(*os.File)
	if !is {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// errNotAll says that not all runs have completed.
var errNotAll = errors.New("not all runs have completed")

// verdict says what the journals tell.
func (f *fleet) verdict(ctx context.Context, v view) error {
	var lost, steps int
	twice := map[string]int{}
	for i := range f.runs {
		id := f.prefix + strconv.Itoa(i+1)
		for e, err := range f.store.Events(ctx, id, 0) {
			switch {
			case err != nil:
				return err
			case e.Kind == journal.RunRequeued && durable.ReasonOf(e) == durable.RequeuedOwner:
				lost++
			case e.Kind == journal.StepDone:
				steps++
				twice[id+" "+e.Scope+" "+e.Name+strconv.Itoa(e.N)]++
			}
		}
	}
	f.printf("%d runs have completed; %d times a run lost its worker and another one went on with it; "+
		"%d steps are recorded, %d of them twice\n", v.status[journal.Completed], lost, steps, steps-len(twice))
	if v.status[journal.Completed] != f.runs {
		return errNotAll
	}
	return nil
}
