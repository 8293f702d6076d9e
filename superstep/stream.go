package superstep

import (
	"context"
	"iter"

	"github.com/pawl-go/pawl/task"
)

// Stream runs the graph as Run does and yields its events while it runs. The last thing it yields is a
// *task.RunCompleted[S] with the graph's own S, or the error that Run would have returned, with a nil event; the
// *task.RunFailed or *task.RunCancelled event comes before it. A slow consumer slows the run; nothing is dropped or
// reordered. Leaving the loop cancels the run and waits for its tasks. Ranging again starts another run, which needs
// another RunID if it was given one.
func (r *Runner[S, U]) Stream(ctx context.Context, in S, opts ...RunOption) iter.Seq2[task.Event, error] {
	return func(yield func(task.Event, error) bool) {
		id, o, err := r.options(opts)
		if err != nil {
			yield(nil, err)
			return
		}
		var (
			stream     = make(chan task.Event)
			left       = make(chan struct{})
			done       = make(chan error, 1)
			ctx, leave = context.WithCancelCause(ctx)
		)
		defer leave(nil)
		go func() {
			err := error(&task.PanicError{Whose: "observer", Value: task.ErrGoexit}) // unless execute returns
			defer func() { done <- err }()
			e := newEvents(r.cfg.Observers)
			e.stream, e.left = stream, left
			_, err = r.execute(ctx, r.newTrunk(&in, id, e), o)
		}()
		defer func() { // also if the loop's body panics
			close(left)
			leave(&CancelledError{RunID: id, Reason: "the consumer left the stream", kind: context.Canceled})
			<-done //nolint:errcheck // the run's error, which nobody is left to hear
		}()
		for {
			select {
			case ev := <-stream:
				if !yield(ev, nil) {
					return
				}
			case err := <-done:
				done <- err
				if err != nil {
					yield(nil, err)
				}
				return
			}
		}
	}
}
