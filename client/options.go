package client

import (
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// StartOption is an option of Start and Run: ID, Queue, Delay, StartAt or Dedup.
type StartOption interface{ applyStart(o *startOptions) }

type startOptions struct {
	id, queue, dedup string
	named            bool
	due              time.Time
	bad              []error
}

type startOption func(o *startOptions)

func (f startOption) applyStart(o *startOptions) { f(o) }

// ID names the run; without it a run gets a random name. It is any non-empty string, and only ever data. With the same id
// again Start attaches to the run that is there, so whoever may have to start a run again should name it.
func ID(id string) StartOption {
	return startOption(func(o *startOptions) {
		o.id, o.named = id, true
		if id == "" {
			o.refuse("ID", errors.New("the id is empty: pass a name, or no ID for a random one"))
		}
	})
}

// Queue is the queue in which the run waits for a worker; journal.DefaultQueue if it is not given. With the empty name no worker
// takes the run: it waits until durable.Resume, or Resume of a runner, works on it.
func Queue(name string) StartOption {
	return startOption(func(o *startOptions) { o.queue = name })
}

// Delay keeps workers from taking the run before d has passed. A negative one is an *OptionError.
func Delay(d time.Duration) StartOption {
	return startOption(func(o *startOptions) {
		if d < 0 {
			o.refuse("Delay", fmt.Errorf("%v is negative: give it a time that is to pass, or leave it out", d))
		}
		o.due = time.Time{}
		if d > 0 {
			o.due = ceil(time.Now().Add(d))
		}
	})
}

// StartAt keeps workers from taking the run before t. One that has passed already, or the zero time, is no delay.
func StartAt(t time.Time) StartOption {
	return startOption(func(o *startOptions) {
		o.due = time.Time{}
		if !t.IsZero() {
			o.due = ceil(t)
		}
	})
}

// Dedup is a key of which there is one run at most that has not ended. If another run has it, Start attaches to that one,
// whatever its input: see Handle.Existing. The key is free again when the run that has it ends, be it as it is continued as new:
// the next run of a chain does not have it, and neither has a retry. The empty key is none.
func Dedup(key string) StartOption {
	return startOption(func(o *startOptions) { o.dedup = key })
}

// ceil is a time to the microsecond, as it is stored, and not before t.
func ceil(t time.Time) time.Time {
	return t.Add(time.Microsecond - time.Nanosecond).Truncate(time.Microsecond).UTC()
}

func (o *startOptions) refuse(option string, err error) {
	o.bad = append(o.bad, &OptionError{Option: option, Err: err})
}

func newStartOptions(opts []StartOption) (*startOptions, error) {
	o := &startOptions{queue: journal.DefaultQueue}
	for _, opt := range opts {
		if opt != nil {
			opt.applyStart(o)
		}
	}
	if !o.named {
		o.id = rand.Text()
	}
	return o, errors.Join(o.bad...)
}
