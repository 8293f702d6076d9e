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
	fannedOut               bool
	tasks, attempts, tokens int // tokens as they were streamed, those of discarded attempts too
	waited                  time.Duration
	retried                 []string // the class of each failure that was retried
}

func newProgress() *progress { return &progress{rows: map[string]*row{}} }

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
		p.rows[e.Node].tokens++
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
		p.linef("  %s: done in attempt %d", p.name(&e.Header), e.Attempt)
		p.tokens = 0
	}
}

func (p *progress) failed(e *task.AttemptFailed) {
	name := p.name(&e.Header)
	p.linef("  %s: attempt %d failed: %s", name, e.Attempt, e.Text)
	if e.Final {
		p.linef("  %s: given up: %s", name, e.Reason)
		return
	}
	why := ""
	if e.Hint > 0 {
		why = fmt.Sprintf(" (the server asked for %v)", e.Hint)
	}
	p.linef("  %s: retried after %v%s", name, e.Delay, why)
	r := p.rows[e.Node]
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

// add gives a node a row of its own.
func (p *progress) add(node string, fannedOut bool) {
	p.nodes = append(p.nodes, node)
	p.rows[node] = &row{fannedOut: fannedOut}
}

// name names the task of an event: "draft", or "search[2]".
func (p *progress) name(at *task.Header) string {
	if p.rows[at.Node].fannedOut {
		return fmt.Sprintf("%s[%d]", at.Node, at.Index)
	}
	return at.Node
}

// table writes what each node took.
func (p *progress) table() error {
	var text strings.Builder
	fmt.Fprintln(&text, "NODE\tTASKS\tATTEMPTS\tWAITED\tTOKENS\tRETRIED")
	for _, node := range p.nodes {
		r := p.rows[node]
		why := "-"
		if len(r.retried) > 0 {
			why = strings.Join(r.retried, ", ")
		}
		fmt.Fprintf(&text, "%s\t%d\t%d\t%v\t%d\t%s\n", node, r.tasks, r.attempts, r.waited, r.tokens, why)
	}
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, err := io.WriteString(t, text.String())
	return errors.Join(err, t.Flush())
}
