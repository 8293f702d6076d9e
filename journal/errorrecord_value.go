package journal

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"math"
	"net"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// The names in what is written for a value in an interface: which type it has, and the value or its text; or an error, or
// which of the errors that the owner wraps it is. A string that is no UTF-8 is an object with its bytes.
const (
	keyType   = "type"
	keyValue  = "value"
	keyString = "string"
	keyError  = "error"
	keyCause  = "cause"
	keyBytes  = "bytes"
)

// maxNesting is how deep the JSON of values may be that are taken over from an older record.
const maxNesting = 2000

// fields writes a struct as an object with its exported and embedded fields by Go name, zero values left out. The struct
// must be addressable.
func (r *recorder) fields(v reflect.Value, depth int) map[string]any {
	t := v.Type()
	object := map[string]any{}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() && !f.Anonymous {
			continue
		}
		fv := open(v.Field(i))
		if fv.IsZero() {
			continue
		}
		r.field = append(r.field, f.Name)
		if held, ok := r.value(fv, depth); ok {
			object[f.Name] = held
		}
		r.field = r.field[:len(r.field)-1]
	}
	return object
}

// value writes a value as what json.Marshal takes. It is not ok if it cannot be written down.
func (r *recorder) value(v reflect.Value, depth int) (held any, ok bool) {
	if r.values--; r.values < 0 || len(r.field) > maxValueDepth || r.bytes <= 0 {
		r.owner.cut("field " + strings.Join(r.field, "."))
		return nil, false
	}
	if held, ok, special := r.special(v); special {
		return held, ok
	}
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool(), true
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), true
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return v.Uint(), true
	case reflect.Float32, reflect.Float64:
		return floatValue(v.Float()), true
	case reflect.String:
		return r.stringValue(v.String())
	case reflect.Pointer:
		return r.pointer(v, depth)
	case reflect.Interface:
		if v.IsNil() {
			return nil, true
		}
		return r.dynamic(v.Elem(), depth)
	case reflect.Slice, reflect.Array:
		return r.list(v, depth)
	case reflect.Map:
		return r.mapping(v, depth)
	case reflect.Struct:
		return r.structure(v, depth)
	default: // channels, functions, complex numbers, unsafe pointers
		return nil, false
	}
}

func floatValue(f float64) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
}

func (r *recorder) stringValue(s string) (any, bool) {
	if r.bytes -= len(s); r.bytes < 0 {
		r.owner.cut("field " + strings.Join(r.field, "."))
		return nil, false
	}
	if utf8.ValidString(s) {
		return s, true
	}
	return map[string]any{keyBytes: base64.StdEncoding.EncodeToString([]byte(s))}, true
}

func (r *recorder) pointer(v reflect.Value, depth int) (any, bool) {
	if v.IsNil() {
		return nil, true
	}
	leave, cycle := r.enter(v.Interface())
	defer leave()
	if cycle {
		r.owner.cut("field " + strings.Join(r.field, ".") + ": a cycle")
		return nil, false
	}
	return r.value(v.Elem(), depth)
}

func (r *recorder) list(v reflect.Value, depth int) (any, bool) {
	if v.Kind() == reflect.Slice && v.IsNil() {
		return nil, true
	}
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		if r.bytes -= v.Len(); r.bytes < 0 {
			r.owner.cut("field " + strings.Join(r.field, "."))
			return nil, false
		}
		return v.Bytes(), true
	}
	if !writable(v.Type().Elem()) {
		return nil, false
	}
	if v.Len() > r.values {
		r.owner.cut("field " + strings.Join(r.field, "."))
		return nil, false
	}
	list := make([]any, v.Len())
	for i := range list {
		r.field = append(r.field, strconv.Itoa(i))
		list[i], _ = r.value(v.Index(i), depth)
		r.field = r.field[:len(r.field)-1]
	}
	return list, true
}

func (r *recorder) mapping(v reflect.Value, depth int) (any, bool) {
	if v.IsNil() {
		return nil, true
	}
	if !writable(v.Type().Elem()) || v.Len() > r.values {
		return nil, false
	}
	object := make(map[string]any, v.Len())
	for it := v.MapRange(); it.Next(); {
		key, ok := keyText(it.Key())
		if !ok {
			return nil, false
		}
		r.field = append(r.field, key)
		held, _ := r.value(it.Value(), depth)
		r.field = r.field[:len(r.field)-1]
		object[key] = held
	}
	return object, true
}

// keyText writes a map's key.
func keyText(k reflect.Value) (string, bool) {
	switch k.Kind() {
	case reflect.String:
		return k.String(), utf8.ValidString(k.String())
	case reflect.Bool:
		return strconv.FormatBool(k.Bool()), true
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(k.Int(), 10), true
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return strconv.FormatUint(k.Uint(), 10), true
	default:
		return "", false
	}
}

// writable reports whether a list or map of these is worth writing.
func writable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128:
		return false
	default:
		return true
	}
}

// structure writes a struct inside the error. One that keeps things to itself is asked for its text, if it can be made of
// a text again; without that, and without a field to show, there is nothing to write.
func (r *recorder) structure(v reflect.Value, depth int) (any, bool) {
	v = addressable(v)
	hidden, shown := false, v.NumField() == 0
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() || f.Anonymous {
			shown = true
		} else {
			hidden = true
		}
	}
	if hidden {
		if _, can := reflect.TypeAssert[encoding.TextUnmarshaler](v.Addr()); can {
			if m, can := reflect.TypeAssert[encoding.TextMarshaler](v.Addr()); can {
				return r.marshaled(m)
			}
		}
	}
	if !shown {
		return nil, false
	}
	return r.fields(v, depth), true
}

func (r *recorder) marshaled(m encoding.TextMarshaler) (any, bool) {
	text, ok := tryAsk(func() []byte {
		text, err := m.MarshalText()
		if err != nil {
			panic(err)
		}
		return text
	})
	if !ok {
		return nil, false
	}
	return r.stringValue(string(text))
}

// dynamic writes what an interface holds.
func (r *recorder) dynamic(v reflect.Value, depth int) (any, bool) {
	if err, is := reflect.TypeAssert[error](v); is {
		return r.errorValue(err, depth)
	}
	path := typePath(v.Type())
	if _, known := knownTypes()[path]; known {
		held, ok := r.value(v, depth)
		if !ok {
			return nil, false
		}
		return map[string]any{keyType: path, keyValue: held}, true
	}
	if t, is := reflect.TypeAssert[reflect.Type](v); is {
		return map[string]any{keyType: reflectTypeName, keyString: typePath(t)}, true
	}
	if addr, is := reflect.TypeAssert[net.Addr](v); is {
		text, _ := r.stringValue(ask(addr.String))
		return map[string]any{keyType: path, keyString: text}, true
	}
	return map[string]any{keyType: path}, true
}

// errorValue writes an error in a field. If it is one of those that the owner wraps, it is written there already.
func (r *recorder) errorValue(err error, depth int) (any, bool) {
	for i, cause := range r.inner {
		if sameError(err, cause) {
			return map[string]any{keyCause: i}, true
		}
	}
	if depth >= maxDepth || r.errors <= 0 {
		r.owner.cut("field " + strings.Join(r.field, "."))
		return nil, false
	}
	return map[string]any{keyError: r.record(err, depth+1)}, true
}

// sameError reports whether two errors are one. Two that cannot be compared are, if they have one type and text.
func sameError(a, b error) bool {
	t := reflect.TypeOf(a)
	if t != reflect.TypeOf(b) {
		return false
	}
	if same, compared := tryAsk(func() bool { return a == b }); compared { //nolint:errorlint // the values themselves
		return same
	}
	return ask(a.Error) == ask(b.Error)
}

// addressable returns the struct, or a copy of it, so that its embedded fields can be reached.
func addressable(v reflect.Value) reflect.Value {
	if v.CanAddr() {
		return v
	}
	p := reflect.New(v.Type()).Elem()
	p.Set(v)
	return p
}

// open returns a field of an addressable struct for reading and setting, also if it embeds an unexported type, such as
// the error of struct{ error }: what it promotes is exported, and without it the value would be no error.
func open(f reflect.Value) reflect.Value {
	if f.CanInterface() {
		return f
	}
	//nolint:gosec // an embedded field of a struct that is ours or was given to us, with its own type
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
}

// nesting returns how deep a JSON value is nested.
func nesting(raw []byte) int {
	deepest, depth, quoted := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}
