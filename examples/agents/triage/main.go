// Triage answers a file of support tickets, one run a ticket, sixteen at a time.
//
//	classify ──> billing | technical | account | thank ──> end
//	    └ if that fails for good, the ticket is left to a person
//
// Run it with
//
//	go run ./examples/agents/triage
//	go run ./examples/agents/triage -live -n 10
//
// Offline three scripted models answer over HTTP on this machine, and one of them is down: watch its breaker open and
// another model take over. With -live all three are the endpoint that OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL
// name. Which calls fail depends on the ticket alone, so the summary is the same each time.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/nodes"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

//go:embed tickets.jsonl
var shipped []byte

// State is what the nodes read.
type State struct {
	Ticket   Ticket
	Category string
	Reply    string
	By       string // who gave the reply: a provider's name, "template" or "person"
}

// Update is what a node may change.
type Update struct {
	Category, Reply, By string
}

func main() {
	log.SetFlags(0)
	live := flag.Bool("live", false, "ask the endpoint that OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL name")
	file := flag.String("tickets", "", "a JSONL file of tickets (default: the 200 that ship with the example)")
	n := flag.Int("n", 0, "how many tickets to take; 0 takes all")
	flag.Parse()
	text, err := shipped, error(nil)
	if *file != "" {
		text, err = os.ReadFile(*file)
	}
	if err == nil {
		err = run(context.Background(), text, *n, *live)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, text []byte, n int, live bool) error {
	tickets, err := readTickets(text, n)
	if err != nil {
		return err
	}
	sum := newSummary()
	rules := gatewayRules() // one for all layers: the executor, the fallback and the breakers must not disagree
	m, err := openModels(live, rules, sum.breakerChanged)
	if err != nil {
		return err
	}
	defer m.close()
	g, err := build(m, rules)
	if err != nil {
		return err
	}
	runner, err := superstep.NewRunner(g, superstep.Config{
		MaxConcurrentRuns: 16,
		Classifier:        rules,
		Observers:         []func(task.Event){sum.observe},
	})
	if err != nil {
		return err
	}

	var wg sync.WaitGroup
	failed := make([]error, len(tickets))
	for i, ticket := range tickets {
		wg.Go(func() {
			res, err := runner.Run(ctx, State{Ticket: ticket}, superstep.RunID(ticket.ID))
			sum.add(res)
			failed[i] = err
		})
	}
	wg.Wait()
	return errors.Join(errors.Join(failed...), sum.print())
}

// build makes the graph.
func build(m *models, rules classifier.RunErrorClassifier) (*graph.Graph[State, Update], error) {
	policy := retrypolicy.New() // the class of an error decides whether it is retried
	policy.MaxAttempts = 4
	policy.InitialDelay = 20 * time.Millisecond
	retry := graph.Retry(policy)

	b := graph.New("triage", graph.Fields[State, Update]())
	classify := b.Node("classify", nodes.Chat(m.front, askCategory, takeCategory), retry)
	b.Catch(classify, leaveToPerson(rules))
	handlers := map[string]graph.Node{
		"billing":   b.Node("billing", nodes.Chat(m.billing, askReply, takeReply), retry),
		"technical": b.Node("technical", nodes.Chat(m.front, askReply, takeReply), retry),
		"account":   b.Node("account", nodes.Chat(m.front, askReply, takeReply), retry),
		"feedback":  b.Func("thank", thank),
		"person":    graph.End,
	}
	b.Start(classify)
	b.Route(classify, func(s State) graph.Next { return graph.To(handlers[s.Category]) },
		handlers["billing"], handlers["technical"], handlers["account"], handlers["feedback"], graph.End)
	return b.Compile()
}

// leaveToPerson is what happens to a ticket that no model may or can classify.
func leaveToPerson(rules classifier.RunErrorClassifier) func(context.Context, State, error) (Update, error) {
	return func(_ context.Context, _ State, err error) (Update, error) {
		why := rules.Classify(err).Class
		return Update{Category: "person", By: "person", Reply: fmt.Sprintf("for a person to read: %s", why)}, nil
	}
}

// thank needs no model.
func thank(s State) (Update, error) {
	return Update{By: "template", Reply: "Thank you, " + s.Ticket.Customer + ". We have passed it on."}, nil
}

// gatewayRules say what the errors mean that only our gateway has. It reports what its data-loss filter blocks as a failure
// of its own, HTTP 500 with the code dlp_blocked. By the default rules such a call would be made again, and blocked again,
// and a breaker would take it for an outage.
func gatewayRules() classifier.RunErrorClassifier {
	ours := func(err error) classifier.Classification {
		var call *providers.CallError
		if errors.As(err, &call) && call.Code == "dlp_blocked" {
			return classifier.Classification{Class: classifier.ContentFiltered}
		}
		return classifier.Classification{Class: classifier.Unknown} // the next one is asked
	}
	return classifier.Chain(classifier.Func(ours), classifier.Default())
}
