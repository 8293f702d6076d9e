package journal

import (
	"encoding/json"
	"errors"
	"fmt"
)

// NotSerializableError says that a value cannot be journaled, since JSON cannot hold it.
type NotSerializableError struct {
	// Type is the type of what cannot be written: "chan int", "float64", "main.Result".
	Type string
	// Path is where it stands, with Go's names of fields: "Result.Scores[3]".
	Path string
	// Reason says why: "NaN", "a channel", "a cycle".
	Reason string
	// Err is what encoding/json said, or a *PanicError if a MarshalJSON or MarshalText method has panicked.
	Err error
}

// Error names the path, the reason, the type, and what to do.
func (e *NotSerializableError) Error() string {
	return fmt.Sprintf("pawl: %s: %s (%s) cannot be journaled: return what JSON can hold, or leave the field out with `json:\"-\"`",
		e.Path, e.Reason, e.Type)
}

// Unwrap returns what encoding/json said, or the panic.
func (e *NotSerializableError) Unwrap() error { return e.Err }

// Unretryable is true: the same code would return the same again.
func (e *NotSerializableError) Unretryable() bool { return true }

// Marshal is json.Marshal with an error that says what in v is at fault: a *NotSerializableError with the path from root,
// which names v ("Result"; empty for the name of its type). Channels, functions, complex numbers, NaN, infinities,
// cycles, maps with keys that are no text, and MarshalJSON or MarshalText methods that fail or panic are such faults.
//
// A value without a fault takes no longer than json.Marshal does.
func Marshal(root string, v any) ([]byte, error) {
	data, err := marshal(v)
	if err == nil {
		return data, nil
	}
	return nil, explain(root, v, err)
}

func marshal(v any) (data []byte, err error) {
	defer recovered("a MarshalJSON or MarshalText method", &err)
	return json.Marshal(v) //nolint:wrapcheck,nolintlint // the caller explains it
}

// DecodeError says that what is stored does not fit the type that is asked for.
type DecodeError struct {
	// What names the value ("Result"), Type the type that it was to become.
	What, Type string
	Err        error
}

// Error names the value, the type, the fault, and what to do.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("pawl: %s as it is stored does not fit %s: %v: keep types readable for runs that are under way, or migrate these",
		e.What, e.Type, e.Err)
}

// Unwrap returns what encoding/json said, or a *PanicError.
func (e *DecodeError) Unwrap() error { return e.Err }

// Unmarshal is json.Unmarshal with an error, *DecodeError, that names the value, which is called root ("Result"). A panic in
// an UnmarshalJSON or UnmarshalText method is such an error too.
func Unmarshal(root string, data []byte, v any) error {
	err := unmarshal(data, v)
	if err == nil {
		return nil
	}
	t := fmt.Sprintf("%T", v)
	if len(t) > 1 && t[0] == '*' {
		t = t[1:]
	}
	return &DecodeError{What: root, Type: t, Err: err}
}

func unmarshal(data []byte, v any) (err error) {
	defer recovered("an UnmarshalJSON or UnmarshalText method", &err)
	return json.Unmarshal(data, v)
}

// explain looks for what made json.Marshal fail.
func explain(root string, v any, err error) error {
	if root == "" {
		root = rootName(v)
	}
	e := &NotSerializableError{Type: fmt.Sprintf("%T", v), Path: root, Reason: reasonOf(err), Err: err}
	if f := findFault(root, v); f != nil {
		e.Type, e.Path, e.Reason = f.kind, f.path, f.reason
		if f.err != nil {
			e.Err = f.err
		}
	}
	return e
}

// reasonOf is the reason where no fault was found.
func reasonOf(err error) string {
	if p, is := errors.AsType[*PanicError](err); is {
		return fmt.Sprintf("%s panicked: %v", p.Whose, p.Value)
	}
	return err.Error()
}
