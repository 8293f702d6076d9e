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
// another RunID if it was given one, or goes on with it if there is a Store.
func (r *Runner[S, U]) Stream(ctx context.Context, in S, opts ...RunOption) iter.Seq2[task.Event, error] {
	return func(yield func(task.Event, error) bool) {
		id, o, err := r.options(opts)
		if err != nil {
			yield(nil, err)
			return
		}
		r.stream(ctx, in, id, o, yield)
	}
}

// StreamResume is Stream for a run that exists: it goes on with it as Resume does. What is recorded already has no events.
func (r *Runner[S, U]) StreamResume(ctx context.Context, id string, opts ...RunOption) iter.Seq2[task.Event, error] {
	return func(yield func(task.Event, error) bool) {
		if err := r.needStore("StreamResume"); err != nil {
			yield(nil, err)
			return
		}
		o, err := r.existing(id, opts)
		if err != nil {
			yield(nil, err)
			return
		}
		r.stream(ctx, *new(S), id, o, yield)
	}
}

func (r *Runner[S, U]) stream(ctx context.Context, in S, id string, o *runOptions, yield func(task.Event, error) bool) {
	stream, left, done := make(chan task.Event), make(chan struct{}), make(chan error, 1)
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	go func() {
		err := error(&task.PanicError{Whose: "observer", Value: task.ErrGoexit}) // unless execute returns
		defer func() { done <- err }()
		e := newEvents(&r.cfg)
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
