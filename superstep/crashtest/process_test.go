package crashtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/journal/sqlite"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

// orderVariable is what makes this test binary do something else than test: it holds an order.
const orderVariable = "PAWL_CRASHTEST_ORDER"

func TestMain(m *testing.M) {
	if text := os.Getenv(orderVariable); text != "" {
		if err := obey(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// order is what a process is to do: one job after the other.
type order struct {
	Office string `json:"office"`
	Jobs   []job  `json:"jobs"`
}

// job is a run to be started or gone on with.
type job struct {
	Shape string `json:"shape"`
	Run   string `json:"run"`
	File  string `json:"file"`
	// Process is the number of this process among those that work on the run.
	Process int `json:"process"`
	// The process dies at this write of the run; 0: it does not.
	Write int              `json:"write"`
	When  journaltest.When `json:"when"`
}

// report is what has come of a job that was done.
type report struct {
	Run    string `json:"run"`
	Result result `json:"result"`
	Writes int    `json:"writes"` // that this process has tried
}

// result is what two runs of a graph have in common, whatever has happened to them.
type result struct {
	State      State          `json:"state"`
	SuperSteps int            `json:"super_steps"`
	Unfired    []task.Unfired `json:"unfired"`
}

func resultOf(r *superstep.Result[State]) result { return result{r.State, r.SuperSteps, r.Unfired} }

// obey does what an order says, and writes a report to standard output for each job that is done.
func obey(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	for _, j := range o.Jobs {
		r, err := j.do(o.Office)
		if err != nil {
			return fmt.Errorf("run %s: %w", j.Run, err)
		}
		if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
			return err
		}
	}
	return nil
}

func (j job) do(office string) (*report, error) {
	client, err := newRemote(office, j.Run, j.Process)
	if err != nil {
		return nil, err
	}
	db, err := sqlite.Open(j.File)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	store := journaltest.NewFaulty(db)
	store.OnWrite(j.dieAtWrite())
	runner, err := newRunner(j.Shape, client, store)
	if err != nil {
		return nil, err
	}
	res, err := drive(context.Background(), runner, store, j.Run)
	if err != nil {
		return nil, err
	}
	again, err := runner.Resume(context.Background(), j.Run)
	if err != nil {
		return nil, fmt.Errorf("run again: %w", err)
	}
	if !reflect.DeepEqual(res, again) {
		return nil, fmt.Errorf("the recorded result is another: %+v is not %+v", again, res)
	}
	return &report{j.Run, resultOf(res), store.Writes()}, nil
}

// dieAtWrite returns what kills the process. Inside a write it does so at a random moment of what writes take.
func (j job) dieAtWrite() func(journaltest.Write) {
	var mu sync.Mutex
	var begun time.Time
	var took time.Duration
	random := rand.New(rand.NewPCG(uint64(j.Write), 1))
	return func(w journaltest.Write) {
		mu.Lock()
		defer mu.Unlock()
		if w.N == j.Write && w.When == j.When {
			die()
		}
		if w.N == j.Write && j.When == journaltest.Inside && w.When == journaltest.Before {
			time.AfterFunc(time.Duration(random.Float64()*float64(took)), die)
		}
		if w.When == journaltest.Before {
			begun = time.Now()
		} else {
			took = time.Since(begun)
		}
	}
}

// die ends the process as nothing else does: no deferred function runs and nothing is flushed.
func die() {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		panic(err)
	}
	if err := self.Kill(); err != nil {
		panic(err)
	}
	select {}
}

func newRunner(name string, d desk, store journal.Store) (*superstep.Runner[State, Update], error) {
	for _, s := range shapes {
		if s.name != name {
			continue
		}
		g, err := s.graph(agent{d})
		if err != nil {
			return nil, err
		}
		return superstep.NewRunner(g, superstep.Config{Store: store, Logger: slog.New(slog.DiscardHandler)})
	}
	return nil, fmt.Errorf("there is no graph %q", name)
}

// drive runs a run to its end. What it waits for it gets, from the same process.
func drive(
	ctx context.Context, r *superstep.Runner[State, Update], store journal.Store, id string,
) (*superstep.Result[State], error) {
	const most = 50
	for range most {
		res, err := r.Run(ctx, State{}, superstep.RunID(id))
		var waits *durable.SuspendedError
		if !errors.As(err, &waits) {
			return res, err
		}
		for _, w := range waits.Waits {
			var err error
			switch {
			case w.Question != "":
				err = r.Answer(ctx, id, w.Question, "yes to "+w.Question)
			case w.Signal != "":
				err = durable.Signal(ctx, store, id, w.Signal, "news", durable.SendKey("the news"))
			}
			var refused *durable.AnswerError
			if errors.As(err, &refused) && refused.Reason == durable.AlreadyAnswered {
				err = nil // by a process that has died
			}
			if err != nil {
				return res, err
			}
		}
	}
	return nil, errors.New("the run is suspended again and again")
}

// start runs an order in a new process, and returns its reports. Died says that the process did not come to its end.
func start(t *testing.T, o order) (reports []report, died bool) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	text, err := json.Marshal(o)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self)
	// A process that is built to find races would wait for a second before it exits.
	cmd.Env = append(os.Environ(), orderVariable+"="+string(text), "GORACE=atexit_sleep_ms=0")
	var out, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failed
	err = cmd.Run()
	if failed.Len() > 0 {
		require.Fail(t, "a process has failed", "%s\n%s", text, failed.String())
	}
	require.NoError(t, ctx.Err(), "a process hangs: %s", text)
	var ended *exec.ExitError
	if err != nil {
		require.ErrorAs(t, err, &ended)
	}
	for in := json.NewDecoder(&out); ; {
		var r report
		err := in.Decode(&r)
		if errors.Is(err, io.EOF) {
			return reports, ended != nil
		}
		require.NoError(t, err)
		reports = append(reports, r)
	}
}
