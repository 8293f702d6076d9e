package classifier

import (
	"encoding/json"
	"net"
	"slices"
	"syscall"

	"github.com/pawl-go/pawl/task"
	"github.com/sashabaranov/go-openai"
)

// The interfaces by which an error that was recorded in a journal says what was recorded. They use plain types, since the
// journal does not know this package.
type (
	// RecordedClass is an error that was classified when it was recorded. If it is the whole error, and not only wrapped,
	// that class stands: no rule and no classifier is asked again. The class is one of this package's; any other one counts
	// as not recorded.
	RecordedClass interface{ RecordedClass() string }

	// Recorded is an error that stands for another one, which was recorded: journal's RecordedError. This package's functions
	// answer for it as they did for the first one.
	Recorded interface {
		error
		RecordedClass
		// RecordedType is the path of the first error's type, "*net.OpError".
		RecordedType() string
		// RecordedMark is the mark that counted for it, and the user code; empty for none.
		RecordedMark() (mark, code string)
		// RecordedStatus is the HTTP status that it carried; 0 for none.
		RecordedStatus() int
		// As sets target, a pointer to the first error's type, to a value like it.
		As(target any) bool
	}
)

// recordedClass returns the class that err was recorded with, and whether there is one.
func recordedClass(err error) (RunErrorClass, bool) {
	r, is := err.(RecordedClass)
	if !is || !present(err) {
		return "", false
	}
	name, _ := ask(r.RecordedClass)
	class := RunErrorClass(name)
	return class, class.Known()
}

// recordedStatus returns the status that r was recorded with, or that its type has, or 0.
func recordedStatus(r Recorded) int {
	if status, _ := ask(r.RecordedStatus); plausible(status) != 0 {
		return status
	}
	switch e := original(r).(type) {
	case *openai.APIError, *openai.RequestError:
		return statusOf(e)
	}
	return 0
}

// original returns a value of the type that was recorded, if it is one that a rule looks for; else err itself.
func original(err error) error {
	r, is := err.(Recorded)
	if !is {
		return err
	}
	made, _ := ask(func() error { return remade(r) })
	if !present(made) {
		return err
	}
	return made
}

func remade(r Recorded) error {
	switch r.RecordedType() {
	case "*github.com/sashabaranov/go-openai.APIError":
		return as[*openai.APIError](r)
	case "*github.com/sashabaranov/go-openai.RequestError":
		return as[*openai.RequestError](r)
	case "*net.OpError":
		return as[*net.OpError](r)
	case "*net.DNSError":
		return as[*net.DNSError](r)
	case "syscall.Errno":
		return as[syscall.Errno](r)
	case "*encoding/json.SyntaxError":
		return as[*json.SyntaxError](r)
	case "*encoding/json.UnmarshalTypeError":
		return as[*json.UnmarshalTypeError](r)
	case "*encoding/json.UnsupportedTypeError":
		return as[*json.UnsupportedTypeError](r)
	case "*encoding/json.UnsupportedValueError":
		return as[*json.UnsupportedValueError](r)
	case "*encoding/json.MarshalerError":
		return as[*json.MarshalerError](r)
	case "*github.com/pawl-go/pawl/task.PanicError":
		return as[*task.PanicError](r)
	}
	return nil
}

func as[T error](r Recorded) error {
	var made T
	if !r.As(&made) {
		return nil
	}
	return made
}

// isValue reports whether err is one of some values that errors.New has made, or was when it was recorded.
func isValue(err error, values ...error) bool {
	if slices.Contains(values, err) {
		return true
	}
	r, is := err.(Recorded)
	return is && r.RecordedType() == "*errors.errorString" && slices.ContainsFunc(values, func(v error) bool { return isA(err, v) })
}

// timeouter is an error that can tell a timeout, as net.Error does.
type timeouter interface{ Timeout() bool }

// timeouterOf returns err, or what it was when it was recorded, if it can tell a timeout.
func timeouterOf(err error) (timeouter, bool) {
	if r, is := err.(Recorded); is {
		return recordedTimeouter(r)
	}
	t, has := err.(timeouter)
	return t, has
}

func recordedTimeouter(r Recorded) (t timeouter, has bool) {
	has, _ = ask(func() bool { return r.As(&t) })
	return t, has
}
