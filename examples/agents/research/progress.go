package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pawl-go/pawl/task"
)

// progress shows a run on a terminal while it goes on, and counts what it took.
type progress struct {
	nodes   []string
	rows    map[string]*row
	tokens  int  // of the draft that can be seen
	midLine bool // no line feed came after them yet
}

// row is a line of the table at the end.
type row struct {
	tasks, attempts int
	waited          time.Duration
	usage           task.Usage
	retried         []string // the class of each failure that was retried
}

// newProgress is for a graph with these nodes; the table has a line for each, in this order.
func newProgress(nodes ...string) *progress {
	p := &progress{nodes: nodes, rows: map[string]*row{}}
	for _, node := range nodes {
		p.rows[node] = &row{}
	}
	return p
}

// show takes the next event of the run.
func (p *progress) show(event task.Event) {
	switch e := event.(type) {
	case *task.SuperStepStarted:
		p.linef("super-step %d, tasks: %d", e.SuperStep, e.Tasks)
	case *task.TaskStarted:
		p.rows[e.Node].tasks++
	case *task.AttemptStarted:
		p.rows[e.Node].attempts++
	case *task.TokenDelta:
		if e.Node == "draft" { // the tokens of tasks that run side by side would mingle
			p.token(e.Text)
		}
	case *task.AttemptFailed:
		p.failed(e)
	case *task.AttemptDiscarded:
		if p.tokens > 0 {
			p.linef("  %s: retracted: forget the %d tokens above", e.Node, p.tokens)
			p.tokens = 0
		}
	case *task.TaskCompleted:
		p.linef("  %s: done in attempt %d", e.Task(), e.Attempt)
		p.rows[e.Node].usage = p.rows[e.Node].usage.Plus(e.Usage)
		p.tokens = 0
	}
}

func (p *progress) failed(e *task.AttemptFailed) {
	r := p.rows[e.Node]
	r.usage = r.usage.Plus(e.Usage) // paid for, and so counted
	p.linef("  %s: attempt %d failed: %s", e.Task(), e.Attempt, e.Text)
	if e.Final {
		p.linef("  %s: given up: %s", e.Task(), e.Reason)
		return
	}
	why := ""
	if e.Hint > 0 {
		why = fmt.Sprintf(" (the server asked for %v)", e.Hint)
	}
	p.linef("  %s: retried after %v%s", e.Task(), e.Delay, why)
	r.waited += e.Delay
	r.retried = append(r.retried, e.Class)
}

// token writes a piece of the text that is being drafted.
func (p *progress) token(text string) {
	fmt.Print(text)
	p.midLine = true
	p.tokens++
}

// linef writes a line of its own.
func (p *progress) linef(format string, args ...any) {
	if p.midLine {
		fmt.Println()
		p.midLine = false
	}
	fmt.Printf(format+"\n", args...)
}

// table writes what each node took.
func (p *progress) table() error {
	var text strings.Builder
	fmt.Fprintln(&text, "NODE\tTASKS\tATTEMPTS\tWAITED\tPROMPT\tANSWER\tRETRIED")
	for _, node := range p.nodes {
		r := p.rows[node]
		why := "-"
		if len(r.retried) > 0 {
			why = strings.Join(r.retried, ", ")
		}
		fmt.Fprintf(&text, "%s\t%d\t%d\t%v\t%d\t%d\t%s\n",
			node, r.tasks, r.attempts, r.waited, r.usage.PromptTokens, r.usage.CompletionTokens, why)
	}
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, err := io.WriteString(t, text.String())
	return errors.Join(err, t.Flush())
}
