package superstep

import (
	"sync/atomic"

	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/task"
)

// strand is a goroutine that calls user code on behalf of a run. It settles one question between that goroutine and
// whoever waits for it: a call that ignores the end of its context is abandoned, and the goroutine, should it ever come
// back, must find that out before it touches anything of the run.
type strand struct {
	state atomic.Int32
	// emitting counts the calls that wait for somebody to take an event, emitted all that there were.
	emitting atomic.Int32
	emitted  atomic.Int64
	// waitedFor is the event that excuse has excused last, from 1; 0 for none. It belongs to who waits for the strand.
	waitedFor int64
	// open are the tasks the goroutine is at, a subgraph's inside its parent's. Only the goroutine itself uses it, or
	// whoever finishes for it: after it was abandoned, or when a task has ended it with runtime.Goexit.
	open  []openTask
	first [1]openTask // where open starts
	// whose says which user code the goroutine is in or was in last, and caught is the failure that a Catch handler was
	// called for: for the error of a goroutine that a call has ended.
	whose  string
	caught error
}

// openTask is a task that has started and not ended.
type openTask struct {
	spot
	place   *place
	running *attempt // the one that was reported as started, and not as ended
}

func (o *openTask) header() task.Header { return o.spot.header(o.place) }

// spot says which task, and which attempt of it. Each attempt has a copy, so it is small.
type spot struct {
	node                 *graph.NodeConfig
	step, index, attempt int
}

func (s *spot) header(in *place) task.Header {
	return task.Header{
		Scope: in.scope, Node: in.pathOf(s.node.Name), SuperStep: s.step,
		Index: s.index, FannedOut: s.node.Kind.FannedOut(), Attempt: s.attempt,
	}
}

// used is what the attempt has used that was last reported as started.
func (o *openTask) used() task.Usage {
	if o.running == nil {
		return task.Usage{}
	}
	return o.running.used()
}

// push opens a task.
func (s *strand) push(in *place, at spot) {
	if s.open == nil {
		s.open = s.first[:0]
	}
	s.open = append(s.open, openTask{place: in, spot: at})
}

// growStack makes room for the calls of a run while its goroutine's stack holds nothing yet: to move a stack that is in use
// takes longer than all else that a short run costs.
//
//go:noinline
func growStack(i int) byte {
	var room [1536]byte
	room[i] = 1
	return room[i/2]
}

// at is the innermost open task.
func (s *strand) at() *openTask { return &s.open[len(s.open)-1] }

const (
	strandIdle      = iota // in our own code
	strandCalling          // in user code
	strandAbandoned        // left behind in user code
	strandStopped          // told to make no more calls
)

// enter is called before user code. It is false if the strand has been told to stop.
func (s *strand) enter() bool { return s.state.CompareAndSwap(strandIdle, strandCalling) }

// leave is called when user code returns. It is false if the strand was abandoned meanwhile: then its goroutine must end
// without touching the run.
func (s *strand) leave() bool { return s.state.CompareAndSwap(strandCalling, strandIdle) }

// excuse reports whether it is not the call that is slow, but a consumer that has not taken its event. That holds as long
// as it is the same event: a call that goes on emitting is not waiting.
func (s *strand) excuse() bool {
	event := s.emitted.Load()
	if s.emitting.Load() == 0 || (s.waitedFor != 0 && s.waitedFor != event) {
		return false
	}
	s.waitedFor = event
	return true
}

// finish is called when the goroutine ends, in whatever way: after its work, or because a call has ended it with
// runtime.Goexit. It is false if the strand was abandoned; if not, nobody will take it away any more.
func (s *strand) finish() bool {
	s.leave()
	return !s.lost()
}

// stopped reports whether the strand has been told to make no more calls.
func (s *strand) stopped() bool { return s.state.Load() == strandStopped }

// lost reports whether the strand has been abandoned.
func (s *strand) lost() bool { return s.state.Load() == strandAbandoned }

// abandon gives the strand up. It is true if the strand was in user code; if it was not, it makes no further call and
// ends by itself.
func (s *strand) abandon() bool {
	for {
		if s.state.CompareAndSwap(strandCalling, strandAbandoned) {
			return true
		}
		if s.state.CompareAndSwap(strandIdle, strandStopped) || s.state.Load() >= strandAbandoned {
			return false
		}
	}
}
