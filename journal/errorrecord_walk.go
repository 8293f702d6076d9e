package journal

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// recorder writes one record. Its numbers are what is left of the bounds.
type recorder struct {
	errors, values, bytes, lookedAt int

	path  map[any]bool // pointers on the way from the root to here
	seen  map[any]bool // pointers of errors that were walked
	owner *ErrorRecord // the error whose fields are being written
	inner []error      // what that error wraps
	field []string     // the path of the field that is being written
}

// record writes err and all it wraps. Depth counts from 0 for the outermost.
func (r *recorder) record(err error, depth int) *ErrorRecord {
	r.errors--
	if old := recordOf(err); old != nil {
		return r.again(old, depth)
	}
	rec := &ErrorRecord{Type: typePath(reflect.TypeOf(err))}
	r.askAll(rec, err)
	if rec.Nil = isNil(err); rec.Nil {
		return rec
	}
	leave, cycle := r.enter(err)
	defer leave()
	inner, many := unwrap(err)
	rec.Many = many
	switch known := r.known(err); {
	case cycle:
		rec.cut("causes: a cycle")
		return rec
	case len(inner) > 0 && (depth >= maxDepth || r.errors <= 0 || (known && r.errors < maxErrors-maxShared)):
		rec.cut("causes: too many")
		r.lookBehind(rec, inner)
		inner = nil
	}
	for i, cause := range inner {
		if r.errors <= 0 {
			rec.cut("causes: too many")
			r.lookBehind(rec, inner[i:])
			break
		}
		rec.Causes = append(rec.Causes, r.record(cause, depth+1))
	}
	r.write(rec, err, inner[:min(len(inner), len(rec.Causes))], depth)
	return rec
}

// again takes over the record of an error that was recorded before.
func (r *recorder) again(old *ErrorRecord, depth int) *ErrorRecord {
	rec := *old
	rec.Cut = slices.Clone(old.Cut)
	r.bytes -= len(rec.Text) + len(rec.TextBytes) + len(rec.Value)
	if r.bytes < 0 || nesting(rec.Value) > maxNesting {
		rec.Value = nil
		rec.cut("fields: too many")
	}
	rec.Causes = nil
	for i, cause := range old.Causes {
		if cause == nil {
			continue
		}
		if r.errors--; r.errors < 0 || depth >= maxDepth {
			rec.cut("causes: too many")
			rec.Is = slices.Clone(old.Is)
			r.lookBehindRecords(&rec, old.Causes[i:])
			break
		}
		rec.Causes = append(rec.Causes, r.again(cause, depth+1))
	}
	return &rec
}

// askAll writes down what the methods of one error say.
func (r *recorder) askAll(rec *ErrorRecord, err error) {
	r.setText(rec, ask(err.Error))
	if isNil(err) {
		return
	}
	rec.Is, rec.Same = sentinelNames(err)
	if e, is := err.(interface{ HTTPStatusCode() int }); is {
		rec.HTTPStatus = new(ask(e.HTTPStatusCode))
	}
	if e, is := err.(interface{ Timeout() bool }); is {
		rec.Timeout = new(ask(e.Timeout))
	}
	if e, is := err.(interface{ Temporary() bool }); is {
		rec.Temporary = new(ask(e.Temporary))
	}
	if e, is := err.(interface{ RetryRefused() bool }); is {
		rec.RetryRefused = new(ask(e.RetryRefused))
	}
	if e, is := err.(interface{ Unretryable() bool }); is {
		rec.Unretryable = new(ask(e.Unretryable))
	}
	if e, is := err.(interface {
		RetryHint() (wait time.Duration, ok bool)
	}); is {
		hint := ask(func() time.Duration {
			if wait, ok := e.RetryHint(); ok {
				return wait
			}
			return 0
		})
		rec.RetryHint = &hint
	}
	rec.Class = classOf(err)
	rec.Mark, rec.UserCode = markOf(err)
}

// classOf asks for the class that an error says it has. Its type belongs to package classifier, which imports packages that
// this one must not, so it is read as the string it is.
func classOf(err error) string {
	if e, is := err.(interface{ RecordedClass() string }); is {
		return ask(e.RecordedClass)
	}
	out := callStrings(err, "RunErrorClass", 1)
	if out == nil {
		return ""
	}
	return out[0]
}

// markOf asks for the mark that an error says it has, and its code.
func markOf(err error) (mark, code string) {
	out := callStrings(err, "RetryMark", 2)
	if out == nil {
		return "", ""
	}
	return out[0], out[1]
}

// callStrings calls a method that takes nothing and returns n strings of any type; nil if err has no such method.
func callStrings(err error, name string, n int) []string {
	return ask(func() []string {
		var m reflect.Value
		switch name { // constant names let the linker drop all other methods
		case "RunErrorClass":
			m = reflect.ValueOf(err).MethodByName("RunErrorClass")
		case "RetryMark":
			m = reflect.ValueOf(err).MethodByName("RetryMark")
		}
		if !m.IsValid() || m.Type().NumIn() != 0 || m.Type().NumOut() != n {
			return nil
		}
		out := make([]string, n)
		for i, v := range m.Call(nil) {
			if v.Kind() != reflect.String {
				return nil
			}
			out[i] = v.String()
		}
		return out
	})
}

// setText sets the text, as much of it as there is room for.
func (r *recorder) setText(rec *ErrorRecord, text string) {
	if r.bytes -= len(text); r.bytes < 0 {
		text = text[:max(0, len(text)+r.bytes)]
		r.bytes = 0
		rec.cut("text")
	}
	if utf8.ValidString(text) {
		rec.Text = text
		return
	}
	rec.Text, rec.TextBytes = strings.ToValidUTF8(text, "\uFFFD"), []byte(text)
}

// write writes what the error holds.
func (r *recorder) write(rec *ErrorRecord, err error, inner []error, depth int) {
	owner, causes, field := r.owner, r.inner, r.field
	r.owner, r.inner, r.field = rec, inner, nil
	defer func() { r.owner, r.inner, r.field = owner, causes, field }()
	v, ok := tryAsk(func() any {
		v := reflect.ValueOf(err)
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Kind() == reflect.Struct {
			return r.fields(addressable(v), depth)
		}
		held, ok := r.value(v, depth)
		if !ok {
			return nil
		}
		return held
	})
	if !ok || v == nil {
		return
	}
	if fields, is := v.(map[string]any); is && len(fields) == 0 {
		return
	}
	if raw, err := json.Marshal(v); err == nil {
		rec.Value = raw
	}
}

// lookBehind asks the errors that are not recorded for the well-known values, and gives their answers to rec.
func (r *recorder) lookBehind(rec *ErrorRecord, todo []error) {
	has := map[string]bool{}
	for _, name := range rec.Is {
		has[name] = true
	}
	met := map[any]bool{}
	todo = append([]error(nil), todo...)
	for ; len(todo) > 0 && r.lookedAt > 0; r.lookedAt-- {
		err := todo[0]
		todo = todo[1:]
		if isNil(err) {
			continue
		}
		if p := pointerOf(err); p != nil {
			if met[p] {
				continue
			}
			met[p] = true
		}
		names, _ := sentinelNames(err)
		for _, name := range names {
			if !has[name] {
				has[name] = true
				rec.Is = append(rec.Is, name)
			}
		}
		inner, _ := unwrap(err)
		todo = append(todo, inner...)
	}
}

// lookBehindRecords is lookBehind for what was recorded before.
func (r *recorder) lookBehindRecords(rec *ErrorRecord, todo []*ErrorRecord) {
	todo = slices.Clone(todo)
	for ; len(todo) > 0 && r.lookedAt > 0; r.lookedAt-- {
		old := todo[0]
		todo = todo[1:]
		if old == nil {
			continue
		}
		for _, name := range old.Is {
			if !slices.Contains(rec.Is, name) && len(rec.Is) < len(sentinels) {
				rec.Is = append(rec.Is, name)
			}
		}
		todo = append(todo, old.Causes...)
	}
}

// enter notes that the walk is inside an error. It is a cycle if it was inside before.
func (r *recorder) enter(v any) (leave func(), cycle bool) {
	p := pointerOf(v)
	if p == nil {
		return func() {}, false
	}
	if r.path[p] {
		return func() {}, true
	}
	if r.path == nil {
		r.path = map[any]bool{}
	}
	r.path[p] = true
	return func() { delete(r.path, p) }, false
}

// known reports whether an error was walked before, and notes that it was.
func (r *recorder) known(err error) bool {
	p := pointerOf(err)
	if p == nil {
		return false
	}
	if r.seen == nil {
		r.seen = map[any]bool{}
	}
	known := r.seen[p]
	r.seen[p] = true
	return known
}

// address is a pointer with its type: a struct and its first field have the same address.
type address struct {
	of reflect.Type
	at uintptr
}

// pointerOf returns what stands for a pointer in a map, nil for anything else.
func pointerOf(v any) any {
	if rv := reflect.ValueOf(v); rv.Kind() == reflect.Pointer {
		return address{rv.Type(), rv.Pointer()}
	}
	return nil
}

// unwrap asks an error for what it wraps.
func unwrap(err error) (inner []error, many bool) {
	switch e := err.(type) { //nolint:errorlint // one error, and not what it wraps, is asked
	case interface{ Unwrap() error }:
		if one := ask(e.Unwrap); one != nil {
			inner = []error{one}
		}
	case interface{ Unwrap() []error }:
		many = true
		for _, one := range ask(e.Unwrap) {
			if one != nil {
				inner = append(inner, one)
			}
		}
	}
	return inner, many
}

func isNil(err error) bool {
	v := reflect.ValueOf(err)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
