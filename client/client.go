package client

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

// Config is how a client works. The zero Config works. It is copied by New.
type Config struct {
	// Codec writes what the client sends and reads what runs have written. It must be the workers' own; nil is plain JSON.
	Codec journal.Codec
	// PayloadLimit is the most bytes that one value may have as JSON. 0 is journal.DefaultPayloadLimit; negative is refused.
	PayloadLimit int
	// Poll is the longest time between two looks at a run that is waited for; the first ones are closer together. 0 is
	// 250 ms; negative is refused.
	Poll time.Duration
	// Patience is how long Result and Events bear a store that is out of reach before they return its error. 0 is 1 minute;
	// negative is not at all.
	Patience time.Duration
	// Capture says what Events shows of payloads: journal.CaptureFull (the zero value), what is recorded, or
	// journal.CaptureShapes, what journal.ShapeOfJSON says of it, as a JSON string.
	Capture journal.Capture
	// Logger takes warnings. nil is slog.Default().
	Logger *slog.Logger
}

const (
	firstPoll       = 5 * time.Millisecond
	defaultPoll     = 250 * time.Millisecond
	defaultPatience = time.Minute
)

// validate reports every bad field at once.
func (c Config) validate() error {
	var bad []error
	if c.PayloadLimit < 0 {
		bad = append(bad, fmt.Errorf("pawl: client.Config.PayloadLimit is %d: it must not be negative; 0 is the default", c.PayloadLimit))
	}
	if c.Poll < 0 {
		bad = append(bad, fmt.Errorf("pawl: client.Config.Poll is %v: it must not be negative; 0 is %v", c.Poll, defaultPoll))
	}
	if err := c.Capture.Validate(); err != nil {
		bad = append(bad, fmt.Errorf("pawl: client.Config.Capture: %w", err))
	}
	return errors.Join(bad...)
}

// withDefaults fills in what zero means.
func (c Config) withDefaults() Config {
	if c.PayloadLimit == 0 {
		c.PayloadLimit = journal.DefaultPayloadLimit
	}
	if c.Poll == 0 {
		c.Poll = defaultPoll
	}
	if c.Patience == 0 {
		c.Patience = defaultPatience
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// Client starts runs and speaks to them. Make one with New. It is immutable, holds nothing, and is safe for concurrent use.
type Client struct {
	store    journal.Store
	cfg      Config
	settings durable.Settings
}

var errNoStore = errors.New("pawl: client.New: the store is nil: open one, of package sqlite or postgres for example")

// New returns a client for the runs of a store. Some methods need a store that is a journal.Queue or journal.Lister as well,
// and fail with an *UnsupportedError where it is none. The error of New names each field of cfg that is wrong. The store stays
// the caller's to close.
func New(store journal.Store, cfg Config) (*Client, error) {
	if store == nil {
		return nil, errNoStore
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Client{store: store, cfg: cfg, settings: durable.Settings{
		Store: store, Codec: cfg.Codec, PayloadLimit: cfg.PayloadLimit, Logger: cfg.Logger,
	}}, nil
}

// using are the settings of calls of package durable.
func (c *Client) using() durable.CommonOption { return durable.Using(c.settings) }
