package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/sqlite"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
)

type draft struct {
	Topics []string
	Notes  []string
	Text   string
}

type change struct {
	Notes []string `merge:"append"`
	Text  string
}

// checked is a graph that is a node of the one below.
func checked(t *testing.T) *graph.Graph[draft, change] {
	t.Helper()
	b := graph.New("checked", graph.Fields[draft, change]())
	count := b.Node("count", func(ctx context.Context, d draft) (change, error) {
		n, err := durable.Step(ctx, "words", func(context.Context) (int, error) { return len(d.Notes), nil })
		return change{Text: fmt.Sprint(n)}, err
	})
	verdict := b.Node("verdict", func(context.Context, draft) (change, error) { return change{Notes: []string{"fine"}}, nil })
	b.Start(count)
	b.Edge(count, verdict)
	g, err := b.Compile()
	require.NoError(t, err)
	return g
}

// article plans, searches with a fan-out of which one task is slow and one fails, checks with a subgraph, asks, publishes.
func article(t *testing.T, down *bool) *graph.Graph[draft, change] {
	t.Helper()
	policy := retrypolicy.Standard()
	policy.Jitter = 0
	b := graph.New("article", graph.Fields[draft, change]())
	plan := b.Node("plan", func(context.Context, draft) (change, error) {
		time.Sleep(1200 * time.Millisecond)
		return change{}, nil
	})
	tries := 0
	search := graph.Task(b, "search", func(_ context.Context, _ draft, topic string) (change, error) {
		switch topic { // each ends at a time of its own
		case "tides":
			time.Sleep(100 * time.Millisecond)
		case "slow":
			time.Sleep(time.Second)
			if tries++; tries < 3 {
				return change{}, &openai.APIError{HTTPStatusCode: 503, Message: "overloaded"}
			}
		case "broken":
			time.Sleep(200 * time.Millisecond)
			return change{}, &openai.APIError{HTTPStatusCode: 401, Message: "no such key"}
		}
		return change{Notes: []string{topic}}, nil
	}, graph.Retry(policy))
	graph.CatchTask(b, search, func(ctx context.Context, _ draft, topic string, _ error) (change, error) {
		note, err := durable.Step(ctx, "fallback", func(context.Context) (string, error) { return "no " + topic, nil })
		return change{Notes: []string{note}}, err
	})
	check := graph.Sub(b, "check", checked(t), func(d draft) draft { return d }, func(d draft) change { return change{Text: d.Text} })
	review := b.Node("review", func(ctx context.Context, _ draft) (change, error) {
		ok, err := durable.Interrupt[bool](ctx, "Publish the draft?")
		return change{Text: fmt.Sprint(ok)}, err
	})
	rate := b.Node("rate", func(ctx context.Context, _ draft) (change, error) {
		time.Sleep(10 * time.Millisecond)
		task.AddUsage(ctx, task.Usage{Calls: 1, PromptTokens: 120, CompletionTokens: 30})
		stars, err := durable.Interrupt[int](ctx, map[string]int{"most": 5})
		return change{Notes: []string{fmt.Sprint(stars)}}, err
	})
	publish := b.Node("publish", func(context.Context, draft) (change, error) {
		if *down {
			return change{}, errors.New("the site is down")
		}
		return change{}, nil
	})
	b.Start(plan)
	b.Route(plan, func(d draft) graph.Next { return search.Each(d.Topics) }, search)
	b.Edge(search, check)
	b.Edge(check, review)
	b.Edge(check, rate)
	b.Join([]graph.Ref{review, rate}, publish)
	g, err := b.Compile()
	require.NoError(t, err)
	return g
}

func runner(t *testing.T, db journal.Store, down *bool) *superstep.Runner[draft, change] {
	t.Helper()
	r, err := superstep.NewRunner(article(t, down), superstep.Config{Store: db})
	require.NoError(t, err)
	return r
}

func TestShowDrawsAGraphRunFromItsStartToItsRetry(t *testing.T) {
	sh := newShell(t)
	in := draft{Topics: []string{"tides", "slow", "broken"}}
	synctest.Test(t, func(t *testing.T) {
		down := true
		sh.with(func(db *sqlite.Store) {
			r := runner(t, db, &down)
			_, err := r.Run(t.Context(), in, superstep.RunID("tides-42"), superstep.Thread("tides"))
			require.ErrorAs(t, err, new(*durable.SuspendedError))
		})
		time.Sleep(10 * time.Minute)
		golden(t, "graph-asks.txt", sh.ok("runs", "show", "tides-42"))
		golden(t, "graph-draw.txt", sh.ok("graph", "draw", "tides-42"))

		require.Equal(t, exitUsage, sh.pawl("runs", "answer", "tides-42", "-", "true").code, "two questions are open")
		sh.ok("runs", "answer", "tides-42", "4/review[0]/ask1", "true")
		golden(t, "graph-answer-sent.txt", sh.ok("runs", "show", "tides-42"))
		sh.ok("runs", "answer", "tides-42", "-", "5")
		sh.with(func(db *sqlite.Store) {
			_, err := runner(t, db, &down).Run(t.Context(), in, superstep.RunID("tides-42"), superstep.Thread("tides"))
			require.ErrorAs(t, err, new(*durable.RunFailedError))
		})
		golden(t, "graph-failed.txt", sh.ok("runs", "show", "tides-42"))
		golden(t, "graph-events.txt", sh.ok("runs", "events", "tides-42"))
		golden(t, "graph-payloads.txt", sh.ok("runs", "events", "tides-42", "--payloads", "--after", "15"))

		sh.ok("runs", "retry", "tides-42", "--id", "tides-43")
		golden(t, "graph-retry-prepared.txt", sh.ok("runs", "show", "tides-43"))
		down = false
		sh.with(func(db *sqlite.Store) {
			_, err := runner(t, db, &down).Resume(t.Context(), "tides-43")
			require.NoError(t, err)
		})
		golden(t, "graph-retried.txt", sh.ok("runs", "show", "tides-43"))
		golden(t, "graph-retried.json", indented(t, sh.ok("runs", "show", "tides-43", "--json")))
	})
}
