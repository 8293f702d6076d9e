package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
)

// Ticket is a line of the file.
type Ticket struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Subject  string `json:"subject"`
	Text     string `json:"text"`
	Label    string `json:"label"` // the category that a person gave it; the models are not told
}

// readTickets reads the first n tickets, or all if n is 0.
func readTickets(text []byte, n int) ([]Ticket, error) {
	var tickets []Ticket
	lines := json.NewDecoder(bytes.NewReader(text))
	for n == 0 || len(tickets) < n {
		var t Ticket
		err := lines.Decode(&t)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("ticket %d: %w", len(tickets)+1, err)
		}
		tickets = append(tickets, t)
	}
	return tickets, nil
}

const (
	categoryPrompt = "Which category is this support ticket: billing, technical, account or feedback? Answer with that word only."
	replyPrompt    = "Write a short, friendly reply to this support ticket."
)

func askCategory(s State) providers.Request { return ask(categoryPrompt, s.Ticket) }

func takeCategory(_ State, r *providers.Response) (Update, error) {
	category := strings.ToLower(strings.Trim(r.Text(), " .\n"))
	if !slices.Contains([]string{"billing", "technical", "account", "feedback"}, category) {
		// The model may do better next time, so this counts as a failure that passes.
		return Update{}, classifier.Transient(fmt.Errorf("%q is no category", category))
	}
	return Update{Category: category}, nil
}

func askReply(s State) providers.Request { return ask(replyPrompt, s.Ticket) }

func takeReply(_ State, r *providers.Response) (Update, error) {
	return Update{Reply: r.Text(), By: r.Provider}, nil
}

func ask(prompt string, t Ticket) providers.Request {
	return providers.Request{Messages: []providers.Message{
		{Role: "system", Content: prompt},
		{Role: "user", Content: fmt.Sprintf("%s from %s: %s\n%s", t.ID, t.Customer, t.Subject, t.Text)},
	}}
}
