package superstep

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/task"
)

// What CaptureShapes leaves of events and log lines.

// withoutValues is an event without values. The event itself may be the user's, and is not changed.
func withoutValues(ev task.Event) task.Event {
	switch e := ev.(type) {
	case *task.TokenDelta:
		shape := *e
		shape.Text = journal.ShapeOf(e.Text)
		return &shape
	case *task.Custom:
		shape := *e
		shape.Value = journal.ShapeOf(e.Value)
		return &shape
	case *task.AttemptFailed:
		shape := *e
		shape.Failure = classOnly(e.Failure)
		return &shape
	case *task.TaskFailed:
		shape := *e
		shape.Failure = classOnly(e.Failure)
		return &shape
	case *task.RunFailed:
		shape := *e
		shape.Failure = classOnly(e.Failure)
		return &shape
	case *task.RunCancelled:
		shape := *e
		shape.Failure = classOnly(e.Failure)
		return &shape
	}
	return ev
}

// classOnly is a failure without its text and its error, both of which may quote anything.
func classOnly(f task.Failure) task.Failure { return task.Failure{Class: f.Class, Text: f.Class} }

// shapedLog is a handler that shows the shapes of what it is given.
type shapedLog struct{ slog.Handler }

// Handle implements slog.Handler.
func (h shapedLog) Handle(ctx context.Context, r slog.Record) error {
	shape := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		shape.AddAttrs(attrShape(a))
		return true
	})
	return h.Handler.Handle(ctx, shape)
}

// WithAttrs implements slog.Handler.
func (h shapedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	shapes := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		shapes[i] = attrShape(a)
	}
	return shapedLog{h.Handler.WithAttrs(shapes)}
}

// WithGroup implements slog.Handler.
func (h shapedLog) WithGroup(name string) slog.Handler { return shapedLog{h.Handler.WithGroup(name)} }

// attrShape leaves names as they are, and the type of an error.
func attrShape(a slog.Attr) slog.Attr {
	switch a.Key {
	case "run", "graph", "node", "question", "classifier", "panic", "type", "stack": // names, and what package classifier has cleaned
		return a
	}
	v := a.Value.Resolve()
	if err, is := v.Any().(error); is {
		return slog.String(a.Key, fmt.Sprintf("%T", err))
	}
	return slog.String(a.Key, journal.ShapeOf(v.Any()))
}
