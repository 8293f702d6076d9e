package task

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// PanicError is a panic that was recovered at a call into user code. It is never retried.
type PanicError struct {
	// Whose says which code panicked: `node "draft"`, "classifier", "observer"...
	Whose string
	// Value is what was passed to panic.
	Value any
	// Stack is the stack of the goroutine that panicked.
	Stack []byte
}

// Error names whose panic it was and its value; the stack is left to the field.
func (e *PanicError) Error() string {
	return fmt.Sprintf("pawl: panic in %s: %v", e.Whose, e.Value)
}

// Unretryable says that no retry can help.
func (e *PanicError) Unretryable() bool { return true }

// ErrGoexit is the Value of a PanicError for code that ended its goroutine with runtime.Goexit, as FailNow of package
// testing does.
var ErrGoexit = errors.New("the call ended its goroutine with runtime.Goexit")

// Recover turns a panic into a *PanicError in *err. It is the one place where Pawl recovers, and must itself be deferred
// around a call into user code:
//
//	defer task.Recover("router", &err)
func Recover(whose string, err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{Whose: whose, Value: v, Stack: debug.Stack()}
	}
}
