package client

import (
	"context"
	"errors"
	"iter"

	"github.com/pawl-go/pawl/journal"
)

// Get returns the record of a run: of one that was continued as new its own, whose status is journal.Continued. A run that is
// not there is a *RunNotFoundError; other errors are the store's.
func (c *Client) Get(ctx context.Context, id string) (journal.Run, error) {
	run, err := c.store.Load(ctx, id)
	return run, c.explained(ctx, id, err)
}

// List returns a page of runs, the newest first. A store that cannot list is an *UnsupportedError; other errors are the store's.
func (c *Client) List(ctx context.Context, q journal.Query) (journal.Page, error) {
	lister, ok := c.store.(journal.Lister)
	if !ok {
		return journal.Page{}, c.unsupported("List", "journal.Lister")
	}
	return lister.List(ctx, q)
}

// Runs returns all runs of a query, the newest first, page by page: q.Limit is the size of a page. It yields at most one
// error, as the last thing. Errors are those of List.
func (c *Client) Runs(ctx context.Context, q journal.Query) iter.Seq2[journal.Run, error] {
	return func(yield func(journal.Run, error) bool) {
		for {
			page, err := c.List(ctx, q)
			if err != nil {
				yield(journal.Run{}, err)
				return
			}
			for _, run := range page.Runs {
				if !yield(run, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			q.Cursor = page.Next
		}
	}
}

// Events returns the events of a run behind the one numbered after, in order, and follows the run until it has ended: it
// waits for events that are not written yet. A run that was continued as new has ended with that. Payloads are what the Codec
// has written; see Config.Capture.
//
// It yields at most one error, as the last thing: that of ctx if it has ended, a *RunNotFoundError, also if the run was
// deleted meanwhile, and those of the store, if it stays out of reach for longer than Config.Patience.
func (c *Client) Events(ctx context.Context, id string, after int64) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		err := c.follow(ctx, id, after, func(e journal.Event) bool { return yield(c.shown(e), nil) })
		if ended := ctx.Err(); ended != nil && errors.Is(err, ended) {
			err = ended
		}
		if err != nil && !errors.Is(err, errLeft) {
			yield(journal.Event{}, c.explained(ctx, id, err))
		}
	}
}

// errLeft says that nobody wants the next event.
var errLeft = errors.New("pawl: internal: left")

// follow passes events on until the run has ended, or they are not wanted any more.
func (c *Client) follow(ctx context.Context, id string, after int64, take func(journal.Event) bool) error {
	w := c.newWait(ctx)
	for {
		run, err := w.run(id)
		switch {
		case err != nil:
			return err
		case run.Head > after:
			err = w.patiently(func() error {
				for e, err := range c.store.Events(ctx, id, after) {
					if err != nil {
						return err
					}
					if after = e.Seq; !take(e) {
						return errLeft
					}
				}
				return nil
			})
			w.soon()
		case run.Status.Terminal():
			return nil
		default:
			err = w.pause()
		}
		if err != nil {
			return err
		}
	}
}

// shown is an event as the capture level lets it be seen.
func (c *Client) shown(e journal.Event) journal.Event {
	if c.cfg.Capture.Full() || len(e.Payload) == 0 {
		return e
	}
	data, err := journal.Decode(c.cfg.Codec, e.Payload)
	if err != nil {
		data = nil
	}
	e.Payload = c.cfg.Capture.JSON(data)
	return e
}
