// Research is an agent that reads a folder of documents and writes a text about them: it plans, searches side by side,
// drafts, and lets a reviewer send the draft back.
//
//	plan ──> search, one task a query ──┐
//	 └─────> outline ───────────────────┴─> draft ──> review ──> end
//	                                          ^─────────┘
//
// Run it with
//
//	go run ./examples/agents/research
//	go run ./examples/agents/research -topic "how sailors find their place" -docs path/to/text/files -live
//
// Offline it reads the documents that ship with it, and a scripted model answers over HTTP on this machine. That model
// fails three times: an overloaded server, a rate limit, and a draft that breaks off in the middle. Watch what is retried,
// what is taken back, and what is not asked again. With -live it asks the endpoint that OPENAI_BASE_URL, OPENAI_API_KEY
// and OPENAI_MODEL name.
package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"io/fs"
	"log"
	"os"
	"time"

	"github.com/pawl-go/pawl/examples/agents/internal/model"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/nodes"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

//go:embed docs
var shipped embed.FS

// State is what the nodes read.
type State struct {
	Topic   string
	Queries []string
	Outline string
	Notes   []string // one a query, in the order of the queries
	Draft   string
	Drafts  int
	Remark  string // what the reviewer misses in the draft
}

// Update is what a node may change, and how changes meet.
type Update struct {
	Queries []string
	Outline string
	Notes   []string `merge:"append"`
	Draft   string
	Drafts  int     `merge:"sum"`
	Remark  *string // a pointer, so that it can be set to ""
}

func main() {
	log.SetFlags(0)
	live := flag.Bool("live", false, "ask the endpoint that OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL name")
	topic := flag.String("topic", "tides, and what sailors make of them", "what to write about")
	docs := flag.String("docs", "", "a folder of .txt files (default: the one that ships with the example)")
	flag.Parse()
	folder, err := fs.Sub(shipped, "docs")
	if *docs != "" {
		folder, err = os.DirFS(*docs), nil
	}
	if err == nil {
		err = run(context.Background(), folder, *topic, *live)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, folder fs.FS, topic string, live bool) error {
	lib, err := openLibrary(folder)
	if err != nil {
		return err
	}
	gpt, closeModel, err := model.Open("gpt", live, script())
	if err != nil {
		return err
	}
	defer closeModel()
	g, err := build(gpt, lib)
	if err != nil {
		return err
	}
	runner, err := superstep.NewRunner(g, superstep.Config{MaxSuperSteps: 20, MaxConcurrency: 4})
	if err != nil {
		return err
	}

	p := newProgress("plan", "outline", "search", "draft", "review")
	for event, err := range runner.Stream(ctx, State{Topic: topic}) {
		if err != nil {
			return errors.Join(err, p.table())
		}
		p.show(event)
		if done, ok := event.(*task.RunCompleted[State]); ok {
			p.linef("\n%s\n", done.State.Draft)
			p.linef("%d super-steps, %d model calls, %d prompt and %d completion tokens\n",
				done.SuperSteps, done.Usage.Calls, done.Usage.PromptTokens, done.Usage.CompletionTokens)
		}
	}
	return p.table()
}

// build makes the graph.
func build(gpt providers.Provider, lib *library) (*graph.Graph[State, Update], error) {
	policy := retrypolicy.New() // the class of an error decides whether it is retried
	policy.MaxAttempts = 4
	policy.InitialDelay = 100 * time.Millisecond
	retry, timeout := graph.Retry(policy), graph.Timeout(time.Minute) // an attempt

	b := graph.New("research", graph.Fields[State, Update]())
	plan := b.Node("plan", nodes.Chat(gpt, askPlan, takePlan), retry, timeout)
	outline := b.Node("outline", nodes.Chat(gpt, askOutline, takeOutline), retry, timeout)
	search := graph.Task(b, "search", nodes.ChatTask(gpt, lib.askSearch, takeNote), retry, timeout)
	draft := b.Node("draft", nodes.Chat(gpt, askDraft, takeDraft), retry, timeout)
	review := b.Node("review", nodes.Chat(gpt, askReview, takeReview), retry, timeout)

	b.Start(plan)
	b.Edge(plan, outline)
	b.Route(plan, func(s State) graph.Next { return search.Each(s.Queries) }, search)
	b.Join([]graph.Ref{search, outline}, draft)
	b.Edge(draft, review)
	b.Route(review, func(s State) graph.Next {
		if s.Remark == "" || s.Drafts == 3 {
			return graph.To(graph.End)
		}
		return graph.To(draft)
	}, draft, graph.End)
	return b.Compile()
}
