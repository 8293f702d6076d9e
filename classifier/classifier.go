package classifier

import (
	"fmt"
	"log/slog"
	"runtime"

	"github.com/pawl-go/pawl/task"
)

// RunErrorClassifier says what kind of failure an error is. It must be safe for concurrent use.
type RunErrorClassifier interface {
	// Classify returns the class of err, Unknown if no rule matches. An empty fingerprint is filled in by whoever runs the
	// classifier.
	Classify(err error) Classification
}

// Classification is what a classifier says of an error.
type Classification struct {
	// Class decides whether a retry can help.
	Class RunErrorClass
	// Fingerprint is the same for two instances of one failure: see Fingerprint.
	Fingerprint string
}

// Func is a function as a classifier.
type Func func(err error) Classification

// Classify calls the function.
func (f Func) Classify(err error) Classification { return f(err) }

// Chain returns a classifier that asks cs in turn; the first answer other than Unknown wins. An error with a RecordedClass
// has that class, and cs are not asked. A class that is none of this
// package's counts as Unknown. If a classifier panics, the panic is logged to slog.Default() and Default answers; wrap
// the classifier with Guard to choose the logger. Nil classifiers are skipped.
func Chain(cs ...RunErrorClassifier) RunErrorClassifier {
	return chain(append([]RunErrorClassifier(nil), cs...))
}

// Guard returns a classifier that never panics and answers with this package's classes only: a panic of c is logged to
// log (nil: slog.Default()) and Default answers; another class counts as Unknown; an empty fingerprint is filled in. The
// log names the panic but never the error. A nil c is Default. An error with a RecordedClass has that class, and c is not
// asked.
func Guard(c RunErrorClassifier, log *slog.Logger) RunErrorClassifier {
	if c == nil {
		return Default()
	}
	return guarded{c: c, log: log}
}

type chain []RunErrorClassifier

func (cs chain) Classify(err error) Classification {
	for _, c := range cs {
		if c == nil {
			continue
		}
		if got, ok := classify(c, nil, err); !ok || got.Class != Unknown {
			return filled(got, err)
		}
	}
	return filled(Classification{Class: Unknown}, err)
}

type guarded struct {
	c   RunErrorClassifier
	log *slog.Logger
}

func (g guarded) Classify(err error) Classification {
	got, _ := classify(g.c, g.log, err)
	return filled(got, err)
}

// classify runs one classifier. It is not ok if the classifier panicked and Default answered in its place.
func classify(c RunErrorClassifier, log *slog.Logger, err error) (got Classification, ok bool) {
	if class, is := recordedClass(err); is {
		return Classification{Class: class}, true
	}
	got, panicked := ask(func() Classification { return c.Classify(err) })
	if panicked != nil {
		logPanic(c, log, panicked)
		return Default().Classify(err), false
	}
	if !got.Class.Known() {
		got.Class = Unknown
	}
	return got, true
}

func filled(c Classification, err error) Classification {
	if c.Fingerprint == "" && present(err) {
		c.Fingerprint = Fingerprint(Message(err))
	}
	return c
}

// logPanic names the value of the panic only if it is the runtime's: another one may hold the error's text.
func logPanic(c RunErrorClassifier, log *slog.Logger, err error) {
	if log == nil {
		log = slog.Default()
	}
	p, is := err.(*task.PanicError)
	if !is {
		return
	}
	value := fmt.Sprintf("%T", p.Value)
	if re, is := p.Value.(runtime.Error); is {
		value = re.Error()
	}
	log.Error("pawl: classifier panicked, the default classifier answers",
		slog.String("classifier", fmt.Sprintf("%T", c)), slog.String("panic", value), slog.String("stack", string(p.Stack)))
}

// Known reports whether c is one of this package's classes.
func (c RunErrorClass) Known() bool {
	switch c {
	case ProviderError, ProviderUnavailable, RateLimited, Timeout, QuotaExceeded, InvalidRequest, Unauthorized,
		ContentFiltered, InvalidResponse, ToolError, ToolTimeout, ToolBlocked, BudgetExceeded, CompilationFailed, Panic,
		Canceled, Unknown:
		return true
	}
	return false
}
