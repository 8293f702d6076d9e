package journal

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// RecordedError is an error that comes out of a journal. It has the text of the error that was recorded, wraps what that
// wrapped, and gives errors.Is and errors.As the same answers:
//
//	var down *net.OpError
//	if errors.As(err, &down) { ... } // a new *net.OpError with the recorded fields
//
// A field that could not be recorded (unexported, a channel, a connection) is zero in what errors.As gives, and so the
// Error method of that value can fail where err.Error() does not. Interfaces with Timeout, Temporary and HTTPStatusCode
// match if the first error had these methods.
//
// errors.Is is exact for the well-known values of the standard library. Any other value matches if it has the type and the
// text of a recorded error, since a value made by errors.New cannot be told from another one with its text.
//
// It is safe for concurrent use, but must not be changed or copied.
type RecordedError struct {
	// TypePath names the type of the error that was recorded: "*net/url.Error".
	TypePath string
	// Message is its text.
	Message string
	// Class, UserCode, Mark and Status are what package classifier said of it; see ErrorFacts.
	Class    string
	UserCode string
	Mark     string
	Status   int

	record  *ErrorRecord
	asked   int     // how many sentinels were asked for
	causes  []error // what it wraps
	inner   error   // what Unwrap returns
	rebuilt sync.Map
}

// Err returns the recorded error, a *RecordedError; nil of a nil record. Any record can be given, also one that was made by
// hand or damaged: what is missing in it is zero.
func (r *ErrorRecord) Err() error {
	if r == nil {
		return nil
	}
	return r.recorded(r.Asked)
}

func (r *ErrorRecord) recorded(asked int) *RecordedError {
	e := &RecordedError{
		TypePath: r.Type, Message: r.text(),
		Class: r.Class, UserCode: r.UserCode, Mark: r.Mark, Status: r.Status,
		record: r, asked: asked,
	}
	for _, cause := range r.Causes {
		if cause != nil {
			e.causes = append(e.causes, cause.asCause(asked))
		}
	}
	switch {
	case len(e.causes) == 1 && !r.Many:
		e.inner = e.causes[0]
	case len(e.causes) > 0:
		e.inner = &joined{e.causes}
	}
	return e
}

// asCause is the error for one inside another. A well-known value or an error number is itself again, so that it can be
// compared with ==.
func (r *ErrorRecord) asCause(asked int) error {
	if s := sentinelNamed(r.Same); s != nil {
		return s
	}
	if no, ok := r.errno(); ok {
		return no
	}
	return r.recorded(asked)
}

// Error is the recorded text.
func (e *RecordedError) Error() string { return e.Message }

// Unwrap returns what the error wraps: *RecordedErrors, and well-known values of the standard library as they are. Several
// are wrapped in one error.
func (e *RecordedError) Unwrap() error { return e.inner }

// Record returns what the error was made of; one is made up for a RecordedError that came out of no record.
func (e *RecordedError) Record() *ErrorRecord {
	if e.record != nil {
		return e.record
	}
	return &ErrorRecord{
		Type: e.TypePath, Text: strings.ToValidUTF8(e.Message, "\uFFFD"),
		ErrorFacts: ErrorFacts{Class: e.Class, UserCode: e.UserCode, Mark: e.Mark, Status: e.Status},
	}
}

// Is reports whether the recorded error, without what it wraps, was target.
func (e *RecordedError) Is(target error) bool {
	if target == nil {
		return false
	}
	if i := sentinelIndex(target); i >= 0 && i < e.asked {
		return slices.Contains(e.Record().Is, sentinels[i].name)
	}
	if other, is := target.(*RecordedError); is {
		return other != nil && other.TypePath == e.TypePath && other.Message == e.Message
	}
	if typePath(reflect.TypeOf(target)) != e.TypePath {
		return false
	}
	return e.equals(target)
}

// equals compares with a value of the recorded type.
func (e *RecordedError) equals(target error) bool {
	t := reflect.TypeOf(target)
	mine, ok := reflect.TypeAssert[error](e.rebuild(t))
	if !ok || isNil(mine) != isNil(target) {
		return false
	}
	if t.Comparable() && ask(func() bool { return mine == target }) { //nolint:errorlint // as errors.Is does
		return true
	}
	if is, asks := mine.(interface{ Is(target error) bool }); asks && ask(func() bool { return is.Is(target) }) {
		return true
	}
	if !t.Comparable() || whole(t) {
		return false
	}
	text, ok := tryAsk(target.Error)
	return ok && text == e.Message
}

// whole reports whether all of a value of type t is recorded, so that == is as good as for the first value.
func whole(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr, reflect.Float32, reflect.Float64:
		return true
	case reflect.Array:
		return whole(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if (!f.IsExported() && !f.Anonymous) || !whole(f.Type) {
				return false
			}
		}
		return true
	default:
		return false
	}
}

// As sets target, a pointer to the recorded type or to an interface that it answered, to a value made of the record.
func (e *RecordedError) As(target any) bool {
	v := reflect.ValueOf(target)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return false
	}
	dst := v.Elem()
	if dst.Kind() == reflect.Interface {
		return setInterface(dst, e.withFacets())
	}
	if typePath(dst.Type()) != e.TypePath {
		return false
	}
	dst.Set(e.rebuild(dst.Type()))
	return true
}

func setInterface(dst reflect.Value, v any) bool {
	if v == nil || !reflect.TypeOf(v).AssignableTo(dst.Type()) {
		return false
	}
	dst.Set(reflect.ValueOf(v))
	return true
}

// RecordedType is the path of the type that was recorded, RecordedClass the class, RecordedMark the mark and its code, and
// RecordedStatus the HTTP status. They are for package classifier.
func (e *RecordedError) RecordedType() string { return e.TypePath }

// RecordedClass is the recorded class, empty if none is recorded.
func (e *RecordedError) RecordedClass() string { return e.Class }

// RecordedMark is the recorded mark and its user code, empty if there is none.
func (e *RecordedError) RecordedMark() (mark, code string) { return e.Mark, e.UserCode }

// RecordedStatus is the recorded HTTP status, 0 if there is none.
func (e *RecordedError) RecordedStatus() int {
	if rec := e.Record(); e.Status == 0 && rec.HTTPStatus != nil {
		return *rec.HTTPStatus
	}
	return e.Status
}

// RetryHint is what the error's method of this name said; not ok if it has none.
func (e *RecordedError) RetryHint() (wait time.Duration, ok bool) {
	if hint := e.Record().RetryHint; hint != nil {
		return *hint, *hint > 0
	}
	return 0, false
}

// RetryRefused is what the error's method of this name said, false if it has none.
func (e *RecordedError) RetryRefused() bool { return isTrue(e.Record().RetryRefused) }

// Unretryable is what the error's method of this name said, false if it has none.
func (e *RecordedError) Unretryable() bool { return isTrue(e.Record().Unretryable) }

func isTrue(b *bool) bool { return b != nil && *b }

// recordOf returns the record of an error that was recorded before; nil of any other.
func recordOf(err error) *ErrorRecord {
	e, is := err.(interface{ recordedError() *RecordedError })
	if !is {
		return nil
	}
	if r := e.recordedError(); r != nil {
		return r.Record()
	}
	return nil
}

func (e *RecordedError) recordedError() *RecordedError { return e }

// joined is several errors that one wraps: a type cannot have both kinds of Unwrap.
type joined struct{ errs []error }

// Error joins the texts.
func (j *joined) Error() string {
	texts := make([]string, len(j.errs))
	for i, err := range j.errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "\n")
}

// Unwrap returns the errors.
func (j *joined) Unwrap() []error { return j.errs }
