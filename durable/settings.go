package durable

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/journal"
)

// Settings say how runs are kept in a store. Give them to Run with Using; an executor has them in its own configuration.
type Settings struct {
	// Store is where. It is for executors: calls that take settings with Using take a store as well.
	Store journal.Store
	// Codec writes and reads what users' code gives and gets; nil: plain JSON.
	Codec journal.Codec
	// PayloadLimit is the most bytes that one value may have as JSON; 0 is journal.DefaultPayloadLimit.
	PayloadLimit int
	// LeaseTTL is how long a run is held without a word from its owner; 0 is 30 s. Heartbeat is how often the lease is
	// renewed; 0 is thrice in that time.
	LeaseTTL, Heartbeat time.Duration
	// Owner names the process in leases, for people: each execution adds something of its own. Empty: "inline".
	Owner string
	// Classifier finds the class of recorded failures; nil is classifier.Default().
	Classifier classifier.RunErrorClassifier
	// Logger takes warnings; nil is slog.Default().
	Logger *slog.Logger
	// Rename is for executors: it is asked for the present path of each scope that is read, where a graph's nodes have new
	// names; nil: none has.
	Rename func(scope string) string

	anyVersion bool        // of a workflow's code will do
	assigned   *Assignment // of the worker that runs the run, and what the run has started; nil without a worker
}

const (
	defaultLeaseTTL = 30 * time.Second
	renewals        = 3 // of a lease, in its time
	defaultOwner    = "inline"
	// storePatience bounds the calls that end an execution, when nobody is left who could cancel them.
	storePatience = 30 * time.Second
	lastPatience  = time.Second
	// inboxPoll is how often the inbox of a store that is no journal.Watcher is read.
	inboxPoll = time.Second
)

// fault says what is wrong with the settings.
func (s Settings) fault() error {
	var bad []error
	if s.PayloadLimit < 0 {
		bad = append(bad, fmt.Errorf("PayloadLimit %d is less than 0: 0 is the default", s.PayloadLimit))
	}
	if s.LeaseTTL < 0 {
		bad = append(bad, fmt.Errorf("LeaseTTL %v is less than 0: 0 is the default", s.LeaseTTL))
	}
	if s.Heartbeat < 0 {
		bad = append(bad, fmt.Errorf("the Heartbeat %v is less than 0: 0 is the default", s.Heartbeat))
	}
	if len(bad) == 0 {
		return nil
	}
	return &OptionError{Call: "Using", Err: errors.Join(bad...)}
}

func (s Settings) withDefaults() Settings {
	if s.PayloadLimit == 0 {
		s.PayloadLimit = journal.DefaultPayloadLimit
	}
	if s.LeaseTTL == 0 {
		s.LeaseTTL = defaultLeaseTTL
	}
	if s.Heartbeat == 0 {
		s.Heartbeat = max(s.LeaseTTL/renewals, time.Millisecond)
	}
	if s.Owner == "" {
		s.Owner = defaultOwner
	}
	if s.Logger == nil {
		s.Logger = slog.Default()
	}
	s.Classifier = classifier.Guard(s.Classifier, s.Logger)
	s.Store = guard(s.Store)
	return s
}

// Encode turns a value into a payload, as Execution.Encode does.
func (s Settings) Encode(what string, v any) ([]byte, error) {
	data, err := journal.Marshal(what, v)
	if err != nil {
		return nil, err
	}
	return s.seal(what, data)
}

// seal turns JSON into a payload.
func (s Settings) seal(what string, data []byte) ([]byte, error) {
	if err := journal.CheckPayload(what, data, s.PayloadLimit); err != nil {
		return nil, err
	}
	if s.Codec == nil {
		return data, nil
	}
	return journal.Encode(s.Codec, data)
}

// Decode is the reverse of Encode; v is a pointer.
func (s Settings) Decode(payload []byte, v any) error {
	if s.Codec != nil {
		var err error
		if payload, err = journal.DecodeJSON(s.Codec, payload); err != nil {
			return err
		}
	}
	return journal.Unmarshal("Value", payload, v)
}
