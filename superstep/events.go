package superstep

import (
	"time"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/task"
)

// events hands the events of one run, one at a time, to the observers and the stream's consumer.
type events struct {
	// turn holds one token, which who sends takes. A mutex would do, but goroutines that wait for one stop the clock of a
	// testing/synctest bubble, and consumers that sleep there would sleep for ever.
	turn      chan struct{}
	observers []func(task.Event)
	capture   journal.Capture
	stream    chan<- task.Event // nil unless there is a consumer
	left      <-chan struct{}   // closed when the consumer has left
	closed    bool
}

func newEvents(cfg *Config) *events {
	return &events{turn: make(chan struct{}, 1), observers: cfg.Observers, capture: cfg.Capture}
}

// send delivers one event and returns when everybody has taken it. An event of user code comes with its attempt, and is
// dropped once the attempt is over.
func (e *events) send(r *run, ev task.Event, h task.Header, from *attempt) {
	if !e.capture.Full() {
		ev = withoutValues(ev)
	}
	e.deliver(r, ev, ev, h, from)
}

// deliver delivers one event, which observers may see in another form than the stream.
func (e *events) deliver(r *run, ev, observed task.Event, h task.Header, from *attempt) {
	e.turn <- struct{}{}
	defer func() { <-e.turn }()
	if e.closed || (from != nil && from.isOver()) {
		return
	}
	h.RunID, h.Time = r.id, time.Now()
	task.Stamp(ev, h)
	if observed != ev {
		task.Stamp(observed, h)
	}
	healthy := true
	for _, o := range e.observers {
		if err := observe(o, observed); err != nil {
			r.fail(err)
			healthy = false
		}
	}
	if ev.Head().Kind == task.KindRunCompleted && !healthy {
		return // the run has not completed after all
	}
	if e.stream != nil {
		select {
		case e.stream <- ev:
		case <-e.left:
		}
	}
}

func observe(o func(task.Event), ev task.Event) (err error) {
	defer task.Recover("observer", &err)
	o(ev)
	return nil
}

// close drops whatever is still sent.
func (e *events) close() {
	e.turn <- struct{}{}
	e.closed = true
	<-e.turn
}
