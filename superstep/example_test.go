package superstep_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

// Draft is the state of the examples, Change what their nodes may change.
type Draft struct {
	Topic string
	Notes []string
	Text  string
}

type Change struct {
	Notes []string `merge:"append"`
	Text  string
}

// research plans, looks up every word of the topic, and writes.
func research() *graph.Graph[Draft, Change] {
	b := graph.New("research", graph.Fields[Draft, Change]())
	plan := b.Node("plan", func(context.Context, Draft) (Change, error) { return Change{}, nil })
	look := graph.Task(b, "look", func(ctx context.Context, _ Draft, word string) (Change, error) {
		task.Emit(ctx, "looking up "+word)
		return Change{Notes: []string{strings.ToUpper(word)}}, nil
	})
	write := b.Node("write", func(_ context.Context, d Draft) (Change, error) {
		return Change{Text: strings.Join(d.Notes, ", ")}, nil
	})
	b.Start(plan)
	b.Route(plan, func(d Draft) graph.Next { return look.Each(strings.Fields(d.Topic)) }, look)
	b.Edge(look, write)
	g, err := b.Compile()
	if err != nil {
		log.Fatal(err)
	}
	return g
}

func newRunner(cfg superstep.Config) *superstep.Runner[Draft, Change] {
	r, err := superstep.NewRunner(research(), cfg)
	if err != nil {
		log.Fatal(err)
	}
	return r
}

func ExampleRunner_Run() {
	r := newRunner(superstep.Config{})
	res, err := r.Run(context.Background(), Draft{Topic: "moon and tides"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.State.Text)
	fmt.Println(res.SuperSteps, "super-steps")
	// Output:
	// MOON, AND, TIDES
	// 3 super-steps
}

func ExampleRunner_Stream() {
	r := newRunner(superstep.Config{MaxConcurrency: 1})
	for ev, err := range r.Stream(context.Background(), Draft{Topic: "moon tides"}) {
		if err != nil {
			fmt.Println("failed:", err)
			break
		}
		switch e := ev.(type) {
		case *task.Custom:
			fmt.Printf("%s[%d]: %v\n", e.Node, e.Index, e.Value)
		case *task.SuperStepCompleted:
			fmt.Println("super-step", e.SuperStep, "done")
		case *task.RunCompleted[Draft]:
			fmt.Println("result:", e.State.Text)
		}
	}
	// Output:
	// super-step 1 done
	// look[0]: looking up moon
	// look[1]: looking up tides
	// super-step 2 done
	// super-step 3 done
	// result: MOON, TIDES
}

func ExampleRunID() {
	r := newRunner(superstep.Config{})
	res, err := r.Run(context.Background(), Draft{Topic: "tides"}, superstep.RunID("tides-42"))
	fmt.Println(res.RunID, err)
	// Output: tides-42 <nil>
}

func ExampleRunner_Stop() {
	r := newRunner(superstep.Config{})
	if err := r.Stop(context.Background()); err != nil { // waits for the runs under way
		fmt.Println(err)
	}
	_, err := r.Run(context.Background(), Draft{Topic: "tides"})
	fmt.Println(errors.Is(err, superstep.ErrStopped))
	// Output: true
}

func ExampleConfig_observers() {
	tasks := 0
	r := newRunner(superstep.Config{Observers: []func(task.Event){func(ev task.Event) {
		if _, ok := ev.(*task.TaskCompleted); ok {
			tasks++ // events of one run come one at a time
		}
	}}})
	_, err := r.Run(context.Background(), Draft{Topic: "moon and tides"})
	fmt.Println(tasks, "tasks", err)
	// Output: 5 tasks <nil>
}

func ExampleConfig_checkMutation() {
	b := graph.New("careless", graph.Fields[Draft, Change]())
	b.Start(b.Node("shout", func(_ context.Context, d Draft) (Change, error) {
		d.Notes[0] = strings.ToUpper(d.Notes[0]) // writes into what every node sees
		return Change{}, nil
	}))
	g, err := b.Compile()
	if err != nil {
		log.Fatal(err)
	}
	r, err := superstep.NewRunner(g, superstep.Config{CheckMutation: true})
	if err != nil {
		log.Fatal(err)
	}
	_, err = r.Run(context.Background(), Draft{Notes: []string{"quiet"}})
	if m, ok := errors.AsType[*superstep.MutationError](err); ok {
		fmt.Println(m.Node, "changed", m.Path)
	}
	// Output: shout changed Draft.Notes[0]
}

func ExampleMachine() {
	m, err := superstep.NewMachine(research(), Draft{Topic: "moon tides"}, 10)
	if err != nil {
		log.Fatal(err)
	}
	for !m.Done() {
		fmt.Println("super-step", m.SuperStep(), "has", len(m.Tasks()), "tasks")
		for i := range m.Tasks() { // whoever drives it does the work, in any order
			if err := m.Complete(i, Change{Notes: []string{fmt.Sprintf("%d.%d", m.SuperStep(), i)}}, graph.Next{}); err != nil {
				log.Fatal(err)
			}
		}
		if err := m.Advance(); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(m.State().Notes)
	// Output:
	// super-step 1 has 1 tasks
	// super-step 2 has 2 tasks
	// super-step 3 has 1 tasks
	// [1.0 2.0 2.1 3.0]
}
