package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

// The exit codes. They are part of what users rely on; description lists them.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNotFound = 3
	exitRefused  = 4
	exitNoStore  = 5
	exitFailure  = 6 // of the run, not of this program
	exitLate     = 7
)

// exitError is an error of this program's own, with its exit code.
type exitError struct {
	code int
	text string
	err  error // what it comes from; nil for none
}

// Error says what is wrong and what to do.
func (e *exitError) Error() string { return e.text }

// Unwrap returns what it comes from.
func (e *exitError) Unwrap() error { return e.err }

// exitCode is the exit code for an error.
func exitCode(err error) int {
	var own *exitError
	var answer *durable.AnswerError
	var late *client.InvocationTimeoutError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &own):
		return own.code
	case has[*client.InvocationError](err), has[*client.InvocationCancelledError](err):
		return exitFailure
	case askExit(err) != 0:
		return askExit(err)
	case errors.As(err, &late) && late.Timeout():
		return exitLate
	case errors.As(err, &answer):
		if answer.Reason == durable.NotAsked {
			return exitNotFound
		}
		return exitRefused
	case has[*durable.RetryError](err), has[*durable.RunConflictError](err), has[*durable.ContinuationChainError](err):
		return exitRefused
	case has[*durable.OptionError](err), has[*client.OptionError](err):
		return exitUsage
	case has[*client.UnsupportedError](err):
		return exitNoStore
	case errors.Is(err, journal.ErrNotFound):
		return exitNotFound
	case errors.Is(err, journal.ErrUnavailable):
		return exitNoStore
	}
	for _, refused := range []error{journal.ErrLocked, journal.ErrEnded, journal.ErrExists, journal.ErrConflict, journal.ErrFenced} {
		if errors.Is(err, refused) {
			return exitRefused
		}
	}
	return exitFailed
}

// has reports whether an error is of a type, or wraps one that is.
func has[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// errorReport is an error as JSON.
type errorReport struct {
	Error string `json:"error"`
	Exit  int    `json:"exit"`
}

// report tells an error to whoever looks at standard error.
func (s *session) report(err error) {
	if err == nil {
		return
	}
	text := err.Error()
	if errors.Is(err, context.Canceled) && !has[*durable.RunCancelledError](err) {
		text = "interrupted"
	}
	if !strings.HasPrefix(text, "pawl: ") {
		text = "pawl: " + text
	}
	text = withoutSecrets(text)
	if s.json {
		s.notes.json(errorReport{Error: text, Exit: exitCode(err)})
		return
	}
	for _, line := range textLines(text) {
		s.notes.printf("%s\n", line)
	}
}

// explained adds to an error of a store or of package durable what somebody at a command line can do about it.
func (s *session) explained(err error) error {
	var retry *durable.RetryError
	var answer *durable.AnswerError
	var finished *client.RunFinishedError
	var failed *client.InvocationError
	var late *client.InvocationTimeoutError
	var unhandled *durable.UpdateTimeoutError
	switch {
	case err == nil, errors.As(err, new(*exitError)):
		return err
	case errors.As(err, &failed):
		show := s.command("runs show", failed.RunID)
		return &exitError{code: exitFailure, err: err, text: fmt.Sprintf("%v: %s shows how", failed.Err, show)}
	case errors.As(err, &unhandled) && unhandled.Timeout():
		return lateUpdate(unhandled)
	case askExit(err) != 0:
		return err
	case errors.As(err, &late) && late.Timeout():
		return &exitError{code: exitLate, err: err, text: fmt.Sprintf("run %s has not ended in time: it goes on: %s shows how far it is",
			quoted(late.RunID), s.command("runs show", late.RunID))}
	case errors.Is(err, journal.ErrNotFound):
		return fmt.Errorf("%w (%s)", err, s.spec())
	case errors.As(err, &answer):
		return &exitError{code: exitCode(err), err: err, text: s.refusal(answer)}
	case errors.As(err, &retry) && retry.Code == durable.RetryNotFailed && !retry.Status.Terminal():
		return fmt.Errorf("%w: run it again with the same id and it goes on", err)
	case errors.As(err, &finished):
		return &exitError{code: exitCode(err), err: err, text: fmt.Sprintf("run %s has ended: it is %s: %s shows how",
			quoted(finished.RunID), finished.Status, s.command("runs show", finished.RunID))}
	}
	return err
}

// refusal says why an answer was refused.
func (s *session) refusal(e *durable.AnswerError) string {
	show := s.command("runs show", e.RunID)
	switch e.Reason {
	case durable.NotAsked:
		return fmt.Sprintf("run %s has asked no question %s: %s lists those it has", quoted(e.RunID), quoted(e.Question), show)
	case durable.AlreadyAnswered:
		return fmt.Sprintf("question %s of run %s is answered already, and its first answer counts: nothing was sent",
			quoted(e.Question), quoted(e.RunID))
	case durable.RunEnded:
		return fmt.Sprintf("run %s has ended and takes no answers: %s shows how", quoted(e.RunID), show)
	case durable.WrongType:
	}
	return e.Error()
}
