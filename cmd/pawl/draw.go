package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

type drawCmd struct {
	ID text `arg:"" help:"The run." name:"run"`

	Format string `default:"mermaid" enum:"mermaid" help:"The language of the drawing: mermaid."`
}

// drawing is a drawing as JSON.
type drawing struct {
	Run     string `json:"run"`
	Graph   string `json:"graph"`
	Format  string `json:"format"`
	Drawing string `json:"drawing"`
}

// Run prints the drawing that a run has recorded at its start.
func (c *drawCmd) Run(ctx context.Context, s *session) error {
	id := string(c.ID)
	return s.withStore(ctx, func(db store) error {
		run, err := db.Load(ctx, id)
		if err != nil {
			return s.explained(err)
		}
		if run.Kind != journal.GraphRun {
			return fmt.Errorf("run %s is a %s: only runs of graphs have a drawing", quoted(id), printable(string(run.Kind)))
		}
		start, err := startOf(ctx, db, id)
		if err != nil {
			return err
		}
		if start.Drawing == "" {
			return fmt.Errorf("run %s has recorded no drawing of its graph", quoted(id))
		}
		if s.json {
			s.out.json(drawing{Run: run.ID, Graph: run.Name, Format: c.Format, Drawing: start.Drawing})
			return nil
		}
		for line := range strings.Lines(start.Drawing) { // names in it are the program's, and could be anything
			s.out.printf("%s\n", onTerminal(strings.TrimRight(line, "\r\n")))
		}
		return nil
	})
}

// startOf reads what is recorded of a run's start.
func startOf(ctx context.Context, db store, id string) (durable.StartMeta, error) {
	var m durable.StartMeta
	for e, err := range db.Events(ctx, id, 0) {
		if err != nil {
			return m, err
		}
		if len(e.Meta) > 0 {
			err = json.Unmarshal(e.Meta, &m)
		}
		if err != nil {
			err = fmt.Errorf("run %s: event %d cannot be read: %w", quoted(id), e.Seq, err)
		}
		return m, err
	}
	return m, nil
}
