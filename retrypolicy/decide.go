package retrypolicy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/task"
)

// next decides what follows a failed attempt. It returns nil after the wait for another attempt, else the loop's error.
func (l *Loop) next(ctx context.Context, attempt int, err error, waited *time.Duration) error {
	a := l.assess(ctx, attempt, err)
	if perr := l.observe(ctx, a); perr != nil {
		a = broken(a, perr)
	}
	if a.Final {
		return l.gaveUp(ctx, a, *waited)
	}
	start := time.Now()
	ended := wait(ctx, a.Delay)
	*waited += time.Since(start)
	if !ended {
		return nil
	}
	a.Reason = ReasonRunEnded
	a.Class = endClass(ctx)
	return l.gaveUp(ctx, a, *waited)
}

// assess says what the failure is and whether another attempt follows.
func (l *Loop) assess(ctx context.Context, attempt int, err error) Attempt {
	a := Attempt{Number: attempt, Err: err}
	if ended(ctx) {
		a.Class, a.Reason, a.Final = endClass(ctx), ReasonRunEnded, true
		return a
	}
	a.Class = classifier.Guard(l.Classifier, l.Logger).Classify(err).Class
	a.Hint, _ = classifier.RetryHint(err)
	if perr := l.decide(ctx, &a); perr != nil {
		return broken(a, perr)
	}
	a.Final = a.Reason != ""
	return a
}

// decide sets a's reason, unless another attempt follows. The error is a panic of the user's code.
func (l *Loop) decide(ctx context.Context, a *Attempt) error {
	var perr error
	if a.Reason, perr = l.refusal(a); a.Reason != "" || perr != nil {
		return perr
	}
	if a.Number >= l.Policy.MaxAttempts {
		a.Reason = ReasonAttemptsUsedUp
		return nil
	}
	random, perr := l.random()
	if perr != nil {
		return perr
	}
	a.Delay = l.Policy.Delay(a.Number, a.Hint, random)
	if a.Hint > l.Policy.hintLimit() {
		a.Reason = ReasonWaitTooLong
	} else if end, ok := ctx.Deadline(); ok && time.Until(end) <= a.Delay {
		a.Reason = ReasonPastDeadline
	}
	return nil
}

// refusal is the decision order behind its first rule: the reason not to retry the error, empty if it may be retried.
func (l *Loop) refusal(a *Attempt) (Reason, error) {
	if unretryable(a.Err) {
		return ReasonUnretryable, nil
	}
	if status, ok := classifier.PermanentHTTPStatus(a.Err); ok {
		a.Status = status
		return ReasonPermanentStatus, nil
	}
	switch classifier.MarkOf(a.Err) {
	case classifier.MarkTransient:
		return "", nil
	case classifier.MarkPoison:
		return ReasonPoison, nil
	case classifier.MarkFatal:
		return ReasonFatal, nil
	}
	if classifier.RetryRefused(a.Err) {
		return ReasonRefused, nil
	}
	if l.Policy.Retryable != nil {
		return l.predicate(a.Err)
	}
	if !a.Class.Transient() {
		return ReasonNotTransient, nil
	}
	return "", nil
}

func (l *Loop) predicate(err error) (reason Reason, perr error) {
	defer task.Recover("retry policy's Retryable", &perr)
	if !l.Policy.Retryable(err) {
		return ReasonNotRetryable, nil
	}
	return "", nil
}

func (l *Loop) random() (random float64, perr error) {
	if l.Rand == nil {
		return rand.Float64(), nil
	}
	defer task.Recover("retry loop's Rand", &perr)
	return l.Rand(), nil
}

func (l *Loop) observe(ctx context.Context, a Attempt) (perr error) {
	if l.Observe == nil {
		return nil
	}
	defer task.Recover("retry loop's Observe", &perr)
	l.Observe(ctx, a)
	return nil
}

// broken is an attempt behind which the user's code panicked: it is the last one. The end of the run stays its end.
func broken(a Attempt, perr error) Attempt {
	a.Err = fmt.Errorf("%w, after: %w", perr, a.Err)
	a.Final = true
	if a.Reason != ReasonRunEnded {
		a.Class, a.Reason, a.Status = classifier.Panic, ReasonUnretryable, 0
	}
	return a
}

func (l *Loop) gaveUp(ctx context.Context, a Attempt, waited time.Duration) error {
	e := &AttemptsError{
		Attempts:    a.Number,
		MaxAttempts: l.Policy.MaxAttempts,
		Class:       a.Class,
		Hint:        a.Hint,
		Waited:      waited,
		Reason:      a.Reason,
		Status:      a.Status,
		Err:         a.Err,
	}
	if a.Reason == ReasonRunEnded {
		e.ended = endErr(ctx)
	}
	return e
}

// notStarted is the error of a loop whose context had ended before its first attempt.
func (l *Loop) notStarted(ctx context.Context) error {
	err := endErr(ctx)
	return l.gaveUp(ctx, Attempt{Err: err, Class: endClass(ctx), Reason: ReasonRunEnded}, 0)
}

// unretryable looks at the whole tree: errors.As would stop at the first error that has the method.
func unretryable(err error) bool {
	for e := range classifier.Tree(err) {
		if u, is := e.(Unretryable); is && saysNo(u) {
			return true
		}
	}
	return false
}

// saysNo asks an error that somebody else wrote. One that panics has nothing to say.
func saysNo(u Unretryable) (no bool) {
	var perr error
	defer task.Recover("error", &perr)
	return u.Unretryable()
}

// isPanic walks the tree itself: errors.As never returns from a cycle.
func isPanic(err error) bool {
	for e := range classifier.Tree(err) {
		panicError := &task.PanicError{}
		if errors.As(e, &panicError) {
			return true
		}
	}
	return false
}
