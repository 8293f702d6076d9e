package main

import (
	"fmt"
	"strings"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
)

// What each node asks the model, and what it takes from the answer.
const (
	planPrompt    = "Name two to five short search queries for a text on this topic, one a line, nothing else."
	outlinePrompt = "Give a text on this topic an outline of a few words."
	searchPrompt  = "Answer the query in one sentence from these passages, and end with the source in brackets."
	draftPrompt   = "Write a short text on the topic from these notes. Keep the sources in brackets."
	reviewPrompt  = "Review the draft against the notes. Say ACCEPT, or say in one sentence what is missing."
)

func askPlan(s State) providers.Request { return ask("%s\nTopic: %s", planPrompt, s.Topic) }

func takePlan(_ State, r *providers.Response) (Update, error) {
	queries := strings.FieldsFunc(r.Text(), func(c rune) bool { return c == '\n' })
	if len(queries) == 0 || len(queries) > 5 {
		// The model may do better next time, so this counts as a failure that passes.
		return Update{}, classifier.Transient(fmt.Errorf("the plan has %d queries, want 1 to 5", len(queries)))
	}
	return Update{Queries: queries}, nil
}

func askOutline(s State) providers.Request { return ask("%s\nTopic: %s", outlinePrompt, s.Topic) }

func takeOutline(_ State, r *providers.Response) (Update, error) {
	return Update{Outline: r.Text()}, nil
}

// askSearch looks the query up, and has the model read what was found.
func (l *library) askSearch(_ State, query string) providers.Request {
	var found strings.Builder
	for _, p := range l.search(query, 3) {
		fmt.Fprintf(&found, "- [%s] %s\n", p.source, p.text)
	}
	return ask("%s\nQuery: %s\nPassages:\n%s", searchPrompt, query, found.String())
}

func takeNote(_ State, _ string, r *providers.Response) (Update, error) {
	return Update{Notes: []string{r.Text()}}, nil
}

func askDraft(s State) providers.Request {
	prompt := fmt.Sprintf("%s\nTopic: %s\nOutline: %s\nNotes:\n%s", draftPrompt, s.Topic, s.Outline, list(s.Notes))
	if s.Remark != "" {
		prompt += "Last draft: " + s.Draft + "\nRemark: " + s.Remark
	}
	return ask("%s", prompt)
}

func takeDraft(_ State, r *providers.Response) (Update, error) {
	return Update{Draft: r.Text(), Drafts: 1}, nil
}

func askReview(s State) providers.Request {
	return ask("%s\nNotes:\n%sDraft: %s", reviewPrompt, list(s.Notes), s.Draft)
}

func takeReview(_ State, r *providers.Response) (Update, error) {
	if strings.Contains(r.Text(), "ACCEPT") {
		return Update{Remark: new("")}, nil
	}
	return Update{Remark: new(r.Text())}, nil
}

func list(notes []string) string { return "* " + strings.Join(notes, "\n* ") + "\n" }

func ask(format string, args ...any) providers.Request {
	return providers.Request{Messages: []providers.Message{{Role: "user", Content: fmt.Sprintf(format, args...)}}}
}
