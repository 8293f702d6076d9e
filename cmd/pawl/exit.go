package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &own):
		return own.code
	case errors.As(err, &answer):
		if answer.Reason == durable.NotAsked {
			return exitNotFound
		}
		return exitRefused
	case errors.As(err, new(*durable.RetryError)), errors.As(err, new(*durable.RunConflictError)),
		errors.As(err, new(*durable.ContinuationChainError)):
		return exitRefused
	case errors.As(err, new(*durable.OptionError)):
		return exitUsage
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
	if errors.Is(err, context.Canceled) {
		text = "interrupted"
	}
	if !strings.HasPrefix(text, "pawl: ") {
		text = "pawl: " + text
	}
	if s.json {
		s.notes.json(errorReport{Error: text, Exit: exitCode(err)})
		return
	}
	for _, line := range textLines(text) {
		s.notes.printf("%s\n", line)
	}
}

// explained adds to an error of a store or of package durable what somebody at a command line can do about it.
func (s *session) explained(err error, id string) error {
	var retry *durable.RetryError
	var answer *durable.AnswerError
	switch {
	case err == nil, errors.As(err, new(*exitError)):
		return err
	case errors.Is(err, journal.ErrNotFound):
		return fmt.Errorf("%w (%s)", err, s.spec())
	case errors.As(err, &answer):
		return &exitError{code: exitCode(err), err: err, text: s.refusal(answer)}
	case errors.As(err, &retry) && retry.Code == durable.RetryNotFailed && !retry.Status.Terminal():
		return fmt.Errorf("%w: run it again with the same id and it goes on", err)
	case errors.Is(err, journal.ErrEnded):
		return fmt.Errorf("%w: %s shows how", err, s.command("runs show", id))
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
