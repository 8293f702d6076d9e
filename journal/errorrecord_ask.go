package journal

import (
	"fmt"
	"runtime/debug"
)

// PanicError is a panic in code that this package has called: a MarshalJSON, a Codec.
type PanicError struct {
	// Whose says which code panicked: "codec", "MarshalJSON of main.Result".
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

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Unretryable is true: the same code would panic again.
func (e *PanicError) Unretryable() bool { return true }

// RecordedClass is "panic", for package classifier.
func (e *PanicError) RecordedClass() string { return "panic" }

// recovered turns a panic into a *PanicError in *err. It must be deferred itself.
//
//nolint:revive,forbidigo // the one place of this package that recovers; it is itself what is deferred
func recovered(whose string, err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{Whose: whose, Value: v, Stack: debug.Stack()}
	}
}

// ask calls a method that somebody else wrote. One that panics answers with the zero value.
func ask[T any](method func() T) T {
	v, _ := tryAsk(method)
	return v
}

// tryAsk is ask that also tells whether the method has answered.
func tryAsk[T any](method func() T) (v T, ok bool) {
	defer silenced()
	return method(), true
}

// silenced ends a panic that nobody needs to hear of. It must be deferred itself.
//
//nolint:revive,forbidigo // see recovered; no stack is taken, which takes long in a deep tree
func silenced() { _ = recover() }
