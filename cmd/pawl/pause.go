package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/journal"
)

type pauseCmd struct {
	ID text `arg:"" help:"The run."`

	Reason text `help:"Why, for people. It is kept with the run." placeholder:"TEXT"`
}

type resumeCmd struct {
	ID text `arg:"" help:"The run."`
}

// Help implements kong.HelpProvider.
func (c *pauseCmd) Help() string {
	return "A run that is under way rests from its next durable call or super-step on; what it has begun is finished first. No timer, " +
		"signal or answer wakes a paused run, and updates and queries wait. Of several calls to pause and resume the last one counts."
}

// Help implements kong.HelpProvider.
func (c *resumeCmd) Help() string {
	return "A run that is not paused stays as it is. Of several calls to pause and resume the last one counts."
}

// paused is a pause, or the end of one, as JSON.
type paused struct {
	Run    journal.Run `json:"run"`
	Paused bool        `json:"paused"`
}

// Run pauses a run.
func (c *pauseCmd) Run(ctx context.Context, s *session) error {
	id := string(c.ID)
	return s.withClient(ctx, func(_ store, runs *client.Client) error {
		if err := runs.Pause(ctx, id, string(c.Reason)); err != nil {
			return s.explained(err)
		}
		run, err := runs.Get(ctx, id)
		switch id := printable(id); {
		case err != nil:
			return err
		case s.json:
			s.out.json(paused{Run: run, Paused: true})
		case run.Status == journal.Continued:
			s.out.printf("run %s was continued as a new one, and is paused where it goes on\n", id)
		case run.Owner != "":
			s.out.printf("run %s is held by %s, and rests from its next durable call on\n", id, printable(run.Owner))
		default:
			s.out.printf("run %s is paused\n", id)
		}
		return nil
	})
}

// Run ends a pause.
func (c *resumeCmd) Run(ctx context.Context, s *session) error {
	id := string(c.ID)
	return s.withClient(ctx, func(_ store, runs *client.Client) error {
		if err := runs.Resume(ctx, id); err != nil {
			return s.explained(err)
		}
		run, err := runs.Get(ctx, id)
		switch id := printable(id); {
		case err != nil:
			return err
		case s.json:
			s.out.json(paused{Run: run})
		case run.Status == journal.Continued:
			s.out.printf("run %s was continued as a new one, and is paused no longer where it goes on\n", id)
		default:
			s.out.printf("run %s is paused no longer\n", id)
		}
		return nil
	})
}

// pause is a pause that lasts.
type pause struct {
	since  time.Time
	reason string
}

// pauseIn is the pause that the messages of a run are about; nil if it is not paused.
func pauseIn(inbox []journal.Message) *pause {
	var p *pause
	for _, m := range inbox {
		switch m.Kind {
		case journal.PauseMessage:
			p = &pause{since: m.Time}
			if len(m.Payload) > 0 && json.Unmarshal(m.Payload, &p.reason) != nil {
				p.reason = encoded
			}
		case journal.ResumeMessage:
			p = nil
		}
	}
	return p
}

// text says so.
func (p *pause) text() string {
	if p.reason == "" {
		return "paused"
	}
	return "paused: " + printable(p.reason)
}
