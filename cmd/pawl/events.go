package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/journal"
)

type eventsCmd struct {
	ID text `arg:"" help:"The run."`

	After int64 `help:"Only the events behind the one of this number." placeholder:"N"`

	Follow bool `help:"Print what is written from now on, too, until the run has ended." short:"f"`

	Payloads bool `help:"Print payloads, too: inputs, results, errors, questions and answers. They may hold prompts and secrets."`
}

// Help implements kong.HelpProvider.
func (c *eventsCmd) Help() string {
	return "A line has the event's number, time, kind, place and name, how long it took and in how many attempts, and what is " +
		"recorded beside its payload."
}

// event is one event as JSON. It has the fields of journal.Event, but its payload is JSON, if it is not encoded by a codec.
type event struct {
	Seq      int64           `json:"seq"`
	Kind     journal.Kind    `json:"kind"`
	Scope    string          `json:"scope,omitempty"`
	Name     string          `json:"name,omitempty"`
	N        int             `json:"n,omitempty"`
	Time     time.Time       `json:"time"`
	Took     time.Duration   `json:"took_ns,omitempty"`
	Attempts int             `json:"attempts,omitempty"`
	Meta     json.RawMessage `json:"meta,omitempty"`
	// Bytes is the size of the payload as it is stored.
	Bytes int `json:"payload_bytes,omitempty"`
	// Payload is there with --payloads, if it is JSON; Encoded, in base64, if it is not.
	Payload json.RawMessage `json:"payload,omitempty"`
	Encoded []byte          `json:"payload_encoded,omitempty"`
}

// Run prints events.
func (c *eventsCmd) Run(ctx context.Context, s *session) error {
	id := string(c.ID)
	return s.withClient(ctx, func(db store, runs *client.Client) error {
		events := db.Events(ctx, id, c.After)
		if c.Follow {
			events = runs.Events(ctx, id, c.After)
		}
		if _, err := db.Load(ctx, id); err != nil {
			return s.explained(err)
		}
		for e, err := range events {
			switch {
			case err != nil:
				return s.explained(err)
			case s.json:
				s.out.json(c.event(e))
			default:
				s.out.printf("%s\n", c.line(e))
			}
			if s.out.err != nil || c.Follow && s.out.flush() != nil {
				return nil // run returns it
			}
		}
		return nil
	})
}

func (c *eventsCmd) event(e journal.Event) event {
	out := event{
		Seq: e.Seq, Kind: e.Kind, Scope: e.Scope, Name: e.Name, N: e.N, Time: e.Time, Took: e.Took, Attempts: e.Attempts,
		Meta: asJSON(e.Meta), Bytes: len(e.Payload),
	}
	if c.Payloads {
		if out.Payload = asJSON(e.Payload); out.Payload == nil {
			out.Encoded = e.Payload
		}
	}
	return out
}

// asJSON is data if it is JSON, else nil.
func asJSON(data []byte) json.RawMessage {
	if !json.Valid(data) {
		return nil
	}
	return data
}

func (c *eventsCmd) line(e journal.Event) string {
	parts := []string{fmt.Sprintf("%6d  %s  %-17s", e.Seq, e.Time.UTC().Format("2006-01-02T15:04:05.000Z"), printable(string(e.Kind)))}
	if e.Scope != "" {
		parts = append(parts, printable(e.Scope))
	}
	switch {
	case e.Name != "" && e.N == 0:
		parts = append(parts, printable(e.Name))
	case e.Name != "":
		parts = append(parts, fmt.Sprintf("%s#%d", printable(e.Name), e.N))
	case e.N > 0:
		parts = append(parts, fmt.Sprintf("#%d", e.N))
	}
	if e.Took > 0 {
		parts = append(parts, span(e.Took))
	}
	if e.Attempts > 1 {
		parts = append(parts, count(e.Attempts, "attempt"))
	}
	if len(e.Meta) > 0 {
		parts = append(parts, oneLine(shortMeta(e)))
	}
	if c.Payloads && len(e.Payload) > 0 {
		parts = append(parts, "payload "+payloadText(e.Payload))
	}
	return strings.TrimRight(strings.Join(parts, "  "), " ")
}

// shortMeta is a Meta without the pictures of a graph.
func shortMeta(e journal.Event) []byte {
	var m map[string]json.RawMessage
	if e.Kind != journal.RunStart || json.Unmarshal(e.Meta, &m) != nil {
		return e.Meta
	}
	for _, long := range []string{"drawing", "outline"} {
		if _, ok := m[long]; ok {
			m[long] = json.RawMessage(`"..."`)
		}
	}
	short, err := json.Marshal(m)
	if err != nil {
		return e.Meta
	}
	return short
}

// payloadText is a payload on one line.
func payloadText(payload []byte) string {
	if !json.Valid(payload) {
		return fmt.Sprintf("(encoded, %s)", count(len(payload), "byte"))
	}
	return oneLine(payload)
}
