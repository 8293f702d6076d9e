// Approval drafts a text, asks a person whether it may be published, and goes on with the answer: at once if somebody sits
// at the terminal, or days later in another process.
//
//	draft ──> review ──> publish
//	  ^─────────┘ if the answer is not yes: what it says is kept in mind
//
// Run it with
//
//	go run ./examples/agents/approval
//
// and answer, or press Ctrl-D to leave the question open: it is kept in a file, and so is all that was done. Then answer it with
// one of
//
//	go run ./examples/agents/approval -answer yes
//	go run ./examples/agents/approval -answer "say which day"
//
// or with the command that it prints, and run it again. The model is not asked again for what it has written before.
//
// Offline a scripted model answers, over HTTP on this machine. With -live it is the endpoint that OPENAI_BASE_URL,
// OPENAI_API_KEY and OPENAI_MODEL name.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/examples/agents/internal/model"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal/sqlite"
	"github.com/pawl-go/pawl/nodes"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
	"github.com/pawl-go/pawl/superstep"
)

// State is what the nodes read.
type State struct {
	About string
	Draft string
	Wish  string // what the reviewer wants to be changed; empty if nothing
}

// Update is what a node may change.
type Update struct {
	Draft string
	Wish  *string // a pointer, so that it can be set to ""
}

// options are what the command line says.
type options struct {
	file, run, answer string
	live              bool
}

func main() {
	log.SetFlags(0)
	var o options
	flag.StringVar(&o.file, "store", filepath.Join(os.TempDir(), "pawl-approval.db"), "the file that keeps the runs")
	flag.StringVar(&o.run, "run", "release-note", "the name of the run: another name starts another run")
	flag.StringVar(&o.answer, "answer", "", `the answer to the open question: "yes", or what is to be changed`)
	flag.BoolVar(&o.live, "live", false, "ask the endpoint that OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL name")
	flag.Parse()
	if err := run(context.Background(), o, os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, o options, in io.Reader, out io.Writer) error {
	gpt, closeModel, err := model.Open("gpt", o.live, script())
	if err != nil {
		return err
	}
	defer closeModel()
	say := log.New(out, "", 0).Printf
	g, err := build(gpt, say)
	if err != nil {
		return err
	}
	db, err := sqlite.Open(o.file) //nolint:contextcheck // opening a file is not cut short
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // all that counts is on the disk
	runner, err := superstep.NewRunner(g, superstep.Config{Store: db})
	if err != nil {
		return err
	}
	return converse(ctx, runner, o, bufio.NewScanner(in), say)
}

// printf writes a line to the terminal.
type printf func(format string, args ...any)

// converse runs the run, and answers what it asks, until it is done or nobody answers.
func converse(ctx context.Context, runner *superstep.Runner[State, Update], o options, in *bufio.Scanner, say printf) error {
	for {
		res, err := runner.Run(ctx, State{About: "the move to new servers"}, superstep.RunID(o.run))
		var waits *durable.SuspendedError
		switch {
		case err == nil:
			say("Run %s is done. Start another with -run NAME.", o.run)
			return nil
		case !errors.As(err, &waits):
			return err
		}
		question := waits.Questions()[0] // only review asks, and only once at a time
		answer := o.answer
		o.answer = "" // it is for one question
		if answer == "" {
			say("\n%s\n\nMay this be published? Type yes, or what to change:", res.State.Draft)
			if !in.Scan() {
				say("\nNobody has answered. The run waits in %s. Answer it with -answer, or with\n\n"+
					"\tgo run ./cmd/pawl --store %[1]s runs answer %[2]s - --string yes\n\nand run this again.", o.file, o.run)
				return in.Err()
			}
			answer = in.Text()
		}
		if err := runner.Answer(ctx, o.run, question, answer); err != nil {
			return err
		}
	}
}

// build makes the graph.
func build(gpt providers.Provider, say printf) (*graph.Graph[State, Update], error) {
	b := graph.New("approval", graph.Fields[State, Update]())
	draft := b.Node("draft", nodes.Chat(gpt, askDraft, func(_ State, r *providers.Response) (Update, error) {
		say("The model has written a draft.")
		return Update{Draft: r.Text()}, nil
	}))
	review := b.Node("review", func(ctx context.Context, s State) (Update, error) {
		answer, err := durable.Interrupt[string](ctx, "May this be published? yes, or what to change: "+s.Draft)
		if err != nil {
			return Update{}, err // it is not answered yet
		}
		wish := strings.TrimSpace(answer)
		if strings.EqualFold(wish, "yes") {
			wish = ""
		}
		return Update{Wish: &wish}, nil
	})
	publish := b.Node("publish", func(ctx context.Context, s State) (Update, error) {
		_, err := durable.Once(ctx, "publish", func(context.Context) (bool, error) { // whoever dies in here does not do it twice
			say("\nPublished: %s\n", s.Draft)
			return true, nil
		})
		return Update{}, err
	})
	b.Start(draft)
	b.Edge(draft, review)
	b.Route(review, func(s State) graph.Next {
		if s.Wish != "" {
			return graph.To(draft)
		}
		return graph.To(publish)
	}, draft, publish)
	return b.Compile()
}

func askDraft(s State) providers.Request {
	prompt := "Write a notice of two sentences about " + s.About + "."
	if s.Wish != "" {
		prompt = fmt.Sprintf("Write this notice again:\n%s\nThe reader's wish: %s", s.Draft, s.Wish)
	}
	return providers.Request{Messages: []providers.Message{{Role: "user", Content: prompt}}}
}

// script is what the offline model does.
func script() *scripted.Script {
	return scripted.New(
		scripted.On(scripted.Contains("wish: ")).ReplyFunc(func(r providers.Request) string {
			_, wish, _ := strings.Cut(r.Messages[0].Content, "wish: ")
			return "We move to new servers on Friday, from 8 to 9 in the evening. (Written again, since somebody said: " + wish + ".)"
		}),
		scripted.On().Reply("We will move to new servers soon. The service may be slow for a while."),
	)
}
