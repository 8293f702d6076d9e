package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

type signalCmd struct {
	ID text `arg:"" help:"The run."`

	Name text `arg:"" help:"The signal's name, as the run waits for it."`

	Value text `arg:"" help:"The value, as JSON; - reads it from standard input."`

	String bool `help:"The value is a string, and needs no quotes of JSON." short:"s"`

	Key text `help:"Of the signals of a run with the same key only the first counts: sending it twice is harmless." placeholder:"KEY"`
}

// Help implements kong.HelpProvider.
func (c *signalCmd) Help() string {
	return `Examples:

	pawl runs signal tides-42 paid 12.5 --key payment-9
	pawl runs signal tides-42 comment --string "Shorter, please"

A signal is kept until the run waits for one of its name, and is delivered once. Mind the value's type: the run takes
one of another type than it waits for, and fails with it. Of a run that was continued as new the signal goes to the one
it goes on as.`
}

// signalled is a signal as JSON.
type signalled struct {
	Run    string `json:"run"`
	Signal string `json:"signal"`
	// Waited is true if the run is suspended until this signal comes.
	Waited bool `json:"waited"`
}

// Run sends a signal.
func (c *signalCmd) Run(ctx context.Context, s *session) error {
	id, name := string(c.ID), string(c.Name)
	value, err := givenJSON(string(c.Value), c.String, "signal", s.in)
	if err != nil {
		return err
	}
	return s.withClient(ctx, func(db store, runs *client.Client) error {
		run, o, err := c.look(ctx, db)
		if err != nil {
			return s.explained(err)
		}
		var opts []durable.SendOption
		if c.Key != "" {
			opts = append(opts, durable.SendKey(string(c.Key)))
		}
		if err := runs.Signal(ctx, id, name, value, opts...); err != nil {
			return s.explained(err)
		}
		waited := waitsFor(o.waits, name)
		if s.json {
			s.out.json(signalled{Run: id, Signal: name, Waited: waited})
			return nil
		}
		s.out.printf("sent signal %s to run %s, which %s\n", printable(name), printable(id), takes(&run, &o, waited))
		return nil
	})
}

// look returns the run and what it waits for. A run whose program has a codec is refused.
func (c *signalCmd) look(ctx context.Context, db store) (journal.Run, outlook, error) {
	run, err := db.Load(ctx, string(c.ID))
	if err == nil {
		err = takesJSON(ctx, db, run.ID, "signal")
	}
	if err != nil {
		return run, outlook{}, err
	}
	o, err := outlookOf(ctx, db, &run)
	return run, o, err
}

// takesJSON refuses a run whose program has a codec.
func takesJSON(ctx context.Context, db store, id, what string) error {
	start, err := eventBehind(ctx, db, id, 0)
	if err == nil && isEncoded(start.Payload) {
		return isSecretRun(id, what)
	}
	return err
}

// isSecretRun is the error of a call to a run whose program has a codec: what is sent from here would be none that it can read,
// nor would it be secret.
func isSecretRun(id, what string) error {
	do := "send the " + what
	if what == "start" {
		do = "start it"
	}
	return &exitError{code: exitRefused, text: fmt.Sprintf("the payloads of run %s are encoded by a codec: nothing was sent: %s from a "+
		"program that has the codec", quoted(id), do)}
}

// isEncoded reports whether a codec has encoded a payload.
func isEncoded(payload []byte) bool { return len(payload) > 0 && !json.Valid(payload) }

func waitsFor(waits []durable.Wait, signal string) bool {
	for _, w := range waits {
		if w.Signal == signal {
			return true
		}
	}
	return false
}

// takes says when a run takes a signal.
func takes(r *journal.Run, o *outlook, waited bool) string {
	switch {
	case r.Status == journal.Continued:
		return "was continued: the run that it goes on as has it"
	case waited:
		return "goes on " + takenWhen(r)
	case len(o.waits) > 0:
		var waits []string
		for _, w := range o.waits {
			waits = append(waits, waitText(w))
		}
		return "keeps it, and waits for " + few(waits)
	}
	return "takes it when it waits for it"
}

// givenJSON is a value of the command line, or of standard input, as JSON.
func givenJSON(text string, isString bool, what string, in io.Reader) (json.RawMessage, error) {
	if text == "-" {
		data, err := io.ReadAll(in)
		if err != nil {
			return nil, fmt.Errorf("read the %s from standard input: %w", what, err)
		}
		text = string(data)
		if isString {
			text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
		}
	}
	if isString {
		return json.Marshal(text)
	}
	var v json.RawMessage
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return nil, &exitError{code: exitUsage, err: err, text: fmt.Sprintf("the %s %s is no JSON (%v): give JSON, such as true or "+
			"'{\"n\": 1}', or --string for a text", what, quoted(text), err)}
	}
	return v, nil
}
